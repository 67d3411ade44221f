//! The client configuration: models and API keys from contexture.toml and the environment.
//!
//! `openai`, `anthropic` and `gemini` work without configuration and read their API keys from the usual variables.
//! `[providers.NAME]` adds a provider or replaces one of these. `api_key_env` names the variable that holds the key.
//! Without it, a provider with its own address gets no key, and the owner of a dialect gets its usual one.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;

use contexture_model::{Client, ClientConfig, ModelError, ModelErrorKind, ModelProvider, Proxy, Retries};
use contexture_project::{Config, ProviderConfig, did_you_mean};
use contexture_wire::Dialect;

use crate::args::ModelArgs;
use crate::error::Failure;
use crate::setup::dotenv;
use crate::setup::proxies::proxies;

/// Looks up a variable in the environment, then in the project's `.env`. Empty variables count as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    let own = std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    own.or_else(|| dotenv::variable(name))
}

/// The configured providers and models.
pub(crate) struct Models {
    config: ClientConfig,
    /// The variables that may hold a provider's key; the first one that is set is used.
    key_variables: BTreeMap<String, Vec<String>>,
}

impl Models {
    /// Builds the client configuration from contexture.toml and the environment.
    pub(crate) fn of(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let mut providers = BTreeMap::new();
        let mut key_variables = BTreeMap::new();
        let owners = [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini];
        let owners = owners.map(|dialect| {
            let config = ProviderConfig { dialect, base_url: None, api_key_env: None };
            (dialect.as_str().to_owned(), config)
        });
        let all: BTreeMap<String, ProviderConfig> =
            owners.into_iter().chain(config.providers.clone()).collect();
        for (name, it) in all {
            let mut variables = key_variables_of(&it);
            let key = variables.iter().find_map(|it| variable(it));
            let redirected = it.base_url.is_none().then(|| usual_address(it.dialect, &variable)).flatten();
            if redirected.is_some() && it.api_key_env.is_none() {
                // A self-hosted server, which may accept any key or none.
                variables.clear();
            }
            let needs_key = !variables.is_empty();
            let base_url = it.base_url.or(redirected);
            let provider = ModelProvider { base_url, needs_key, ..ModelProvider::new(it.dialect) };
            providers.insert(
                name.clone(),
                match key {
                    Some(key) => provider.with_key(key),
                    None => provider,
                },
            );
            key_variables.insert(name, variables);
        }
        let seed = contexture_session::Time::now(&contexture::SystemTime).0.unsigned_abs();
        let config = ClientConfig {
            providers,
            catalogue: config.catalogue(),
            retries: Retries { seed: seed ^ u64::from(std::process::id()), ..Retries::default() },
            proxies: proxies(variable)?,
            record_content: config.telemetry.record_content,
            ..ClientConfig::default()
        };
        Ok(Self { config, key_variables })
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(self.config.clone()).map_err(|err| {
            Failure::new(ErrorCode::FileInvalid, err.to_string())
                .hint("`[providers]` of contexture.toml says so")
        })
    }

    /// Returns the proxies for requests.
    pub(crate) fn proxies(&self) -> Vec<Proxy> {
        self.config.proxies.clone()
    }

    /// Fails if a model cannot be called, as far as this can be known in advance.
    pub(crate) fn check(&self, model: Option<&str>) -> Result<(), Failure> {
        let Some(model) = model else { return Err(no_model()) };
        let names = || self.config.providers.keys().map(String::as_str);
        let Some((name, _)) = model.split_once('/').filter(|(_, model)| !model.is_empty()) else {
            let failure =
                Failure::new(ErrorCode::ModelUnconfigured, format!("`{model}` is not `provider/model`"));
            let known = names().collect::<Vec<_>>().join(", ");
            let hint = match self.owner(model) {
                Some(full) => format!("did you mean `{full}`?"),
                None => format!("write `provider/{model}`, or name the `--provider`: {known}"),
            };
            return Err(failure.hint(hint));
        };
        let Some(provider) = self.config.providers.get(name) else {
            let message = format!("model `{model}`: there is no provider `{name}`");
            let hint = did_you_mean(name, names()).unwrap_or_else(|| {
                format!("add `[providers.{name}]` with `dialect` and `base_url` to contexture.toml")
            });
            return Err(Failure::new(ErrorCode::ModelUnconfigured, message).hint(hint));
        };
        match self.variables(name) {
            [] => Ok(()),
            _ if provider.api_key.is_some() => Ok(()),
            variables => {
                let message = format!("model `{model}`: there is no key for provider `{name}`");
                let hint = format!("set {}, or {}", alternatives(variables), self.without_key());
                Err(Failure::new(ErrorCode::ModelAuth, message).hint(hint))
            }
        }
    }

    /// Returns the full name of a model that is in the catalogue and whose provider is configured.
    fn owner(&self, model: &str) -> Option<String> {
        let owner = self.config.catalogue.owner(model)?;
        self.config.providers.contains_key(owner).then(|| format!("{owner}/{model}"))
    }

