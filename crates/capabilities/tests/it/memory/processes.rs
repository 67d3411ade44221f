//! Several processes with one store, and one that is killed.
//!
//! A test starts its own program again with one other test, which does the work of a process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::RunRequest;
use contexture_capabilities::memory::{
    CaptureMode, CaptureOptions, ExtractCall, ExtractedFact, Extractor, Layer, Memories, MemoryError,
    MemoryPorts, NewRecord, RecordEdit, RecordFilter, memory,
};
use contexture_compose::{BoxError, BoxFuture, Prompt, Scope};
use contexture_model::Scripted;
use contexture_session::conformance::{Interference, Layered, Operation};
use contexture_session::{SourceIndex, Store, StoreFuture};
use futures::future::join_all;

use super::Process;
use crate::place::{Place, open_file, open_schema};
use crate::stage::{TestTime, agent, says};

const WRITERS: &str = "CONTEXTURE_TEST_MEMORY_WRITERS";
const MODE: &str = "CONTEXTURE_TEST_MEMORY_MODE";
const MARK: &str = "CONTEXTURE_TEST_MEMORY_MARK";
const RULE: &str = "From now on, answer in German.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the tests below"]
async fn writers_of_a_process() {
    let writers = std::env::var(WRITERS).unwrap();
    let (first, end) = writers.split_once("..").unwrap();
    let process = Process::at(&Place::given()).await;
    let id = process.ada().list(&RecordFilter::default()).await.unwrap()[0].id.clone();
    let write = |no: usize| {
        let (space, id) = (process.ada(), id.clone());
        async move {
            let mut known = space.get(&id).await.unwrap().unwrap();
            loop {
                let text = Some(format!("{} w{no}", known.text));
                let edit = RecordEdit { text, ..RecordEdit::default() };
                match space.edit(&id, Some(known.version), edit).await {
                    Ok(_) => return,
                    Err(MemoryError::Stale { current: Some(current), .. }) => known = *current,
                    Err(err) => panic!("{err}"),
                }
            }
        }
    };
    join_all((first.parse().unwrap()..end.parse().unwrap()).map(write)).await;
}

async fn writers_lose_nothing(place: Place) {
    let process = Process::at(&place).await;
    let record = process.ada().add(NewRecord::new(Layer::Facts, "start")).await.unwrap();
    let test = "memory::processes::writers_of_a_process";
    let children = ["0..21", "21..42", "42..64"].map(|it| place.start(test, &[(WRITERS, it)]));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let last = process.ada().get(&record.id).await.unwrap().unwrap();
    let mut words: Vec<&str> = last.text.split(' ').skip(1).collect();
    words.sort_unstable();
    let mut expected: Vec<String> = (0..64).map(|it| format!("w{it}")).collect();
    expected.sort_unstable();
    assert_eq!((words, last.version), (expected.iter().map(String::as_str).collect(), 65));
}

#[tokio::test]
async fn sixty_four_writers_in_three_processes_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    writers_lose_nothing(Place::file(&folder)).await;
}

#[tokio::test]
async fn sixty_four_writers_in_three_processes_lose_nothing_on_postgres() {
    writers_lose_nothing(Place::schema()).await;
}

/// Hangs where memory reads the log of a thread: a turn is over, and its capture is about to begin.
#[derive(Debug)]
struct HangsAtCapture;

impl Interference for HangsAtCapture {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if operation.name == "read" {
                hang().await;
            }
            does.await
        })
    }
}

/// Tells the test that the moment has come, and waits to be killed.
async fn hang() {
    std::fs::write(std::env::var_os(MARK).unwrap(), "now").unwrap();
    std::future::pending::<()>().await;
}

fn hanging<S: Store + SourceIndex>(store: Arc<S>) -> Memories {
    let log = Arc::new(Layered { store: Arc::clone(&store), interference: HangsAtCapture });
    Memories::new(MemoryPorts { index: store, log, time: Arc::new(TestTime) })
}

/// An extractor that hangs: what rules find is captured, what it would find is not.
struct HangingExtractor;

impl Extractor for HangingExtractor {
    fn extract(&self, _: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        Box::pin(async {
            hang().await;
            Ok(Vec::new())
        })
    }
}

