//! What must hold at the end, of each session.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::ears::{Events, number_in};
use crate::user::{User, answer_to};

/// How long the ends of lost turns may take to be told: a lease and then some.
const PATIENCE: usize = 60;

/// Checks a session and returns what is wrong with it.
pub(crate) async fn check(user: &User) -> Vec<String> {
    let mut troubles = user.troubles();
    let items = items(user).await;
    troubles.extend(of_log(user, &items));
    let mut wrong = Vec::new();
    for _ in 0..PATIENCE {
        let events = events(user).await;
        wrong = of_events(&events, &items);
        if wrong.is_empty() {
            user.set_n_kept(n_kept(&items));
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    troubles.extend(wrong);
    troubles.into_iter().map(|it| format!("{}: {it}", user.session)).collect()
}

async fn items(user: &User) -> Vec<Value> {
    for _ in 0..PATIENCE {
        let url = user.url(&format!("/{}/items?view=all&limit=10000", user.session)).await;
        let text = user.http.get(url).send().await.unwrap().text().await.unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        if let Some(items) = document["items"].as_array() {
            return items.clone();
        }
        // An instance may not have got over the last outage of the database.
        eprintln!("{}: {document}", user.session);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the items of {} can't be read", user.session);
}

/// Reads all events there are: until nothing more comes for a while.
async fn events(user: &User) -> Events {
    let url = user.url(&format!("/{}/events", user.session)).await;
    let mut answer = user.http.get(url).send().await.unwrap();
    let mut text = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(Duration::from_secs(2), answer.chunk()).await {
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(text).unwrap();
    let frame = |it: &str| {
        let field = |name: &str| it.lines().find_map(|line| line.strip_prefix(name));
        Some((number_in(field("id: ")?)?, serde_json::from_str(field("data: ")?).ok()?))
    };
    text.split("\n\n").filter_map(frame).collect()
}

fn turn_no(value: &Value) -> u64 {
    value["turn"].as_str().and_then(|it| it.strip_prefix('t')).and_then(|it| it.parse().ok()).unwrap_or(0)
}

pub(crate) fn text_of(item: &Value) -> String {
    let content = &item["body"]["message"]["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
    content.as_str().map_or_else(|| parts.collect(), str::to_owned)
}

/// One log, written by one writer at a time: numbers without a gap, turns one after the other, each with one end.
pub(crate) fn of_items(items: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some((item, seq)) = items.iter().zip(1u64..).find(|(it, seq)| it["seq"] != *seq) {
        wrong.push(format!("item {} stands where {seq} should", item["seq"]));
    }
    if !items.iter().map(turn_no).is_sorted() {
        wrong.push("turns are interleaved".to_owned());
    }
    let mut marks: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for item in items {
        match item["kind"].as_str() {
            Some("turn_began") => marks.entry(turn_no(item)).or_default().0 += 1,
            Some("turn_ended") => marks.entry(turn_no(item)).or_default().1 += 1,
            _ => {}
        }
    }
    let ends: BTreeMap<u64, u64> = ends(items).map(|it| (turn_no(it), seq_of(it))).collect();
    let is_behind = |it: &&Value| ends.get(&turn_no(it)).is_some_and(|end| seq_of(it) > *end);
    wrong.extend(
        items.iter().filter(is_behind).map(|it| format!("item {} is behind its turn's end", it["seq"])),
    );
    let uneven = marks.iter().filter(|(_, it)| **it != (1, 1));
    wrong.extend(uneven.map(|(turn, it)| {
        let told: Vec<String> = items.iter().filter(|it| turn_no(it) == *turn).map(told_item).collect();
        format!("t{turn} begins and ends {it:?} times: {}", told.join(", "))
    }));
    wrong
}

/// Returns an item in a few words, for a person who looks for the cause.
fn told_item(item: &Value) -> String {
    let (kind, at) = (item["kind"].as_str().unwrap_or_default(), &item["at"]);
    let change = item["body"].get("change").map(Value::to_string).unwrap_or_default();
    format!("{} {kind} {at} {change}", seq_of(item))
}

fn seq_of(item: &Value) -> u64 {
    item["seq"].as_u64().unwrap_or(0)
}

/// Returns the ends of turns.
fn ends(items: &[Value]) -> impl Iterator<Item = &Value> {
    items.iter().filter(|it| it["kind"] == "turn_ended")
}

/// Returns how a turn ended, as the log has it.
fn status_of(items: &[Value], turn: u64) -> Option<&str> {
    ends(items)
        .find(|it| turn_no(it) == turn)
        .and_then(|it| it["body"]["change"]["turn_ended"]["status"].as_str())
}

fn answer_of(items: &[Value], turn: u64) -> Option<String> {
    items.iter().find(|it| turn_no(it) == turn && it["kind"] == "assistant").map(text_of)
}

/// Returns the text that was told of each turn.
fn told(events: &[(u64, Value)]) -> BTreeMap<u64, String> {
    let mut told: BTreeMap<u64, String> = BTreeMap::new();
    for (_, event) in events {
        told.entry(turn_no(event)).or_default().push_str(event["text"].as_str().unwrap_or_default());
    }
    told
}

/// Returns how many interrupted turns have kept a part of their answer.
fn n_kept(items: &[Value]) -> usize {
    let has_part = |it: &&Value| answer_of(items, turn_no(it)).is_some_and(|it| !it.trim().is_empty());
    ends(items)
        .filter(|it| it["body"]["change"]["turn_ended"]["status"] == "interrupted")
        .filter(has_part)
        .count()
}

/// Whatever was acknowledged is there once, with its answer.
fn of_log(user: &User, items: &[Value]) -> Vec<String> {
    let mut wrong = of_items(items);
    let mut said: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut answers: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for item in items {
        let turn = turn_no(item);
        match item["kind"].as_str() {
            Some("user") => said.entry(text_of(item)).or_default().push(turn),
            Some("assistant") => answers.entry(turn).or_default().push(text_of(item)),
            _ => {}
        }
    }
    wrong.extend(
        said.iter().filter(|(_, it)| it.len() > 1).map(|(text, it)| format!("`{text}` is in turns {it:?}")),
    );
    let lost = user.notes().into_iter().filter(|it| !said.contains_key(it));
    wrong.extend(lost.map(|it| format!("`{it}` was acknowledged and is not there")));
    for (text, turn) in user.acknowledged() {
        let place = said.get(&text).and_then(|it| it.first());
        if place.map(|it| format!("t{it}")).as_ref() != Some(&turn) {
            wrong.push(format!("`{text}` was acknowledged as {turn}, and is in {place:?}"));
        }
        let status = place.and_then(|it| status_of(items, *it));
        if status != Some("completed") {
            wrong.push(format!("`{text}` was acknowledged as completed, and was {status:?}"));
        }
        let answer = place.and_then(|it| answers.get(it));
        if answer != Some(&vec![answer_to(&text)]) {
            wrong.push(format!("`{text}` of {turn} was acknowledged, and its answer is {answer:?}"));
        }
    }
    wrong
}

/// Numbers of events never fall; a turn begins once, ends once, and says nothing before or behind that.
fn of_events(events: &[(u64, Value)], items: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    if !events.is_sorted_by_key(|it| it.0) {
        wrong.push("events are not in the order of their numbers".to_owned());
    }
    let mut turns: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    events.iter().for_each(|(_, it)| turns.entry(turn_no(it)).or_default().push(it));
    for (turn, events) in &turns {
        let kinds: Vec<&str> = events.iter().filter_map(|it| it["type"].as_str()).collect();
        let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
        let is_framed = kinds.first() == Some(&"turn.start") && kinds.last() == Some(&"turn.end");
        if !is_framed || (count("turn.start"), count("turn.end")) != (1, 1) {
            wrong.push(format!("t{turn} is told as {kinds:?}"));
        }
        let (status, ended) = (events.last().and_then(|it| it["status"].as_str()), status_of(items, *turn));
        if status != ended {
            wrong.push(format!("t{turn} is told as {status:?} and was {ended:?}"));
        }
    }
    for (turn, told) in told(events) {
        // All that was told is there, also of a turn whose instance was killed.
        if let Some(answer) = answer_of(items, turn).filter(|it| *it != told) {
            let status = status_of(items, turn);
            wrong.push(format!("t{turn} is told as `{told}`, and its log has `{answer}` {status:?}"));
        }
    }
    wrong
}
