//! `contexture.toml`: models, providers, the store, the server and compaction.
//!
//! Unknown keys are rejected by name. This module does not read the environment: callers that do pass
//! [overrides](Config::with_overrides).

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::fmt;

pub use contexture_agent::CompactionConfig;
use contexture_agent::HttpReference;
use contexture_compose::{CacheConfig, HistoryConfig};
use contexture_wire::{Catalogue, Dialect, ModelFacts};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Fault, Place, Problem, ProjectError};
use crate::files::CONFIG;
use crate::source::decode::{Collected, Cursor};
use crate::source::toml;
use contexture_template::did_you_mean;

mod knowledge;
mod references;
mod server;
mod skills;

pub use knowledge::{BaseConfig, EmbedderConfig, RetrieverConfig};
pub use references::ReferencesConfig;
pub use server::ServerConfig;
pub use skills::SkillsConfig;

/// The settings of a project.
///
/// ```
/// use contexture_project::Config;
///
/// let config = Config::parse("[store]\nurl = \"memory:\"")?;
/// let config = config.with_overrides(&[("server.listen", "0.0.0.0:8080")])?;
/// assert_eq!((config.store.url.as_str(), config.server.listen.as_str()), ("memory:", "0.0.0.0:8080"));
/// # Ok::<(), contexture_project::ProjectError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The default model.
    pub model: ModelChoice,
    /// The providers that serve models, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Additions and corrections to the catalogue, by `provider/model` or by model name alone.
    pub models: BTreeMap<String, ModelFacts>,
    /// Where sessions are stored.
    pub store: StoreConfig,
    /// The listen address and the limits of the server.
    pub server: ServerConfig,
    /// When and how history is compacted.
    pub compaction: CompactionConfig,
    /// How much history a session passes to a prompt.
    pub history_window: HistoryWindow,
    /// The history setting of prompts that have none.
    pub history: HistoryDefaults,
    /// The cache settings of prompts that have none.
    pub cache: CacheConfig,
    /// Knowledge bases, by name. A folder `knowledge/NAME` is one without any configuration.
    pub knowledge: BTreeMap<String, BaseConfig>,
    /// The embedder of knowledge bases. Without it they are ranked by words alone.
    pub embedder: EmbedderConfig,
    /// Where skills are, and how prompts list them.
    pub skills: SkillsConfig,
    /// HTTP services that resolve references, by the type of the references.
    pub refs: BTreeMap<String, HttpReference>,
    /// The rules for references of any type.
    pub references: ReferencesConfig,
    /// Logging and tracing.
    pub telemetry: TelemetryConfig,
}

/// Logging and tracing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The log filter: `off`, a level such as `info`, or a filter such as `contexture_model=debug`. The default is
    /// `info` for a server and `off` for other commands.
    pub log: Option<String>,
    /// The format of log lines: `text` for people, `json` for programs.
    pub log_format: LogFormat,
    /// The OTLP/HTTP endpoint for spans, such as `http://127.0.0.1:4318`. The command line falls back to
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`; without either, no spans are exported.
    pub otlp_endpoint: Option<String>,
    /// Whether spans include message content.
    pub record_content: bool,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The default model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelChoice {
    /// `provider/model`, used if neither the call nor the prompt names a model.
    pub default: Option<String>,
}

/// How to reach a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The wire format that the provider speaks.
    pub dialect: Dialect,
    /// The base URL, if it differs from the dialect's default.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The environment variable that holds the API key.
    #[serde(default)]
    pub api_key_env: Option<String>,
}

/// Where sessions are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `sqlite:PATH`, `postgres://…` or `memory:`.
    pub url: String,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { url: "sqlite:.contexture/contexture.db".to_owned() }
    }
}

/// How much history a session passes to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryWindow {
    /// The maximum number of turns.
    pub turns: u32,
}

impl Default for HistoryWindow {
    fn default() -> Self {
        Self { turns: 50 }
    }
}

/// The history setting of prompts that have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryDefaults {
    /// `true` for the whole window (the default), `false` for nothing, or a limit.
    pub default: HistoryDefault,
}

/// How much history a prompt uses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HistoryDefault {
    /// The whole window, or nothing.
    All(bool),
    /// As much as the limit allows.
    Limited(HistoryConfig),
}

impl<'de> Deserialize<'de> for HistoryDefault {
    // An untagged enum would report a fault in `limit` without its position.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrMap;

        impl<'de> Visitor<'de> for BoolOrMap {
            type Value = HistoryDefault;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or `{limit: …}`")
            }

