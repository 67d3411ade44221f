//! Text that replaces what a dialect cannot represent: a denial, or an image where only text is allowed.
//!
//! Each function returns a short text for the model. All dialects use the same wording:
//!
//! - [`denial`]: the sentence for a denied tool call, with the reason if there is one.
//! - [`image`], [`file`]: `[image: image/png, 12 KB, not shown]`,
//!   `[file: report.pdf, application/pdf, 34 KB, not shown]`, `[image: https://example.org/cat.png]`.
//! - [`part`]: the text of a text part, or the reference for any other part.
//!
//! Base64 is never written as text, not even if a URL turns out to be a `data:` URL. The caller must also report a
//! [`Loss`](crate::Loss).

use contexture_message::{File, Image, MediaSource, Part};

use crate::media::data_url;

const DENIED: &str = include_str!("templates/denied.txt");
const DENIED_REASON: &str = include_str!("templates/denied-reason.txt");
const LINKED: &str = include_str!("templates/linked.txt");
const NOT_SHOWN: &str = include_str!("templates/not-shown.txt");

/// Returns the sentence that informs the model about a denied tool call.
pub(crate) fn denial(reason: Option<&str>) -> String {
    match reason.map(str::trim) {
        None | Some("") => DENIED.trim_end().to_owned(),
        Some(reason) => DENIED_REASON.trim_end().replace("{reason}", reason),
    }
}

/// Returns the text that replaces an image.
pub(crate) fn image(image: &Image) -> String {
    media("image", None, image.media_type.as_deref(), &image.source)
}

/// Returns the text that replaces a file.
pub(crate) fn file(file: &File) -> String {
    media("file", file.name.as_deref(), file.media_type.as_deref(), &file.source)
}

/// Returns the text of a text part, or the text that replaces any other part.
pub(crate) fn part(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Image(it) => image(it),
        Part::File(it) => file(it),
        Part::Thinking(_) => not_shown("thinking", "left out"),
        Part::ToolCall(call) => not_shown("tool call", &call.name),
        Part::ToolResult(result) => not_shown("tool result", &result.name),
    }
}

fn media(kind: &str, name: Option<&str>, media_type: Option<&str>, source: &MediaSource) -> String {
    let named = |last: String| {
        let facts = name.into_iter().chain(media_type).map(str::to_owned);
        facts.chain([last]).collect::<Vec<_>>().join(", ")
    };
    match source {
        MediaSource::Data(data) => not_shown(kind, &named(size(data))),
        MediaSource::Url(url) => match data_url(url) {
            Some((Some(own_type), data)) if media_type.is_none() => {
                not_shown(kind, &named(format!("{own_type}, {}", size(&data))))
            }
            Some((_, data)) => not_shown(kind, &named(size(&data))),
            None => fill(LINKED, kind, &name.map_or(url.clone(), |it| format!("{it}, {url}"))),
        },
        MediaSource::Id(id) => not_shown(kind, &named(format!("id {id}"))),
    }
}

fn not_shown(kind: &str, facts: &str) -> String {
    fill(NOT_SHOWN, kind, facts)
}

fn fill(template: &str, kind: &str, facts: &str) -> String {
    template.trim_end().replace("{kind}", kind).replace("{facts}", facts)
}

/// Returns the decoded size of base64 data, for display.
fn size(base64: &str) -> String {
    let n_bytes = base64.trim_end_matches('=').len() * 3 / 4;
    match n_bytes {
        0..1024 => format!("{n_bytes} bytes"),
        1024..1_048_576 => format!("{} KB", n_bytes.div_ceil(1024)),
        _ => format!("{:.1} MB", n_bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{denial, file, image};
    use contexture_message::{File, Image, MediaSource};

    fn image_text(source: MediaSource, media_type: Option<&str>) -> String {
        image(&Image { source, media_type: media_type.map(str::to_owned) })
    }

    #[test]
    fn a_denial_is_a_sentence() {
        insta::assert_snapshot!(denial(None), @"The user denied this tool call.");
        insta::assert_snapshot!(denial(Some("too dear")), @"The user denied this tool call: too dear");
    }

    #[test]
    fn media_is_named_and_never_shown() {
        let data = MediaSource::Data("QUJD".repeat(4096));
        insta::assert_snapshot!(image_text(data.clone(), Some("image/png")), @"[image: image/png, 12 KB, not shown]");
        insta::assert_snapshot!(image_text(data.clone(), None), @"[image: 12 KB, not shown]");
        let report = File {
            source: data,
            media_type: Some("application/pdf".to_owned()),
            name: Some("report.pdf".to_owned()),
        };
        insta::assert_snapshot!(file(&report), @"[file: report.pdf, application/pdf, 12 KB, not shown]");
    }

    #[test]
    fn an_address_is_shown_unless_it_holds_the_data() {
        let link = MediaSource::Url("https://example.org/cat.png".to_owned());
        insta::assert_snapshot!(image_text(link, None), @"[image: https://example.org/cat.png]");
        let inline = MediaSource::Url("DATA:image/gif;base64,R0lGODlh".to_owned());
        insta::assert_snapshot!(image_text(inline, None), @"[image: image/gif, 6 bytes, not shown]");
    }
}
