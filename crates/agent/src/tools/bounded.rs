//! Keeps huge tool results out of the prompt.
//!
//! An output within the byte limit stays as it is; a larger one becomes a preview: the beginning and the end, with a
//! note between them. No tokens are counted and nothing is serialised twice, so a result of 50 MB costs little more
//! than a look at its size.

use std::borrow::Cow;

use contexture_message::{File, Image, MediaSource, Part, ToolOutput};
use serde_json::Value;

use crate::text::fill;

/// A tool's output, bounded to what the model may see.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) output: ToolOutput,
    /// The full text, if the model sees a preview of it.
    pub(crate) whole: Option<String>,
}

/// The size limit of a result, and the handle of its full text.
#[derive(Clone, Copy)]
struct Size<'a> {
    max: usize,
    handle: &'a str,
}

/// Bounds an output to about `max` bytes. The preview names the handle under which the full text can be read.
pub(crate) fn bounded(output: ToolOutput, max: usize, handle: &str) -> Bounded {
    let size = Size { max, handle };
    match output {
        ToolOutput::Text(text) => cut(text, size, ToolOutput::Text),
        ToolOutput::ErrorText(text) => cut(text, size, ToolOutput::ErrorText),
        ToolOutput::Json(value) => cut_json(value, size, ToolOutput::Json, ToolOutput::Text),
        ToolOutput::ErrorJson(value) => cut_json(value, size, ToolOutput::ErrorJson, ToolOutput::ErrorText),
        ToolOutput::Content(parts) => content(parts, size),
        ToolOutput::ExecutionDenied { reason } => {
            Bounded { output: ToolOutput::ExecutionDenied { reason }, whole: None }
        }
    }
}

fn cut(text: String, size: Size<'_>, wrap: fn(String) -> ToolOutput) -> Bounded {
    match text.len() > size.max {
        true => Bounded { output: wrap(preview(&text, size)), whole: Some(text) },
        false => Bounded { output: wrap(text), whole: None },
    }
}

fn cut_json(
    value: Value,
    size: Size<'_>,
    whole: fn(Value) -> ToolOutput,
    wrap: fn(String) -> ToolOutput,
) -> Bounded {
    let text = value.to_string();
    match text.len() > size.max {
        true => cut(text, size, wrap),
        false => Bounded { output: whole(value), whole: None },
    }
}

/// Bounds all texts together and all media together. If the texts are too long, one preview replaces the first of
/// them.
fn content(parts: Vec<Part>, size: Size<'_>) -> Bounded {
    let texts = parts.iter().filter_map(|it| match it {
        Part::Text { text, .. } => Some(Cow::Borrowed(text.as_str())),
        Part::Evidence(evidence) => Some(Cow::Owned(evidence.labelled_text())),
        Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    let texts: Vec<Cow<'_, str>> = texts.collect();
    let is_long = texts.iter().map(|it| it.len()).sum::<usize>() > size.max;
    let whole = is_long.then(|| texts.concat());
    let mut shown = whole.as_deref().map(|it| preview(it, size));
    let mut media = 0;
    let mut fits = |data: &str| {
        media += data.len();
        media <= MAX_MEDIA
    };
    let parts = parts.into_iter().filter_map(|part| match part {
        Part::Text { .. } | Part::Evidence(_) if is_long => shown.take().map(Part::text),
        Part::Image(Image { source: MediaSource::Data(data), .. }) if !fits(&data) => {
            Some(too_large("image", &data))
        }
        Part::File(File { source: MediaSource::Data(data), .. }) if !fits(&data) => {
            Some(too_large("file", &data))
        }
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_) => Some(part),
    });
    let output = ToolOutput::Content(parts.collect());
    Bounded { output, whole }
}

/// 32 MB of base64, the most that any provider accepts in a request. Larger media would be of no use.
const MAX_MEDIA: usize = 32_000_000;

fn too_large(kind: &str, data: &str) -> Part {
    let template = include_str!("templates/media_too_large.txt").trim_end();
    Part::text(template.replace("{kind}", kind).replace("{bytes}", &(data.len() / 4 * 3).to_string()))
}

/// Returns the beginning and the end of a text, together about `max` bytes.
fn preview(text: &str, Size { max, handle }: Size<'_>) -> String {
    let max = max.min(PREVIEW);
    let head = &text[..floor(text, max / 4 * 3)];
    let tail = &text[ceil(text, text.len() - max / 4)..];
    let left_out = text.len() - head.len() - tail.len();
    let values = [
        ("head", head),
        ("left_out", &left_out.to_string()),
        ("bytes", &text.len().to_string()),
        ("handle", handle),
        ("tail", tail),
    ];
    fill(include_str!("templates/preview.txt"), &values)
}

/// The size of a preview, in bytes.
const PREVIEW: usize = 8 * 1024;

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&it| text.is_char_boundary(it)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at.min(text.len())..=text.len()).find(|&it| text.is_char_boundary(it)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use contexture_message::{Image, MediaSource, Part, ToolOutput};
    use serde_json::json;

    use super::bounded;

    #[test]
    fn what_fits_stays_as_it_is() {
        let output = ToolOutput::Json(json!({"a": 1}));
        let bounded = bounded(output.clone(), 100, "a");
        assert_eq!((bounded.output, bounded.whole), (output, None));
    }

    #[test]
    fn the_texts_of_a_list_count_together() {
        let image = Part::Image(Image { source: MediaSource::Data("AAAA".into()), media_type: None });
        let parts = vec![Part::text("a".repeat(600)), image.clone(), Part::text("b".repeat(600))];
        let bounded = bounded(ToolOutput::Content(parts), 1000, "a");
        let ToolOutput::Content(shown) = bounded.output else { panic!("a list") };
        assert_eq!((shown.len(), &shown[1]), (2, &image));
        assert_eq!(bounded.whole.map(|it| it.len()), Some(1200));
    }

    #[test]
    fn what_is_too_large_becomes_a_preview_and_is_kept_whole() {
        let text = "ä{tail}".repeat(10_000);
        let bounded = bounded(ToolOutput::Text(text.clone()), 1000, "a");
        let ToolOutput::Text(shown) = bounded.output else { panic!("a text") };
        assert!(shown.len() < 1400 && shown.starts_with("ä{tail}") && shown.ends_with("{tail}"), "{shown}");
        assert_eq!(bounded.whole, Some(text));
    }
}
