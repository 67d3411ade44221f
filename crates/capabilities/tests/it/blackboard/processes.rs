//! Several processes with one store. A test starts its own program again with one other test, which does the work of a
//! process if a variable says so.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use contexture_capabilities::blackboard::{Board, BoardError, Expected};
use contexture_session::Store;
use contexture_session::conformance::SystemTime;
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::future::join_all;
use serde_json::json;

use super::{board_in, put};

const FILE: &str = "CONTEXTURE_TEST_BOARD_FILE";
const PROCESS: &str = "CONTEXTURE_TEST_BOARD_PROCESS";
const WRITES: usize = 5;

fn start(path: &Path, process: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["blackboard::processes::writers_of_a_process", "--exact", "--ignored"]);
    command.env(FILE, path).env(PROCESS, process.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn open(path: &Path) -> Board {
    let store = SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime))).unwrap();
    board_in(&(Arc::new(store) as Arc<dyn Store>))
}

/// Each writer has a field of its own, which it replaces without ever meeting a conflict; all add to shared fields; and
/// all replace one, trying again with what the error says.
async fn write(board: Board, process: usize, writer: usize) {
    let own = format!("/counts/p{process}w{writer}");
    let mut known = 0;
    for no in 1..=WRITES {
        known = put(&board, &own, json!(1), Expected::At(known)).await.unwrap().version();
        put(&board, "/items", json!({"text": format!("p{process}w{writer}n{no}")}), Expected::Nothing)
            .await
            .unwrap();
        let mut title = (String::new(), Expected::Nothing);
        loop {
            match put(&board, "/title", json!(format!("{}x", title.0)), title.1).await {
                Ok(_) => break,
                Err(BoardError::Stale { version, value, .. }) => {
                    title = (value.as_str().unwrap().to_owned(), Expected::At(version));
                }
                Err(err) => panic!("{err}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the test below"]
async fn writers_of_a_process() {
    let path = std::env::var_os(FILE).map(PathBuf::from).expect("the test that starts this one names a file");
    let process: usize = std::env::var(PROCESS).unwrap().parse().unwrap();
    let board = open(&path);
    join_all((0..8).map(|it| write(board.clone(), process, it))).await;
}

#[tokio::test]
async fn eight_writers_in_each_of_three_processes_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boards.db");
    let board = open(&path);
    for mut child in [0, 1, 2].map(|it| start(&path, it)) {
        assert!(child.wait().unwrap().success());
    }
    let state = board.read().await.unwrap();
    let n_writes = 3 * 8 * WRITES;
    assert_eq!(state.value()["title"], "x".repeat(n_writes));
    let counts = state.value()["counts"].as_object().unwrap();
    assert!(counts.len() == 24 && counts.values().all(|it| *it == WRITES), "{counts:?}");
    let mut texts: Vec<&str> =
        state.value()["items"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), n_writes);
    assert_eq!(board.history(0, 10_000).await.unwrap().len(), 3 * n_writes);
}
