//! Finds tools of one name.

use std::collections::{HashMap, HashSet};

use super::node::Item;
use crate::segment::SharedTool;
use crate::{Error, ErrorKind, Source};

/// Lists every tool name that another owner uses as well, unless both tools are identical.
pub(crate) fn tool_collisions(tools: &[(Source, SharedTool)]) -> Vec<Error> {
    let mut owners: HashMap<&str, &(Source, SharedTool)> = HashMap::with_capacity(tools.len());
    let mut collisions = Vec::new();
    for owned in tools {
        let (second, shared) = owned;
        let name = shared.tool().name.as_str();
        let known = *owners.entry(name).or_insert(owned);
        let first = &known.0;
        if !std::ptr::eq(known, owned) && !known.1.is_same(shared) {
            let (tool, first, second) = (name.to_owned(), first.clone(), second.clone());
            collisions.push(ErrorKind::ToolCollision { tool, first, second }.into());
        }
    }
    collisions
}

/// Lists the tools of the contexts that are part of every pass, in resolved order. `known` has the tools of contexts by
/// identity.
pub(super) fn unconditional_tools(
    items: &[Item],
    known: &HashMap<usize, Vec<SharedTool>>,
) -> Vec<(Source, SharedTool)> {
    let (mut tools, mut seen) = (Vec::new(), HashSet::new());
    collect(items, known, &mut seen, &mut tools);
    tools
}

fn collect(
    items: &[Item],
    known: &HashMap<usize, Vec<SharedTool>>,
    seen: &mut HashSet<usize>,
    tools: &mut Vec<(Source, SharedTool)>,
) {
    for item in items {
        let Item::Node(node) = item else { continue };
        if node.is_gated || !seen.insert(node.identity) {
            continue;
        }
        collect(&node.children, known, seen, tools);
        let own = known.get(&node.identity).into_iter().flatten();
        tools.extend(own.map(|it| (node.source.clone(), it.clone())));
    }
}
