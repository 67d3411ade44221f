//! Retrieving from a base in a store.

use contexture_knowledge::retrieve::Around;
use contexture_knowledge::{Query, RetrievalNote, RetrieveError, Retriever};
use contexture_session::rank::{RankConfig, Signal};
use futures::executor::block_on;

use crate::support::{Base, key};

fn filled() -> Base {
    let base = Base::new();
    base.add("refunds.md", "# Refunds\n\nRefunds take 30 days after the purchase.");
    base.add("shipping.md", "# Shipping\n\nParcels are shipped within two days.");
    base.add("api.md", "# API\n\nSet `maxRetryCount` or max_retry_count in the client's settings.");
    base
}

#[test]
fn words_are_found_in_any_form() {
    let base = filled();
    assert_eq!(base.find("How long does a refund take after purchasing?")[0], "refunds.md");
    assert_eq!(base.find("ship a parcel")[0], "shipping.md");
    assert_eq!(base.find("retry count")[0], "api.md");
    assert_eq!(base.find("max_retry_count"), ["api.md"]);
    assert_eq!(base.find("the of and"), Vec::<String>::new());
}

#[test]
fn shares_add_up_to_the_score() {
    let base = filled();
    let found = block_on(base.retriever().retrieve(Query::new("refunds after days", 5))).unwrap();
    for hit in &found.hits {
        assert!((hit.shares.values().sum::<f64>() - hit.score).abs() < 1e-9 && hit.score <= 1.0);
    }
    let first = &found.hits[0];
    assert!(first.shares[&Signal::Lexical] > 0.0);
    assert_eq!((first.source(), first.tag()), ("knowledge:handbook#1".to_owned(), "[handbook:1]".to_owned()));
    assert_eq!(first.document.headings, ["Refunds"]);
}

#[test]
fn weak_hits_are_left_out_with_a_note() {
    let base = filled();
    let query = Query { min_score: 0.99, ..Query::new("days", 5) };
    let found = block_on(base.retriever().retrieve(query)).unwrap();
    assert!(found.hits.is_empty());
    assert!(matches!(found.notes[..], [RetrievalNote::BelowMinScore { count: 2, .. }]), "{:?}", found.notes);
}

#[test]
fn a_missing_base_is_a_typed_reason() {
    let base = filled();
    let other = contexture_knowledge::LocalRetriever::new(base.store, key("other"));
    let missing = block_on(other.retrieve(Query::new("days", 5)));
    assert!(matches!(missing, Err(RetrieveError::Store(_))), "{missing:?}");
}

#[test]
fn younger_documents_come_first_where_recency_counts() {
    let base = Base::new();
    let document = |id: &str, at| contexture_knowledge::Document {
        at: contexture_history::Timestamp(at),
        ..contexture_knowledge::Document::new(
            contexture_session::SourceId::parse(id).unwrap(),
            contexture_knowledge::Media::Text,
            "the price is fixed",
        )
    };
    const YEAR: i64 = 365 * 24 * 60 * 60 * 1000;
    let documents = vec![document("new", 2 * YEAR), document("old", YEAR)];
    block_on(base.indexer.add(&base.key, documents, &|_| {})).unwrap();
    let mut config = RankConfig::documents();
    config.signals.recency = 0.2;
    let query = Query { now: Some(contexture_history::Timestamp(2 * YEAR)), ..Query::new("price", 5) };
    let found = block_on(base.retriever().ranked_by(config).retrieve(query)).unwrap();
    let ids: Vec<_> = found.hits.iter().filter_map(|it| it.document.id.as_deref()).collect();
    assert_eq!(ids, ["new", "old"]);
    assert!(found.hits[0].shares[&Signal::Recency] > found.hits[1].shares[&Signal::Recency]);
}

#[test]
fn neighbours_and_sections_can_be_read() {
    let base = Base::new();
    let long = |word: &str| format!("{word} {}", "and some more words about it ".repeat(60));
    let text = format!("# One\n\n{}\n\n{}\n\n# Two\n\n{}", long("alpha"), long("beta"), long("gamma"));
    base.add("a.md", &text);
    let retriever = base.retriever();
    let found = block_on(retriever.retrieve(Query::new("beta", 1))).unwrap();
    let positions = |what| -> Vec<u32> {
        let around = block_on(retriever.around(&found.hits[0], what)).unwrap();
        around.iter().filter_map(|it| it.document.position).collect()
    };
    assert_eq!(positions(Around::Neighbours(1)), [0, 1, 2]);
    assert_eq!(positions(Around::Section), [0, 1]);
    assert_eq!(positions(Around::Neighbours(0)), [1]);
}
