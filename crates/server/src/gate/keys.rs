//! The keys in a store: created and revoked by an administrator, and looked up by every instance.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use contexture_agent::Secrets;
use contexture_history::Timestamp;
use contexture_message::ErrorCode;
use contexture_session::documents::{Document, DocumentKey, Documents};
use contexture_session::{Store, StoreError, Tenant};
use tokio::sync::Mutex;

use super::key::{Key, NewKey, PresentedKey, StoredKey, Token};
use crate::Problem;
use crate::ops::audit::AuditEvent;

/// The kind of the documents that hold keys. They belong to the system: to the default tenant and to no session.
const KEY: &str = "key";
/// How many keys are read per page.
const PAGE: usize = 500;
/// How old what an instance knows of keys may be: so long a key that was revoked may still open.
const FRESH: Duration = Duration::from_secs(2);
/// How long to wait for the store.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The keys in a store.
///
/// ```
/// use std::sync::Arc;
/// use contexture::{SystemSecrets, SystemTime};
/// use contexture::session::{MemoryStore, Time};
/// use contexture_server::{Keys, NewKey};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
/// let keys = Keys::new(store.clone(), store);
/// let (key, token) = keys.create(NewKey::default(), &SystemSecrets, "cli", SystemTime.now()).await?;
/// assert!(token.reveal().starts_with("ctx_")); // Shown once: only its hash is stored.
/// assert!(keys.revoke(&key.id, "cli", SystemTime.now()).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    documents: Arc<dyn Documents>,
}

impl Keys {
    /// Returns the keys in a store.
    pub fn new(store: Arc<dyn Store>, documents: Arc<dyn Documents>) -> Self {
        Self { store, documents }
    }

    /// Creates a key. The returned token is shown to its owner once and can't be recovered. The audit log records the
    /// actor.
    pub async fn create(
        &self,
        new: NewKey,
        secrets: &dyn Secrets,
        actor: &str,
        now: Timestamp,
    ) -> Result<(Key, Token), StoreError> {
        let (stored, token) = StoredKey::new(new, secrets, now);
        let act = AuditEvent::new(actor, "key.created", &stored.key.id).of_tenant(&stored.key.tenant);
        // The act first: what is not on record is not done.
        act.write(&self.store, now).await?;
        self.documents.create(document(&stored, now)).await?;
        Ok((stored.key, token))
    }

    /// Returns all keys, revoked ones too, in the order in which they were made.
    pub async fn list(&self) -> Result<Vec<Key>, StoreError> {
        let mut keys: Vec<Key> = self.all().await?.into_iter().map(|it| it.key).collect();
        keys.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(keys)
    }

    /// Returns those ids that have no key. An unreadable key exists.
    pub async fn missing<'a>(&self, ids: &'a [String]) -> Result<Vec<&'a str>, StoreError> {
        let mut missing = Vec::new();
        for id in ids {
            if self.documents.document(key_of(id)).await?.is_none() {
                missing.push(id.as_str());
            }
        }
        Ok(missing)
    }

    /// Revokes a key. A revoked key stays unchanged; an unreadable one is removed, which makes the other keys usable
    /// again. Returns `None` if there is no such key.
    pub async fn revoke(&self, id: &str, actor: &str, now: Timestamp) -> Result<Option<Key>, StoreError> {
        let Some(found) = self.documents.document(key_of(id)).await? else { return Ok(None) };
        let mut stored = match stored(&found) {
            Ok(stored) => stored,
            Err(_) => return self.remove(id, actor, now).await.map(Some),
        };
        if stored.key.revoked.is_none() {
            stored.key.revoked = Some(now);
            let act = AuditEvent::new(actor, "key.revoked", id).of_tenant(&stored.key.tenant);
            act.write(&self.store, now).await?;
            self.documents.put(document(&stored, now)).await?;
        }
        Ok(Some(stored.key))
    }

    /// Removes a key that can't be read.
    async fn remove(&self, id: &str, actor: &str, now: Timestamp) -> Result<Key, StoreError> {
        let act = AuditEvent::new(actor, "key.removed", id).detail("it could not be read");
        act.write(&self.store, now).await?;
        self.documents.delete(key_of(id)).await?;
        Ok(Key::unreadable(id, now))
    }

    async fn all(&self) -> Result<Vec<StoredKey>, StoreError> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.documents.list(KEY.to_owned(), after, PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            let own = page.iter().filter(|it| it.key.session.is_none() && it.key.tenant == Tenant::default());
            // An unreadable key is an error: otherwise the list might look empty, and everyone would be let in.
            all.extend(own.map(stored).collect::<Result<Vec<_>, _>>()?);
            if is_last {
                return Ok(all);
            }
        }
    }
}

