//! What is a document, and what is not.

use contexture_knowledge::document::{Converter, Media, read};
use contexture_knowledge::{Document, Refusal};
use contexture_session::SourceId;

/// Reads a file and shows the document, or why it is none.
fn shown(path: &str, bytes: &[u8]) -> String {
    match read(path, bytes, None) {
        Ok(it) => format!("{} | {} | {:?}", it.title, it.media.media_type(), it.text),
        Err(err) => format!("{err}{}", err.hint().map_or(String::new(), |it| format!(" ({it})"))),
    }
}

#[test]
fn kinds_of_files_are_told_by_their_names() {
    insta::assert_snapshot!(shown("a.md", b"Intro.\n\n# Title #\n"), @r##"Title | text/markdown | "Intro.\n\n# Title #\n""##);
    insta::assert_snapshot!(shown("b/notes.txt", b"\xef\xbb\xbfA title\n\nText."), @r#"A title | text/plain | "A title\n\nText.""#);
    insta::assert_snapshot!(shown("src/main.rs", b"fn main() {}"), @r#"main.rs | text/x-rs | "fn main() {}""#);
    insta::assert_snapshot!(shown("README", b""), @r#"README | text/plain | """#);
}

#[test]
fn what_is_no_text_is_refused_with_a_hint() {
    insta::assert_snapshot!(shown("a.pdf", b"%PDF-1.7"), @"PDF files have to be converted to text first (convert it to Markdown or text, or configure a converter command)");
    insta::assert_snapshot!(shown("a.txt", b"%PDF-1.7"), @"PDF files have to be converted to text first (convert it to Markdown or text, or configure a converter command)");
    insta::assert_snapshot!(shown("a.docx", b"PK\x03\x04"), @"Office files have to be converted to text first (convert it to Markdown or text, or configure a converter command)");
    insta::assert_snapshot!(shown("a.md", b"text\0more"), @"it is a binary file");
    insta::assert_snapshot!(shown("a.md", b"caf\xe9"), @"it is not valid UTF-8 at byte 3 (save it in UTF-8)");
    insta::assert_snapshot!(shown("a.jsonl", b"{}\n{\"a\""), @"line 2 is not valid JSON: EOF while parsing an object at line 1 column 4");
    let large = vec![b'x'; 64 * 1024 * 1024 + 1];
    insta::assert_snapshot!(shown("a.md", &large), @"it has 67108865 bytes, 67108864 are allowed (split it into several files)");
}

#[test]
fn paths_stay_in_their_folder() {
    for path in ["../a.md", "a/../b.md", "/a.md", "a//b.md", "a\\b.md", ".", "", "a/./b", "a\u{7}.md"] {
        let refused = read(path, b"text", None);
        assert!(matches!(refused, Err(Refusal::Name { .. })), "{path}: {refused:?}");
    }
    assert!(read(&"x".repeat(1_001), b"text", None).is_err());
}

#[test]
fn html_becomes_text_with_headings() {
    let html = "<html><head><title>Shop &amp; more</title><style>p{}</style></head><body>\
        <h2>Refunds</h2><p>Within&nbsp;30 <b>days</b>.</p><ul><li>one<li>two</ul><script>x<y</script>a < b</body>";
    insta::assert_snapshot!(shown("a.html", html.as_bytes()), @r##"Shop & more | text/html | "# Shop & more\n\n## Refunds\n\nWithin 30 days.\n\n- one\n\n- two\n\na < b""##);
    for broken in ["<", "<p", "</", "<script>", "<!-- ", "&#xffffffff; &", "<h1", "<title>", "<head><title"] {
        shown("a.html", broken.as_bytes());
    }
}

#[test]
fn lines_of_json_become_paragraphs() {
    let lines = b"{\"title\":\"One\",\"text\":\"First.\",\"tags\":[\"a\",\"b\"]}\n\n{\"text\":\"Second\",\"by\":{\"name\":\"Ada\"}}";
    insta::assert_snapshot!(shown("a.jsonl", lines), @r#"a.jsonl | application/jsonl | "title: One\nFirst.\ntags: a\ntags: b\n\nSecond\nby.name: Ada\n""#);
}

struct Shouting;

impl Converter for Shouting {
    fn convert(&self, path: &str, bytes: &[u8]) -> Result<String, String> {
        match path {
            "bad.pdf" => Err("page 1 is missing".to_owned()),
            _ => Ok(format!("# {}", String::from_utf8_lossy(bytes).to_uppercase())),
        }
    }
}

#[test]
fn a_converter_makes_text_of_other_files() {
    let converted = read("a.pdf", b"%PDF-x", Some(&Shouting)).unwrap();
    assert_eq!((converted.text.as_str(), converted.media), ("# %PDF-X", Media::Markdown));
    let refused = read("bad.pdf", b"%PDF-x", Some(&Shouting)).unwrap_err();
    assert_eq!(refused.to_string(), "it could not be converted: page 1 is missing");
}

#[cfg(unix)]
#[test]
fn a_command_can_be_the_converter() {
    use contexture_knowledge::folder::CommandConverter;
    let large = format!("%PDF-{}", "x".repeat(1 << 20));
    let cat = CommandConverter::new("cat", Vec::new());
    assert_eq!(read("a.pdf", large.as_bytes(), Some(&cat)).unwrap().text, large);
    for (program, arguments) in
        [("false", vec![]), ("no-such-program-here", vec![]), ("printf", vec!["\\377".to_owned()])]
    {
        let refused = read("a.pdf", b"%PDF-", Some(&CommandConverter::new(program, arguments))).unwrap_err();
        assert!(matches!(refused, Refusal::Conversion { .. }), "{refused}");
    }
}

#[test]
fn a_document_has_a_title_in_any_case() {
    let id = SourceId::parse("guides/a.md").unwrap();
    assert_eq!(Document::new(id.clone(), Media::Markdown, "no heading").title, "a.md");
    assert_eq!(Document::new(id, Media::Text, format!("{}\nmore", "long ".repeat(60))).title, "a.md");
}
