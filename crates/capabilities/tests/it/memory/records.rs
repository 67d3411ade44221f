//! Records: versions, comparing and setting, and what held when.

use std::sync::Arc;

use contexture_capabilities::memory::{
    Author, Concern, Layer, MemoryError, NewRecord, RecordEdit, RecordFilter, SearchRequest, Status,
};
use contexture_session::conformance::SystemTime;
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::future::join_all;

use super::Process;

fn text(text: &str) -> RecordEdit {
    RecordEdit { text: Some(text.to_owned()), ..RecordEdit::default() }
}

/// 64 writers add a word each to one record, as three processes that share a store.
async fn writers_lose_nothing(processes: [Process; 3]) {
    let record = processes[0].ada().add(NewRecord::new(Layer::Facts, "start")).await.unwrap();
    let write = |no: usize| {
        let (space, id) = (processes[no % 3].ada(), record.id.clone());
        async move {
            let mut n_stale = 0;
            let mut known = space.get(&id).await.unwrap().unwrap();
            loop {
                // A store in memory never waits: all have read before the first one writes.
                tokio::task::yield_now().await;
                let edit = text(&format!("{} w{no}", known.text));
                match space.edit(&id, Some(known.version), edit).await {
                    Ok(_) => return n_stale,
                    Err(MemoryError::Stale { current: Some(current), .. }) => known = *current,
                    Err(err) => panic!("{err}"),
                }
                n_stale += 1;
            }
        }
    };
    let n_stale: usize = join_all((0..64).map(write)).await.into_iter().sum();
    assert!(n_stale > 0, "the writers never met");
    let space = processes[1].ada();
    let last = space.get(&record.id).await.unwrap().unwrap();
    assert_eq!(last.version, 65);
    let mut words: Vec<&str> = last.text.split(' ').skip(1).collect();
    words.sort_unstable();
    let mut expected: Vec<String> = (0..64).map(|it| format!("w{it}")).collect();
    expected.sort_unstable();
    assert_eq!(words, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_of_one_record_lose_nothing_in_memory() {
    let store = Arc::new(contexture_session::MemoryStore::new(Arc::new(SystemTime)));
    writers_lose_nothing([0, 1, 2].map(|_| Process::on(Arc::clone(&store)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_of_one_record_lose_nothing_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = SqliteStore::open(folder.path().join("m.db"), SqliteConfig::new(Arc::new(SystemTime)));
        Process::on(Arc::new(store.unwrap()))
    };
    writers_lose_nothing([open(), open(), open()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_rewritten_meanwhile_is_listed_once() {
    let process = Process::on(Arc::new(contexture_session::MemoryStore::new(Arc::new(SystemTime))));
    let (space, listed) = (process.ada(), process.ada());
    let id = space.add(NewRecord::new(Layer::Facts, "v0")).await.unwrap().id;
    let writer = tokio::spawn(async move {
        for no in 1..=2_000 {
            space.edit(&id, None, text(&format!("v{no}"))).await.unwrap();
        }
    });
    let mut n_lists = 0;
    while !writer.is_finished() {
        assert_eq!(listed.list(&RecordFilter::default()).await.unwrap().len(), 1);
        n_lists += 1;
    }
    writer.await.unwrap();
    assert!(n_lists > 10, "the two never met");
}

#[tokio::test]
async fn a_stale_write_is_refused_with_the_current_record() {
    let process = Process::new();
    let space = process.ada();
    let first = space.add(NewRecord::new(Layer::Facts, "The deadline is in May.")).await.unwrap();
    space.edit(&first.id, Some(1), text("The deadline is in June.")).await.unwrap();
    let err = space.edit(&first.id, Some(1), text("The deadline is in July.")).await.unwrap_err();
    assert_eq!(err.code(), "version_conflict");
    let MemoryError::Stale { current: Some(current), expected: 1, .. } = err else { panic!("{err}") };
    assert_eq!((current.version, current.text.as_str()), (2, "The deadline is in June."));
    let gone = space.edit("m-none", Some(1), text("x")).await.unwrap_err();
    assert!(matches!(gone, MemoryError::Stale { current: None, .. }), "{gone}");
    let none = space.edit("m-none", None, text("x")).await.unwrap_err();
    assert!(matches!(none, MemoryError::NotFound { .. }), "{none}");
}

#[tokio::test]
async fn a_repeated_write_is_made_once() {
    let process = Process::new();
    let space = process.ada();
    let new =
        |text: &str| NewRecord { key: Some("s/t1/call-1".to_owned()), ..NewRecord::new(Layer::Facts, text) };
    let first = space.add(new("The budget is 500.")).await.unwrap();
    let again = space.add(new("The budget is 500.")).await.unwrap();
    assert_eq!(first, again);
    // Without a key, the words decide.
    space.add(NewRecord::new(Layer::Facts, "Ada lives in  Oslo")).await.unwrap();
    space.add(NewRecord::new(Layer::Facts, "ada lives in Oslo")).await.unwrap();
    assert_eq!(space.list(&RecordFilter::default()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_newest_stands_in_the_view_and_as_of_finds_the_old() {
    let process = Process::new();
    let space = process.ada();
    let old = space.add(NewRecord::new(Layer::Facts, "Ada lives in Oslo.")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    let new = NewRecord::new(Layer::Facts, "Ada lives in Bergen.");
    let new = space.supersede(&old.id, Some(1), new).await.unwrap();
    let found = async |as_of| {
        let request = SearchRequest { as_of, ..SearchRequest::new("where does Ada live", 5) };
        let hits = space.search(&request).await.unwrap();
        hits.into_iter().map(|it| it.text).collect::<Vec<_>>()
    };
    assert_eq!(found(None).await, ["Ada lives in Bergen."]);
    assert_eq!(found(Some(old.created)).await, ["Ada lives in Oslo."]);
    let now = space.list(&RecordFilter::default()).await.unwrap();
    assert_eq!(now.iter().map(|it| &it.id).collect::<Vec<_>>(), [&new.id]);
    let then = RecordFilter { as_of: Some(old.created), ..RecordFilter::default() };
    assert_eq!(space.list(&then).await.unwrap()[0].text, "Ada lives in Oslo.");
    let past = space.get(&old.id).await.unwrap().unwrap();
    assert_eq!(past.superseded_by, Some(new.id.clone()));
    // An edit keeps what stood there before.
    space.edit(&new.id, None, text("Ada lives in Bergen, Norway.")).await.unwrap();
    let texts: Vec<String> = space.history(&new.id).await.unwrap().into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["Ada lives in Bergen.", "Ada lives in Bergen, Norway."]);
}

#[tokio::test]
async fn proposals_are_not_read_before_they_are_approved() {
    let process = Process::new();
    let space = process.ada();
    let proposal = NewRecord {
        status: Status::Proposed,
        author: Author::Model,
        ..NewRecord::new(Layer::Facts, "Ada prefers trains.")
    };
    let proposal = space.add(proposal).await.unwrap();
    let request = SearchRequest::new("trains", 5);
    assert_eq!(space.search(&request).await.unwrap(), []);
    space.decide(&proposal.id, Status::Accepted, None).await.unwrap();
    assert_eq!(space.search(&request).await.unwrap().len(), 1);
    space.decide(&proposal.id, Status::Rejected, None).await.unwrap();
    assert_eq!(space.search(&request).await.unwrap(), []);
}

#[tokio::test]
async fn an_export_comes_back_as_it_was() {
    let process = Process::new();
    let space = process.ada();
    space.add(NewRecord::new(Layer::Rules, "Always answer in German.")).await.unwrap();
    space.add(NewRecord::new(Layer::Facts, "Ada lives in Oslo.")).await.unwrap();
    let lines = space.export().await.unwrap();
    let other = Process::new();
    let imported = other.ada().import(&lines, "backup").await.unwrap();
    assert_eq!((imported.added, imported.known), (2, 0));
    let again = other.ada().import(&lines, "backup").await.unwrap();
    assert_eq!((again.added, again.known), (0, 2));
    let texts = |records: Vec<contexture_capabilities::memory::Record>| {
        records.into_iter().map(|it| (it.id, it.text, it.layer, it.created)).collect::<Vec<_>>()
    };
    let all = RecordFilter::default();
    assert_eq!(texts(other.ada().list(&all).await.unwrap()), texts(space.list(&all).await.unwrap()));
    let plain = r#"{"kind": "new", "text": "The office is in Bergen."}"#;
    assert_eq!(other.ada().import(plain, "hand").await.unwrap().added, 1);
    let wrong = other.ada().import("{\"kind\": \"new\"}", "hand").await.unwrap_err();
    assert!(wrong.to_string().starts_with("line 1: "), "{wrong}");
}

#[tokio::test]
async fn an_audit_lists_what_a_person_should_look_at() {
    let process = Process::new();
    let space = process.ada();
    space.add(NewRecord::new(Layer::Facts, "Ada lives in Oslo near the harbour.")).await.unwrap();
    space.add(NewRecord::new(Layer::Facts, "Ada lives in Oslo, near the harbour")).await.unwrap();
    space
        .add(NewRecord::new(Layer::Facts, "Her key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123"))
        .await
        .unwrap();
    let derived = NewRecord {
        author: Author::Model,
        ..NewRecord::new(Layer::Facts, "It is remembered that Ada lives in Oslo near the harbour. Good.")
    };
    space.add(derived).await.unwrap();
    let mut concerns: Vec<Concern> = space.audit().await.unwrap().into_iter().map(|it| it.concern).collect();
    concerns.dedup();
    assert_eq!(concerns, [Concern::Duplicate, Concern::MemoryOfMemory, Concern::Secret]);
}
