//! Counts how often a schema is applied to the same value: the number of paths through its references, which doubles
//! with every two-branch `anyOf` whose branches meet again. Each node is counted once, so the count itself is fast.

use super::SchemaRefused;
use super::graph::Graph;

/// The maximum number of paths from one subschema that stay on the same value.
const MAX_PATHS: u64 = 10_000;
/// The maximum number of paths if unevaluated properties or items must be tracked: each path is then compiled.
const MAX_UNEVALUATED_PATHS: u64 = 500;
/// The maximum number of steps in the longest path.
const MAX_STEPS: usize = 64;

/// Stores the number of paths in every node, or refuses a schema that has too many or is circular.
pub(super) fn count(graph: &mut Graph) -> Result<(), SchemaRefused> {
    for idx in 0..graph.nodes.len() {
        paths(graph, idx, &mut Vec::new())?;
    }
    let over = graph.nodes.iter().find(|it| it.unevaluated && it.paths > MAX_UNEVALUATED_PATHS);
    match over {
        Some(node) => Err(too_many(node.paths, MAX_UNEVALUATED_PATHS)),
        None => Ok(()),
    }
}

fn paths(graph: &mut Graph, idx: usize, way: &mut Vec<usize>) -> Result<u64, SchemaRefused> {
    if way.contains(&idx) {
        return Err(SchemaRefused::Circular { at: format!("#{}", graph.nodes[idx].at) });
    }
    if way.len() >= MAX_STEPS {
        let (found, limit) = (way.len() as u64 + 1, MAX_STEPS as u64);
        return Err(SchemaRefused::TooMuch {
            what: "subschemas behind each other for one value",
            found,
            limit,
        });
    }
    let known = graph.nodes[idx].paths;
    if known > 0 {
        return Ok(known);
    }
    way.push(idx);
    let mut sum: u64 = 1;
    for at in 0..graph.nodes[idx].same.len() {
        let next = graph.nodes[idx].same[at];
        sum = sum.saturating_add(paths(graph, next, way)?);
    }
    way.pop();
    if sum > MAX_PATHS {
        return Err(too_many(sum, MAX_PATHS));
    }
    graph.nodes[idx].paths = sum;
    Ok(sum)
}

fn too_many(found: u64, limit: u64) -> SchemaRefused {
    SchemaRefused::TooMuch { what: "ways to apply it to one value", found, limit }
}
