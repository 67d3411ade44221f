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

/// Events have numbers without a gap. What a node does lies between its start and its end, and both are told once; only who
/// waits has no end yet. Nothing follows the end of a run.
fn of_events(events: &Events) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(((id, _), number)) = events.iter().zip(1..).find(|((id, _), number)| id != number) {
        wrong.push(format!("event {id} stands where {number} should"));
    }
    // The firing that is going on of each node, what it waits for, and how often it has ended.
    let mut going: BTreeMap<&str, (u64, Option<&str>)> = BTreeMap::new();
    let mut fired: BTreeMap<&str, u64> = BTreeMap::new();
    let mut is_over = false;
    for (id, event) in events {
        let kind = event["type"].as_str().unwrap_or_default();
        let (node, firing) = (event["node"].as_str().unwrap_or_default(), event["firing"].as_u64());
        let is_going = going.get(node).is_some_and(|it| firing.is_none_or(|firing| firing == it.0));
        let wait = going.get(node).and_then(|it| it.1);
        let is_fine = !is_over
            && match kind {
                "run.start" => *id == 1,
                "node.start" => {
                    let n_fired = fired.entry(node).or_default();
                    *n_fired += 1;
                    firing == Some(*n_fired) && going.insert(node, (*n_fired, None)).is_none()
                }
                "node.wait" => {
                    let asked = event["wait"]["id"].as_str();
                    is_going
                        && wait.is_none()
                        && going.get_mut(node).is_some_and(|it| {
                            it.1 = asked;
                            true
                        })
                }
                "node.answer" => {
                    let is_asked = wait.is_some() && wait == event["wait"].as_str();
                    is_going
                        && is_asked
                        && going.get_mut(node).is_some_and(|it| {
                            it.1 = None;
                            true
                        })
                }
                "node.end" => is_going && event["error"].is_null() && going.remove(node).is_some(),
                "run.wait" => going.values().all(|it| it.1.is_some()),
                "run.end" => {
                    is_over = true;
                    going.is_empty() && event["status"] == "completed"
                }
                "run.resume" => true,
                "node.event" | "node.repeat" => is_going && wait.is_none(),
                _ => false,
            };
        if !is_fine {
            wrong.push(format!("event {id} can't be here: {event}"));
        }
    }
    let open = going.iter().filter(|it| it.1.1.is_none());
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
