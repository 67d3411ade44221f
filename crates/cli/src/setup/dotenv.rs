//! The `.env` file of a project: variables that the environment does not set.
//!
//! A line is `NAME=VALUE`, optionally with `export` before it; a value may be quoted. Empty lines and lines that start
//! with `#` are skipped. Nothing is expanded, and the process environment is not changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

static VARIABLES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Loads the `.env` file of a project folder, if there is one. Only the first call has an effect.
pub(crate) fn load(dir: &Path) {
    VARIABLES.get_or_init(|| fs::read_to_string(dir.join(".env")).map(|it| parse(&it)).unwrap_or_default());
}

/// Looks up a variable. Empty variables count as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    VARIABLES.get()?.get(name).filter(|it| !it.trim().is_empty()).cloned()
}

/// Lists all variables.
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    VARIABLES.get().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()))
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let value = value.trim();
    let quoted = ['"', '\''].iter().find_map(|it| value.strip_prefix(*it)?.split_once(*it)).map(|it| it.0);
    let plain = || value.split(" #").next().unwrap_or_default().trim_end();
    Some((name.trim().to_owned(), quoted.unwrap_or_else(plain).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_names_and_values() {
        let text = "# keys\nA=1\n\nexport B = two words # not this\nC=\"x # y\"\nD='z'\nnothing\n";
        let all: Vec<String> =
            parse(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(all, ["A=1", "B=two words", "C=x # y", "D=z"]);
    }
}
