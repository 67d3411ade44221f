//! Checks of documents.

mod life;
mod writes;

use std::sync::Arc;

use contexture_history::Timestamp;
use futures::future::BoxFuture;

pub use life::{nothing_stays_behind_a_deleted_session, what_belongs_to_a_session_goes_with_it};
pub use writes::{
    documents_are_created_once, documents_are_listed, documents_are_written, documents_have_any_name,
    old_documents_are_forgotten,
};

use super::support::TestNames;
use crate::documents::{Document, DocumentKey, Documents};
use crate::{Names as _, NewSession, SessionId, SessionKey, Store, StoreError, Tenant};

/// Opens the store once more, as another process would.
pub type OpenDocuments = Arc<dyn Fn() -> BoxFuture<'static, Opened> + Send + Sync>;

/// A store from both sides.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Where sessions are.
    pub store: Arc<dyn Store>,
    /// Where their documents are.
    pub documents: Arc<dyn Documents>,
}

impl Opened {
    /// Returns both sides of a store whose clones share it.
    pub fn new(store: impl Store + Documents + Clone) -> Self {
        Self { store: Arc::new(store.clone()), documents: Arc::new(store) }
    }
}

/// A session in a separate tenant, and a kind that no other check uses.
struct Fixture {
    open: Opened,
    session: SessionKey,
    kind: String,
}

impl Fixture {
    async fn new(open: &OpenDocuments) -> Fixture {
        let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
        let session = SessionKey { tenant, session: SessionId::parse("s").expect("a name") };
        let fixture = Fixture { open: open().await, session, kind: TestNames.next() };
        fixture.create_session(&fixture.session).await;
        fixture
    }

    async fn create_session(&self, key: &SessionKey) {
        let new = NewSession { key: key.clone(), label: None, at: Timestamp(1) };
        self.open.store.create_session(new).await.expect("a new session");
    }

    async fn delete_session(&self) {
        let was_there = self.open.store.delete_session(self.session.clone()).await;
        assert!(was_there.expect("the store answers"));
    }

    /// A document of the session.
    fn key(&self, name: &str) -> DocumentKey {
        DocumentKey::of_session(&self.session.tenant, &self.session.session, &self.kind, name)
    }

    async fn put(&self, documents: &[Document]) {
        for document in documents {
            self.open.documents.put(document.clone()).await.expect("a write");
        }
    }

    async fn create(&self, document: Document) -> Result<(), StoreError> {
        self.open.documents.create(document).await
    }

    async fn delete(&self, keys: &[&DocumentKey]) {
        for key in keys {
            self.open.documents.delete((*key).clone()).await.expect("a write");
        }
    }

    async fn documents(&self, keys: &[DocumentKey]) -> Vec<Document> {
        let mut found = Vec::new();
        for key in keys {
            found.extend(self.open.documents.document(key.clone()).await.expect("the store answers"));
        }
        found
    }

    /// Returns what documents say, and `-` for one that is not there.
    async fn texts(&self, keys: &[DocumentKey]) -> Vec<String> {
        let mut texts = Vec::new();
        for key in keys {
            let found = self.documents(std::slice::from_ref(key)).await;
            texts.push(found.first().map_or("-".to_owned(), |it| it.data.clone()));
        }
        texts
    }

    /// Lists documents of the check's kind, in every tenant and session.
    async fn list(&self, after: Option<&DocumentKey>, max: usize) -> Vec<Document> {
        self.open.documents.list(self.kind.clone(), after.cloned(), max).await.expect("the store answers")
    }

    async fn prune(&self, before: i64, max: usize) -> u64 {
        let pruned = self.open.documents.prune(self.kind.clone(), Timestamp(before), max).await;
        pruned.expect("the store answers")
    }
}

fn document(key: &DocumentKey, at: i64, data: &str) -> Document {
    Document { key: key.clone(), at: Timestamp(at), data: data.to_owned() }
}
