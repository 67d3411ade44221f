//! What is forgotten leaves no trace, and is not learnt again.

use std::path::Path;
use std::sync::Arc;

use contexture_capabilities::memory::{
    Author, FORGOTTEN, Forget, ForgetOptions, Layer, Namespace, NewRecord, Provenance, RecordEdit,
    RecordFilter, SearchRequest,
};
use contexture_message::Message;
use contexture_session::Tenant;
use contexture_session::conformance::SystemTime;
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

use super::Process;

const NOW: ForgetOptions = ForgetOptions { dry_run: false, erase: true, keep_turns: false };
const TRY: ForgetOptions = ForgetOptions { dry_run: true, erase: false, keep_turns: false };

/// Whether any file in a folder contains these bytes.
fn is_in_files(folder: &Path, needle: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|it| std::fs::read(it.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(needle.len()).any(|it| it == needle.as_bytes()))
}

#[tokio::test]
async fn a_forgotten_record_leaves_no_bytes_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(folder.path().join("m.db"), SqliteConfig::new(Arc::new(SystemTime))).unwrap();
    let process = Process::on(Arc::new(store));
    let space = process.ada();
    let first = NewRecord::new(Layer::Facts, "Ada hides the zanzibarkey under the quokkastone.");
    let record = space.add(first).await.unwrap();
    let edit = RecordEdit {
        text: Some("Ada moved the zanzibarkey to the wombatshed.".into()),
        ..RecordEdit::default()
    };
    space.edit(&record.id, None, edit).await.unwrap();
    let derived = NewRecord {
        author: Author::Model,
        provenance: vec![Provenance { record: Some(record.id.clone()), ..Provenance::default() }],
        ..NewRecord::new(Layer::Facts, "Somewhere there is an axolotldoor.")
    };
    space.add(derived).await.unwrap();
    let digest = NewRecord::new(
        Layer::Digests,
        "They spoke about pandas. Ada moved the zanzibarkey to the wombatshed. It was late.",
    );
    space.add(digest).await.unwrap();
    let other = space.add(NewRecord::new(Layer::Facts, "Ada likes the platypus.")).await.unwrap();
    let words = ["zanzibarkey", "quokkastone", "wombatshed", "axolotldoor"];
    assert!(words.iter().all(|it| is_in_files(folder.path(), it)));

    let dry = space.forget(&Forget::Record(record.id.clone()), TRY).await.unwrap();
    assert_eq!((dry.records.len(), dry.versions, dry.dry_run), (3, 1, true));
    assert_eq!(space.list(&RecordFilter::default()).await.unwrap().len(), 4);

    let receipt = space.forget(&Forget::Record(record.id.clone()), NOW).await.unwrap();
    assert_eq!((receipt.records.clone(), receipt.erased), (dry.records, true));
    for word in words {
        assert!(!is_in_files(folder.path(), word), "{word} is still in the file");
        assert_eq!(space.search(&SearchRequest::new(word, 5)).await.unwrap(), []);
        assert!(!space.export().await.unwrap().contains(word));
    }
    assert_eq!(space.list(&RecordFilter::default()).await.unwrap()[0].id, other.id);
    assert!(is_in_files(folder.path(), "platypus"));
}

