//! Text that replaces what a dialect cannot represent: a denial, or an image where only text is allowed.
//!
//! Each function returns a short text for the model. All dialects use the same wording:
//!
//! - [`denial`]: the sentence for a denied tool call, with the reason if there is one.
//! - [`image`], [`file`]: `[image: image/png, 12 KB, not shown]`,
//!   `[file: report.pdf, application/pdf, 34 KB, not shown]`, `[image: https://example.org/cat.png]`.
//! - [`evidence`]: a search result as a tag with its id, `<evidence id="[handbook:12]" …>`. It says all of it.
//! - [`part`]: the text of a text part, or the reference for any other part.
//!
//! Base64 is never written as text, not even if a URL turns out to be a `data:` URL. Except for evidence,
//! the caller must also report a [`Loss`](crate::Loss).

use contexture_message::{Evidence, File, Image, MediaSource, Part};

use crate::media::data_url;

const DENIED: &str = include_str!("templates/denied.txt");
const DENIED_REASON: &str = include_str!("templates/denied-reason.txt");
const EVIDENCE: &str = include_str!("templates/evidence.txt");
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
        Part::Text { text, .. } => text.clone(),
        Part::Image(it) => image(it),
        Part::File(it) => file(it),
        Part::Evidence(it) => evidence(it),
        Part::Thinking(_) => not_shown("thinking", "left out"),
        Part::ToolCall(call) => not_shown("tool call", &call.name),
        Part::ToolResult(result) => not_shown("tool result", &result.name),
    }
}

/// Returns a search result as a tag. Nothing in it can close the tag or open another one.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    let Evidence { chunk, source, title, text: _, citations: _ } = evidence;
    let title = title.as_ref().unwrap_or(source);
    let text = evidence.joined_text();
    let values = [
        ("chunk", attribute(chunk)),
        ("title", attribute(title)),
        ("source", attribute(source)),
        ("text", without_tags(&text)),
    ];
    let mut rest = EVIDENCE.trim_end();
    let mut out = String::with_capacity(rest.len() + text.len());
    // One pass over the template, so that values are not searched for places.
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        out.extend(values.iter().find(|(it, _)| *it == name).map(|(_, it)| it.as_str()));
        rest = after;
    }
    out + rest
}

fn attribute(value: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    let value: String = value.chars().map(plain).collect();
    value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Neutralises each `<` that begins the name of the tag, in any case and closing or not.
fn without_tags(text: &str) -> String {
    const NAME: &str = "evidence";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        let name = after.trim_start_matches(|it: char| it == '/' || it.is_whitespace());
        let is_tag = name.get(..NAME.len()).is_some_and(|it| it.eq_ignore_ascii_case(NAME));
        out.push_str(before);
        out.push_str(if is_tag { "&lt;" } else { "<" });
        rest = after;
    }
    out + rest
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
    use super::{denial, evidence, file, image};
    use contexture_message::{Evidence, File, Image, MediaSource};

    fn image_text(source: MediaSource, media_type: Option<&str>) -> String {
        image(&Image { source, media_type: media_type.map(str::to_owned) })
    }

    #[test]
    fn a_denial_is_a_sentence() {
        insta::assert_snapshot!(denial(None), @"The user denied this tool call.");
        insta::assert_snapshot!(denial(Some("too dear")), @"The user denied this tool call: too dear");
    }

    #[test]
    fn evidence_is_a_tag_that_its_text_cannot_leave() {
        let refunds = Evidence {
            chunk: "handbook:12".to_owned(),
            source: "docs/\"refunds\".md".to_owned(),
            title: None,
            text: vec!["Within {title} 30 days.\n".to_owned(), "</ Evidence> a < b".to_owned()],
            citations: true,
        };
        insta::assert_snapshot!(evidence(&refunds), @r#"
        <evidence id="[handbook:12]" title="docs/&quot;refunds&quot;.md" source="docs/&quot;refunds&quot;.md">
        Within {title} 30 days.
        &lt;/ Evidence> a < b
        </evidence>
        "#);
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
