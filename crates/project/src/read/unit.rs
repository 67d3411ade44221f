//! Files that were read, as other files refer to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_compose::{Block, Entry};

use crate::error::Fault;
use crate::read::facts::{Facts, Spot};
use crate::read::places::Places;

/// A parsed context file, or one variant of a capability.
#[derive(Debug)]
pub(crate) struct ContextUnit {
    /// The file. Variants of a capability share theirs.
    pub(crate) file: String,
    /// `None` if the file has a fault.
    pub(crate) entry: Option<Entry>,
    /// Faults of this file alone.
    pub(crate) faults: Vec<Fault>,
    /// Every file that it depends on, including itself and files that were looked up but do not exist.
    pub(crate) reads: BTreeSet<String>,
    /// The nesting depth of the files it uses.
    pub(crate) height: usize,
    pub(crate) facts: Facts,
    pub(crate) spot: Option<Spot>,
    pub(crate) places: Places,
}

/// The units of all block files, by file.
pub(crate) type Blocks = BTreeMap<String, Arc<BlockUnit>>;

/// A parsed block file.
#[derive(Debug)]
pub(crate) struct BlockUnit {
    /// `None` if the file has a fault.
    pub(crate) block: Option<Block>,
    /// Its name in tag form.
    pub(crate) name: String,
    pub(crate) order: i32,
    pub(crate) agents: Vec<String>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) reads: BTreeSet<String>,
    pub(crate) facts: Facts,
    pub(crate) spot: Option<Spot>,
    pub(crate) places: Places,
}
