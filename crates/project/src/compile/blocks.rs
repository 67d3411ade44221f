//! The blocks of a project: one unit per file of `blocks/`, and the prompts that each applies to.
//!
//! The full rule: a block applies to all prompts, or to those that `agents` lists. It follows the entries of the
//! prompt, ordered by `order` and name. If an entry of the prompt names the block, it appears only at that entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compile::Previous;
use crate::error::ProjectError;
use crate::files::FileKind;
use crate::read::block_file::{BlockFile, block_file, file_name};
use crate::read::facts::Facts;
use crate::read::places::Places;
use crate::read::reader::{Lookup, Reader};
use crate::read::unit::{BlockUnit, Blocks};
use crate::source::front;

/// Reads the block files, and reuses unchanged units from `previous`. `prompts` has the ids of all prompts.
pub(crate) fn blocks(
    lookup: Lookup<'_>,
    prompts: &BTreeSet<String>,
    previous: Option<&Previous<'_>>,
) -> Blocks {
    let mut units = Blocks::new();
    for file in lookup.sources.of_kind(FileKind::Block) {
        let before = previous.and_then(|it| Some((it, it.compiled.blocks.get(file)?)));
        let unit = match before {
            Some((previous, unit)) if previous.is_untouched(&unit.reads) => Arc::clone(unit),
            _ => Arc::new(unit(file, lookup, prompts)),
        };
        units.insert(file.to_owned(), unit);
    }
    units
}

fn unit(file: &str, lookup: Lookup<'_>, prompts: &BTreeSet<String>) -> BlockUnit {
    let document = match lookup.sources.text(file) {
        Ok(text) => front::split(text),
        Err(error) => return unreadable(file, error),
    };
    let mut reader = Reader::new(file, lookup);
    let BlockFile { block, name, spot } = block_file(&mut reader, &document, prompts);
    let faults = reader.faults();
    let Reader { reads, facts, places, .. } = reader;
    let (order, agents) = (block.definition().order, block.definition().agents.clone());
    let block = Some(block).filter(|_| faults.is_empty());
    BlockUnit { block, name, order, agents, faults, reads, facts, spot, places }
}

fn unreadable(file: &str, error: ProjectError) -> BlockUnit {
    BlockUnit {
        block: None,
        name: file_name(file).to_owned(),
        order: 0,
        agents: Vec::new(),
        faults: error.faults,
        reads: BTreeSet::from([file.to_owned()]),
        facts: Facts::default(),
        spot: None,
        places: Places::default(),
    }
}

/// Returns the names of all blocks by file, to detect changes.
pub(crate) fn names(blocks: &Blocks) -> Vec<(&str, &str)> {
    blocks.iter().map(|(file, it)| (file.as_str(), it.name.as_str())).collect()
}

/// Returns the blocks that apply to a prompt with their files, sorted by `order` and name.
pub(crate) fn applying<'a>(blocks: &'a Blocks, prompt: &str) -> Vec<(&'a str, &'a Arc<BlockUnit>)> {
    let applies = |it: &BlockUnit| it.agents.is_empty() || it.agents.iter().any(|it| it == prompt);
    let mut found: Vec<_> = blocks.iter().filter(|(_, it)| applies(it)).collect();
    found.sort_by_key(|(_, it)| (it.order, it.name.as_str()));
    found.into_iter().map(|(file, unit)| (file.as_str(), unit)).collect()
}
