//! Linearizability: whatever writers do at the same time, there is one order of their writes that explains every answer.
//!
//! The order is that of the log. Each answer is checked against a board of plain maps, which knows nothing of logs,
//! versions of paths above and below, or retries; and against the clock: what was answered before something else began
//! comes before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_capabilities::blackboard::{Board, BoardError, BoardEvent, BoardWrite, Expected};
use contexture_session::Store;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{board_in, store};
use crate::place::Place;

/// What a writer does. Numbers tell the values of writers apart.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Replaces a field, expecting the version of the writer's last look.
    Replace(&'static str),
    Append,
    Union(u8),
    Count(i8),
    Max(u8),
    /// Looks at the board.
    Look,
}

/// A deed and its answer.
#[derive(Debug)]
struct Answered {
    deed: Deed,
    /// The mark of the write: its value, and the key of its record.
    mark: String,
    began: u64,
    ended: u64,
    /// What the writer had seen.
    known: u64,
    answer: Result<u64, Option<(u64, Value)>>,
}

const FIELDS: [&str; 3] = ["/title", "/owner/name", "/owner/team"];

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => prop::sample::select(&FIELDS[..]).prop_map(Deed::Replace),
        1 => Just(Deed::Append),
        1 => (0..3_u8).prop_map(Deed::Union),
        1 => (-3..4_i8).prop_map(Deed::Count),
        1 => (0..20_u8).prop_map(Deed::Max),
        3 => Just(Deed::Look),
    ]
}

fn write(deed: Deed, mark: &str, known: u64) -> Option<BoardWrite> {
    let (path, value) = match deed {
        Deed::Replace(path) => (path, json!(mark)),
        Deed::Append => ("/items", json!({"text": mark})),
        Deed::Union(tag) => ("/tags", json!(tag)),
        Deed::Count(by) => ("/done", json!(by)),
        Deed::Max(value) => ("/best", json!(value)),
        Deed::Look => return None,
    };
    let write = BoardWrite::put(path, value).unwrap().expecting(Expected::At(known));
    Some(BoardWrite { key: Some(mark.to_owned()), ..write })
}

/// Does the deeds of one writer, one after the other.
async fn work(board: Board, name: usize, deeds: Vec<Deed>, clock: Arc<AtomicU64>) -> Vec<Answered> {
    let (mut known, mut answered) = (0, Vec::new());
    for (no, deed) in deeds.into_iter().enumerate() {
        let mark = format!("w{name}.{no}");
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let result = match write(deed, &mark, known) {
            Some(write) => board.write(write).await,
            None => board.read().await,
        };
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        let answer = match result {
            Ok(state) => Ok(state.version()),
            Err(BoardError::Stale { version, value, .. }) => Err(Some((version, *value))),
            Err(err) => panic!("{err}"),
        };
        answered.push(Answered { deed, mark, began, ended, known, answer });
        if let (Deed::Look, Ok(version)) = (deed, &answered[no].answer) {
            known = *version;
        }
        tokio::task::yield_now().await;
    }
    answered
}

/// A board of plain maps.
#[derive(Default)]
struct Plain {
    fields: BTreeMap<&'static str, (String, u64)>,
    items: Vec<String>,
    tags: Vec<u8>,
    done: Option<i64>,
    best: Option<u8>,
}

impl Plain {
    /// Makes a write at a version. Fails if it should have been refused, or should have changed nothing.
    fn make(&mut self, it: &Answered, version: u64) -> Result<(), String> {
        let is_new = match it.deed {
            Deed::Replace(path) => {
                let last = self.fields.insert(path, (it.mark.clone(), version)).map_or(0, |(_, at)| at);
                if last > it.known {
                    return Err(format!("{path} was written at {last}"));
                }
                true
            }
            Deed::Append => {
                self.items.push(it.mark.clone());
                true
            }
            Deed::Union(tag) => {
                let is_new = !self.tags.contains(&tag);
                self.tags.extend(is_new.then_some(tag));
                is_new
            }
            Deed::Count(by) => {
                let old = self.done.replace(self.done.unwrap_or(0) + i64::from(by));
                old.is_none() || by != 0
            }
            Deed::Max(value) => {
                let old = self.best.replace(self.best.map_or(value, |it| it.max(value)));
                old != self.best
            }
            Deed::Look => false,
        };
        if is_new { Ok(()) } else { Err("it changes nothing".to_owned()) }
    }

    fn value(&self) -> Value {
        let mut value = json!({"tags": self.tags});
        for (path, (mark, _)) in &self.fields {
            match path.trim_start_matches('/').split_once('/') {
                Some((above, name)) => value[above][name] = json!(mark),
                None => value[&path[1..]] = json!(mark),
            }
        }
        if !self.items.is_empty() {
            value["items"] = self.items.iter().map(|it| json!({"text": it})).collect();
        }
        if let Some(done) = self.done {
            value["done"] = json!(done);
        }
        if let Some(best) = self.best {
            value["best"] = json!(best);
        }
        value
    }
}

