//! Reads the entry `memory`.

use contexture_capabilities::blackboard::BoardError;
use contexture_capabilities::memory::{MemoryEntry, MemoryOptions, WORKING, WorkingOptions};
use contexture_compose::Entry;
use contexture_message::ErrorCode;
use serde::Deserialize;

use crate::error::Problem;
use crate::read::facts::DefinedBoard;
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Given};
use crate::source::yaml::Data;

#[derive(Default, Deserialize)]
#[serde(default)]
struct MemoryFields {
    memory: Given,
}

/// Reads `memory: {…}`; `memory: true` has the defaults.
pub(crate) fn memory<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: MemoryFields = reader.decode(at.clone());
    let options = reader.given(fields.memory.0);
    let Some((entry, options)) = entry(reader, options) else { return Entry::Nothing };
    reader.places.id(&format!("memory:{}", options.id), at.node.place);
    Entry::defined(options, entry)
}

/// Reads the options of a memory, which define its entry; `false` means none.
pub(crate) fn entry<'a>(
    reader: &mut Reader<'a>,
    options: Option<Cursor<'a>>,
) -> Option<(MemoryEntry, MemoryOptions)> {
    let working = options.as_ref().and_then(|it| it.get("working"));
    let policy = options.as_ref().and_then(|it| it.get("policy"));
    let min_score = policy.and_then(|it| it.get("archival_min_score"));
    let options = match options {
        Some(inner) => match &inner.node.data {
            Data::Bool(true) | Data::Null => MemoryOptions::default(),
            Data::Bool(false) => return None,
            _ => reader.decode(inner),
        },
        None => MemoryOptions::default(),
    };
    let score = options.policy.archival_min_score;
    if let Some(at) = min_score.filter(|_| !(0.0..=1.0).contains(&score)) {
        reader.problem(at.invalid(format!("a score is from 0 to 1, found {score}")));
    }
    if let (Some(at), Some(WorkingOptions { schema, .. })) = (&working, &options.working) {
        let place = at.node.place;
        reader.facts.boards.push(DefinedBoard {
            id: WORKING.to_owned(),
            schema: schema.clone(),
            prefix: None,
            place,
        });
    }
    let made = reader.lookup.knowledge.memory(options.clone());
    // Only a working state can be refused, so there is one.
    let refused = |err: BoardError| {
        let problem = Problem::new(ErrorCode::EntryInvalid, err.to_string());
        match working {
            Some(at) => at.locate(problem),
            None => problem,
        }
    };
    Some((reader.take(made.map_err(refused))?, options))
}
