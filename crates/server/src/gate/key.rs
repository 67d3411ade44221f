//! API keys: what they look like, and what is kept of them.
//!
//! A key is `ctx_ID_SECRET`. The id may be seen; the secret is 256 bits long and shown once. Its SHA-256 is what is
//! kept: a secret that long can't be guessed, so a slow hash would only make every request slower.

use std::fmt;

use contexture_agent::Secrets;
use contexture_history::Timestamp;
use contexture_session::Tenant;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of every key, so that a leaked one is easy to recognise.
const PREFIX: &str = "ctx_";
/// How long the id of a key may be; ours are shorter.
const MAX_ID: usize = 40;
/// How long the secret of a key may be; ours are shorter.
const MAX_SECRET: usize = 200;

/// The stored data of an API key, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its name, a part of the key.
    pub id: String,
    /// The tenant whose data it can access.
    pub tenant: Tenant,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The time of creation.
    pub created: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The requests per minute, unless the configured default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// The number of concurrent requests, unless the configured default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// Whether it grants admin rights: metrics and the audit log.
    #[serde(default)]
    pub admin: bool,
}

impl Key {
    /// Returns the data of an unreadable key: it counts as revoked.
    pub(super) fn unreadable(id: &str, now: Timestamp) -> Self {
        Self { id: id.to_owned(), created: now, revoked: Some(now), ..Self::default() }
    }
}

/// The properties of a new key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewKey {
    /// The tenant whose data it can access.
    pub tenant: Tenant,
    /// A label for people.
    pub label: Option<String>,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// How many requests it may make in a minute.
    pub requests_per_minute: Option<u32>,
    /// How many of its requests may run at the same time.
    pub concurrent: Option<u32>,
    /// Whether it grants admin rights.
    pub admin: bool,
}

/// A whole key, to be handed out once. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns the key, to show it to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A key as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredKey {
    #[serde(flatten)]
    pub(super) key: Key,
    /// The SHA-256 of the secret, in hexadecimal.
    hash: String,
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl StoredKey {
    /// Creates a key and its token.
    pub(super) fn new(new: NewKey, secrets: &dyn Secrets, now: Timestamp) -> (Self, Token) {
        // Each secret has 128 bits at least, so two of them fill the hash.
        let secret = hash(&format!("{}{}", secrets.next(), secrets.next()));
        let id: String = hash(&secrets.next()).chars().take(12).collect();
        let token = Token(format!("{PREFIX}{id}_{secret}"));
        let NewKey { tenant, label, expires, requests_per_minute, concurrent, admin } = new;
        let (created, revoked) = (now, None);
        let key =
            Key { id, tenant, label, created, expires, revoked, requests_per_minute, concurrent, admin };
        (Self { key, hash: hash(&secret) }, token)
    }

    /// Whether a presented key is accepted now.
    pub(super) fn opens(&self, presented: &PresentedKey<'_>, now: Timestamp) -> bool {
        let is_same = bool::from(self.hash.as_bytes().ct_eq(hash(presented.secret).as_bytes()));
        is_same && self.is_valid(now)
    }

    /// Whether it is neither revoked nor expired.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.key.revoked.is_none() && self.key.expires.is_none_or(|it| now < it)
    }
}

/// A key as a client presents it; not verified yet.
#[derive(Clone, Copy)]
pub(super) struct PresentedKey<'a> {
    pub(super) id: &'a str,
    secret: &'a str,
}

impl<'a> PresentedKey<'a> {
    /// Reads a key; nothing if it does not look like one.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let fits = |it: &str, max: usize| {
            !it.is_empty() && it.len() <= max && it.bytes().all(|it| it.is_ascii_alphanumeric())
        };
        (fits(id, MAX_ID) && fits(secret, MAX_SECRET)).then_some(Self { id, secret })
    }

    /// Takes as long as checking an existing key.
    pub(super) fn spend_equal_time<T>(&self) -> Option<T> {
        let _ = bool::from(hash(self.secret).as_bytes().ct_eq(&[0; 64]));
        None
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use contexture_history::Timestamp;
    use proptest::prelude::*;

    use super::{NewKey, PresentedKey, StoredKey};

    struct Fixed;

    impl contexture_agent::Secrets for Fixed {
        fn next(&self) -> String {
            "0123456789abcdef0123456789abcdef".to_owned()
        }
    }

    fn made(expires: Option<i64>) -> (StoredKey, String) {
        let new = NewKey { expires: expires.map(Timestamp), ..NewKey::default() };
        let (stored, token) = StoredKey::new(new, &Fixed, Timestamp(10));
        (stored, token.reveal().to_owned())
    }

    fn opens(stored: &StoredKey, token: &str, now: i64) -> bool {
        PresentedKey::parse(token).is_some_and(|it| stored.opens(&it, Timestamp(now)))
    }

    #[test]
    fn a_key_opens_until_it_expires_or_is_revoked() {
        let (mut stored, token) = made(Some(100));
        assert!(opens(&stored, &token, 99));
        assert!(!opens(&stored, &token, 100));
        stored.key.revoked = Some(Timestamp(50));
        assert!(!opens(&stored, &token, 99));
    }

    #[test]
    fn nothing_that_is_kept_or_printed_tells_the_secret() {
        let (stored, token) = made(None);
        let secret = token.rsplit('_').next().unwrap_or_default();
        assert_eq!(secret.len(), 64);
        let json = serde_json::to_string(&stored).unwrap_or_default();
        assert!(!json.contains(secret) && !format!("{stored:?}").contains("hash"), "{json}");
        let (_, token) = StoredKey::new(NewKey::default(), &Fixed, Timestamp(0));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    proptest! {
        #[test]
        fn no_other_text_opens(text in ".*", cut in 0_usize..80, flip in 0_usize..80) {
            let (stored, token) = made(None);
            prop_assert!(text == token || !opens(&stored, &text, 20));
            let shorter: String = token.chars().take(cut).collect();
            prop_assert!(shorter == token || !opens(&stored, &shorter, 20));
            let other: String =
                token.chars().enumerate().map(|(i, it)| if i == flip { 'z' } else { it }).collect();
            // The id identifies the key; only the secret opens it.
            let is_in_secret = flip >= token.len() - 64;
            prop_assert!(other == token || !is_in_secret || !opens(&stored, &other, 20));
        }
    }
}
