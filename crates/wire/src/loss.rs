//! What a dialect can't carry: reported, never lost silently.

use serde::Serialize;
use serde_json::Value;

/// Something that was left out, or said in other words, because the dialect can't carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The place, such as `messages[3].content[1]` or `settings.top_k`.
    pub at: String,
    /// What happened to it and why.
    pub reason: String,
}

/// JSON as it is sent, and what it could not carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// What is sent.
    pub body: Value,
    /// What could not be carried, in the order of the request.
    pub losses: Vec<Loss>,
}

/// What was read, and what has no place in our data.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<T> {
    /// What was read.
    pub value: T,
    /// What was left out, in the order of the document.
    pub losses: Vec<Loss>,
}

/// Losses while they are collected.
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
