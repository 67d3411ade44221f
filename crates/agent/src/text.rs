//! The text and the calls of messages, text templates, and patterns of names.

use contexture_message::{Message, Part, ToolCall};

/// Replaces all text of a message. Thinking is removed too, since it may repeat what was taken out.
pub(crate) fn with_text(message: Message, text: String) -> Message {
    let mut text = Some(Part::text(text));
    let content = message.content.into_iter().filter_map(|it| match it {
        Part::Text { .. } => text.take(),
        Part::Thinking(_) => None,
        part @ (Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)) => Some(part),
    });
    let mut content: Vec<Part> = content.collect();
    content.extend(text);
    Message { content, ..message }
}

/// Returns the calls of a message.
pub(crate) fn calls_of(message: &Message) -> impl Iterator<Item = &ToolCall> {
    message.content.iter().filter_map(|it| match it {
        Part::ToolCall(call) => Some(call),
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolResult(_) => None,
    })
}

/// Whether a name matches a pattern, in which `*` matches any text.
pub(crate) fn is_match(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            // Recursion is bounded by the number of stars in the pattern.
            rest.is_empty()
                || name
                    .char_indices()
                    .map(|(at, _)| at)
                    .chain([name.len()])
                    .any(|at| is_match(rest, &name[at..]))
        }),
    }
}

/// Replaces each `{…}` of a template with its value and drops the last line break. Values are not searched for
/// placeholders themselves.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
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
    use super::fill;

    #[test]
    fn values_are_not_searched_and_unknown_places_stay() {
        assert_eq!(fill("{a} {b} {c} {\n", &[("a", "{b}"), ("b", "2")]), "{b} 2 {c} {");
    }
}
