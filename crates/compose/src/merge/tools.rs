//! Tools of all owners, joined.

use std::collections::HashMap;

use crate::engine::Setup;
use crate::gather::Outcome;
use crate::segment::{SharedTool, Slot, Volatility};
use crate::{Body, Error, ErrorKind, Segment, Source};

/// Lists the tools of all entries that take part, in resolved order.
pub(super) fn collect_tools(outcomes: &[Outcome]) -> Vec<(Source, SharedTool)> {
    let mut tools = Vec::new();
    for outcome in outcomes {
        let Outcome::Contributed { node, contribution } = outcome else { continue };
        tools.extend(contribution.tools.iter().map(|it| (node.source.clone(), it.clone())));
    }
    tools
}

/// Joins entry tools, prompt tools and call-site tools, sorted by name so that the prefix is stable.
pub(super) fn merge_tools(
    mut tools: Vec<(Source, SharedTool)>,
    setup: &Setup<'_>,
) -> Result<Vec<(Source, SharedTool)>, Error> {
    let prompt = Source::prompt();
    tools.extend(setup.prompt.0.tools.iter().map(|it| (prompt.clone(), it.clone())));
    Error::all(collisions(&tools))?;
    // The last of a name counts, and of the call site's nothing collides.
    for tool in setup.options.tools.iter().rev() {
        if tools.iter().any(|(owner, it)| it.tool().name == tool.name && *owner == Source::call_site()) {
            continue;
        }
        tools.retain(|(_, it)| it.tool().name != tool.name);
        tools.push((Source::call_site(), SharedTool::new(tool.clone())));
    }
    tools.sort_by(|(_, a), (_, b)| a.tool().name.cmp(&b.tool().name));
    Ok(tools)
}

/// Names every tool that another owner has as well.
fn collisions(tools: &[(Source, SharedTool)]) -> Vec<Error> {
    let mut owners: HashMap<&str, &Source> = HashMap::with_capacity(tools.len());
    let mut collisions = Vec::new();
    for (second, shared) in tools {
        let name = shared.tool().name.as_str();
        let first = *owners.entry(name).or_insert(second);
        if !std::ptr::eq(first, second) {
            let (tool, first, second) = (name.to_owned(), first.clone(), second.clone());
            collisions.push(ErrorKind::ToolCollision { tool, first, second }.into());
        }
    }
    collisions
}

/// Returns the Segment of a tool, which is never dropped.
pub(super) fn tool_segment(owner: Source, tool: SharedTool) -> Segment {
    Segment {
        pinned: true,
        volatility: Volatility::Static,
        ..Segment::new(owner, Slot::Tools, Body::Tool(tool))
    }
}
