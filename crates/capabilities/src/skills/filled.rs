//! Templates of what the model reads.

/// Replaces each `{…}` of a template with its value, and drops the last line break. Values are not searched again.
pub(super) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut rest = template.trim_end_matches('\n');
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let known = after.split_once('}').and_then(|(name, after)| {
            values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value, after))
        });
        let (text, after) = known.unwrap_or(("{", after));
        out.push_str(text);
        rest = after;
    }
    out + rest
}