#[tokio::test]
#[ignore = "a part of the tests below"]
async fn a_process_that_is_killed_before_it_captures() {
    let place = Place::given();
    let mode = std::env::var(MODE).unwrap();
    let process = Process::at(&place).await;
    let memories = match &place {
        _ if mode == "extract" => process.memories.clone(),
        Place::File(path) => hanging(Arc::new(open_file(path))),
        Place::Schema(schema) => hanging(Arc::new(open_schema(schema).await)),
    };
    let mode_of = if mode == "background" { CaptureMode::Background } else { CaptureMode::AfterTurn };
    let capture = CaptureOptions { mode: mode_of, ..CaptureOptions::default() };
    let spawn = Arc::new(|work| drop(tokio::spawn(work)));
    let mut entry = memory(memories).capture(capture).spawn(spawn);
    if mode == "extract" {
        entry = entry.extractor(Arc::new(HangingExtractor));
    }
    let prompt = Prompt::builder("p").include(entry).model("test/m").build().unwrap();
    let thread = process.create("s").await;
    let scope = Scope { user: Some("ada".into()), session: Some("s".into()), ..Scope::default() };
    let run = agent(&Scripted::always(says("Gut."))).build().unwrap();
    let _ = run.run(&prompt, &thread, RunRequest::user(RULE).scope(scope)).outcome().await;
    std::future::pending::<()>().await;
}

/// Starts a process, and kills it where it hangs.
fn killed(place: &Place, mode: &str, mark: &Path) {
    let mark_name = mark.display().to_string();
    let test = "memory::processes::a_process_that_is_killed_before_it_captures";
    let mut child = place.start(test, &[(MODE, mode), (MARK, &mark_name)]);
    for _ in 0..3_000 {
        if mark.exists() {
            break;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(mark.exists(), "it never came to the capture");
    // SIGKILL.
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
}

async fn capture_survives(place: Place, mode: &str) {
    let folder = tempfile::tempdir().unwrap();
    killed(&place, mode, &folder.path().join("mark"));
    // Two processes come back at the same time.
    let processes = [Process::at(&place).await, Process::at(&place).await];
    let known = usize::from(mode == "extract");
    assert_eq!(processes[0].ada().list(&RecordFilter::default()).await.unwrap().len(), known);
    let caught = join_all(processes.iter().map(|it| async { it.ada().catch_up().await.unwrap() })).await;
    assert_eq!(caught.iter().map(|it| it.records).sum::<usize>(), 1 - known);
    assert_eq!(caught.iter().map(|it| it.messages).sum::<usize>(), 2 * (1 - known));
    let records = processes[1].ada().list(&RecordFilter::default()).await.unwrap();
    assert_eq!(records.iter().map(|it| (it.text.as_str(), it.version)).collect::<Vec<_>>(), [(RULE, 1)]);
    // And never again.
    assert_eq!(processes[0].ada().catch_up().await.unwrap(), Default::default());
}

#[tokio::test]
async fn capture_after_a_turn_survives_a_kill_and_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    capture_survives(Place::file(&folder), "after_turn").await;
}

#[tokio::test]
async fn capture_in_the_background_survives_a_kill_and_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    capture_survives(Place::file(&folder), "background").await;
}

#[tokio::test]
async fn capture_survives_a_kill_on_postgres_and_runs_once() {
    capture_survives(Place::schema(), "background").await;
}

/// Finds one fact in what it is asked about, and counts how often it is asked.
#[derive(Default)]
struct OneFact(std::sync::atomic::AtomicUsize);

impl Extractor for OneFact {
    fn extract(&self, _: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let fact = ExtractedFact {
            text: "Ada reads German.".to_owned(),
            said: 0,
            supersedes: None,
            is_procedure: false,
        };
        Box::pin(async { Ok(vec![fact]) })
    }
}

#[tokio::test]
async fn an_extraction_that_was_killed_is_made_with_the_next_turn_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::file(&folder);
    killed(&place, "extract", &folder.path().join("mark"));
    let process = Process::at(&place).await;
    let extractor = Arc::new(OneFact::default());
    let entry = memory(process.memories.clone()).extractor(extractor.clone());
    let prompt = Prompt::builder("p").include(entry).model("test/m").build().unwrap();
    let scope = Scope { user: Some("ada".into()), session: Some("s".into()), ..Scope::default() };
    let run = agent(&Scripted::always(says("Gut."))).build().unwrap();
    let thread = process.open("s").await;
    run.run(&prompt, &thread, RunRequest::user("Hello.").scope(scope)).outcome().await.unwrap();
    assert_eq!(extractor.0.load(std::sync::atomic::Ordering::Relaxed), 1);
    let facts = process.ada().list(&RecordFilter::default()).await.unwrap();
    let mut facts: Vec<&str> = facts.iter().map(|it| it.text.as_str()).collect();
    facts.sort_unstable();
    assert_eq!(facts, ["Ada reads German.", RULE]);
}
