//! Lists of hits as one.

use std::collections::BTreeMap;

use crate::retrieve::Hit;

/// Joins lists of hits, best first: a hit of several lists counts once, with its best score. In a tie the hit comes
/// first that was found first.
pub(super) fn merged(lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut hits: Vec<Hit> = Vec::new();
    for hit in lists.into_iter().flatten() {
        let key = (hit.base.clone(), hit.chunk.clone());
        match places.get(&key).and_then(|it| hits.get_mut(*it)) {
            Some(known) if known.score < hit.score => *known = hit,
            Some(_) => {}
            None => {
                places.insert(key, hits.len());
                hits.push(hit);
            }
        }
    }
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    hits
}

/// Puts hits into an order of their indexes. Those that it does not name follow in their own order.
pub(super) fn ordered(hits: Vec<Hit>, order: &[usize]) -> Vec<Hit> {
    let mut hits: Vec<Option<Hit>> = hits.into_iter().map(Some).collect();
    let mut first: Vec<Hit> = order.iter().filter_map(|it| hits.get_mut(*it)?.take()).collect();
    first.extend(hits.into_iter().flatten());
    first
}
