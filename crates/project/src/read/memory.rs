//! Reads the entry `memory`.

use contexture_capabilities::memory::MemoryOptions;
use contexture_compose::Entry;
use serde::Deserialize;

use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Given};
use crate::source::yaml::Data;

#[derive(Default, Deserialize)]
#[serde(default)]
struct MemoryEntry {
    memory: Given,
}

/// Reads `memory: {…}`; `memory: true` has the defaults.
pub(crate) fn memory<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: MemoryEntry = reader.decode(at.clone());
    let options = match reader.given(fields.memory.0) {
        Some(inner) => match &inner.node.data {
            Data::Bool(true) | Data::Null => MemoryOptions::default(),
            Data::Bool(false) => return Entry::Nothing,
            _ => reader.decode(inner),
        },
        None => MemoryOptions::default(),
    };
    reader.lookup.knowledge.memory(options).into()
}
