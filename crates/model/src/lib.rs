//! Calling models.
//!
//! [`Model`] is the port: it takes a call and returns a stream of [`Delta`](contexture_message::Delta)s, the last of
//! which is the whole answer. [`Client`] calls the providers of a [`ClientConfig`] over HTTP; [`Scripted`] is the fake
//! for tests.
//!
//! The wire format of requests is in `contexture-wire`. Keys are not read from the environment: the caller that builds
//! the configuration passes them in.

mod address;
mod body;
mod call;
mod client;
mod config;
mod endpoint;
mod error;
mod http;
mod port;
mod retry;
mod scripted;
mod secret;
mod trace;

pub use call::COLLECT;
pub use client::Client;
pub use config::{ClientConfig, ClientError, Limits, ModelProvider, Retries, Timeouts};
pub use error::{ModelError, ModelErrorKind};
pub use http::http_client;
pub use port::{Deltas, Model, ModelCall, WireRequest};
pub use reqwest::{NoProxy, Proxy};
pub use scripted::{Scripted, Step};
pub use secret::Secret;
