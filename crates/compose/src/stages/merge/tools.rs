//! Merges the tools of all owners.

use std::collections::HashSet;

use indexmap::IndexMap;

use crate::lower::{is_tool_name, tool_collisions};
use crate::segment::{SharedTool, Slot, Volatility};
use crate::stages::gather::Outcome;
use crate::stages::setup::Setup;
use crate::{Body, Error, ErrorKind, Segment, Source};

/// Lists the tools of all included entries, in resolved order.
pub(super) fn collect_tools(outcomes: &[Outcome]) -> Vec<(Source, SharedTool)> {
    let mut tools = Vec::new();
    for outcome in outcomes {
        let Outcome::Contributed { node, contribution } = outcome else { continue };
        tools.extend(contribution.tools.iter().map(|it| (node.source.clone(), it.clone())));
    }
    tools
}

/// The tools of a request, and those that it would have without the call site.
pub(super) struct MergedTools {
    pub(super) tools: Vec<(Source, SharedTool)>,
    pub(super) replaced: Vec<SharedTool>,
}

/// Merges entry tools, prompt tools and call-site tools, and spare ones whose names are free. They are sorted by name
/// so that the prefix is stable.
pub(super) fn merge_tools(
    mut tools: Vec<(Source, SharedTool)>,
    setup: &Setup<'_>,
    has_previews: bool,
) -> Result<MergedTools, Error> {
    let prompt = Source::Prompt;
    tools.extend(setup.prompt.tools.iter().map(|it| (prompt.clone(), it.clone())));
    let given = setup.options.additions.tools.iter().map(|it| (Source::CallSite, it.clone()));
    let given: Vec<_> = given.collect();
    let spare = spare_tools(setup, has_previews);
    let all = tools.iter().chain(&given).chain(&spare);
    Error::all(tool_collisions(&tools).into_iter().chain(bad_names(all)).collect())?;
    tools = distinct(tools);
    let is_replaced = |it: &&(Source, SharedTool)| has(&given, &it.1.tool().name);
    let replaced = tools.iter().filter(is_replaced).map(|it| it.1.clone()).collect();
    if !given.is_empty() {
        // Call-site tools never collide: the last one with a given name wins.
        let mut by_name: IndexMap<String, (Source, SharedTool)> = IndexMap::new();
        by_name.extend(tools.into_iter().chain(given).map(|it| (it.1.tool().name.clone(), it)));
        tools = by_name.into_values().collect();
    }
    for it in spare {
        if !has(&tools, &it.1.tool().name) {
            tools.push(it);
        }
    }
    tools.sort_by(|(_, a), (_, b)| a.tool().name.cmp(&b.tool().name));
    Ok(MergedTools { tools, replaced })
}

/// Lists the spare tools of this pass.
fn spare_tools(setup: &Setup<'_>, has_previews: bool) -> Vec<(Source, SharedTool)> {
    let reader = setup.options.additions.result_reader.iter().filter(|_| has_previews);
    let spare = setup.options.additions.spare_tools.iter().chain(reader);
    spare.map(|it| (Source::CallSite, it.clone())).collect()
}

fn has(tools: &[(Source, SharedTool)], name: &str) -> bool {
    tools.iter().any(|(_, it)| it.tool().name == name)
}

/// Lists every tool name that providers would reject. `lower` has already checked those known before a call.
fn bad_names<'a>(tools: impl Iterator<Item = &'a (Source, SharedTool)>) -> Vec<Error> {
    let bad = tools.filter(|(_, it)| !is_tool_name(&it.tool().name));
    bad.map(|(owner, it)| {
        ErrorKind::ToolNameInvalid { tool: it.tool().name.clone(), owner: owner.clone() }.into()
    })
    .collect()
}

/// Removes tools that another owner added as well. They are identical, or they would have collided.
fn distinct(mut tools: Vec<(Source, SharedTool)>) -> Vec<(Source, SharedTool)> {
    let mut names = HashSet::with_capacity(tools.len());
    tools.retain(|(_, it)| names.insert(it.tool().name.clone()));
    tools
}

/// Returns the Segment of a tool, which is never dropped.
pub(super) fn tool_segment(owner: Source, tool: SharedTool) -> Segment {
    Segment {
        pinned: true,
        volatility: Volatility::Static,
        ..Segment::new(owner, Slot::Tools, Body::Tool(tool))
    }
}
