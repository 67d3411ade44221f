//! Vectors beside the lexical index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contexture_compose::BoxFuture;
use contexture_knowledge::embed::{Embedder, EmbedderError, HashEmbedder, VectorCache, embed_missing};
use contexture_knowledge::{LocalRetriever, Query, RetrievalNote, Retrieved, Retriever};
use contexture_session::rank::Signal;
use futures::executor::block_on;

use crate::support::Base;

fn filled() -> Base {
    let base = Base::new();
    for no in 0..70 {
        base.add(&format!("{no}.md"), &format!("number{no} of many"));
    }
    base
}

fn retriever(base: &Base, embedder: &Arc<dyn Embedder>, cache: &Arc<VectorCache>) -> LocalRetriever {
    base.retriever().with_embedder(Arc::clone(embedder), Arc::clone(cache))
}

fn found(retriever: &LocalRetriever, query: &str) -> Retrieved {
    block_on(retriever.retrieve(Query::new(query, 5))).unwrap()
}

#[test]
fn until_all_chunks_have_vectors_the_lexical_rank_stands() {
    let (base, cache) = (filled(), Arc::new(VectorCache::default()));
    let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new("m1", 64));
    let before = found(&retriever(&base, &embedder, &cache), "number7");
    assert_eq!(before.notes, [RetrievalNote::VectorsIncomplete { model: "m1".to_owned(), missing: 70 }]);
    assert!(!before.hits[0].shares.contains_key(&Signal::Dense));
    assert_eq!(block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {})).unwrap(), 70);
    assert_eq!(block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {})).unwrap(), 0);
    let after = found(&retriever(&base, &embedder, &cache), "number7");
    assert_eq!(after.notes, []);
    assert!(after.hits[0].shares[&Signal::Dense] > 0.0);
    // A change of a document, and another model: the lexical rank again, until both are made up for.
    base.add("7.md", "number7 is new");
    let changed = found(&retriever(&base, &embedder, &cache), "number7");
    assert_eq!(changed.notes, [RetrievalNote::VectorsIncomplete { model: "m1".to_owned(), missing: 1 }]);
    let other: Arc<dyn Embedder> = Arc::new(HashEmbedder::new("m2", 32));
    assert_eq!(block_on(embed_missing(&base.store, &base.key, &*other, &|_| {})).unwrap(), 70);
    assert_eq!(found(&retriever(&base, &other, &cache), "number7").notes, []);
    assert_eq!(block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {})).unwrap(), 70);
}

#[test]
fn similar_texts_are_found_without_a_common_term() {
    /// Knows two topics.
    struct Topics;

    impl Embedder for Topics {
        fn model(&self) -> &str {
            "topics"
        }

        fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
            let is_car = |it: &String| it.contains("car") || it.contains("vehicle");
            let vectors = texts.iter().map(|it| if is_car(it) { vec![1.0, 0.0] } else { vec![0.0, 1.0] });
            let vectors = vectors.collect();
            Box::pin(async move { Ok(vectors) })
        }
    }

    let base = Base::new();
    base.add("car", "a red car");
    base.add("tree", "a green tree");
    let embedder: Arc<dyn Embedder> = Arc::new(Topics);
    block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {})).unwrap();
    let hits = found(&retriever(&base, &embedder, &Arc::default()), "vehicle").hits;
    assert_eq!(hits.iter().filter_map(|it| it.document.id.as_deref()).collect::<Vec<_>>(), ["car"]);
    assert_eq!(hits[0].shares.keys().copied().collect::<Vec<_>>(), [Signal::Dense]);
}

/// An embedder that fails when told to, or returns too few vectors.
struct Moody(HashEmbedder, AtomicBool);

impl Embedder for Moody {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
        let texts = if self.1.load(Ordering::Relaxed) { Vec::new() } else { texts };
        self.0.embed(texts)
    }
}

#[test]
fn a_failing_embedder_is_a_note_and_not_an_error() {
    let base = filled();
    let moody = Arc::new(Moody(HashEmbedder::new("moody", 16), AtomicBool::new(false)));
    let embedder: Arc<dyn Embedder> = moody.clone();
    block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {})).unwrap();
    moody.1.store(true, Ordering::Relaxed);
    let found = found(&retriever(&base, &embedder, &Arc::default()), "number7");
    assert!(matches!(found.notes[..], [RetrievalNote::EmbedderFailed { .. }]), "{:?}", found.notes);
    assert_eq!(found.hits[0].document.id.as_deref(), Some("7.md"));
    base.add("new.md", "another one");
    let failed = block_on(embed_missing(&base.store, &base.key, &*embedder, &|_| {}));
    assert!(matches!(failed, Err(EmbedderError::WrongCount { expected: 1, found: 0, .. })), "{failed:?}");
}
