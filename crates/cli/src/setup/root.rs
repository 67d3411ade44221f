//! Finds the project of a command: its folder, and its configuration with overrides from the environment.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture_project::{Config, Files, Folder, InMemory, Project};

use crate::args::Globals;
use crate::error::Failure;
use crate::output;
use crate::setup::dotenv;

/// The prefix of all Contexture environment variables.
const PREFIX: &str = "CONTEXTURE_";
/// The keys of an entry in `[providers]` and `[models]`; the author chooses the names of the entries.
const NAMED: [(&str, &[&str]); 2] = [
    ("providers", &["dialect", "base_url", "api_key_env"]),
    ("models", &["context_window", "output_reserve", "max_output"]),
];

/// Opens the requested folder, or the nearest project folder upwards, with overrides from the environment. Warns about
/// unknown variables.
pub(crate) fn open(globals: &Globals) -> Result<Project, Failure> {
    Ok(open_with_dir(globals)?.0)
}

/// Like [`open`], but also returns the folder.
pub(crate) fn open_with_dir(globals: &Globals) -> Result<(Project, PathBuf), Failure> {
    let dir = dir(globals)?.ok_or_else(no_project)?;
    Ok((load_dir(&dir, Vec::new())?, dir))
}

/// Opens the requested folder, or the nearest project folder upwards. Without one, opens an empty project in the
/// current folder. Applies overrides from the environment and also returns the folder.
pub(crate) fn open_or_empty(globals: &Globals) -> Result<(Project, PathBuf), Failure> {
    match dir(globals)? {
        Some(dir) => Ok((load_dir(&dir, Vec::new())?, dir)),
        None => Ok((load(Arc::new(InMemory::default()), Vec::new())?, here()?)),
    }
}

/// Returns the configuration and its folder: that of the project, otherwise the current one.
pub(crate) fn config(globals: &Globals) -> Result<(Config, PathBuf), Failure> {
    let (project, dir) = open_or_empty(globals)?;
    Ok((project.config().clone(), dir))
}

/// Returns the project folder, if there is one.
pub(crate) fn root_of(globals: &Globals) -> Option<PathBuf> {
    dir(globals).ok().flatten()
}

fn dir(globals: &Globals) -> Result<Option<PathBuf>, Failure> {
    match &globals.project {
        Some(dir) if dir.is_dir() => Ok(Some(dir.clone())),
        Some(dir) => {
            let dir = dir.display().to_string();
            Err(Failure::new(ErrorCode::NotFound, format!("there is no folder `{dir}`")).at(dir))
        }
        None => Ok(Project::find_root(&here()?)),
    }
}

/// Returns the current folder.
pub(crate) fn here() -> Result<PathBuf, Failure> {
    env::current_dir()
        .map_err(|err| Failure::new(ErrorCode::NotFound, format!("cannot read the current folder: {err}")))
}

/// Like [`open_with_dir`], with flags that take precedence over the environment.
pub(crate) fn open_with_flags(
    globals: &Globals,
    flags: Vec<(&str, String)>,
) -> Result<(Project, PathBuf), Failure> {
    let dir = dir(globals)?.filter(|it| Project::is_root(it)).ok_or_else(no_project)?;
    let flags = flags.into_iter().map(|(key, value)| {
        let flag = format!("--{}", key.rsplit('.').next().unwrap_or(key).replace('_', "-"));
        Override { given_by: flag, key: key.to_owned(), value }
    });
    Ok((load_dir(&dir, flags.collect())?, dir))
}

fn load_dir(dir: &Path, flags: Vec<Override>) -> Result<Project, Failure> {
    dotenv::load(dir);
    load(Arc::new(Folder::new(dir)), flags)
}

/// Loads a project with the overrides from the environment and from flags; a flag wins.
fn load(files: Arc<dyn Files>, flags: Vec<Override>) -> Result<Project, Failure> {
    Project::load(files, |config| {
        let mut overrides = overrides_of(config)?;
        overrides.extend(flags);
        check(config, &overrides)?;
        Ok(pairs(overrides))
    })
}

/// Returns the overrides from the environment, and warns about unknown variables.
fn overrides_of(config: &Config) -> Result<Vec<Override>, Failure> {
    let variables =
        env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let variables: BTreeMap<String, String> = dotenv::variables().chain(variables).collect();
    let ours = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    let (overrides, unknown) = overrides(config, ours);
    for name in unknown {
        output::warn(&format!("the variable {name} names no key of contexture.toml and is ignored"));
    }
    Ok(overrides)
}

fn no_project() -> Failure {
    let message =
        "there is no project here: neither this folder nor one above has `contexture.toml` or `prompts/`";
    Failure::new(ErrorCode::NotFound, message)
        .hint("`contexture init` writes one, `-C DIR` names another folder")
}

