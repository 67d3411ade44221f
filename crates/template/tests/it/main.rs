//! Tests of the template engine: text in, text out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conditions;
mod errors;
mod filters;
mod fuzz;
mod golden;
mod limits;
mod strict;
mod tags;
mod variables;

use std::collections::BTreeMap;

use contexture_template::{Error, Globals, ParseConfig, Partials, RenderConfig, Template};
use serde_json::Value;

/// Partials by name.
#[derive(Default)]
struct Loaded(BTreeMap<String, Template>);

impl Loaded {
    fn new(sources: &[(&str, &str)]) -> Self {
        Self(
            sources
                .iter()
                .map(|(name, source)| (name.to_string(), Template::parse(source).unwrap()))
                .collect(),
        )
    }
}

impl Partials for Loaded {
    fn partial(&self, name: &str) -> Option<Template> {
        self.0.get(name).cloned()
    }
}

/// Renders `source` over the entries of `data`.
fn try_render(source: &str, data: &Value, config: &RenderConfig<'_>) -> Result<String, Error> {
    let globals: Vec<(&str, &Value)> =
        data.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect();
    Template::parse(source)?.render(&Globals::new(&globals), config)
}

/// Renders in lenient mode; an error is shown with its place.
fn lenient(source: &str, data: Value) -> String {
    shown(try_render(source, &data, &RenderConfig::lenient()))
}

/// Renders in strict mode; an error is shown with its place.
fn strict(source: &str, data: Value) -> String {
    shown(try_render(source, &data, &RenderConfig::strict()))
}

/// Parses as a file called `p.md` whose template begins on line 4, and shows the error.
fn parse_error(source: &str) -> String {
    let config =
        ParseConfig { name: Some("p.md".into()), first_line: 4, first_column: 3, ..ParseConfig::default() };
    match Template::parse_with(source, &config) {
        Ok(_) => "no error".into(),
        Err(err) => format!("{:?} {}", err.kind(), err.with_place()),
    }
}

fn shown(result: Result<String, Error>) -> String {
    result.unwrap_or_else(|err| format!("{:?} {}", err.kind(), err.with_place()))
}
