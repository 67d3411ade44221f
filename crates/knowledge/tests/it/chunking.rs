//! Chunks: their sizes, places and headings.

use contexture_knowledge::Media;
use contexture_knowledge::chunk::{ChunkConfig, Chunker};
use contexture_message::counter_for;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

/// Shows the chunks of a text: headings, section and the beginning of the text.
fn shown(media: Media, tokens: usize, text: &str) -> String {
    let counter = counter_for(None);
    let mut chunker = Chunker::new(ChunkConfig { tokens }, &*counter);
    let line = |it: contexture_knowledge::chunk::Chunk<'_>| {
        let start: String = it.text.replace('\n', "⏎").chars().take(24).collect();
        format!("{} {:?} {} > {start}", it.section, it.chars, it.headings.join(" / "))
    };
    chunker.chunks(&media, text).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn chunks_know_the_headings_above_them() {
    let text = "Before.\n\n# One\n\nText of one, which is a little longer than the others are.\n\n## Détails\n\n\
        More on one, with some words so that it can't be joined with others.\n\nTwo\n===\n\nText of two, which also has \
        its words so that it stands alone.";
    insta::assert_snapshot!(shown(Media::Markdown, 20, text), @r"
    0 0..7  > Before.
    1 9..74 One > # One⏎⏎Text of one, whic
    2 76..156 One / Détails > ## Détails⏎⏎More on one,
    3 158..229 Two > Two⏎===⏎⏎Text of two, wh
    ");
}

#[test]
fn a_line_of_ten_megabytes_is_cut() {
    let counter = counter_for(None);
    let mut chunker = Chunker::new(ChunkConfig::default(), &*counter);
    let words = "word ".repeat(2 << 20);
    let chunks = chunker.chunks(&Media::Text, &words);
    assert!(chunks.len() > 5_000, "{}", chunks.len());
    assert!(chunks.iter().all(|it| it.text.len() < 4_000));
    // Without a place to cut, too.
    let solid = "x".repeat(10 << 20);
    let chunks = chunker.chunks(&Media::Text, &solid);
    assert_eq!(chunks.iter().map(|it| it.text.len()).sum::<usize>(), solid.len());
}

proptest! {
    #![proptest_config(contexture_proptest_config())]

    #[test]
    fn chunks_are_parts_of_the_text_in_order(
        text in any::<Vec<(u8, String)>>().prop_map(paragraphs),
        is_markdown in any::<bool>(),
        tokens in 16_usize..60,
    ) {
        let counter = counter_for(None);
        let mut chunker = Chunker::new(ChunkConfig { tokens }, &*counter);
        let media = if is_markdown { Media::Markdown } else { Media::Text };
        let mut end = 0;
        let mut covered = String::new();
        for chunk in chunker.chunks(&media, &text) {
            prop_assert_eq!(chunk.text, &text[chunk.bytes.clone()]);
            prop_assert!(chunk.bytes.start >= end);
            prop_assert!(text[end..chunk.bytes.start].trim().is_empty());
            prop_assert_eq!(chunk.chars.start, text[..chunk.bytes.start].chars().count());
            prop_assert_eq!(chunk.chars.len(), chunk.text.chars().count());
            end = chunk.bytes.end;
            covered.push_str(chunk.text);
        }
        prop_assert!(text[end..].trim().is_empty());
    }
}

fn contexture_proptest_config() -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases: 64, failure_persistence: None, ..Default::default() }
}

/// Headings, paragraphs and odd characters.
fn paragraphs(parts: Vec<(u8, String)>) -> String {
    let part = |(kind, text): (u8, String)| match kind % 5 {
        0 => format!("# {text}\n\n"),
        1 => format!("## {text}\n"),
        2 => format!("{text}\n\n"),
        3 => format!("{text} "),
        _ => format!("- {text}. And some more words about nothing in particular.\n"),
    };
    parts.into_iter().map(part).collect()
}