#[tokio::test]
async fn forgotten_words_are_not_learnt_again_from_the_old_log() {
    let process = Process::new();
    let (thread, space) = (process.create("s").await, process.ada());
    let rule = "From now on, call me Captain Fox.";
    let messages = vec![Message::user(format!("Hello. {rule} How are you?")), Message::assistant("Fine.")];
    thread.add_messages(messages).await.unwrap();
    space.capture(thread.id()).await.unwrap();
    let known = space.list(&RecordFilter::default()).await.unwrap();
    assert_eq!(known[0].text, rule);
    let receipt = space.forget(&Forget::Record(known[0].id.clone()), NOW).await.unwrap();
    // The message that says it is not found either.
    assert_eq!((receipt.records.len(), receipt.messages), (1, 1));
    let is_gone = async || {
        assert_eq!(space.list(&RecordFilter::default()).await.unwrap(), []);
        assert_eq!(space.search(&SearchRequest::new("Captain Fox", 5)).await.unwrap(), []);
    };
    is_gone().await;
    space.recapture(thread.id()).await.unwrap();
    is_gone().await;
    // What was said in the same millisecond counts as said before.
    let later = async || tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    later().await;
    // An export brings back only what was said later.
    let old = Process::new();
    let again = old.create("s").await;
    again.add_messages(vec![Message::user(rule)]).await.unwrap();
    old.ada().capture(again.id()).await.unwrap();
    let receipt = space.import(&old.ada().export().await.unwrap(), "old").await.unwrap();
    assert_eq!(receipt.added, 1, "it was said after it was forgotten");
    space.forget(&Forget::Source("old".into()), NOW).await.unwrap();
    is_gone().await;
    // What the user says again later is learnt again.
    later().await;
    thread.add_messages(vec![Message::user(rule)]).await.unwrap();
    space.capture(thread.id()).await.unwrap();
    assert_eq!(space.list(&RecordFilter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn turns_sessions_and_everything_can_be_forgotten() {
    let process = Process::new();
    let space = process.ada();
    for session in ["one", "two"] {
        let thread = process.create(session).await;
        for no in 1..4 {
            let text = format!("From now on, {session} is at pier{no}.");
            thread.add_messages(vec![Message::user(text), Message::assistant("Yes.")]).await.unwrap();
        }
        space.capture(thread.id()).await.unwrap();
    }
    let texts = async || {
        let mut texts: Vec<String> = space
            .search(&SearchRequest::new("pier1 pier2 pier3", 50))
            .await
            .unwrap()
            .into_iter()
            .map(|it| it.text)
            .collect();
        // Neighbours of what is found are found too.
        texts.retain(|it| it.contains("pier"));
        texts.sort();
        texts.dedup();
        texts.len()
    };
    assert_eq!(texts().await, 6);
    let turn = Forget::Turn { thread: "one".into(), turn: "t2".into() };
    let receipt = space.forget(&turn, NOW).await.unwrap();
    assert_eq!((receipt.records.len(), receipt.messages, texts().await), (1, 2, 5));
    let receipt = space.forget(&Forget::Session("two".into()), NOW).await.unwrap();
    assert_eq!((receipt.records.len(), receipt.messages, texts().await), (3, 6, 2));
    space.forget(&Forget::Everything, NOW).await.unwrap();
    assert_eq!(texts().await, 0);
    for session in ["one", "two"] {
        let thread = process.open(session).await;
        assert_eq!(space.recapture(thread.id()).await.unwrap(), Default::default());
    }
    assert_eq!(texts().await, 0);
}

#[tokio::test]
async fn a_forgotten_session_is_emptied_with_its_threads_and_no_other_memory_can_do_it() {
    let process = Process::new();
    let thread = process.create("one").await;
    thread
        .add_messages(vec![Message::user("The okapi is in Graz."), Message::assistant("Yes.")])
        .await
        .unwrap();
    let isolated = process.isolated("one", "side").await;
    isolated
        .add_messages(vec![Message::user("The lynx is in Linz."), Message::assistant("Yes.")])
        .await
        .unwrap();
    let bob = process.memories.space(&Tenant::default(), Namespace::of_user("bob")).unwrap();
    for what in [Forget::Session("one".into()), Forget::Turn { thread: "one".into(), turn: "t1".into() }] {
        let receipt = bob.forget(&what, NOW).await.unwrap();
        assert_eq!((receipt.items, receipt.passes), (0, 0));
    }
    let log = async || {
        let (main, side) = (thread.refresh().await.unwrap(), isolated.refresh().await.unwrap());
        format!("{:?}{:?}", main.turns(), side.turns())
    };
    assert!(log().await.contains("okapi") && log().await.contains("lynx"));

    let ada = process.ada();
    ada.capture(thread.id()).await.unwrap();
    let kept = ForgetOptions { keep_turns: true, ..NOW };
    ada.forget(&Forget::Session("one".into()), kept).await.unwrap();
    assert_eq!(ada.search(&SearchRequest::new("okapi", 5)).await.unwrap(), []);
    assert!(log().await.contains("okapi"), "the turns stay if they should");
    let receipt = ada.forget(&Forget::Session("one".into()), NOW).await.unwrap();
    assert_eq!(receipt.items, 4);
    assert!(!log().await.contains("okapi") && !log().await.contains("lynx"));
    assert!(log().await.contains(FORGOTTEN));
}