/// Checks the answers against the log.
fn check(answers: &[Answered], log: &[BoardEvent], last: &Value) -> Result<(), String> {
    let by_mark: BTreeMap<&str, &Answered> = answers.iter().map(|it| (it.mark.as_str(), it)).collect();
    let (mut plain, mut versions) = (Plain::default(), BTreeMap::new());
    for BoardEvent { version, record, .. } in log {
        let mark = record.key.as_deref().ok_or("a record without a mark")?;
        let answered = by_mark.get(mark).ok_or_else(|| format!("{mark} was never written"))?;
        if answered.answer != Ok(*version) || versions.insert(mark, *version).is_some() {
            return Err(format!("record {version} is {answered:?}"));
        }
        plain.make(answered, *version).map_err(|err| format!("record {version} is {answered:?}: {err}"))?;
    }
    if plain.value() != *last {
        return Err(format!("the board holds {last}, it should hold {}", plain.value()));
    }
    for it in answers {
        match (&it.answer, versions.get(it.mark.as_str()), it.deed) {
            // A refusal names a write of the field that the writer had not seen, and its value.
            (Err(refusal), None, Deed::Replace(path)) => {
                let (version, value) = refusal.as_ref().ok_or("a refusal without a value")?;
                let cause = log.iter().find(|it| it.version == *version);
                let is_cause = |it: &BoardEvent| {
                    it.record
                        .changes
                        .iter()
                        .any(|it| it.path.to_string() == path && it.after.as_ref() == Some(value))
                };
                if *version <= it.known || !cause.is_some_and(is_cause) {
                    return Err(format!("{it:?} was refused without a reason"));
                }
            }
            (Err(_), _, _) => return Err(format!("{it:?} must not be refused")),
            (Ok(_), None, Deed::Replace(_) | Deed::Append) => return Err(format!("{it:?} is lost")),
            (Ok(_), _, _) => {}
        }
    }
    // What was answered before something began is part of what that sees.
    let seen = |it: &Answered| match &it.answer {
        Ok(version) => Some(*version),
        Err(Some((version, _))) => Some(*version),
        Err(None) => None,
    };
    for (first, then) in answers.iter().flat_map(|a| answers.iter().map(move |b| (a, b))) {
        let is_refusal = then.answer.is_err();
        if first.ended < then.began && !is_refusal && first.answer.is_ok() && seen(first) > seen(then) {
            return Err(format!("{first:?} ended before {then:?} began, which did not see it"));
        }
    }
    Ok(())
}

/// Lets writers work at the same time, half of them in one process and half in another, and checks what comes of it.
async fn run(stores: [Arc<dyn Store>; 2], writers: Vec<Vec<Deed>>) -> Result<(), String> {
    let clock = Arc::new(AtomicU64::new(0));
    let processes = [board_in(&stores[0]), board_in(&stores[1])];
    let work = |(no, deeds): (usize, Vec<Deed>)| {
        tokio::spawn(work(processes[no % 2].clone(), no, deeds, Arc::clone(&clock)))
    };
    let writers: Vec<_> = writers.into_iter().enumerate().map(work).collect();
    let mut answers = Vec::new();
    for writer in writers {
        answers.extend(writer.await.unwrap());
    }
    let log = processes[0].history(0, 10_000).await.unwrap();
    let last = board_in(&stores[1]).read().await.unwrap();
    check(&answers, &log, last.value())
}

fn histories() -> impl Strategy<Value = Vec<Vec<Deed>>> {
    prop::collection::vec(prop::collection::vec(deed(), 1..12), 2..6)
}

/// Runs a history on stores that are opened for it.
fn checked<F: Future<Output = [Arc<dyn Store>; 2]>>(
    writers: Vec<Vec<Deed>>,
    stores: impl FnOnce() -> F,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let checked = runtime.block_on(async { run(stores().await, writers).await });
    checked.map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn writes_to_paths_are_linearizable(writers in histories()) {
        let store = store();
        checked(writers, || async { [Arc::clone(&store), store] })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn writes_to_paths_are_linearizable_in_a_file(writers in histories()) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::file(&folder);
        checked(writers, || async { [place.open().await, place.open().await] })?;
    }

    #[test]
    fn writes_to_paths_are_linearizable_in_postgres(writers in histories()) {
        let place = Place::schema();
        checked(writers, || async { [place.open().await, place.open().await] })?;
    }
}

#[test]
fn the_check_finds_lost_and_blind_writes() {
    let answered = |mark: &str, known, answer| Answered {
        deed: Deed::Replace("/title"),
        mark: mark.to_owned(),
        began: 0,
        ended: 1,
        known,
        answer,
    };
    let lost = [answered("w0.0", 0, Ok(2))];
    assert!(check(&lost, &[], &json!({"tags": []})).unwrap_err().contains("is lost"));
    let refused = [answered("w0.0", 0, Err(Some((2, json!("x")))))];
    assert!(check(&refused, &[], &json!({"tags": []})).unwrap_err().contains("without a reason"));
}
