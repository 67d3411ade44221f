//! How often a schema is applied to one and the same value: the number of ways through its references, which doubles with
//! every `anyOf` of two that lead to the same. Counted once for each node, so that the counting itself is fast.

use super::SchemaRefused;
use super::graph::Graph;

/// How many ways there may be from one subschema, without looking into the value.
const MAX_PATHS: u64 = 10_000;
/// How many there may be where it must also be found out what others have looked at: each way is compiled then.
const MAX_UNEVALUATED_PATHS: u64 = 500;
/// How many steps the longest way may have.
const MAX_STEPS: usize = 64;

/// Notes at every node how many ways there are, or refuses a schema that has too many or goes in a circle.
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
