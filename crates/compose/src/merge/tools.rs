//! Tools of all owners, joined.

use std::collections::{BTreeMap, HashSet};

use crate::engine::Setup;
use crate::gather::Outcome;
use crate::segment::{SharedTool, Slot, Volatility};
use crate::{Body, Error, ErrorKind, Segment, Source};

/// Lists the tools of all entries that take part, in resolved order.
pub(super) fn collect_tools(outcomes: &[Outcome]) -> Vec<(Source, SharedTool)> {
    let mut seen = HashSet::new();
    let mut tools = Vec::new();
    for outcome in outcomes {
        let Outcome::Contributed { node, contribution } = outcome else { continue };
        if seen.insert(node.identity) {
            tools.extend(contribution.tools.iter().map(|it| (node.source.clone(), it.clone())));
        }
    }
    tools
}

/// Joins entry tools, prompt tools and call-site tools, sorted by name so that the prefix is stable.
pub(super) fn merge_tools(
    entry_tools: Vec<(Source, SharedTool)>,
    setup: &Setup<'_>,
) -> Result<Vec<(Source, SharedTool)>, Error> {
    let own = setup.prompt.0.tools.iter().map(|it| (Source::prompt(), it.clone()));
    let mut merged: BTreeMap<String, (Source, SharedTool)> = BTreeMap::new();
    let mut collisions = Vec::new();
    for (owner, shared) in entry_tools.into_iter().chain(own) {
        let name = shared.tool().name.clone();
        match merged.get(&name) {
            Some((first, _)) => {
                let kind = ErrorKind::ToolCollision { tool: name, first: first.clone(), second: owner };
                collisions.push(kind.into());
            }
            None => {
                merged.insert(name, (owner, shared));
            }
        }
    }
    Error::all(collisions)?;
    for tool in &setup.options.tools {
        merged.insert(tool.name.clone(), (Source::call_site(), SharedTool::new(tool.clone())));
    }
    Ok(merged.into_values().collect())
}

/// Returns the Segment of a tool, which is never dropped.
pub(super) fn tool_segment(owner: Source, tool: SharedTool) -> Segment {
    Segment {
        pinned: true,
        volatility: Volatility::Static,
        ..Segment::new(owner, Slot::Tools, Body::Tool(tool))
    }
}
