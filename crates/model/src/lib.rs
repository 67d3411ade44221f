//! Calling models.
//!
//! [`Model`] is the port: a call goes in, a stream of [`Delta`](contexture_message::Delta)s comes out, the last of which
//! is the whole answer. [`Client`] speaks HTTP to the providers of a [`ClientConfig`]; [`Scripted`] is the fake for
//! tests.
//!
//! What a request looks like on the wire is not here but in `contexture-wire`, and neither are keys read from the
//! environment: whoever builds the configuration hands them in.

mod address;
mod body;
mod call;
mod client;
mod config;
mod error;
mod http;
mod port;
mod retry;
mod scripted;
mod secret;
mod tls;
mod trace;

pub use client::Client;
pub use config::{ClientConfig, ClientError, Limits, ModelProvider, Retries, Timeouts};
pub use error::{ModelError, ModelErrorKind};
pub use http::http_client;
pub use port::{Deltas, Model, ModelCall};
pub use reqwest::{NoProxy, Proxy};
pub use scripted::{Scripted, Step};
pub use secret::Secret;
