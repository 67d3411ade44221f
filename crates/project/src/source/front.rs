//! Splits a Markdown file into its front matter and its body.
//!
//! The front matter is enclosed by a first line `---` and the next line `---`; a file without that first line is all
//! body. A byte-order mark is skipped and `\r\n` is read as `\n`, so the same text gives the same prompt on every
//! system.

use crate::error::{Place, Problem};
use crate::source::yaml::{self, Data, Node};

/// A file, split into front matter and body.
#[derive(Debug)]
pub(crate) struct Document {
    /// A map; empty if there is no front matter.
    pub(crate) front: Node,
    pub(crate) body: String,
    /// The line number of the body's first line.
    pub(crate) body_line: usize,
    pub(crate) problems: Vec<Problem>,
}

/// Splits the text of a file and parses its front matter.
pub(crate) fn split(text: &str) -> Document {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let first = text.lines().next();
    if first.is_none_or(|it| it.trim_end() != "---") {
        let front = Node::new(Data::Map(Vec::new()), Place::START);
        return Document { front, body: text, body_line: 1, problems: Vec::new() };
    }
    let start = first.map_or(0, str::len) + 1;
    let rest = text.get(start..).unwrap_or_default();
    match closing_line(rest) {
        Some((yaml, n_lines, body)) => {
            let (front, mut problems) = parsed(yaml);
            let front = front.unwrap_or_else(|problem| {
                problems.extend(problem);
                Node::new(Data::Map(Vec::new()), Place { line: 2, column: 1 })
            });
            Document { front, body: body.to_owned(), body_line: n_lines + 3, problems }
        }
        None => {
            let problem = Problem::invalid("the front matter is not closed").at(Place::START);
            let hint = "end it with a line `---`, or begin the file with an empty line".to_owned();
            let front = Node::new(Data::Map(Vec::new()), Place::START);
            Document { front, body: String::new(), body_line: 1, problems: vec![problem.hint(Some(hint))] }
        }
    }
}

/// Returns the text before the closing line `---`, its number of lines, and the text after it.
fn closing_line(text: &str) -> Option<(&str, usize, &str)> {
    let mut offset = 0;
    for (n_lines, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" {
            return Some((text.get(..offset)?, n_lines, text.get(offset + line.len()..)?));
        }
        offset += line.len();
    }
    None
}

fn parsed(yaml: &str) -> (Result<Node, Option<Problem>>, Vec<Problem>) {
    let (node, problems) = yaml::parse(yaml, 2);
    let front = match node {
        Some(Node { data: Data::Map(pairs), place, .. }) => Ok(Node::new(Data::Map(pairs), place)),
        Some(node) if node.is_null() => Ok(Node::new(Data::Map(Vec::new()), node.place)),
        Some(node) => {
            let message = format!("the front matter must be a map of fields, found {}", node.describe());
            Err(Some(Problem::invalid(message).at(node.place)))
        }
        None => Err(None),
    };
    (front, problems)
}
