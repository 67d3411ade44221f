//! What is removed from a base is in no row of any table.

use contexture_history::Timestamp;
use contexture_session::rank::{Analyzer, Fields, Language};
use contexture_session::sources::{
    BaseSettings, NewChunk, NewSource, SourceChange, SourceIndex as _, SourceInfo,
};
use contexture_session::{BaseId, BaseKey, SourceId, Tenant};
use serde_json::json;

use crate::support::{admin, config, store_in, unique, url};

fn source(id: &str, text: &str) -> NewSource {
    let terms = Analyzer::new(Language::English).index(Fields { title: "", headings: &[], body: text });
    let chunk = NewChunk { text: text.to_owned(), terms, ..NewChunk::default() };
    let info = SourceInfo {
        id: SourceId::parse(id).unwrap(),
        title: String::new(),
        origin: None,
        media_type: "text/plain".to_owned(),
        metadata: json!({"note": text}).as_object().cloned().unwrap_or_default(),
        version: "1".to_owned(),
        bytes: text.len() as u64,
        at: Timestamp(1),
        first: 0,
        chunks: 0,
    };
    NewSource { info, chunks: vec![chunk] }
}

/// Returns the tables of a schema that have a word in any row, as text or as bytes.
async fn tables_with(schema: &str, word: &str) -> Vec<String> {
    let client = admin(&url()).await;
    let bytes: String = word.bytes().map(|it| format!("{it:02x}")).collect();
    let tables =
        client.query("SELECT tablename FROM pg_tables WHERE schemaname = $1", &[&schema]).await.unwrap();
    let mut found = Vec::new();
    for table in tables {
        let table: String = table.get(0);
        let sql = format!(
            "SELECT count(*) FROM \"{schema}\".\"{table}\" it WHERE it::text LIKE $1 OR it::text LIKE $2"
        );
        let patterns = (format!("%{word}%"), format!("%{bytes}%"));
        let rows: i64 = client.query_one(&sql, &[&patterns.0, &patterns.1]).await.unwrap().get(0);
        if rows > 0 {
            found.push(table);
        }
    }
    found
}

#[tokio::test]
async fn what_is_removed_is_in_no_row() {
    let schema = unique("erasing");
    let store = store_in(config(&schema)).await;
    let key = BaseKey { tenant: Tenant::default(), base: BaseId::parse("__memory-1").unwrap() };
    store.put_base(key.clone(), BaseSettings::default(), Timestamp(1)).await.unwrap();
    let put = vec![source("r/1", "the zanzibar fox"), source("r/2", "the platypus")];
    store.change_sources(key.clone(), SourceChange { put, ..SourceChange::default() }).await.unwrap();
    assert!(tables_with(&schema, "zanzibar").await.len() > 2);
    let remove = vec![SourceId::parse("r/1").unwrap()];
    store.change_sources(key, SourceChange { remove, ..SourceChange::default() }).await.unwrap();
    store.erase_removed().await.unwrap();
    assert_eq!(tables_with(&schema, "zanzibar").await, Vec::<String>::new());
    assert!(tables_with(&schema, "platypus").await.len() > 2);
}
