//! Blackboards: what is written, who may write, and what the model reads.

mod histories;
mod processes;
mod shown;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_capabilities::blackboard::{
    BlackboardEntry, Board, BoardError, BoardOptions, BoardOwner, BoardPorts, BoardScope, BoardState,
    BoardWrite, Boards, Edit, Expected, blackboard,
};
use contexture_session::{MemoryStore, Names, Store};
use serde_json::{Value, json};

use crate::stage::TestTime;

/// Names that no other process makes.
#[derive(Debug)]
pub(crate) struct UniqueNames;

impl Names for UniqueNames {
    fn next(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(TestTime)))
}

/// Returns the boards of a store, as a process that was just started sees them.
pub(crate) fn boards(store: &Arc<dyn Store>) -> Boards {
    let store = Arc::clone(store);
    Boards::new(BoardPorts { store, time: Arc::new(TestTime), names: Arc::new(UniqueNames) })
}

pub(crate) fn schema() -> Value {
    json!({"properties": {
        "title": {"type": "string"},
        "owner": {"type": "object", "properties": {"name": {"type": "string"}, "team": {"type": "string"}}},
        "items": {"type": "array", "x-merge": "append", "items": {"$ref": "#/$defs/item"}},
        "tags": {"type": "array", "x-merge": "union", "default": []},
        "done": {"type": "integer", "x-merge": "counter"},
        "best": {"type": "number", "x-merge": "max"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer", "x-merge": "counter"}},
    }, "$defs": {
        "item": {"type": "object", "properties": {"text": {"type": "string"}, "done": {"type": "boolean"}}}
    }})
}

pub(crate) fn entry(boards: &Boards, scope: BoardScope) -> BlackboardEntry {
    blackboard(boards, BoardOptions::new("plan", schema()).scope(scope)).unwrap()
}

/// Returns the board of the tenant in a store of its own.
pub(crate) fn board() -> Board {
    board_in(&store())
}

pub(crate) fn board_in(store: &Arc<dyn Store>) -> Board {
    entry(&boards(store), BoardScope::Tenant).board(&BoardOwner::default()).unwrap()
}

pub(crate) async fn put(
    board: &Board,
    path: &str,
    value: Value,
    expected: Expected,
) -> Result<BoardState, BoardError> {
    board.write(BoardWrite::put(path, value)?.expecting(expected)).await
}

pub(crate) async fn patch(
    board: &Board,
    operations: Value,
    expected: Expected,
) -> Result<BoardState, BoardError> {
    let operations = serde_json::from_value(operations).unwrap();
    board.write(BoardWrite::new(Edit::Patch(operations)).expecting(expected)).await
}
