//! `contexture.toml`: models, providers, the store, the server and compaction.
//!
//! Keys that nobody knows are refused by name. Nothing is read from the environment here: whoever does hands in
//! [overrides](Config::with_overrides).

use std::collections::BTreeMap;

pub use contexture_agent::CompactionConfig;
use contexture_compose::{CacheConfig, HistoryConfig};
use contexture_wire::{Catalogue, Dialect, ModelFacts};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::decode;
use crate::error::{Fault, Place, Problem, ProjectError};
use crate::files::CONFIG;
pub use crate::server_config::ServerConfig;
use crate::yaml::{Data, Node, Pair};
use contexture_template::did_you_mean;

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
    /// Which model is used.
    pub model: ModelChoice,
    /// Where models are called, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// What adds to or corrects the catalogue, by `provider/model` or by the model's name alone.
    pub models: BTreeMap<String, ModelFacts>,
    /// Where sessions are kept.
    pub store: StoreConfig,
    /// Where the server listens, and what it allows.
    pub server: ServerConfig,
    /// When and how history is compacted.
    pub compaction: CompactionConfig,
    /// How much history a session hands to a prompt.
    pub history_window: HistoryWindow,
    /// What prompts take of it that say nothing about it.
    pub history: HistoryDefaults,
    /// Cache wishes of prompts that have none of their own.
    pub cache: CacheConfig,
    /// What is told about runs, and to whom.
    pub telemetry: TelemetryConfig,
}

/// What is told about runs, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Which log lines are printed: `off`, a level such as `info`, or a filter such as `contexture_model=debug`. Where
    /// nothing is said a server prints `info`, and other commands print none.
    pub log: Option<String>,
    /// How log lines look: `text` for people, `json` for programs.
    pub log_format: LogFormat,
    /// Where spans go, over OTLP and HTTP: `http://127.0.0.1:4318`. Without one they go nowhere.
    pub otlp_endpoint: Option<String>,
    /// Whether spans carry what is said.
    pub record_content: bool,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// A line of text.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Which model is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelChoice {
    /// `provider/model`, where neither the call nor the prompt names one.
    pub default: Option<String>,
}

/// Where and how models are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// How the provider is spoken to.
    pub dialect: Dialect,
    /// Its address, where it is not the dialect's own.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub api_key_env: Option<String>,
}

/// Where sessions are kept.
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

/// How much history a session hands to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryWindow {
    /// So many turns at most.
    pub turns: u32,
}

impl Default for HistoryWindow {
    fn default() -> Self {
        Self { turns: 50 }
    }
}

/// What prompts take of the history that say nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryDefaults {
    /// `true` for what the window holds (the default), `false` for nothing, or a limit.
    pub default: HistoryDefault,
}

/// What a prompt takes of the history.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`true`, `false` or `{limit: …}`")]
pub enum HistoryDefault {
    /// All that the window holds, or nothing.
    All(bool),
    /// As much as a limit says.
    Limited(HistoryConfig),
}

impl Default for HistoryDefault {
    fn default() -> Self {
        HistoryDefault::All(true)
    }
}

impl HistoryDefault {
    /// Returns it as prompts say it.
    pub fn config(self) -> HistoryConfig {
        match self {
            HistoryDefault::All(true) => HistoryConfig::default(),
            HistoryDefault::All(false) => HistoryConfig::NONE,
            HistoryDefault::Limited(config) => config,
        }
    }
}

