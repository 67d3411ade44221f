//! Fills in text templates.

/// Replaces each `{…}` of a template with its value and drops the last line break. Values are not searched for
/// placeholders themselves.
pub(crate) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut rest = template.trim_end_matches('\n');
    let mut out = String::with_capacity(rest.len() + values.iter().map(|(_, it)| it.len()).sum::<usize>());
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let place = after.split_once('}');
        let value =
            place.and_then(|(name, after)| values.iter().find(|it| it.0 == name).map(|it| (it.1, after)));
        let (text, after) = value.unwrap_or(("{", after));
        out.push_str(text);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn values_are_not_searched_and_unknown_places_stay() {
        assert_eq!(filled("{a} {b} {c} {\n", &[("a", "{b}"), ("b", "2")]), "{b} 2 {c} {");
    }
}
