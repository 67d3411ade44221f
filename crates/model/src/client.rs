//! The client: calls models over HTTP.
//!
//! The input is a [`ModelCall`]; the output is [`Delta`](contexture_message::Delta)s as they arrive. `endpoint` resolves
//! provider, URL and headers, `call` sends and reads, `retry` decides when to try again.

use std::sync::Arc;

use contexture_wire::{Dialect, Encoded, encode_request};
use futures::StreamExt;

use crate::call::Call;
use crate::endpoint::Endpoints;
use crate::{
    ClientConfig, ClientError, Deltas, Model, ModelCall, ModelError, ModelProvider, Secret, WireRequest,
};

/// Calls models over HTTP. Clones share the connections.
///
/// The request's `model` selects the model as `provider/model`; the provider must be configured.
///
/// ```
/// use contexture_model::{Client, ClientConfig, ModelProvider};
/// use contexture_wire::Dialect;
///
/// let local = ModelProvider::new(Dialect::Openai).at("http://127.0.0.1:11434/v1");
/// let providers = [("ollama".to_owned(), local)].into();
/// let client = Client::new(ClientConfig { providers, ..ClientConfig::default() })?;
/// # Ok::<(), contexture_model::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Endpoints>);

impl Client {
    /// Returns a client, or an error if its configuration is invalid. Nothing is sent.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        Ok(Self(Arc::new(Endpoints::new(config)?)))
    }

    /// Returns a client for one provider with the default settings; models are named `name/model`.
    ///
    /// ```
    /// use contexture_model::{Client, ModelProvider};
    /// use contexture_wire::Dialect;
    ///
    /// let local = ModelProvider::new(Dialect::Openai).at("http://127.0.0.1:8171/v1");
    /// let client = Client::of("local", local)?; // Calls `local/smollm2`.
    /// # Ok::<(), contexture_model::ClientError>(())
    /// ```
    pub fn of(name: impl Into<String>, provider: ModelProvider) -> Result<Self, ClientError> {
        Self::new(ClientConfig { providers: [(name.into(), provider)].into(), ..ClientConfig::default() })
    }

    /// Returns a client for OpenAI; models are named like `openai/gpt-5-mini`.
    pub fn openai(key: impl Into<Secret>) -> Result<Self, ClientError> {
        Self::of("openai", ModelProvider::new(Dialect::Openai).with_key(key))
    }

    /// Returns a client for Anthropic; models are named like `anthropic/claude-sonnet-4-5`.
    pub fn anthropic(key: impl Into<Secret>) -> Result<Self, ClientError> {
        Self::of("anthropic", ModelProvider::new(Dialect::Anthropic).with_key(key))
    }

    /// Returns a client for Google's Gemini; models are named like `gemini/gemini-2.5-flash`.
    pub fn gemini(key: impl Into<Secret>) -> Result<Self, ClientError> {
        Self::of("gemini", ModelProvider::new(Dialect::Gemini).with_key(key))
    }

    /// Returns what a call would send, and what its dialect cannot represent.
    pub fn encode_with_losses(&self, call: &ModelCall) -> Result<Encoded, ModelError> {
        Ok(encode_request(&self.0.target(call)?.1, &call.request))
    }

    /// Returns the names of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }
}

impl Model for Client {
    fn stream(&self, call: ModelCall) -> Deltas {
        let call = Call::new(Arc::clone(&self.0), call);
        futures::stream::unfold(call, async |mut call| call.next().await.map(|it| (it, call))).boxed()
    }

    fn encode(&self, call: &ModelCall) -> Option<WireRequest> {
        self.0.encode(call).ok().map(|(_, encoded)| encoded)
    }
}