impl Config {
    /// Reads the text of a `contexture.toml`. Everything that is wrong is reported at once.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let problems = |problems: Vec<Problem>| {
            ProjectError::new(problems.into_iter().map(|it| it.into_fault(CONFIG)).collect())
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = table(text).map_err(|it| problems(vec![it]))?;
        let config = match decode::each_key::<Config>(&root) {
            Ok(config) => config,
            Err(whole) => return Err(problems(deep_problems(&root, whole))),
        };
        let place = section_place(&root, "compaction");
        config.check().map_err(|it| problems(vec![it.at(place)]))?;
        Ok(config)
    }

    /// Returns the configuration with single keys replaced: `("store.url", "memory:")`. Unknown keys are refused.
    ///
    /// Below `providers` and `models`, the last word is the key and everything between is the name:
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

    /// Returns what is known of models: the catalogue, with what the configuration adds to it or corrects.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue::standard().with_models(self.models.clone())
    }

    fn with_override(&self, key: &str, text: &str) -> Result<Self, ProjectError> {
        let unknown = || -> ProjectError {
            let known = Config::keys();
            let hint = did_you_mean(key, known.iter().map(String::as_str));
            Fault { hint, ..Fault::new("unknown_field", format!("unknown configuration key `{key}`")) }.into()
        };
        let path = split_key(key).ok_or_else(unknown)?;
        // A text that looks like a number may be one: the key's own type decides.
        let candidates = [Some(Value::String(text.to_owned())), scalar(text), Some(list(text))];
        let mut last = None;
        for value in candidates.into_iter().flatten() {
            let mut json =
                serde_json::to_value(self).map_err(|err| Fault::new("file_invalid", err.to_string()))?;
            let is_list = value.is_array();
            set(&mut json, &path, value);
            match serde_json::from_value::<Config>(json) {
                Ok(config) => return Ok(config),
                Err(err) if err.to_string().contains("unknown field") => return Err(unknown()),
                // Hardly anybody means a list: what is wrong with the text itself says more.
                Err(_) if is_list => {}
                Err(err) => last = Some(err.to_string()),
            }
        }
        let message = format!("configuration key `{key}`: {}", last.unwrap_or_default());
        Err(Fault::new("file_invalid", message).into())
    }

    fn check(&self) -> Result<(), Problem> {
        let CompactionConfig { micro_trigger_pct: micro, full_trigger_pct: full, .. } = self.compaction;
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

fn section_place(root: &Node, section: &str) -> Place {
    match &root.data {
        Data::Map(pairs) => pairs.iter().find(|it| it.key == section).map_or(Place::START, |it| it.place),
        _ => Place::START,
    }
}

/// Splits a dotted key; names of providers and models may hold dots.
fn split_key(key: &str) -> Option<Vec<String>> {
    let (section, rest) = key.split_once('.')?;
    let path = match section {
        "providers" | "models" => {
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

/// Reads a text as a list: its pieces between commas.
fn list(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Value::from).collect()
}

/// Lists what is wrong with each single key; `whole` if none of them is wrong alone.
fn deep_problems(root: &Node, whole: Vec<Problem>) -> Vec<Problem> {
    let alone = leaves(root).into_iter().filter_map(|it| decode::value::<Config>(&it).err());
    let problems: Vec<Problem> = alone.filter(|it| !it.is_absence()).collect();
    if problems.is_empty() { whole } else { problems }
}

/// Returns the tree once for each of its leaves, with nothing else in it.
fn leaves(node: &Node) -> Vec<Node> {
    match &node.data {
        Data::Map(pairs) if !pairs.is_empty() => {
            let below = |pair: &Pair| {
                let (key, place) = (pair.key.clone(), pair.place);
                let alone = move |value| Data::Map(vec![Pair { key: key.clone(), place, value }]);
                leaves(&pair.value).into_iter().map(alone).collect::<Vec<_>>()
            };
            pairs.iter().flat_map(below).map(|data| Node::new(data, node.place)).collect()
        }
        _ => vec![node.clone()],
    }
}

/// Parses TOML into the tree that all files are read from.
fn table(text: &str) -> Result<Node, Problem> {
    let table = DeTable::parse(text).map_err(|err| {
        let offset = err.span().map_or(0, |it| it.start);
        Problem::invalid(format!("this is not TOML: {}", err.message())).at(place(text, offset))
    })?;
    let at = place(text, table.span().start);
    Ok(Node::new(table_data(text, table.get_ref())?, at))
}

fn table_data(text: &str, table: &DeTable<'_>) -> Result<Data, Problem> {
    let pairs = table.iter().map(|(key, value)| {
        let place = place(text, key.span().start);
        Ok(Pair { key: key.get_ref().to_string(), place, value: node(text, value)? })
    });
    let mut pairs = pairs.collect::<Result<Vec<Pair>, Problem>>()?;
    pairs.sort_by_key(|it| it.place);
    Ok(Data::Map(pairs))
}

fn node(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Node, Problem> {
    let at = place(text, value.span().start);
    let data = match value.get_ref() {
        DeValue::String(it) => Data::Text(it.to_string()),
        DeValue::Boolean(it) => Data::Bool(*it),
        DeValue::Integer(it) => {
            let number = i64::from_str_radix(it.as_str(), it.radix());
            Data::Number(number.map_err(|_| Problem::invalid(format!("`{it}` is too large")).at(at))?.into())
        }
        DeValue::Float(it) => {
            let number = it.as_str().parse().ok().and_then(Number::from_f64);
            Data::Number(
                number.ok_or_else(|| Problem::invalid(format!("`{it}` is not a finite number")).at(at))?,
            )
        }
        DeValue::Datetime(it) => Data::Text(it.to_string()),
        DeValue::Array(items) => Data::List(items.iter().map(|it| node(text, it)).collect::<Result<_, _>>()?),
        DeValue::Table(table) => table_data(text, table)?,
    };
    Ok(Node::new(data, at))
}

fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |it| it + 1);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    Place { line: before.matches('\n').count() + 1, column }
}
