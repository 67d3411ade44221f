//! Artifacts: versions that are compared and set, in the log of a session.

use contexture_session::{NewArtifact, SessionConfig, SessionError, Thread};
use futures::executor::block_on;

use crate::resuming::Processes;

/// Writes a version and says what came of it.
fn put(thread: &Thread, name: &str, text: &str, expected: Option<u64>) -> String {
    let new = NewArtifact { name: name.into(), text: text.into(), expected, ..NewArtifact::default() };
    match block_on(thread.put_artifact(new, None)) {
        Ok(info) => format!("{} {}", info.name, info.version),
        Err(err) => err.to_string(),
    }
}

fn read(thread: &Thread, name: &str, version: Option<u64>) -> Option<String> {
    block_on(thread.artifact(name, version)).unwrap().map(|it| it.text)
}

#[test]
fn a_stale_write_is_refused_with_the_version_that_there_is() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    assert_eq!(put(&main, "plan", "one", Some(0)), "plan 1");
    assert_eq!(put(&main, "plan", "two", Some(0)), "artifact `plan` has version 1, not 0");
    assert_eq!(put(&main, "plan", "two", Some(1)), "plan 2");
    assert_eq!(put(&main, "plan", "three", None), "plan 3");
    assert_eq!(read(&main, "plan", Some(2)).as_deref(), Some("two"));
    // Another process sees and continues it.
    let other = processes.main("b");
    assert_eq!(read(&other, "plan", None).as_deref(), Some("three"));
    assert_eq!(put(&other, "plan", "four", Some(3)), "plan 4");
    assert_eq!(put(&main, "plan", "five", Some(3)), "artifact `plan` has version 4, not 3");
}

#[test]
fn a_deleted_artifact_is_gone_and_keeps_its_number() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    put(&main, "plan", "one", None);
    assert!(block_on(main.delete_artifact("plan", Some(2), None)).is_err());
    block_on(main.delete_artifact("plan", Some(1), None)).unwrap();
    assert_eq!((read(&main, "plan", None), read(&main, "plan", Some(1))), (None, None));
    let gone = block_on(main.delete_artifact("plan", None, None)).unwrap_err();
    assert_eq!(gone.to_string(), "there is no artifact `plan`");
    assert_eq!(put(&main, "plan", "two", Some(0)), "plan 2");
}

#[test]
fn names_and_sizes_have_limits() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    for name in ["", "..", "a/../b", "/a", "a//b", "a b", "a\u{0}", "<a>"] {
        let new = NewArtifact { name: name.into(), ..NewArtifact::default() };
        assert!(matches!(block_on(main.put_artifact(new, None)), Err(SessionError::Id(_))), "{name}");
    }
    let large = "x".repeat(1_048_577);
    assert_eq!(put(&main, "a", &large, None), "bytes of the text: 1048577 of at most 1048576");
    for n in 1..=55 {
        put(&main, "many", &n.to_string(), None);
    }
    assert_eq!((read(&main, "many", Some(5)), read(&main, "many", Some(6)).as_deref()), (None, Some("6")));
}