            fn visit_bool<E>(self, all: bool) -> Result<HistoryDefault, E> {
                Ok(HistoryDefault::All(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HistoryDefault, A::Error> {
                HistoryConfig::deserialize(MapAccessDeserializer::new(map)).map(HistoryDefault::Limited)
            }
        }

        deserializer.deserialize_any(BoolOrMap)
    }
}

impl Default for HistoryDefault {
    fn default() -> Self {
        HistoryDefault::All(true)
    }
}

impl HistoryDefault {
    /// Converts the setting to the form that prompts use.
    pub fn config(self) -> HistoryConfig {
        match self {
            HistoryDefault::All(true) => HistoryConfig::default(),
            HistoryDefault::All(false) => HistoryConfig::NONE,
            HistoryDefault::Limited(config) => config,
        }
    }
}

impl Config {
    /// Parses the text of a `contexture.toml`. All faults are reported at once.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let problems = |problems: Vec<Problem>| {
            ProjectError::new(problems.into_iter().map(|it| it.into_fault(CONFIG)).collect())
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = toml::parse(text).map_err(|it| problems(vec![it]))?;
        let mut collected = Collected::default();
        let config = collected.decode::<Config>(Cursor::root(&root), |_| None);
        let Some(config) = config.filter(|_| collected.problems.is_empty()) else {
            return Err(problems(collected.problems));
        };
        let refs = root.get("refs");
        let faults = config.refs.iter().filter_map(|(kind, it)| Some((kind, references::fault(kind, it)?)));
        let faults: Vec<Problem> = faults
            .map(|(kind, fault)| {
                let at = refs.and_then(|it| it.value.get(kind)).map_or(Place::START, |it| it.place);
                Problem::invalid(fault).at(at)
            })
            .collect();
        if !faults.is_empty() {
            return Err(problems(faults));
        }
        let place = root.get("compaction").map_or(Place::START, |it| it.place);
        config.check().map_err(|it| problems(vec![it.at(place)]))?;
        Ok(config)
    }

    /// Returns the configuration with some keys replaced, such as `("store.url", "memory:")`. Unknown keys are
    /// rejected.
    ///
    /// Below `providers`, `models`, `knowledge` and `refs`, the last component is the key and everything between is the name:
    /// `models.openai/gpt-4.1.context_window`.
    pub fn with_overrides(&self, overrides: &[(&str, &str)]) -> Result<Self, ProjectError> {
        let mut config = self.clone();
        for (key, text) in overrides {
            config = config.with_override(key, text)?;
        }
        config.check().map_err(|it| ProjectError::from(it.into_fault(CONFIG)))?;
        Ok(config)
    }

    /// Returns all keys with a fixed name, dotted: `store.url`, `compaction.trigger_tokens`, …
    pub fn keys() -> Vec<String> {
        let Ok(Value::Object(sections)) = serde_json::to_value(Config::default()) else { return Vec::new() };
        let below = |(section, keys): (String, Value)| match keys {
            Value::Object(keys) => keys.keys().map(|key| format!("{section}.{key}")).collect(),
            _ => Vec::new(),
        };
        sections.into_iter().flat_map(below).collect()
    }

    /// Returns the model catalogue, including the additions and corrections of the configuration.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue::standard().with_models(self.models.clone())
    }

    fn with_override(&self, key: &str, text: &str) -> Result<Self, ProjectError> {
        let unknown = || -> ProjectError {
            let known = Config::keys();
            let hint = did_you_mean(key, known.iter().map(String::as_str));
            Fault {
                hint,
                ..Fault::new(ErrorCode::UnknownField, format!("unknown configuration key `{key}`"))
            }
            .into()
        };
        let path = split_key(key).ok_or_else(unknown)?;
        // A text that looks like a number may be one: the type of the key decides.
        let candidates = [Some(Value::String(text.to_owned())), scalar(text), Some(list(text))];
        let mut last = None;
        for value in candidates.into_iter().flatten() {
            let mut json = serde_json::to_value(self)
                .map_err(|err| Fault::new(ErrorCode::FileInvalid, err.to_string()))?;
            let is_list = value.is_array();
            set(&mut json, &path, value);
            match serde_json::from_value::<Config>(json) {
                Ok(config) => return Ok(config),
                Err(err) if err.to_string().contains("unknown field") => return Err(unknown()),
                // Lists are rarely intended, so the error about the plain value is more useful.
                Err(_) if is_list => {}
                Err(err) => last = Some(err.to_string()),
            }
        }
        let message = format!("configuration key `{key}`: {}", last.unwrap_or_default());
        Err(Fault::new(ErrorCode::FileInvalid, message).into())
    }

    fn check(&self) -> Result<(), Problem> {
        let CompactionConfig { micro_trigger_pct: micro, full_trigger_pct: full, .. } = self.compaction;
        if let Some(fault) = self.refs.iter().find_map(|(kind, it)| references::fault(kind, it)) {
            return Err(Problem::invalid(fault));
        }
        match (micro, full) {
            _ if micro > 100 || full > 100 => {
                Err(Problem::invalid(format!("`compaction`: {} is more than 100 percent", micro.max(full))))
            }
            _ if micro > full => Err(Problem::invalid(format!(
                "`compaction`: `micro_trigger_pct` is {micro}, more than `full_trigger_pct`, which is {full}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Splits a dotted key; the names of providers and models may contain dots.
fn split_key(key: &str) -> Option<Vec<String>> {
    let (section, rest) = key.split_once('.')?;
    let path = match section {
        "providers" | "models" | "knowledge" | "refs" => {
            let (name, field) = rest.rsplit_once('.')?;
            vec![section, name, field]
        }
        _ => vec![section, rest],
    };
    Some(path.into_iter().map(str::to_owned).collect())
}

fn set(json: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *json = value,
        [first, rest @ ..] => {
            if !json.is_object() {
                *json = Value::Object(Map::new());
            }
            if let Some(object) = json.as_object_mut() {
                set(object.entry(first.clone()).or_insert(Value::Null), rest, value);
            }
        }
    }
}

fn scalar(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_number() || value.is_boolean()).then_some(value)
}

/// Splits a text at commas into a list.
fn list(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Value::from).collect()
}