    /// Suggests alternatives if a key is missing: providers that are ready, otherwise a self-hosted server.
    fn without_key(&self) -> String {
        let is_ready =
            |(name, it): &(&String, &ModelProvider)| it.api_key.is_some() || self.variables(name).is_empty();
        let ready = self.config.providers.iter().filter(is_ready);
        let ready: Vec<String> = ready.map(|(name, _)| format!("`--model {name}/NAME`")).collect();
        match ready.is_empty() {
            true => "add a server that needs no key to contexture.toml: `[providers.local]` with `dialect = \"openai\"` and `base_url`".to_owned(),
            false => format!("call another provider: {}", ready.join(", ")),
        }
    }

    /// Converts a model error to a failure with a hint.
    pub(crate) fn failure(&self, err: &ModelError) -> Failure {
        let failure = Failure::new(err.kind().code(), err.to_string());
        match self.hint(err) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    fn hint(&self, err: &ModelError) -> Option<String> {
        let (name, model) = err.model()?.split_once('/')?;
        let provider = self.config.providers.get(name)?;
        let address = provider.base_url.as_deref().unwrap_or(provider.dialect.base_url());
        let address = shown_address(address);
        Some(match err.kind() {
            ModelErrorKind::KeyMissing | ModelErrorKind::Auth => match self.variables(name) {
                [] => format!("`api_key_env` below `[providers.{name}]` names the variable with the key"),
                variables => format!("is the key in {} the right one?", alternatives(variables)),
            },
            ModelErrorKind::RateLimited => match err.retry_after() {
                Some(wait) => format!("try again in {} s", wait.as_secs().max(1)),
                None => "try again later; or the account has no credit left".to_owned(),
            },
            ModelErrorKind::PromptTooLong => {
                "`contexture inspect` shows what fills the request, `context_window` in contexture.toml limits it"
                    .to_owned()
            }
            ModelErrorKind::Refused => return None,
            ModelErrorKind::Overloaded => "try again later".to_owned(),
            ModelErrorKind::NotFound => {
                format!("does {address} serve a model called `{model}`? `--model` names another")
            }
            ModelErrorKind::Address => {
                format!("`base_url` below `[providers.{name}]` is {address}; most servers want it to end in `/v1`")
            }
            ModelErrorKind::Invalid => {
                format!("`contexture resolve PROMPT --wire {}` shows what is sent", provider.dialect.as_str())
            }
            ModelErrorKind::TimedOut => format!("is the server at {address} busy? try again later"),
            ModelErrorKind::Disconnected => {
                format!("is a server running at {address}? `base_url` below `[providers.{name}]` names another")
            }
            ModelErrorKind::Malformed => {
                format!("does the server at {address} speak the dialect `{}`?", provider.dialect.as_str())
            }
            ModelErrorKind::TooLarge => "`--max-tokens` limits the answer".to_owned(),
        })
    }

    fn variables(&self, provider: &str) -> &[String] {
        self.key_variables.get(provider).map_or(&[], Vec::as_slice)
    }
}

/// Returns the failure for a missing model name.
pub(crate) fn no_model() -> Failure {
    let message =
        "no model is named: neither by `--model`, nor by the session, the prompt or contexture.toml";
    let hint = "`--model openai/gpt-5-mini` names one; `default` below `[model]` in contexture.toml does so for good";
    Failure::new(ErrorCode::ModelMissing, message).hint(hint)
}

/// Returns the full name of the model that the arguments name. With only a provider, uses `fallback` if it belongs
/// to that provider.
pub(crate) fn named(args: &ModelArgs, fallback: Option<&str>) -> Option<String> {
    match (&args.provider, &args.model) {
        (None, model) => model.clone(),
        (Some(provider), Some(model)) if model.starts_with(&format!("{provider}/")) => Some(model.clone()),
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (Some(provider), None) => match fallback.map(|it| (it, it.split_once('/'))) {
            Some((full, Some((own, _)))) if own == provider => Some(full.to_owned()),
            Some((name, None)) => Some(format!("{provider}/{name}")),
            _ => Some(format!("{provider}/")),
        },
    }
}

/// Returns the base URL from the environment variable that the vendor's own clients use, if it is set.
fn usual_address(dialect: Dialect, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => variable("OPENAI_BASE_URL"),
        // Anthropic's clients append the version themselves.
        Dialect::Anthropic => variable("ANTHROPIC_BASE_URL").map(|it| {
            let base = it.trim_end_matches('/');
            if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") }
        }),
        Dialect::Gemini => None,
    }
}

fn key_variables_of(provider: &ProviderConfig) -> Vec<String> {
    let usual: &[&str] = match (&provider.api_key_env, &provider.base_url, provider.dialect) {
        (Some(name), _, _) => return vec![name.clone()],
        (None, Some(_), _) => &[],
        (None, None, Dialect::Openai | Dialect::OpenaiResponses) => &["OPENAI_API_KEY"],
        (None, None, Dialect::Anthropic) => &["ANTHROPIC_API_KEY"],
        (None, None, Dialect::Gemini) => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    };
    usual.iter().map(|it| (*it).to_owned()).collect()
}

