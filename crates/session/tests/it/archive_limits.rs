//! Archives at their limits: small windows, several processes, nothing but what is left out, hostile imports.

use std::sync::Arc;

use contexture_session::{MemoryStore, SessionId, import};
use futures::executor::block_on;
use proptest::{collection, proptest};

use crate::archives::{How, Stage, nothing_is_missing, op, opened, planned, play};
use crate::threads::Ticking;

proptest! {
    #[test]
    fn a_small_window_reads_the_same_everywhere(ops in collection::vec(op(), 1..24), window in 1_usize..5) {
        let stage = Stage::new(window);
        block_on(async {
            for (number, op) in ops.iter().enumerate() {
                play(&stage, op, number).await;
                stage.reads().await;
                nothing_is_missing(&stage).await;
            }
        });
    }

    #[test]
    fn processes_that_take_turns_read_the_same(ops in collection::vec((op(), 0..2_usize), 1..24), window in 1_usize..6) {
        let stage = Stage::new(window);
        block_on(async {
            let id = SessionId::parse(stage.thread.id().as_str()).unwrap();
            let session = opened(&stage.store, window).open(&id).await.unwrap();
            let other = Stage { store: stage.store.clone(), thread: session.main().clone() };
            let stages = [stage, other];
            for (number, (op, who)) in ops.iter().enumerate() {
                // Nobody tells it what the other one did; undoing compares with what was read before, so it looks first.
                let actor = &stages[*who];
                actor.thread.refresh().await.unwrap();
                play(actor, op, number).await;
                let there = stages[1 - *who].thread.refresh().await.unwrap();
                assert_eq!(*there, *actor.thread.get());
            }
        });
    }
}

#[test]
fn what_is_left_out_again_and_again_is_one_archive() {
    let stage = Stage::new(50);
    block_on(async {
        stage.turn("one", false).await;
        let mut before = Vec::new();
        for number in 0..6 {
            stage.turn(&format!("n{number}"), false).await;
            let view = stage.thread.view().await.unwrap();
            let plan = planned(&view, How::Full).unwrap();
            before.push(stage.reads().await);
            let new = view.archive(&plan, Err("no room".to_owned()), Vec::new());
            stage.thread.archive_range(&view, &new).await.unwrap();
            assert_eq!(stage.thread.get().state().archives.len(), 1);
        }
        assert_eq!(stage.thread.get().omitted()[0].turns, "t1..t6");
        assert_eq!(stage.thread.archives().await.unwrap().len(), 6);
        stage.thread.undo().await.unwrap();
        assert_eq!(Some(stage.reads().await), before.pop(), "undone one by one");
    });
}

#[test]
fn an_import_can_not_archive_what_comes_after_it_or_go_in_circles() {
    let summary = |body: &str| {
        let lines = [
            r#"{"session":{"version":1,"id":"s","created":1}}"#.to_owned(),
            r#"{"thread":{"id":"s","kind":"main","created":1}}"#.to_owned(),
            line(1, r#"{"message":{"role":"user","content":"hi"}}"#),
            line(2, body),
            r#"{"end":{"threads":1,"items":2}}"#.to_owned(),
        ];
        let sessions = opened(&MemoryStore::new(Arc::new(Ticking::default())), 5);
        let imported = block_on(import(&sessions, lines.iter().map(String::as_str), None));
        imported.map(|_| ()).map_err(|err| err.to_string())
    };
    assert_eq!(summary(r#"{"summary":{"text":"x","first":1,"last":1,"number":1}}"#), Ok(()));
    let circle = r#"[{"number":1,"record":2,"first":1,"last":1,"turns":[1,1]}]"#;
    for body in [
        r#"{"summary":{"text":"x","first":1,"last":18446744073709551615,"number":1}}"#.to_owned(),
        r#"{"summary":{"text":"x","first":1,"last":0,"number":1}}"#.to_owned(),
        format!(r#"{{"summary":{{"text":"x","first":1,"last":1,"number":1,"replaces":{circle}}}}}"#),
        format!(r#"{{"change":{{"archive_undone":{{"number":1,"restores":{circle}}}}}}}"#),
    ] {
        let err = summary(&body).unwrap_err();
        assert!(err.contains("item 2 is about items that do not come before it"), "{err}");
    }
}

fn line(seq: u64, body: &str) -> String {
    let visibility = r#"{"client":true,"history":true}"#;
    format!(
        r#"{{"item":{{"seq":{seq},"turn":1,"at":1,"tokens":1,"counter":"c","visibility":{visibility},"body":{body}}}}}"#
    )
}
