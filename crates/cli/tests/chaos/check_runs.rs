//! What must hold at the end, of each run and of the threads that runs have written to.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use crate::check::{of_items, text_of};
use crate::ears::Events;
use crate::runner::{Kind, LAST_PATIENCE, Run, Runner, digest_of};
use crate::user::answer_to;

/// Checks the runs of a session and returns what is wrong with them.
pub(crate) async fn check(runner: &Runner) -> Vec<String> {
    let mut wrong = runner.caller.troubles();
    let mut said = Vec::new();
    for run in runner.runs() {
        let of_this = run.said.lock().unwrap().clone();
        let told = |it: String| format!("{}: {it}", run.id);
        wrong.extend(check_run(runner, &run, &of_this).await.into_iter().map(told));
        said.extend(of_this);
    }
    wrong.extend(check_threads(runner, &said).await);
    wrong.into_iter().map(|it| format!("{}: {it}", runner.session)).collect()
}

async fn check_run(runner: &Runner, run: &Run, said: &[String]) -> Vec<String> {
    let view = runner.caller.document(&format!("/runs/{}", run.id)).await;
    let events = events(runner, run).await;
    let mut wrong = of_events(&events);
    let (status, answers) = match runner.kind {
        Kind::Chat => ("waiting", said.to_vec()),
        Kind::Digest => ("completed", Vec::new()),
    };
    if view["status"] != status {
        wrong.push(format!("it should be {status}: {view}"));
    }
    let of_type = |kind: &str| events.iter().filter(|it| it.1["type"] == kind).map(|it| &it.1).collect();
    let answered: Vec<&Value> = of_type("node.answer");
    if answered.iter().map(|it| &it["value"]).ne(&answers) {
        wrong.push(format!("{answers:?} was answered, and taken was {answered:?}"));
    }
    let last = events.last().map_or(0, |it| it.0);
    let heard = run.ears.upto(last, Instant::now() + LAST_PATIENCE).await;
    let n_same = heard.iter().zip(&events).take_while(|(heard, event)| heard == event).count();
    if heard != events {
        let (event, instead) = (events.get(n_same), heard.get(n_same));
        wrong.push(format!("{instead:?} was heard, and this happened: {event:?}"));
    }
    wrong
}

async fn events(runner: &Runner, run: &Run) -> Events {
    let mut events = Events::new();
    loop {
        let after = events.last().map_or(0, |it| it.0);
        let path = format!("/runs/{}/events?after={after}&limit=1000", run.id);
        let page = runner.caller.document(&path).await;
        let page = page["events"].as_array().cloned().unwrap_or_default();
        if page.is_empty() {
            return events;
        }
        events.extend(page.into_iter().map(|it| (it["id"].as_u64().unwrap_or(0), it["data"].clone())));
    }
}

/// What the events of a run have told so far.
#[derive(Default)]
struct Story<'a> {
    /// The firing that is going on of each node, and what it waits for.
    going: BTreeMap<&'a str, (u64, Option<&'a str>)>,
    /// How often each node has started.
    fired: BTreeMap<&'a str, u64>,
    is_over: bool,
}

impl<'a> Story<'a> {
    /// Says whether an event can come next. What a node does lies between its start and its end, which are told once; nothing
    /// follows the end of a run.
    fn goes_on_with(&mut self, is_first: bool, event: &'a Value) -> bool {
        let node = event["node"].as_str().unwrap_or_default();
        let is_fine = match event["type"].as_str().unwrap_or_default() {
            "run.start" => is_first,
            "run.resume" => true,
            "run.wait" => self.going.values().all(|it| it.1.is_some()),
            "run.end" => self.going.is_empty() && event["status"] == "completed",
            "node.start" => self.starts(node, event),
            kind => self.happens(node, kind, event),
        };
        let was_over = std::mem::replace(&mut self.is_over, event["type"] == "run.end");
        is_fine && !was_over
    }

    fn starts(&mut self, node: &'a str, event: &Value) -> bool {
        let n_fired = self.fired.entry(node).or_default();
        *n_fired += 1;
        event["firing"] == *n_fired && self.going.insert(node, (*n_fired, None)).is_none()
    }