fn alternatives(variables: &[String]) -> String {
    let names: Vec<String> = variables.iter().map(|it| format!("`{it}`")).collect();
    format!("the environment variable {}", names.join(" or "))
}

/// Returns an address without parts that may be secret.
fn shown_address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use contexture_model::{ModelError, ModelErrorKind};
    use contexture_project::Config;

    use super::{Models, named};
    use crate::args::ModelArgs;

    const CONFIG: &str = "[providers.local]\ndialect = \"openai\"\nbase_url = \"http://me:word@h:1/v1?k=x\"\n\
                          [providers.mine]\ndialect = \"anthropic\"\napi_key_env = \"MY_KEY\"";

    fn models(variables: &[(&str, &str)]) -> Models {
        let config = Config::parse(CONFIG).expect("it is valid");
        let known = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        Models::of(&config, known).expect("it is fine")
    }

    fn checked(model: &str, variables: &[(&str, &str)]) -> String {
        match models(variables).check(Some(model)) {
            Ok(()) => "fine".to_owned(),
            Err(failure) => {
                let error = failure.to_json()["error"].clone();
                format!("{} {}: {}", failure.exit().code(), error["code"], error["hint"])
            }
        }
    }

    #[test]
    fn a_key_comes_from_the_variable_that_is_named_or_usual() {
        assert_eq!(checked("openai/m", &[("OPENAI_API_KEY", "k")]), "fine");
        assert_eq!(checked("gemini/m", &[("GOOGLE_API_KEY", "k")]), "fine");
        assert_eq!(checked("local/m", &[]), "fine");
        assert_eq!(checked("mine/m", &[("MY_KEY", "k")]), "fine");
        assert_eq!(
            checked("mine/m", &[("ANTHROPIC_API_KEY", "k")]),
            r#"3 "model_auth": "set the environment variable `MY_KEY`, or call another provider: `--model anthropic/NAME`, `--model local/NAME`""#
        );
        assert_eq!(
            checked("gemini/m", &[]),
            r#"3 "model_auth": "set the environment variable `GEMINI_API_KEY` or `GOOGLE_API_KEY`, or call another provider: `--model local/NAME`""#
        );
    }

    #[test]
    fn the_usual_variables_name_another_address() {
        let address = |name: &str, variables: &[(&str, &str)]| {
            let models = models(variables);
            let provider = &models.config.providers[name];
            (provider.base_url.clone().unwrap_or_default(), provider.api_key.is_some())
        };
        let openai = ("OPENAI_BASE_URL", "http://h:1/v1");
        assert_eq!(address("openai", &[openai]), ("http://h:1/v1".to_owned(), false));
        assert!(address("openai", &[openai, ("OPENAI_API_KEY", "k")]).1);
        assert_eq!(checked("openai/m", &[openai]), "fine");
        let anthropic = ("ANTHROPIC_BASE_URL", "http://h:1/");
        assert_eq!(address("anthropic", &[anthropic]).0, "http://h:1/v1");
        assert_eq!(address("local", &[openai]).0, "http://me:word@h:1/v1?k=x");
    }

    #[test]
    fn a_provider_that_is_not_there_is_told_with_what_to_do() {
        assert_eq!(checked("opnai/m", &[]), r#"2 "model_not_found": "did you mean `openai`?""#);
        assert_eq!(
            checked("ollama/m", &[]),
            r#"2 "model_not_found": "add `[providers.ollama]` with `dialect` and `base_url` to contexture.toml""#
        );
        assert_eq!(checked("gpt-5-mini", &[]), r#"2 "model_not_found": "did you mean `openai/gpt-5-mini`?""#);
        assert!(checked("claude-sonnet-4-5", &[]).contains("did you mean `anthropic/claude-sonnet-4-5`?"));
        assert!(checked("my-own", &[]).contains("write `provider/my-own`"));
        assert!(checked("local/", &[]).starts_with("2 "));
    }

    #[test]
    fn a_hint_shows_the_address_and_no_password() {
        let err = ModelError::new(ModelErrorKind::Disconnected, "no connection").of_model("local/m");
        let hint = models(&[]).failure(&err).to_json()["error"]["hint"].to_string();
        assert!(hint.contains("http://h:1/v1?"), "{hint}");
        assert!(!hint.contains("word") && !hint.contains("k=x"), "{hint}");
    }

    #[test]
    fn a_model_is_named_in_one_piece_or_in_two() {
        let named = |provider: Option<&str>, model: Option<&str>| {
            let (provider, model) = (provider.map(str::to_owned), model.map(str::to_owned));
            named(&ModelArgs { provider, model }, Some("openai/gpt-5")).unwrap_or_default()
        };
        assert_eq!(named(None, Some("a/b")), "a/b");
        assert_eq!(named(Some("a"), Some("b")), "a/b");
        assert_eq!(named(Some("a"), Some("b/c")), "a/b/c");
        assert_eq!(named(Some("a"), Some("a/b")), "a/b");
        assert_eq!(named(Some("openai"), None), "openai/gpt-5");
        assert_eq!(named(None, None), "");
    }
}
