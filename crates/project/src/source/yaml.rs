//! Parses YAML to a tree with source positions.
//!
//! Input is the text of a front matter or a file, output is a [`Node`] and all problems with the text. Plain scalars
//! follow the core schema of YAML 1.2. Nesting depth and the growth through aliases are limited; duplicate keys are
//! rejected with both lines. No input causes a panic.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Number, Value};

use crate::error::{Place, Problem};
use crate::source::spread::{Spread, Written};

/// The maximum nesting depth of lists and maps.
pub(crate) const MAX_DEPTH: usize = 64;

/// The maximum number of bytes and nodes that aliases may add to a file.
const MAX_COPIED: usize = 1 << 20;

/// A value with its position.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) place: Place,
    /// The position where the text of a scalar begins: after a quote, or below a `|`.
    pub(crate) text_place: Place,
    /// How the text of a scalar is written in the file.
    written: Written,
}

/// The value of a node.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Pair>),
}

/// A key of a map with its value.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn new(data: Data, place: Place) -> Self {
        Self { data, place, text_place: place, written: Written::Verbatim }
    }

    /// Returns `text`, which was read from this scalar, with its position.
    pub(crate) fn spread(&self, text: &str) -> Spread {
        Spread::new(text, self.text_place, self.written.clone())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.data, Data::Null)
    }

    /// Returns the pair with that key, if the node is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Pair> {
        self.pairs().iter().find(|it| it.key == key)
    }

    /// Returns the pairs of a map; none of any other value.
    pub(crate) fn pairs(&self) -> &[Pair] {
        match &self.data {
            Data::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// Returns a text. A number or boolean is read as the text it was written as.
    pub(crate) fn word(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) => Some(text.clone()),
            Data::Number(number) => Some(number.to_string()),
            Data::Bool(it) => Some(it.to_string()),
            Data::Null | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// Describes the value for an error message.
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            Data::Null => "nothing".to_owned(),
            Data::Bool(it) => format!("`{it}`"),
            Data::Number(it) => format!("`{it}`"),
            Data::Text(it) if it.chars().count() <= 40 => format!("the text `{it}`"),
            Data::Text(_) => "a text".to_owned(),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a map".to_owned(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(it) => Value::Bool(*it),
            Data::Number(it) => Value::Number(it.clone()),
            Data::Text(it) => Value::String(it.clone()),
            Data::List(items) => items.iter().map(Node::to_json).collect(),
            Data::Map(pairs) => Value::Object(
                pairs.iter().map(|it| (it.key.clone(), it.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    fn weight(&self) -> usize {
        match &self.data {
            Data::Text(it) => 1 + it.len(),
            Data::List(items) => 1 + items.iter().map(Node::weight).sum::<usize>(),
            Data::Map(pairs) => {
                1 + pairs.iter().map(|it| 1 + it.key.len() + it.value.weight()).sum::<usize>()
            }
            Data::Null | Data::Bool(_) | Data::Number(_) => 1,
        }
    }

    fn depth(&self) -> usize {
        match &self.data {
            Data::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Data::Map(pairs) => 1 + pairs.iter().map(|it| it.value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Parses one document whose first line is line `first_line` of its file.
///
/// Returns no tree if the text is not YAML at all.
pub(crate) fn parse(text: &str, first_line: usize) -> (Option<Node>, Vec<Problem>) {
    let mut builder = Builder { text, first_line, ..Builder::default() };
    let options = granit_parser::options! {
        disallow_directives: true, flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let outcome = match event {
            Ok((event, span)) => builder.event(event, &span),
            Err(err) => Err(builder.syntax(&err)),
        };
        if let Err(problem) = outcome {
            let problem = match builder.hint(&problem) {
                Some(hint) => problem.hint(Some(hint.to_owned())),
                None => problem,
            };
            builder.problems.push(problem);
            return (None, builder.problems);
        }
    }
    let empty = Node::new(Data::Null, Place { line: first_line, column: 1 });
    (Some(builder.root.unwrap_or(empty)), builder.problems)
}

/// Builds the tree from parser events.
#[derive(Default)]
struct Builder<'a> {
    text: &'a str,
    first_line: usize,
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    problems: Vec<Problem>,
}

/// A list or map that is not closed yet.
struct Open {
    kind: Kind,
    place: Place,
    anchor: usize,
}

enum Kind {
    List(Vec<Node>),
    Map { pairs: Vec<Pair>, lines: HashMap<String, usize>, key: Option<(String, Place)> },
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Problem> {
        let place = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_key = self.expects_key();
                let written = self.written(&text, style, span);
                let node = scalar(text.into_owned(), style, tag.as_deref(), place, is_key)?;
                self.finish(Node { written, ..node }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.start(Kind::List(Vec::new()), anchor, tag.as_deref(), place)
            }
            Event::MappingStart(_, anchor, tag) => {
                let kind = Kind::Map { pairs: Vec::new(), lines: HashMap::new(), key: None };
                self.start(kind, anchor, tag.as_deref(), place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, place),
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Problem::invalid("there is more than one YAML document").at(place))
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, kind: Kind, anchor: usize, tag: Option<&Tag>, place: Place) -> Result<(), Problem> {
        known_tag(tag, place)?;
        if self.expects_key() {
            return Err(Problem::invalid("a key must be a single word or text, not a list or map").at(place));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.open.push(Open { kind, place, anchor });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let Some(Open { kind, place, anchor }) = self.open.pop() else { return Ok(()) };
        let data = match kind {
            Kind::List(items) => Data::List(items),
            Kind::Map { pairs, .. } => Data::Map(pairs),
        };
        self.finish(Node::new(data, place), anchor)
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Problem> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Problem::invalid("an alias is inside the value that it repeats").at(place));
        };
        self.copied = self.copied.saturating_add(node.weight());
        if self.copied > MAX_COPIED {
            return Err(Problem::invalid(format!("aliases repeat more than {MAX_COPIED} bytes")).at(place));
        }
        if self.open.len() + node.depth() > MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.attach(node.clone())
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node)
    }

    fn attach(&mut self, node: Node) -> Result<(), Problem> {
        match self.open.last_mut().map(|it| &mut it.kind) {
            None => self.root = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { pairs, lines, key }) => match key.take() {
                None => *key = Some((key_text(node.data, node.place)?, node.place)),
                Some((key, place)) => match lines.get(&key) {
                    Some(first) => {
                        let message =
                            format!("key `{key}` appears on line {first} and again on line {}", place.line);
                        self.problems.push(Problem::invalid(message).at(place));
                    }
                    None => {
                        lines.insert(key.clone(), place.line);
                        pairs.push(Pair { key, place, value: node });
                    }
                },
            },
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { kind: Kind::Map { key: None, .. }, .. }))
    }

    fn place(&self, span: &Span) -> Place {
        Place { line: self.first_line + span.start.line().saturating_sub(1), column: span.start.col() + 1 }
    }

    /// Determines how the text of a scalar is written in the file.
    fn written(&self, text: &str, style: ScalarStyle, span: &Span) -> Written {
        let bytes = span.start.byte_offset().zip(span.end.byte_offset());
        let Some(raw) = bytes.and_then(|(start, end)| self.text.get(start..end)) else {
            return Written::Escaped;
        };
        let place = self.place(span);
        match style {
            ScalarStyle::Literal | ScalarStyle::Folded => Written::spread(text, raw, place),
            _ if !text.contains('\n') && !raw.contains('\n') => Written::Verbatim,
            ScalarStyle::Plain => Written::spread(text, raw, place),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
                Written::spread(text, inner, Place { column: place.column + 1, ..place })
            }
        }
    }

    /// Returns a hint on the likely cause of a syntax error.
    fn hint(&self, problem: &Problem) -> Option<&'static str> {
        let line_idx = problem.place()?.line.checked_sub(self.first_line)?;
        let line = self.text.lines().nth(line_idx).unwrap_or_default();
        let value = line.split_once(": ").map_or(line, |(_, value)| value).trim_start();
        let value = value.strip_prefix("- ").unwrap_or(value).trim_start();
        let indent = line.len() - line.trim_start().len();
        let message = problem.message();
        let says = |words: &[&str]| words.iter().any(|it| message.contains(it));
        if value.starts_with("{{") || value.starts_with("{%") {
            Some("put quotes around a value that begins with `{{` or `{%`")
        } else if line.get(..indent).is_some_and(|it| it.contains('\t')) {
            Some("indent with spaces, not with tabs")
        } else if says(&["mapping values are not allowed"]) {
            Some("put quotes around a text that holds `: `")
        } else if says(&["unclosed"]) {
            Some("close it, or put quotes around the text that it belongs to")
        } else if says(&["illegal placement", "quoted scalar", "unexpected end", "expected ',' or"]) {
            Some("close every bracket and quote before this place")
        } else {
            None
        }
    }

    fn syntax(&self, err: &ScanError) -> Problem {
        let place = self.place(&Span::empty(*err.marker()));
        match err.kind() {
            ErrorKind::RecursionLimitExceeded => too_deep(place),
            kind => Problem::invalid(format!("this is not YAML: {kind}")).at(place),
        }
    }
}

fn too_deep(place: Place) -> Problem {
    Problem::invalid(format!("lists and maps are nested more than {MAX_DEPTH} deep")).at(place)
}

fn key_text(data: Data, place: Place) -> Result<String, Problem> {
    match data {
        Data::Text(text) => Ok(text),
        Data::Null => Ok("null".to_owned()),
        Data::Bool(it) => Ok(it.to_string()),
        Data::Number(it) => Ok(it.to_string()),
        Data::List(_) | Data::Map(_) => {
            Err(Problem::invalid("a key must be a single word or text, not a list or map").at(place))
        }
    }
}

fn known_tag(tag: Option<&Tag>, place: Place) -> Result<(), Problem> {
    match tag {
        Some(tag)
            if !matches!(
                tag.core_suffix(),
                Some("str" | "int" | "float" | "bool" | "null" | "seq" | "map")
            ) =>
        {
            Err(Problem::invalid(format!("the YAML tag `{}` is not supported", tag.original())).at(place))
        }
        _ => Ok(()),
    }
}

fn scalar(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: Place,
    is_key: bool,
) -> Result<Node, Problem> {
    known_tag(tag, place)?;
    let text_place = match style {
        ScalarStyle::Plain => place,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Place { column: place.column + 1, ..place },
        ScalarStyle::Literal | ScalarStyle::Folded => {
            // The position is that of the first word, but leading blank lines are part of the text.
            let blank = text.len() - text.trim_start_matches('\n').len();
            Place { line: place.line.saturating_sub(blank), ..place }
        }
    };
    // Keys stay as written: `1` and `true` are names there.
    let is_text = is_key || style != ScalarStyle::Plain || tag.and_then(Tag::core_suffix) == Some("str");
    let data = if is_text { Data::Text(text) } else { plain(text).map_err(|it| it.at(place))? };
    Ok(Node { text_place, ..Node::new(data, place) })
}

/// Parses a plain scalar by the core schema.
fn plain(text: String) -> Result<Data, Problem> {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Data::Null),
        "true" | "True" | "TRUE" => return Ok(Data::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Data::Bool(false)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | ".nan" | ".NaN" | ".NAN" => {
            return Err(Problem::invalid(format!("`{text}` is not a number that JSON has")));
        }
        _ => {}
    }
    Ok(match number(&text) {
        Some(number) if number.is_f64() && is_whole(&text) => {
            let message = format!("the number {text} has too many digits to be kept exactly");
            let hint = "put quotes around it, so that it is a text".to_owned();
            return Err(Problem::invalid(message).hint(Some(hint)));
        }
        Some(number) => Data::Number(number),
        None => Data::Text(text),
    })
}

fn is_whole(text: &str) -> bool {
    text.strip_prefix(['+', '-']).unwrap_or(text).bytes().all(|it| it.is_ascii_digit())
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Number::from);
    }
    // Rust parses `inf`, `infinity` and `nan` as numbers; YAML does not.
    if !text.bytes().all(|it| it.is_ascii_digit() || b"+-.eE".contains(&it))
        || !text.bytes().any(|it| it.is_ascii_digit())
    {
        return None;
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let integer =
        unsigned.parse::<i64>().map(Number::from).or_else(|_| unsigned.parse::<u64>().map(Number::from));
    integer.ok().or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}
