//! Reads the entry `blackboard`.

use contexture_capabilities::blackboard::{BoardOptions, BoardScope, blackboard as entry_of};
use contexture_compose::Entry;
use contexture_message::ErrorCode;
use serde::Deserialize;

use crate::error::Problem;
use crate::read::facts::DefinedBoard;
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Field, Raw, Word};

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlackboardEntry {
    blackboard: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlackboardFields {
    id: Field<Word>,
    schema: Option<Raw>,
    scope: Field<BoardScope>,
    tools: Field<bool>,
    prefix: Field<Word>,
    description: Field<Word>,
}

/// Reads `blackboard: {id, schema, …}`. The prompts of a project find a board by its id, so two entries with one id are
/// the same board.
pub(crate) fn blackboard<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: BlackboardEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(fields.blackboard) else { return Entry::Nothing };
    let fields: BlackboardFields = reader.decode(inner.clone());
    let (id, schema) = (reader.id(&fields.id), reader.given(fields.schema));
    let (Some((id, place)), Some(schema)) = (id, schema) else {
        let problem = Problem::new(ErrorCode::EntryInvalid, "a blackboard needs `id` and `schema`");
        reader.problem(problem.at(inner.node.place));
        return Entry::Nothing;
    };
    let options = BoardOptions {
        scope: fields.scope.value.unwrap_or_default(),
        tools: fields.tools.value.unwrap_or(true),
        prefix: fields.prefix.value.map(|it| it.0),
        description: fields.description.value.map(|it| it.0),
        ..BoardOptions::new(id, schema.node.to_json())
    };
    let prefix = options.prefix.clone().unwrap_or_else(|| options.id.clone());
    let prefix = Some(prefix).filter(|_| options.tools);
    let board = DefinedBoard { id: options.id.clone(), schema: options.schema.clone(), prefix, place };
    reader.facts.boards.push(board);
    // The block of a board is what meets another entry of its id.
    reader.places.id(&format!("blackboard-{}", options.id), place);
    match entry_of(reader.lookup.knowledge.boards(), options.clone()) {
        Ok(entry) => Entry::defined(options, entry),
        Err(err) => {
            reader.problem(Problem::new(ErrorCode::EntryInvalid, err.to_string()).at(place));
            Entry::Nothing
        }
    }
}
