//! The blocks of a project: one unit per file of `blocks/`, and the prompts that each applies to.
//!
//! The full rule: a block applies to all prompts, or to those that `agents` lists. It follows the entries of the
//! prompt, ordered by `order` and name. If an entry of the prompt names the block, it appears only at that entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_compose::{Block, Entry};

use crate::block_file::{BlockFile, block_file};
use crate::compile::Previous;
use crate::decode::Cursor;
use crate::error::{Fault, Problem, ProjectError};
use crate::facts::{Facts, Spot, Use};
use crate::files::FileKind;
use crate::front;
use crate::places::Places;
use crate::reader::{Reader, Shelf};
use crate::yaml::Data;
use contexture_template::did_you_mean;

/// Recorded as a dependency of a unit that names a block.
pub(crate) const BLOCKS: &str = "blocks/";
/// Recorded as a dependency of a unit that names a prompt.
pub(crate) const PROMPTS: &str = "prompts/";

/// The units of all block files, by file.
pub(crate) type Blocks = BTreeMap<String, Arc<BlockUnit>>;

/// A parsed block file.
#[derive(Debug)]
pub(crate) struct BlockUnit {
    /// `None` if the file has a fault.
    pub(crate) block: Option<Block>,
    /// Its name in tag form.
    pub(crate) name: String,
    order: i32,
    agents: Vec<String>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) reads: BTreeSet<String>,
    pub(crate) facts: Facts,
    spot: Option<Spot>,
    pub(crate) places: Places,
}

/// Reads the block files, and reuses unchanged units from `previous`. `prompts` has the ids of all prompts.
pub(crate) fn blocks(
    shelf: Shelf<'_>,
    prompts: &BTreeSet<String>,
    previous: Option<&Previous<'_>>,
) -> Blocks {
    let mut units = Blocks::new();
    for file in shelf.sources.of_kind(FileKind::Block) {
        let before = previous.and_then(|it| Some((it, it.compiled.blocks.get(file)?)));
        let unit = match before {
            Some((previous, unit)) if previous.is_untouched(&unit.reads) => Arc::clone(unit),
            _ => Arc::new(unit(file, shelf, prompts)),
        };
        units.insert(file.to_owned(), unit);
    }
    units
}

fn unit(file: &str, shelf: Shelf<'_>, prompts: &BTreeSet<String>) -> BlockUnit {
    let document = match shelf.sources.text(file) {
        Ok(text) => front::split(text),
        Err(error) => return unreadable(file, error),
    };
    let mut reader = Reader::new(file, shelf);
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

/// Returns the default name of a block: its file name without folder and extension.
pub(crate) fn file_name(file: &str) -> &str {
    let name = file.strip_prefix(BLOCKS).unwrap_or(file);
    name.strip_suffix(".md").unwrap_or(name)
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

/// Reads an entry that names a block. Problems are recorded and the entry becomes `Nothing`.
pub(crate) fn named_block<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let shelf = reader.shelf;
    reader.reads.insert(BLOCKS.to_owned());
    let node = at.node;
    let Data::Text(name) = &node.data else {
        reader.problem(at.wrong("the name of a block"));
        return Entry::Nothing;
    };
    let tag = contexture_compose::tags::block_tag_name(name).unwrap_or_else(|_| name.clone());
    let found: Vec<(&String, &Arc<BlockUnit>)> =
        shelf.blocks.iter().filter(|(_, it)| it.name == tag).collect();
    match found[..] {
        [] => {
            let hint = did_you_mean(name, shelf.blocks.values().map(|it| it.name.as_str()));
            let problem = Problem::new("unknown_entry", format!("there is no block `{name}`")).at(node.place);
            reader.problem(problem.hint(hint));
            Entry::Nothing
        }
        [(file, unit)] => {
            reader.reads.extend(unit.reads.iter().cloned());
            reader.facts.blocks.insert(file.clone());
            uses.extend(unit.spot.clone().map(|it| Use::Inline(Spot { place: node.place, ..it })));
            unit.block.clone().map_or(Entry::Nothing, Entry::Block)
        }
        _ => {
            let files: Vec<String> = found.iter().map(|(file, _)| (*file).clone()).collect();
            let message = format!("two blocks have the name `{tag}`: {}", files.join(" and "));
            let problem = Problem::new("duplicate_id", message).at(node.place).sources(files);
            reader.problem(problem.hint(Some("give one of them another `name`".to_owned())));
            Entry::Nothing
        }
    }
}
