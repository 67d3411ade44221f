//! Bases in memory and on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use contexture_history::Timestamp;
use contexture_knowledge::{
    Document, FileContent, FileError, Files, IndexPorts, IndexReport, Indexer, LocalRetriever, Media, Query,
    Retriever,
};
use contexture_message::counter_for;
use contexture_session::conformance::SystemTime;
use contexture_session::{BaseId, BaseKey, ChunkSelection, MemoryStore, SourceId, SourceIndex, Tenant};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::executor::block_on;

pub(crate) fn key(base: &str) -> BaseKey {
    BaseKey { tenant: Tenant::default(), base: BaseId::parse(base).unwrap() }
}

pub(crate) fn memory() -> Arc<dyn SourceIndex> {
    Arc::new(MemoryStore::new(Arc::new(SystemTime)))
}

pub(crate) fn sqlite(path: &Path) -> Arc<dyn SourceIndex> {
    Arc::new(SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime))).unwrap())
}

/// A base that is open, with what indexes it.
pub(crate) struct Base {
    pub(crate) store: Arc<dyn SourceIndex>,
    pub(crate) key: BaseKey,
    pub(crate) indexer: Indexer,
}

impl Base {
    pub(crate) fn new() -> Self {
        Self::on(memory())
    }

    pub(crate) fn on(store: Arc<dyn SourceIndex>) -> Self {
        let key = key("handbook");
        block_on(store.put_base(key.clone(), Default::default(), Timestamp(0))).unwrap();
        let ports = IndexPorts { store: Arc::clone(&store), counter: counter_for(None), converter: None };
        Self { store, key, indexer: Indexer::new(ports, Default::default()) }
    }

    pub(crate) fn add(&self, id: &str, text: &str) -> IndexReport {
        let document = Document::new(SourceId::parse(id).unwrap(), Media::Markdown, text);
        block_on(self.indexer.add(&self.key, vec![document], &|_| {})).unwrap()
    }

    pub(crate) fn sync(&self, files: &dyn Files) -> IndexReport {
        block_on(self.indexer.sync(&self.key, files, &|_| {})).unwrap()
    }

    pub(crate) fn retriever(&self) -> LocalRetriever {
        LocalRetriever::new(Arc::clone(&self.store), self.key.clone())
    }

    /// Returns the documents that are found, best first.
    pub(crate) fn find(&self, query: &str) -> Vec<String> {
        let found = block_on(self.retriever().retrieve(Query::new(query, 10))).unwrap();
        found.hits.into_iter().filter_map(|it| it.document.id).collect()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        let listed = block_on(self.store.sources(self.key.clone(), None, 1_000)).unwrap();
        listed.into_iter().map(|it| it.id.to_string()).collect()
    }

    /// Returns the texts of a document's chunks.
    pub(crate) fn texts(&self, id: &str) -> Vec<String> {
        let selection =
            ChunkSelection::Range { source: SourceId::parse(id).unwrap(), positions: 0..u32::MAX };
        let chunks = block_on(self.store.chunks(self.key.clone(), selection)).unwrap();
        chunks.into_iter().map(|it| it.text).collect()
    }
}

/// Files in memory. `None` is one that can't be read.
#[derive(Default)]
pub(crate) struct MemoryFiles(Mutex<BTreeMap<String, Option<Vec<u8>>>>);

impl MemoryFiles {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let memory = Self::default();
        files.iter().for_each(|(path, text)| memory.put(path, text.as_bytes()));
        memory
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.0.lock().unwrap().insert(path.to_owned(), Some(bytes.to_vec()));
    }

    pub(crate) fn lock_up(&self, path: &str) {
        self.0.lock().unwrap().insert(path.to_owned(), None);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().unwrap().remove(path);
    }
}

impl Files for MemoryFiles {
    fn list(&self) -> Result<Vec<String>, FileError> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    fn read(&self, path: &str) -> Result<FileContent, FileError> {
        let error = |detail: &str| FileError { path: path.to_owned(), detail: detail.to_owned() };
        let content = self.0.lock().unwrap().get(path).cloned().ok_or_else(|| error("it is gone"))?;
        let bytes = content.ok_or_else(|| error("it is locked"))?;
        Ok(FileContent::Bytes { bytes, at: Timestamp(7) })
    }
}
