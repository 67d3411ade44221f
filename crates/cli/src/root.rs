//! The project that a command works on: its folder, and its configuration with what the environment overrides.

use std::env;

use contexture_compose::{Prompt, ResolveOptions};
use contexture_project::{Config, Project};

use crate::args::{CallArgs, Globals};
use crate::error::Failure;
use crate::output;

/// What every variable of ours begins with.
const PREFIX: &str = "CONTEXTURE_";
/// The keys of an entry of `[providers]` and of `[models]`, whose names are the author's.
const NAMED: [(&str, &[&str]); 2] = [
    ("providers", &["dialect", "base_url", "api_key_env"]),
    ("models", &["context_window", "output_reserve", "max_output"]),
];

/// A project with its effective configuration.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) project: Project,
    config: Config,
}

impl Root {
    /// Opens the folder that was asked for, or the nearest one upwards. Variables that mean nothing are warned about.
    pub(crate) fn open(globals: &Globals) -> Result<Self, Failure> {
        let dir = match &globals.project {
            Some(dir) if dir.is_dir() => dir.clone(),
            Some(dir) => {
                let dir = dir.display().to_string();
                return Err(Failure::new("not_found", format!("there is no folder `{dir}`")).at(dir));
            }
            None => {
                let here = env::current_dir().map_err(|err| {
                    Failure::new("not_found", format!("the current folder can't be read: {err}"))
                })?;
                Project::find_root(&here).ok_or_else(no_project)?
            }
        };
        let project = Project::open(dir)?;
        let variables =
            env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        let ours = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
        let (config, unknown) = overridden(project.config(), ours)?;
        for name in unknown {
            output::warn(&format!("the variable {name} names no key of contexture.toml and is ignored"));
        }
        Ok(Self { project, config })
    }

    /// Returns the options of a pass, with the model and limits that flags, prompt and configuration give, in this
    /// order.
    pub(crate) fn options(&self, prompt: &Prompt, call: &CallArgs) -> ResolveOptions {
        let provider = call.provider.as_deref();
        let own = call.model.as_deref().or(prompt.definition().model.as_deref());
        let default = self.config.model.default.as_deref();
        let serves = |model: &&str| match (model.split_once('/'), provider) {
            (Some((of, _)), Some(provider)) => of == provider,
            _ => true,
        };
        let model = own.or(default.filter(serves));
        let mut options = self.project.options(prompt, provider, model);
        let full = match (provider, model) {
            (Some(provider), Some(model)) if !model.contains('/') => Some(format!("{provider}/{model}")),
            (_, model) => model.map(str::to_owned),
        };
        let known = full.as_deref().and_then(|it| self.config.model(it));
        options.limits = known.map(|it| it.limits()).unwrap_or_default();
        options
    }
}

fn no_project() -> Failure {
    let message =
        "there is no project here: neither this folder nor one above has `contexture.toml` or `prompts/`";
    Failure::new("not_found", message).hint("`contexture init` writes one, `-C DIR` names another folder")
}

/// Applies variables to a configuration, and returns those that mean nothing.
fn overridden(config: &Config, variables: Vec<(String, String)>) -> Result<(Config, Vec<String>), Failure> {
    let keys = keys(config);
    let mut config = config.clone();
    let mut unknown = Vec::new();
    for (name, value) in variables {
        match keys.iter().find(|key| variable(key) == name) {
            Some(key) => {
                config = config
                    .with_overrides(&[(key, &value)])
                    .map_err(|err| Failure::from(err).at(format!("environment variable {name}")))?;
            }
            None => unknown.push(name),
        }
    }
    unknown.sort();
    Ok((config, unknown))
}

/// Lists all keys that can be overridden: those with fixed names, and those of the providers and models there are.
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

/// Returns the variable of a key: `CONTEXTURE_STORE_URL` for `store.url`.
fn variable(key: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(key.chars().map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use contexture_project::Config;

    use super::overridden;

    fn with(variables: &[(&str, &str)]) -> String {
        let config =
            Config::parse("[models.\"openai/gpt-5-mini\"]\ncontext_window = 400000").expect("it is valid");
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        match overridden(&config, variables) {
            Ok((config, unknown)) => {
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
}