fn key_of(id: &str) -> DocumentKey {
    DocumentKey::of_tenant(&Tenant::default(), KEY, id)
}

fn stored(document: &Document) -> Result<StoredKey, StoreError> {
    let damaged = |err: serde_json::Error| StoreError::Damaged {
        place: format!("key `{}`", document.key.name),
        detail: err.to_string(),
    };
    serde_json::from_str(&document.data).map_err(damaged)
}

fn document(stored: &StoredKey, at: Timestamp) -> Document {
    let data = serde_json::to_string(stored).expect("a key is plain data");
    Document { key: key_of(&stored.key.id), at, data }
}

/// A cache of the keys that is never outdated by more than [`FRESH`].
#[derive(Debug)]
pub(super) struct KeyCache {
    keys: Keys,
    cached: RwLock<Option<CachedKeys>>,
    /// Held by the task that reads them again, while the others wait.
    reading: Mutex<()>,
    /// Whether a key is needed even if there is none. It never becomes false again.
    is_required: AtomicBool,
}

#[derive(Debug)]
struct CachedKeys {
    at: Timestamp,
    keys: Arc<BTreeMap<String, StoredKey>>,
}

impl KeyCache {
    pub(super) fn new(keys: Keys) -> Self {
        let (cached, reading) = (RwLock::default(), Mutex::default());
        Self { keys, cached, reading, is_required: AtomicBool::new(false) }
    }

    /// Requires a key from now on.
    pub(super) fn require(&self) {
        self.is_required.store(true, Ordering::Release);
    }

    /// Returns the key that a request presents, or why it is refused; nothing if there never were any keys, so that
    /// none is needed.
    pub(super) async fn check(&self, text: Option<&str>, now: Timestamp) -> Result<Option<Key>, Problem> {
        let keys = self.fresh(now).await?;
        if keys.is_empty() && !self.is_required.load(Ordering::Acquire) {
            return Ok(None);
        }
        let presented = text.and_then(PresentedKey::parse);
        let stored = presented.and_then(|it| keys.get(it.id).or_else(|| it.spend_equal_time()));
        let opened = presented.zip(stored).filter(|(presented, stored)| stored.opens(presented, now));
        opened.map(|(_, stored)| Some(stored.key.clone())).ok_or_else(|| {
            Problem::new(ErrorCode::Unauthorized, "a valid API key is needed")
                .hint("send `Authorization: Bearer KEY`; `contexture keys create` makes one")
        })
    }

    /// Returns the keys, none of them outdated.
    pub(super) async fn fresh(&self, now: Timestamp) -> Result<Arc<BTreeMap<String, StoredKey>>, StoreError> {
        if let Some(keys) = self.cached(now) {
            return Ok(keys);
        }
        let _reading = self.reading.lock().await;
        if let Some(keys) = self.cached(now) {
            return Ok(keys);
        }
        let late = || StoreError::Unavailable {
            place: "the store".to_owned(),
            detail: "the keys can't be read in time".to_owned(),
        };
        let all = tokio::time::timeout(TIMEOUT, self.keys.all()).await.map_err(|_| late())??;
        let keys: BTreeMap<_, _> = all.into_iter().map(|it| (it.key.id.clone(), it)).collect();
        if !keys.is_empty() {
            self.require();
        }
        let keys = Arc::new(keys);
        let read = CachedKeys { at: now, keys: Arc::clone(&keys) };
        *self.cached.write().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Ok(keys)
    }

    /// Returns the copy, unless it is too old.
    fn cached(&self, now: Timestamp) -> Option<Arc<BTreeMap<String, StoredKey>>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        let cached = cached.as_ref()?;
        // A clock that was set back makes the copy old.
        let age = u64::try_from(now.0.checked_sub(cached.at.0)?).ok()?;
        (Duration::from_millis(age) < FRESH).then(|| Arc::clone(&cached.keys))
    }
}
