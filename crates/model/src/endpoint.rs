//! Endpoints: provider, URL and headers, resolved once for each provider.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_wire::{Catalogue, Dialect, Encoded, Target, encode_request};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::secret::without_password;
use crate::{
    ClientConfig, ClientError, Limits, ModelCall, ModelError, ModelErrorKind, ModelProvider, Retries, Secret,
    Timeouts, WireRequest, address, http,
};

/// The configured providers, ready to be called, and what all calls share.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) http: http::HttpClients,
    endpoints: BTreeMap<String, Endpoint>,
    catalogue: Catalogue,
    pub(crate) timeouts: Timeouts,
    pub(crate) retries: Retries,
    pub(crate) limits: Limits,
    pub(crate) record_content: bool,
    n_calls: AtomicU64,
}

/// A provider, ready to be called.
pub(crate) struct Endpoint {
    dialect: Dialect,
    base: Url,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    /// Whether a required key is missing.
    lacks_key: bool,
    /// The provider's name in traces.
    traced_as: String,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = without_password(self.base.as_str());
        f.debug_struct("Endpoint")
            .field("dialect", &self.dialect)
            .field("base", &base)
            .finish_non_exhaustive()
    }
}

/// Everything that one call sends, and the secrets in it that must not be shown.
pub(crate) struct Prepared {
    pub(crate) target: Target,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: bytes::Bytes,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) traced_as: String,
}

impl Endpoints {
    /// Resolves the providers of a configuration.
    pub(crate) fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let endpoints = config.providers.iter().map(|(name, it)| Ok((name.clone(), endpoint(name, it)?)));
        let endpoints: BTreeMap<String, Endpoint> = endpoints.collect::<Result<_, ClientError>>()?;
        Ok(Self {
            http: http::HttpClients::new(&config, endpoints.values().any(|it| it.base.scheme() == "https"))?,
            endpoints,
            catalogue: config.catalogue,
            timeouts: config.timeouts,
            retries: config.retries,
            limits: config.limits,
            record_content: config.record_content,
            n_calls: AtomicU64::new(0),
        })
    }

    /// Returns the names of the providers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.endpoints.keys().map(String::as_str)
    }

    /// Returns the number of a new call, which gives each call a different jitter.
    pub(crate) fn number_call(&self) -> u64 {
        self.n_calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns everything that a call sends.
    pub(crate) fn prepare(&self, call: &ModelCall) -> Result<Prepared, ModelError> {
        let (endpoint, WireRequest { target, body }) = self.encode(call)?;
        if endpoint.lacks_key {
            let message = format!("there is no key for provider `{}`", target.provider);
            return Err(ModelError::new(ModelErrorKind::KeyMissing, message));
        }
        Ok(Prepared {
            url: address::endpoint(&endpoint.base, &target),
            headers: endpoint.headers.clone(),
            body,
            secrets: endpoint.secrets.clone(),
            traced_as: endpoint.traced_as.clone(),
            target,
        })
    }

    /// Encodes a call, unless that has been done.
    pub(crate) fn encode(&self, call: &ModelCall) -> Result<(&Endpoint, WireRequest), ModelError> {
        if let Some(encoded) = &call.encoded {
            let (endpoint, ..) = self.find(call)?;
            return Ok((endpoint, encoded.clone()));
        }
        let (endpoint, target) = self.target(call)?;
        let Encoded { body, losses } = encode_request(&target, &call.request);
        // Only the places are logged: a reason may quote the conversation. `Client::encode_with_losses` returns all.
        losses.iter().for_each(|it| tracing::debug!(at = it.at, "left out: the dialect can't represent it"));
        // Plain data always serialises.
        Ok((endpoint, WireRequest { target, body: serde_json::to_vec(&body).unwrap_or_default().into() }))
    }

    /// Returns the endpoint and the target that the request names.
    pub(crate) fn target(&self, call: &ModelCall) -> Result<(&Endpoint, Target), ModelError> {
        let (endpoint, provider, model) = self.find(call)?;
        let target = Target {
            facts: self.catalogue.facts(&format!("{provider}/{model}")),
            stream: true,
            cache_key: call.cache_key.clone(),
            ..Target::new(endpoint.dialect, provider, model)
        };
        Ok((endpoint, target))
    }

    /// Returns the endpoint that the request names, with the names of its provider and model.
    fn find<'a>(&self, call: &'a ModelCall) -> Result<(&Endpoint, &'a str, &'a str), ModelError> {
        let missing = |message: String| ModelError::new(ModelErrorKind::NotFound, message);
        let full =
            call.request.model.as_deref().ok_or_else(|| missing("the request names no model".to_owned()))?;
        let (provider, model) = full
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
            .ok_or_else(|| missing(format!("`{full}` is not `provider/model`; {}", self.known())))?;
        let endpoint = self.endpoints.get(provider).ok_or_else(|| {
            missing(format!("there is no provider `{provider}`; {}", self.known())).of_model(full)
        })?;
        Ok((endpoint, provider, model))
    }

    fn known(&self) -> String {
        let names: Vec<String> = self.endpoints.keys().map(|it| format!("`{it}`")).collect();
        match names.is_empty() {
            true => "no provider is configured".to_owned(),
            false => format!("configured are {}", names.join(", ")),
        }
    }
}

