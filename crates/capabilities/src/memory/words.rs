//! Texts that the model reads, from `templates/words.txt`.

use super::space::MemoryHit;

/// Returns a text with its places filled. What a value contains is never taken for a place of another.
pub(crate) fn words(key: &str, values: &[(&str, &str)]) -> String {
    let mut texts = include_str!("templates/words.txt").lines().filter_map(|it| it.split_once(" = "));
    let mut rest = texts.find(|(it, _)| *it == key).map_or("", |(_, text)| text);
    let mut filled = String::new();
    let next = |rest: &str| {
        let places =
            values.iter().filter_map(|(name, value)| Some((rest.find(&format!("{{{name}}}"))?, name, value)));
        places.min_by_key(|it| it.0).map(|(at, name, value)| (at, name.len() + 2, *value))
    };
    while let Some((at, len, value)) = next(rest) {
        filled.push_str(&rest[..at]);
        filled.push_str(value);
        rest = &rest[at + len..];
    }
    filled + rest
}

/// Returns where a hit comes from, in a few words.
pub(crate) fn origin(hit: &MemoryHit) -> String {
    let day = jiff::Timestamp::from_millisecond(hit.at.0).map(|it| it.strftime("%Y-%m-%d").to_string());
    let place = hit.thread.as_ref().zip(hit.turn.as_ref()).map(|(thread, turn)| format!("{thread} {turn}"));
    let parts = [Some(hit.layer.as_str().to_owned()), place, day.ok()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