/// A configuration key with its new value.
#[derive(Clone)]
struct Override {
    /// The origin of the value, such as `environment variable CONTEXTURE_STORE_URL` or `--listen`.
    given_by: String,
    key: String,
    value: String,
}

/// Returns the overrides as key-value pairs.
fn pairs(overrides: Vec<Override>) -> Vec<(String, String)> {
    overrides.into_iter().map(|it| (it.key, it.value)).collect()
}

/// Checks all overrides together, since they may depend on each other. The error names an override that causes it.
fn check(config: &Config, overrides: &[Override]) -> Result<(), Failure> {
    let tried = |all: &[&Override]| {
        let pairs: Vec<_> = all.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
        config.with_overrides(&pairs).map(drop)
    };
    let all: Vec<&Override> = overrides.iter().collect();
    let Err(err) = tried(&all) else { return Ok(()) };
    let without =
        |idx: usize| all.iter().enumerate().filter(|it| it.0 != idx).map(|it| *it.1).collect::<Vec<_>>();
    let culprit = (0..all.len()).find(|idx| tried(&without(*idx)).is_ok());
    let culprit = culprit.or_else(|| all.iter().position(|it| tried(&[*it]).is_err()));
    let failure = Failure::from(err);
    Err(match culprit {
        Some(idx) => failure.at(all[idx].given_by.clone()),
        None => failure,
    })
}

/// Returns the overrides from the variables, and the names of unknown variables.
fn overrides(config: &Config, variables: Vec<(String, String)>) -> (Vec<Override>, Vec<String>) {
    let keys = keys(config);
    let mut overrides = Vec::new();
    let mut unknown = Vec::new();
    for (name, value) in variables {
        match keys.iter().find(|key| variable(key) == name) {
            Some(key) => {
                let given_by = format!("environment variable {name}");
                overrides.push(Override { given_by, key: key.clone(), value });
            }
            None => unknown.push(name),
        }
    }
    unknown.sort();
    (overrides, unknown)
}

/// Lists all keys that can be overridden: those with fixed names, and those of the configured providers and models.
fn keys(config: &Config) -> Vec<String> {
    let mut keys = Config::keys();
    for (section, fields) in NAMED {
        let names: Vec<&String> = match section {
            "providers" => config.providers.keys().collect(),
            _ => config.models.keys().collect(),
        };
        keys.extend(
            names.iter().flat_map(|name| fields.iter().map(move |field| format!("{section}.{name}.{field}"))),
        );
    }
    keys
}

/// Returns the variable name of a key: `CONTEXTURE_STORE_URL` for `store.url`.
fn variable(key: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(key.chars().map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use contexture_project::Config;

    use super::{check, overrides};

    fn with(variables: &[(&str, &str)]) -> String {
        let config =
            Config::parse("[models.\"openai/gpt-5-mini\"]\ncontext_window = 400000").expect("it is valid");
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (overrides, unknown) = overrides(&config, variables);
        match check(&config, &overrides) {
            Ok(()) => {
                let pairs: Vec<_> = overrides.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
                let config = config.with_overrides(&pairs).expect("they were tried");
                let window = config.models["openai/gpt-5-mini"].context_window;
                format!("{} {:?} {:?} {unknown:?}", config.store.url, config.model.default, window)
            }
            Err(failure) => failure.to_json()["error"]["at"].to_string(),
        }
    }

    #[test]
    fn a_variable_overrides_a_key_and_an_unknown_one_is_named() {
        let url = "sqlite:.contexture/contexture.db";
        assert_eq!(
            with(&[
                ("CONTEXTURE_STORE_URL", "memory:"),
                ("CONTEXTURE_MODEL_DEFAULT", "a/b"),
                ("CONTEXTURE_X", "1")
            ]),
            r#"memory: Some("a/b") Some(Tokens(400000)) ["CONTEXTURE_X"]"#
        );
        assert_eq!(
            with(&[("CONTEXTURE_MODELS_OPENAI_GPT_5_MINI_CONTEXT_WINDOW", "1000")]),
            format!("{url} None Some(Tokens(1000)) []")
        );
        assert_eq!(
            with(&[("CONTEXTURE_COMPACTION_MIN_MESSAGES", "many")]),
            r#""environment variable CONTEXTURE_COMPACTION_MIN_MESSAGES""#
        );
    }

    #[test]
    fn variables_are_checked_together() {
        let micro = ("CONTEXTURE_COMPACTION_MICRO_TRIGGER_PCT", "93");
        let full = ("CONTEXTURE_COMPACTION_FULL_TRIGGER_PCT", "95");
        assert!(with(&[micro, full]).starts_with("sqlite:"), "{}", with(&[micro, full]));
        assert_eq!(
            with(&[("CONTEXTURE_STORE_URL", "memory:"), micro]),
            r#""environment variable CONTEXTURE_COMPACTION_MICRO_TRIGGER_PCT""#
        );
    }
}