fn endpoint(name: &str, provider: &ModelProvider) -> Result<Endpoint, ClientError> {
    let base = address::base(name, provider)?;
    let secrets = secrets(provider, &base);
    Ok(Endpoint {
        dialect: provider.dialect,
        base,
        headers: headers(name, provider)?,
        secrets,
        lacks_key: lacks_key(provider),
        traced_as: traced_as(name, provider),
    })
}

/// Whether a call would certainly be rejected for lack of a key.
fn lacks_key(provider: &ModelProvider) -> bool {
    let needs_key = provider.needs_key || provider.base_url.is_none();
    let has_key = provider.api_key.as_ref().is_some_and(|it| !it.expose().is_empty());
    needs_key && !has_key && provider.headers.is_empty()
}

/// Returns the secrets of a provider: keys, extra headers, the key inside `Bearer KEY`, and those in the URL.
fn secrets(provider: &ModelProvider, base: &Url) -> Vec<Secret> {
    let whole = provider.api_key.iter().chain(provider.headers.values()).cloned();
    let alone = provider.headers.values().filter_map(|it| it.expose().split_once(' '));
    let alone = alone.map(|(_, key)| Secret::new(key));
    let in_address = address::secrets(base).into_iter().map(Secret::new);
    whole.chain(alone).chain(in_address).collect()
}

/// Returns the well-known name of the dialect's owner, or the configured name of any other provider.
fn traced_as(name: &str, provider: &ModelProvider) -> String {
    let owner = match provider.dialect {
        Dialect::Openai | Dialect::OpenaiResponses => "openai",
        Dialect::Anthropic => "anthropic",
        Dialect::Gemini => "gcp.gemini",
    };
    if provider.base_url.is_none() { owner.to_owned() } else { name.to_owned() }
}

fn headers(name: &str, provider: &ModelProvider) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("contexture/", env!("CARGO_PKG_VERSION"))));
    if provider.dialect == Dialect::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let key = provider.api_key.as_ref().filter(|it| !it.expose().is_empty());
    let key = key.map(|it| key_header(provider.dialect, it.expose()));
    let further = provider.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    for (header, value) in key.into_iter().chain(further) {
        let failed = || ClientError::Header { provider: name.to_owned(), header: header.clone() };
        let mut value = HeaderValue::from_str(&value).map_err(|_| failed())?;
        value.set_sensitive(true);
        headers.insert(header.parse::<HeaderName>().map_err(|_| failed())?, value);
    }
    Ok(headers)
}

fn key_header(dialect: Dialect, key: &str) -> (String, String) {
    match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => (AUTHORIZATION.to_string(), format!("Bearer {key}")),
        Dialect::Anthropic => ("x-api-key".to_owned(), key.to_owned()),
        Dialect::Gemini => ("x-goog-api-key".to_owned(), key.to_owned()),
    }
}
