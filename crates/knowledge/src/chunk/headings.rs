//! The headings of a Markdown text.

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

/// A heading is cut after so many characters.
const MAX_CHARS: usize = 120;

/// A part of a text with the headings above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Where it begins, in bytes: at its own heading.
    pub(super) start: usize,
    /// The headings, outermost first; its own is the last.
    pub(super) headings: Vec<String>,
}

/// Returns the sections of a text, in order. The first one begins at its start.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let mut path: Vec<(HeadingLevel, String)> = Vec::new();
    let mut heading: Option<(usize, HeadingLevel, String)> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => heading = Some((range.start, level, String::new())),
            Event::Text(part) | Event::Code(part) => {
                if let Some((_, _, text)) = &mut heading {
                    text.push_str(&part);
                }
            }
            Event::SoftBreak => {
                if let Some((_, _, text)) = &mut heading {
                    text.push(' ');
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((start, level, text)) = heading.take() else { continue };
                path.retain(|(above, _)| *above < level);
                path.push((level, text.trim().chars().take(MAX_CHARS).collect()));
                let headings = path.iter().map(|(_, text)| text.clone()).filter(|it| !it.is_empty());
                sections.push(Section { start, headings: headings.collect() });
            }
            _ => {}
        }
    }
    sections
}
