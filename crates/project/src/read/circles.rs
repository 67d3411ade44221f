//! Contexts and capabilities that use each other in a circle.

use contexture_message::ErrorCode;

use crate::error::Problem;
use crate::read::index::capability_name;
use crate::read::reader::{Lookup, Reader};

/// Returns the problem for a cycle of contexts; the last file of `chain` equals its first.
pub(super) fn circle(lookup: Lookup<'_>, chain: &[String]) -> Problem {
    let variant = |key: &str| {
        let (file, preset) = key.split_once('#').map_or((key, None), |(file, it)| (file, Some(it)));
        let name = capability_name(file)?;
        Some(preset.map_or_else(|| format!("capability:{name}"), |it| format!("capability:{name} ({it})")))
    };
    let context = |file: &String| format!("context:{}", lookup.index.id(file).unwrap_or(file));
    let source = |key: &String| variant(key).unwrap_or_else(|| context(key));
    let step = |it: &String| variant(it).unwrap_or_else(|| format!("{} ({it})", context(it)));
    let mut steps: Vec<String> = chain.iter().map(step).collect();
    steps.pop();
    steps.extend(chain.last().map(source));
    let has_capability = chain.iter().any(|it| variant(it).is_some());
    let what = if has_capability { "capabilities and contexts" } else { "contexts" };
    let message = format!("{what} use each other in a circle: {}", steps.join(" → "));
    let hint = "remove one of these uses, or move what both need to a context of its own".to_owned();
    let sources = chain.iter().map(source).collect();
    Problem::new(ErrorCode::DepthExceeded, message).sources(sources).hint(Some(hint))
}

/// Returns the path from the file being read through `first` back to itself.
pub(super) fn chain(reader: &Reader<'_>, first: &str) -> Option<Vec<String>> {
    let circles = reader.lookup.circles;
    // Breadth-first search finds the shortest cycle, which keeps the message short.
    let mut ways: Vec<Vec<String>> = vec![vec![reader.key.clone(), first.to_owned()]];
    let mut seen = std::collections::BTreeSet::from([first.to_owned()]);
    let mut idx = 0;
    while let Some(way) = ways.get(idx).cloned() {
        idx += 1;
        let Some(last) = way.last() else { continue };
        if *last == reader.key {
            return Some(way);
        }
        for next in circles.get(last).into_iter().flatten() {
            if *next == reader.key || seen.insert(next.clone()) {
                ways.push(way.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}
