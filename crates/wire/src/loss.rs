//! Losses: what a dialect cannot represent is reported, never dropped silently.

use serde::Serialize;
use serde_json::Value;

/// Something that was omitted or reworded because the dialect cannot represent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The path of the value, such as `messages[3].content[1]` or `settings.top_k`.
    pub at: String,
    /// What happened to the value, and why.
    pub reason: String,
}

/// A JSON body and the losses of encoding it.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The JSON to send.
    pub body: Value,
    /// The losses, in request order.
    pub losses: Vec<Loss>,
}

/// A decoded value and the losses of decoding it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<T> {
    /// The decoded value.
    pub value: T,
    /// The losses, in document order.
    pub losses: Vec<Loss>,
}

/// Collects losses.
#[derive(Debug, Default)]
pub(crate) struct Losses(Vec<Loss>);

impl Losses {
    pub(crate) fn add(&mut self, at: impl Into<String>, reason: impl Into<String>) {
        self.0.push(Loss { at: at.into(), reason: reason.into() });
    }

    pub(crate) fn into_vec(self) -> Vec<Loss> {
        self.0
    }
}
