//! The tools and the middleware of an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_compose::SharedTool;

use super::middleware::{Layer, Middleware};
use super::own::OwnTools;
use super::tool::{Tool, Tools};

/// The tools and the middleware of an agent.
#[derive(Default)]
pub(crate) struct Toolbox {
    /// Tools that every run offers.
    pub(crate) offered: Tools,
    /// The offered tools in the form that passes share.
    pub(crate) shared: Vec<SharedTool>,
    /// Tools that run what a prompt declares without a function.
    pub(crate) executors: Tools,
    /// The engine's own tools, if enabled.
    pub(crate) own: Option<OwnTools>,
    /// Middleware around the tool calls of every run.
    pub(crate) layers: Vec<Layer>,
    /// Middleware that prompts can name.
    pub(crate) middleware: BTreeMap<String, Arc<dyn Middleware>>,
}

impl Toolbox {
    /// Returns the tool with that name, offered or not.
    pub(crate) fn get(&self, name: &str) -> Option<&Tool> {
        self.offered.get(name).or_else(|| self.executors.get(name))
    }
}
