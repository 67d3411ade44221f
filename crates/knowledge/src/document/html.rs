//! The text of an HTML page, as Markdown: headings, paragraphs and list items keep their lines, everything else its
//! words. It is not a renderer: what a script would write is not there.

/// Elements whose content is not text for readers.
const SKIPPED: [&str; 6] = ["script", "style", "noscript", "template", "svg", "head"];
/// Elements that end a line.
const BLOCKS: [&str; 24] = [
    "p",
    "div",
    "section",
    "article",
    "header",
    "footer",
    "main",
    "aside",
    "nav",
    "ul",
    "ol",
    "table",
    "tr",
    "br",
    "hr",
    "blockquote",
    "pre",
    "dl",
    "dt",
    "dd",
    "figure",
    "figcaption",
    "form",
    "details",
];

/// Returns the text of a page.
pub(super) fn to_markdown(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        page.text(&rest[..start]);
        rest = page.tag(&rest[start..]);
    }
    page.text(rest);
    let title = page.title.filter(|_| !page.out.lines().any(|it| it.starts_with("# ")));
    let title = title.map_or(String::new(), |it| format!("# {}\n\n", it.trim()));
    format!("{title}{}", page.out.trim())
}

#[derive(Default)]
struct Page {
    out: String,
    title: Option<String>,
}

impl Page {
    /// Adds text, with runs of white space as one space.
    fn text(&mut self, text: &str) {
        let begins_apart = text.starts_with(char::is_whitespace);
        let text = decoded(text);
        let mut words = text.split_whitespace().peekable();
        if begins_apart || words.peek().is_none() {
            self.space();
        }
        while let Some(word) = words.next() {
            self.out.push_str(word);
            if words.peek().is_some() {
                self.out.push(' ');
            }
        }
        if text.ends_with(char::is_whitespace) {
            self.space();
        }
    }

    fn space(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
    }

    fn lines(&mut self, text: &str) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        while !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
        self.out.push_str(text);
    }

    /// Reads one tag. Returns what comes after it.
    fn tag<'a>(&mut self, html: &'a str) -> &'a str {
        if let Some(comment) = html.strip_prefix("<!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        let Some(end) = html.find('>') else {
            return "";
        };
        let (inside, after) = (&html[1..end], &html[end + 1..]);
        let is_end = inside.starts_with('/');
        let name = inside.trim_start_matches('/');
        let name: String =
            name.chars().take_while(|it| it.is_ascii_alphanumeric()).collect::<String>().to_ascii_lowercase();
        if name.is_empty() && !is_end && !inside.starts_with(['!', '?']) {
            self.out.push('<'); // No tag: a comparison in a text.
            return &html[1..];
        }
        match name.as_str() {
            "title" if !is_end => {
                let content = after.find('<').map_or(after, |end| &after[..end]);
                self.title = Some(decoded(content).split_whitespace().collect::<Vec<_>>().join(" "));
                &after[content.len()..]
            }
            skipped if SKIPPED.contains(&skipped) && !is_end && !inside.ends_with('/') => {
                self.skip(skipped, after)
            }
            "li" if !is_end => {
                self.lines("- ");
                after
            }
            heading @ ("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => {
                let level = usize::from(heading.as_bytes()[1] - b'0');
                self.lines(&if is_end { String::new() } else { format!("{} ", "#".repeat(level)) });
                after
            }
            block if BLOCKS.contains(&block) => {
                self.lines("");
                after
            }
            "td" | "th" => {
                self.space();
                after
            }
            _ => after,
        }
    }

    /// Returns what comes after the end of an element. The title of a head is kept.
    fn skip<'a>(&mut self, name: &str, html: &'a str) -> &'a str {
        let closing = format!("</{name}");
        let end = find_ignoring_case(html, &closing).unwrap_or(html.len());
        if name == "head"
            && let Some(start) = find_ignoring_case(&html[..end], "<title")
        {
            self.tag(&html[start..end]);
        }
        let after = &html[end..];
        after.find('>').map_or("", |it| &after[it + 1..])
    }
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    let (bytes, wanted) = (text.as_bytes(), wanted.as_bytes());
    bytes.windows(wanted.len()).position(|it| it.eq_ignore_ascii_case(wanted))
}

/// Replaces the usual entities. Others stay as they are.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.bytes().take(12).position(|it| it == b';');
        match end.and_then(|it| Some((entity(&rest[1..it])?, it))) {
            Some((character, end)) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(code) = name.strip_prefix('#') {
        let hex = code.strip_prefix(['x', 'X']).map(|it| u32::from_str_radix(it, 16));
        return char::from_u32(hex.unwrap_or_else(|| code.parse()).ok()?);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "bull" => '•',
        "middot" => '·',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "euro" => '€',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "szlig" => 'ß',
        "eacute" => 'é',
        "egrave" => 'è',
        "agrave" => 'à',
        "ccedil" => 'ç',
        _ => return None,
    })
}
