//! Several processes with one store, and one that dies.
//!
//! A test starts its own program again with one other test, which does the work of a process if a variable says so.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use contexture_agent::RunRequest;
use contexture_capabilities::memory::{
    CaptureMode, CaptureOptions, Layer, MemoryError, NewRecord, RecordEdit, RecordFilter, memory,
};
use contexture_compose::{Prompt, Scope};
use contexture_model::Scripted;
use futures::future::join_all;

use super::Process;
use crate::stage::{agent, says};

const FILE: &str = "CONTEXTURE_TEST_MEMORY_FILE";
const WRITERS: &str = "CONTEXTURE_TEST_MEMORY_WRITERS";
const RULE: &str = "From now on, answer in German.";

/// Starts one test of this program as a process of its own.
fn start(test: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("memory::processes::{test}"), "--exact", "--ignored"]);
    command.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn file() -> PathBuf {
    std::env::var_os(FILE).map(PathBuf::from).expect("the test that starts this one names a file")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the test below"]
async fn writers_of_a_process() {
    let writers = std::env::var(WRITERS).unwrap();
    let (first, end) = writers.split_once("..").unwrap();
    let process = Process::at(&file());
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

#[tokio::test]
async fn sixty_four_writers_in_three_processes_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    let process = Process::at(&path);
    let record = process.ada().add(NewRecord::new(Layer::Facts, "start")).await.unwrap();
    let shown = path.display().to_string();
    let children = ["0..21", "21..42", "42..64"]
        .map(|it| start("writers_of_a_process", &[(FILE, &shown), (WRITERS, it)]));
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
#[ignore = "a part of the test below"]
async fn a_process_that_dies_before_it_captures() {
    let process = Process::at(&file());
    let capture = CaptureOptions { mode: CaptureMode::Background, ..CaptureOptions::default() };
    // The turn is over, and the capture is about to begin.
    let dies = Arc::new(|_| std::process::abort());
    let entry = memory(process.memories.clone()).capture(capture).spawn(dies);
    let prompt = Prompt::builder("p").include(entry).model("test/m").build().unwrap();
    let thread = process.create("s").await;
    let scope = Scope { user: Some("ada".into()), session: Some("s".into()), ..Scope::default() };
    let run = agent(&Scripted::always(says("Gut."))).build().unwrap();
    let _ = run.run(&prompt, &thread, RunRequest::user(RULE).scope(scope)).outcome().await;
}

#[tokio::test]
async fn capture_survives_a_process_that_dies_and_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    let shown = path.display().to_string();
    let ended = start("a_process_that_dies_before_it_captures", &[(FILE, &shown)]).wait().unwrap();
    assert_eq!(ended.code(), None, "it was not killed: {ended}");
    // Two processes come back at the same time.
    let processes = [Process::at(&path), Process::at(&path)];
    assert_eq!(processes[0].ada().list(&RecordFilter::default()).await.unwrap(), []);
    let caught = join_all(processes.iter().map(|it| async { it.ada().catch_up().await.unwrap() })).await;
    assert_eq!(caught.iter().map(|it| it.records).sum::<usize>(), 1);
    assert_eq!(caught.iter().map(|it| it.messages).sum::<usize>(), 2);
    let records = processes[1].ada().list(&RecordFilter::default()).await.unwrap();
    assert_eq!(records.iter().map(|it| (it.text.as_str(), it.version)).collect::<Vec<_>>(), [(RULE, 1)]);
}
