//! Several processes with one store. A test starts its own program again with one other test, which does the work of a
//! process if a variable says so.

use contexture_capabilities::blackboard::{Board, BoardError, Expected};
use futures::future::join_all;
use serde_json::json;

use super::{board_in, put};
use crate::place::Place;

const PROCESS: &str = "CONTEXTURE_TEST_BOARD_PROCESS";
const WRITES: usize = 5;

async fn open(place: &Place) -> Board {
    board_in(&place.open().await)
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
#[ignore = "a part of the tests below"]
async fn writers_of_a_process() {
    let process: usize = std::env::var(PROCESS).unwrap().parse().unwrap();
    let board = open(&Place::given()).await;
    join_all((0..8).map(|it| write(board.clone(), process, it))).await;
}

#[tokio::test]
async fn eight_writers_in_each_of_three_processes_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    writers_lose_nothing(Place::file(&folder)).await;
}

#[tokio::test]
async fn eight_writers_in_each_of_three_processes_lose_nothing_on_postgres() {
    writers_lose_nothing(Place::schema()).await;
}

async fn writers_lose_nothing(place: Place) {
    let board = open(&place).await;
    let test = "blackboard::processes::writers_of_a_process";
    for mut child in ["0", "1", "2"].map(|it| place.start(test, &[(PROCESS, it)])) {
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