    fn happens(&mut self, node: &'a str, kind: &str, event: &'a Value) -> bool {
        let Some((firing, wait)) = self.going.get_mut(node) else { return false };
        let is_going = event["firing"].is_null() || event["firing"] == *firing;
        let is_fine = match (kind, *wait) {
            ("node.turn" | "node.repeat" | "node.resume", None) => true,
            ("node.wait", None) => {
                *wait = event["wait"]["id"].as_str();
                wait.is_some()
            }
            ("node.answer", Some(asked)) => {
                *wait = None;
                event["wait"] == asked
            }
            ("node.end", None) => {
                self.going.remove(node);
                event["error"].is_null()
            }
            _ => false,
        };
        is_going && is_fine
    }
}

/// Events have rising numbers and tell a story; only who waits has no end yet.
fn of_events(events: &Events) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut story = Story::default();
    let mut before = 0;
    for (id, event) in events {
        if *id <= before || !story.goes_on_with(before == 0, event) {
            wrong.push(format!("event {id} can't follow {before}: {event}"));
        }
        before = *id;
    }
    let open = story.going.iter().filter(|it| it.1.1.is_none());
    wrong.extend(open.map(|(node, it)| format!("{node} has started for the {}. time, and has no end", it.0)));
    wrong
}

/// The main thread says everything once and in order, and each digest has its two threads.
async fn check_threads(runner: &Runner, said: &[String]) -> Vec<String> {
    let threads = runner.caller.document(&format!("/sessions/{}/threads", runner.session)).await;
    let mut wrong = Vec::new();
    let mut isolated = Vec::new();
    for thread in threads["threads"].as_array().into_iter().flatten() {
        let id = thread["id"].as_str().unwrap_or_default();
        let query = format!("view=all&limit=10000&thread={}", id.replace('#', "%23"));
        let items = runner.caller.document(&format!("/sessions/{}/items?{query}", runner.session)).await;
        let items = items["items"].as_array().cloned().unwrap_or_default();
        wrong.extend(of_items(&items).into_iter().map(|it| format!("{id}: {it}")));
        let is_said = |it: &&Value| it["kind"] == "user" || it["kind"] == "assistant";
        let texts: Vec<String> = items.iter().filter(is_said).map(text_of).collect();
        match thread["kind"].as_str() {
            Some("main") => wrong.extend(of_main(runner.kind, &texts, said)),
            _ => isolated.push((thread["label"].as_str().unwrap_or_default().to_owned(), texts)),
        }
    }
    isolated.sort();
    let of_topic = |label: &str, topic: &String| (label.to_owned(), vec![topic.clone(), answer_to(topic)]);
    let mut expected: Vec<(String, Vec<String>)> = match runner.kind {
        Kind::Chat => Vec::new(),
        Kind::Digest => said.iter().flat_map(|it| [of_topic("left", it), of_topic("right", it)]).collect(),
    };
    expected.sort();
    if isolated != expected {
        wrong.push(format!("threads say {isolated:?}, and should say {expected:?}"));
    }
    wrong
}

fn of_main(kind: Kind, texts: &[String], said: &[String]) -> Option<String> {
    let expected: Vec<String> = match kind {
        Kind::Chat => said.iter().flat_map(|it| [it.clone(), answer_to(it)]).collect(),
        Kind::Digest => said.iter().map(|it| digest_of(it)).collect(),
    };
    (texts != expected).then(|| format!("the main thread says {texts:?}, and should say {expected:?}"))
}

/// Returns how much is wrong with a story, told as `type node firing`.
fn n_wrong(story: &[&str]) -> usize {
    let event = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        let firing = words.get(2).and_then(|it| it.parse::<u64>().ok());
        let status = (words[0] == "run.end").then_some("completed");
        serde_json::json!({"type": words[0], "node": words.get(1), "firing": firing, "status": status})
    };
    of_events(&(1..).zip(story.iter().map(event)).collect()).len()
}

#[test]
fn a_story_that_can_not_be_is_noticed() {
    let fine = [
        "run.start",
        "node.start a 1",
        "node.turn a",
        "run.resume",
        "node.repeat a 1",
        "node.end a 1",
        "run.end",
    ];
    assert_eq!(n_wrong(&fine), 0);
    assert_eq!(n_wrong(&["run.start", "node.start a 1"]), 1, "no end");
    assert_eq!(n_wrong(&["run.start", "node.start a 1", "node.end a 1", "node.end a 1"]), 1, "two ends");
    assert_eq!(
        n_wrong(&["run.start", "node.start a 1", "node.start a 2", "node.end a 2"]),
        1,
        "no end between"
    );
    assert_eq!(n_wrong(&["run.start", "node.start a 2", "node.end a 2"]), 2, "the second is the first");
    assert_eq!(n_wrong(&["run.start", "run.end", "run.resume"]), 1, "something behind the end");
}
