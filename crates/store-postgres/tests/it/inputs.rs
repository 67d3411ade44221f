//! Whatever comes in is stored as it is, or refused with a reason.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Seq, TurnNo};
use contexture_session::{Guard, KeyedTurn, Log as _, SessionKey, Span, State, Store, StoreError, Tenant};

use crate::support::{Log, append, config, new_session, store_in, unique};

async fn log() -> Log {
    Log::create(&store_in(config("inputs")).await).await
}

/// Returns the code of an error.
fn code<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> &'static str {
    outcome.unwrap_err().code().as_str()
}

#[tokio::test]
async fn a_nul_is_kept_in_messages_and_refused_in_names() {
    let mut log = log().await;
    let large = "a\0b".repeat(5_000);
    log.say(&["a\0b", &large]).await.unwrap();
    assert_eq!(log.texts().await, ["a\0b", &large]);

    let session = SessionKey { tenant: Tenant::parse(unique("nul")).unwrap(), ..log.session.clone() };
    let mut new = new_session(&session);
    new.label = Some("a\0b".to_owned());
    assert_eq!(code(log.store.create_session(new).await), "append_malformed");
    let owner = Guard::Acquire { owner: Arc::from("a\0b"), ttl: Duration::from_secs(1) };
    assert_eq!(code(log.store.lease(log.key.clone(), owner).await), "append_malformed");
}

#[tokio::test]
async fn an_idempotency_key_may_be_anything() {
    let mut log = log().await;
    let keys = ["\0".to_owned(), "k".repeat(1_000_000), String::new()];
    let keyed = KeyedTurn { turn: TurnNo(1), began: Seq(1) };
    let mut append = append(&log.state, Guard::Free, &["hello"]);
    append.keys = keys.iter().map(|it| (it.clone(), keyed)).collect();
    log.store.append(log.key.clone(), append).await.unwrap();
    for key in keys {
        let found = log.store.turn_with_key(log.key.clone(), key).await.unwrap();
        assert_eq!(found, Some(keyed));
    }
    assert_eq!(log.store.turn_with_key(log.key.clone(), "other".to_owned()).await.unwrap(), None);
    log.state = log.head().await.state;
    log.assert_whole().await;
}

#[tokio::test]
async fn positions_beyond_everything_are_answered() {
    let mut log = log().await;
    log.say(&["one", "two"]).await.unwrap();
    let read = |seq, max| log.store.read(log.key.clone(), Span::After { seq: Seq(seq), max });
    for seq in [2, 1 << 62, i64::MAX as u64, u64::MAX] {
        assert_eq!(read(seq, usize::MAX).await.unwrap(), []);
    }
    assert_eq!(read(0, 0).await.unwrap(), []);
    assert_eq!(read(1, usize::MAX).await.unwrap().len(), 1);
    let far = append(&State { end: Seq(u64::MAX - 9), ..State::default() }, Guard::Free, &["x"]);
    assert_eq!(code(log.store.append(log.key.clone(), far).await), "version_conflict");
    let forever = Guard::Acquire { owner: Arc::from("w"), ttl: Duration::MAX };
    assert!(log.store.lease(log.key.clone(), forever).await.unwrap().is_some());
}

#[tokio::test]
async fn a_fork_stays_within_its_tenant_and_its_source() {
    let mut log = log().await;
    log.say(&["one", "two", "three"]).await.unwrap();
    let stranger = Log::create(&log.store).await;
    let theft = stranger.other_thread("copy", &log.state);
    assert_eq!(code(log.store.fork(log.key.clone(), theft).await), "not_found");

    let beyond = State { end: Seq(4), ..log.state.clone() };
    let fork = log.other_thread("beyond", &beyond);
    assert_eq!(code(log.store.fork(log.key.clone(), fork).await), "append_malformed");
    assert_eq!(log.store.threads(log.session.clone()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_fork_within_a_row_has_the_first_part_of_it() {
    let mut log = log().await;
    let large = "large ".repeat(2_000);
    log.say(&["one", "two"]).await.unwrap();
    log.say(&["three", &large, "five", &large]).await.unwrap();
    for end in 0..=6 {
        let items = log.items().await;
        let state = State::replay(&items[..end]);
        let name = format!("fork-{end}");
        let fork = log.other_thread(&name, &state);
        log.store.fork(log.key.clone(), fork).await.unwrap();
        let mut fork = log.at(&name, state);
        assert_eq!(fork.items().await, items[..end]);
        fork.say(&["and on"]).await.unwrap();
        fork.assert_whole().await;
    }
    // The copies alone keep the large text.
    log.store.delete_log(log.at("fork-6", State::default()).key).await.unwrap();
    assert_eq!(log.at("fork-4", State::default()).texts().await[3], large);
}

#[tokio::test]
async fn a_long_log_may_have_large_texts_anywhere() {
    let mut log = log().await;
    let texts: Vec<String> = (0..600)
        .map(|n| if n % 7 == 3 { format!("large {n} ").repeat(1_000) } else { format!("m{n}") })
        .collect();
    for some in texts.chunks(20) {
        log.say(&some.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    }
    assert!(log.texts().await == texts);
    let newest = Span::NewestItems { count: 500, client: true };
    assert_eq!(log.store.read(log.key.clone(), newest).await.unwrap(), log.items().await[100..]);
}
