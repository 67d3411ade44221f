//! The public types: templates, conditions and expressions.

use std::sync::Arc;

use crate::{
    error::{Error, Place},
    parse::{
        self, Cursor, ast,
        scanner::{Piece, Scanner, Span},
    },
    source::{ParseConfig, Source},
    variables::{Reads, Variable},
};

/// A parsed Liquid template. Cheap to clone; parse once, render many times.
///
/// ```
/// use contexture_template::{Globals, RenderConfig, Template};
/// use serde_json::json;
///
/// let template = Template::parse("Hi {{ input.name | upcase }}{% if input.vip %}, welcome back{% endif %}!")?;
/// let input = json!({"name": "Ada"});
/// let globals = [("input", &input)];
/// assert_eq!(template.render(&Globals::new(&globals), &RenderConfig::strict())?, "Hi ADA!");
///
/// let error = Template::parse("Hi {{ input.nme }}")?.render(&Globals::new(&globals), &RenderConfig::strict());
/// assert_eq!(error.unwrap_err().with_place().to_string(), "1:7: undefined variable `input.nme`");
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    pub(crate) parsed: Arc<Parsed<ast::Nodes>>,
}

/// A tree and the source it was parsed from.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) source: Arc<Source>,
    pub(crate) tree: T,
}

impl Template {
    /// Parses a template with default limits.
    pub fn parse(source: &str) -> Result<Self, Error> {
        Self::parse_with(source, &ParseConfig::default())
    }

    /// Parses a template with the given limits, name and position.
    pub fn parse_with(source: &str, config: &ParseConfig) -> Result<Self, Error> {
        let source = Arc::new(Source::new(source, config)?);
        let tree = parse::template(&source, &config.limits)?;
        Ok(Self { parsed: Arc::new(Parsed { source, tree }) })
    }

    /// Returns the text that was parsed.
    pub fn source(&self) -> &str {
        &self.parsed.source.text
    }

    /// Returns the text if it contains no tags or outputs, so that it renders unchanged.
    pub fn as_literal(&self) -> Option<&str> {
        let text = self.source();
        match Scanner::document(text).next_piece() {
            None => Some(text),
            Some(Piece::Text(span)) if span.end == text.len() => Some(text),
            _ => None,
        }
    }

    /// Returns the global variables that the template reads, each path once, in source order.
    ///
    /// A variable that the template sets is omitted from that point on. `size`, `first` and `last` after a dot are
    /// part of the path like any other key.
    pub fn variables(&self) -> Vec<Variable> {
        let mut reads = Reads::default();
        reads.nodes(&self.parsed.tree);
        reads.variables(&self.parsed.source)
    }

    /// Returns the quoted names in `render` and `include` tags, with the places of the tags.
    pub fn partials(&self) -> Vec<(String, Place)> {
        let mut reads = Reads::default();
        reads.nodes(&self.parsed.tree);
        reads.partials(&self.parsed.source)
    }

    /// Returns whether the output depends on the time of rendering, as in `{{ 'now' | date: "%Y" }}`.
    pub fn shows_time(&self) -> bool {
        let mut reads = Reads::default();
        reads.nodes(&self.parsed.tree);
        reads.time()
    }
}

/// A Liquid condition, as used in an `if` tag. Absent variables are nil, even in strict mode.
///
/// ```
/// use contexture_template::{Condition, Globals, RenderConfig};
/// use serde_json::json;
///
/// let condition = Condition::parse(r#"input.plan != "free" and input.on"#)?;
/// let input = json!({"plan": "pro", "on": true});
/// assert!(condition.evaluate(&Globals::new(&[("input", &input)]), &RenderConfig::strict())?);
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Condition {
    pub(crate) parsed: Arc<Parsed<ast::Condition>>,
}

impl Condition {
    /// Parses a condition with default limits.
    pub fn parse(source: &str) -> Result<Self, Error> {
        Self::parse_with(source, &ParseConfig::default())
    }

    /// Parses a condition with the given limits, name and position.
    pub fn parse_with(source: &str, config: &ParseConfig) -> Result<Self, Error> {
        let parsed = parsed(source, config, |cursor| cursor.condition())?;
        Ok(Self { parsed: Arc::new(parsed) })
    }

    /// Returns the text that was parsed.
    pub fn source(&self) -> &str {
        &self.parsed.source.text
    }

    /// Returns the variables that the condition reads.
    pub fn variables(&self) -> Vec<Variable> {
        let mut reads = Reads::default();
        reads.condition(&self.parsed.tree);
        reads.variables(&self.parsed.source)
    }
}

/// A Liquid expression with filters, as used between `{{` and `}}`.
///
/// ```
/// use contexture_template::{Expression, Globals, RenderConfig};
/// use serde_json::json;
///
/// let expression = Expression::parse("input.locale | downcase")?;
/// let input = json!({"locale": "DE"});
/// let value = expression.evaluate(&Globals::new(&[("input", &input)]), &RenderConfig::strict())?;
/// assert_eq!(value, json!("de"));
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expression {
    pub(crate) parsed: Arc<Parsed<ast::Filtered>>,
}

impl Expression {
    /// Parses an expression with default limits.
    pub fn parse(source: &str) -> Result<Self, Error> {
        Self::parse_with(source, &ParseConfig::default())
    }

    /// Parses an expression with the given limits, name and position.
    pub fn parse_with(source: &str, config: &ParseConfig) -> Result<Self, Error> {
        let parsed = parsed(source, config, |cursor| cursor.filtered())?;
        Ok(Self { parsed: Arc::new(parsed) })
    }

    /// Returns the text that was parsed.
    pub fn source(&self) -> &str {
        &self.parsed.source.text
    }

    /// Returns the variables that the expression reads.
    pub fn variables(&self) -> Vec<Variable> {
        let mut reads = Reads::default();
        reads.filtered(&self.parsed.tree);
        reads.variables(&self.parsed.source)
    }
}

/// Parses standalone markup, outside of any tag or output.
fn parsed<T>(
    source: &str,
    config: &ParseConfig,
    parse: fn(&mut Cursor<'_>) -> Result<T, Error>,
) -> Result<Parsed<T>, Error> {
    let source = Arc::new(Source::new(source, config)?);
    let whole = Span { start: 0, end: source.text.len() };
    let mut cursor = Cursor::new(&source, whole, config.limits.depth())?;
    let tree = parse(&mut cursor)?;
    cursor.expect_end()?;
    drop(cursor);
    Ok(Parsed { source, tree })
}
