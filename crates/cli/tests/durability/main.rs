//! Instances that are held up, and stores that can't be written: real processes, real files.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test says what it does")]

mod instance;

use std::fs;
use std::process::Command;
use std::time::Duration;

use contexture_pgtest::Postgres;
use serde_json::json;

use instance::{Instance, Project, TOOL, called, until};

const SQLITE: &str = "sqlite:store.db";

/// An instance is held up in the middle of a tool's call for longer than its lease; another one closes its turn and appends a
/// message. That is no turn, and takes no lease.
async fn a_paused_instance_writes_nothing_behind_a_takeover(store: &str) {
    let project = Project::new(store).await;
    let (one, two) = (project.start(), project.start());
    assert_eq!(one.post("/v1/sessions", json!({"id": "s"})).await.0, 201);
    let paused = async {
        called(&project.n_tool).await;
        one.signal("-STOP");
        until("the end of the lost turn", async || {
            two.log().await.last().is_some_and(|it| it == "t1 turn_ended interrupted")
        })
        .await;
        let note = json!({"messages": [{"role": "user", "content": "a note"}]});
        let (status, said) = two.post("/v1/threads/s/messages", note).await;
        assert!(status < 300, "{status} {said}");
        // By now the tool has answered.
        tokio::time::sleep(TOOL).await;
        let before = two.log().await;
        one.signal("-CONT");
        before
    };
    let ((status, problem), before) = tokio::join!(one.turn("use the tool"), paused);
    assert_eq!((status, &problem["code"]), (409, &json!("lease_lost")), "{problem}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(two.log().await, before, "nothing stands behind the takeover");
    let ends = before.iter().filter(|it| it.contains("turn_ended"));
    assert_eq!(ends.collect::<Vec<_>>(), ["t1 turn_ended interrupted"]);
    assert_eq!(before.last().map(String::as_str), Some("t2 user"));
    assert_eq!(one.log().await, before);
    let (status, turn) = one.turn("hello").await;
    assert_eq!((status, &turn["turn"]), (200, &json!("t3")), "the instance works on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_instance_writes_nothing_behind_a_takeover_on_sqlite() {
    a_paused_instance_writes_nothing_behind_a_takeover(SQLITE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_instance_writes_nothing_behind_a_takeover_on_postgres() {
    let postgres = Postgres::start().unwrap();
    a_paused_instance_writes_nothing_behind_a_takeover(&postgres.url()).await;
}

/// The file may not grow (`SQLITE_IOERR`): turns in flight end with an error, no new ones begin, and the server can be stopped.
#[tokio::test(flavor = "multi_thread")]
async fn turns_end_with_an_error_when_the_file_can_not_grow() {
    let project = Project::new(SQLITE).await;
    // Counted in blocks of 512 bytes: 512 KiB for each file.
    let mut instance = project.start_with("trap '' XFSZ; ulimit -f 1024");
    assert_eq!(instance.post("/v1/sessions", json!({"id": "s"})).await.0, 201);
    assert_eq!(instance.post("/v1/sessions", json!({"id": "filler"})).await.0, 201);
    assert_eq!(instance.readiness().await, 200);
    let fill = async {
        called(&project.n_model).await;
        write_until_full(&instance).await;
    };
    let (told, ()) = tokio::join!(instance.turn_as_events("a story"), fill);
    assert!(told.contains("event: error\n") && told.contains("store_unavailable"), "{told}");
    assert!(!told.contains("\"completed\""), "{told}");
    // A log that is refused is copied into the file, which may leave room once more: until there is none, it is filled
    // again. Then no turn begins, and the server says so.
    let mut attempts = 0;
    loop {
        let (status, problem) = instance.turn("hello").await;
        if status != 200 {
            assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
            tokio::time::sleep(Duration::from_millis(1100)).await;
            if instance.readiness().await == 503 {
                break;
            }
        }
        attempts += 1;
        assert!(attempts < 10, "the file never is full, or the server is ready without room for a turn");
        write_until_full(&instance).await;
    }
    instance.signal("-TERM");
    instance.ended(Duration::from_secs(25)).await;
}

/// Writes to the session `filler` until nothing can be written, neither to the log nor, when that is copied, to the file.
async fn write_until_full(instance: &Instance) {
    for size in [8_000, 800, 8] {
        // A log that was refused once is copied into the file and begins again, until the file can't grow either.
        let mut n_refused = 0;
        while n_refused < 3 {
            n_refused = if fill_with(instance, size).await > 0 { 0 } else { n_refused + 1 };
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
    }
}

/// Writes messages of a size while that can be done. Returns how many.
async fn fill_with(instance: &Instance, size: usize) -> usize {
    let message = json!({"messages": [{"role": "user", "content": "x".repeat(size)}]});
    for n in 0.. {
        let (status, problem) = instance.post("/v1/threads/filler/messages", message.clone()).await;
        if status >= 500 {
            return n;
        }
        assert!(status < 300, "{status} {problem}");
    }
    0
}

/// A full disk (`SQLITE_FULL`), and one that has space again.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_noticed_and_got_over() {
    let project = Project::new("sqlite:disk/store.db").await;
    let disk = project.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&disk).output();
    if !mount.is_ok_and(|it| it.status.success()) {
        eprintln!("not tested: a small disk can't be mounted here");
        return;
    }
    let _mounted = Mounted(disk.clone());
    let mut instance = project.start();
    assert_eq!(instance.post("/v1/sessions", json!({"id": "s"})).await.0, 201);
    assert_eq!(instance.post("/v1/sessions", json!({"id": "filler"})).await.0, 201);
    assert_eq!(instance.readiness().await, 200);
    let fill = async {
        called(&project.n_model).await;
        // More than there is.
        let _ = fs::write(disk.join("filler"), vec![0; 8 << 20]);
    };
    let ((status, problem), ()) = tokio::join!(instance.turn("a story"), fill);
    assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    // A log that was copied into the file has space of its own.
    write_until_full(&instance).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(instance.readiness().await, 503);
    fs::remove_file(disk.join("filler")).unwrap();
    until("readiness", async || instance.readiness().await == 200).await;
    until("the end of the turn", async || instance.log().await.iter().any(|it| it.contains("turn_ended")))
        .await;
    let (status, turn) = instance.turn("hello").await;
    assert_eq!((status, &turn["text"]), (200, &json!("Very well.")), "{turn}");
    let _ = fs::write(disk.join("filler"), vec![0; 8 << 20]);
    instance.signal("-TERM");
    instance.ended(Duration::from_secs(25)).await;
}

struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_stops_turns_from_being_acknowledged() {
    let project = Project::new(SQLITE).await;
    let mut instance = project.start();
    assert_eq!(instance.post("/v1/sessions", json!({"id": "s"})).await.0, 201);
    assert_eq!((instance.turn("hello").await.0, instance.readiness().await), (200, 200));
    fs::rename(project.path("store.db"), project.path("aside.db")).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(instance.readiness().await, 503);
    let (status, problem) = instance.turn("hello").await;
    assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("was removed or replaced"), "{problem}");
    fs::rename(project.path("aside.db"), project.path("store.db")).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!((instance.turn("hello").await.0, instance.readiness().await), (200, 200));
    fs::remove_file(project.path("store.db")).unwrap();
    instance.signal("-TERM");
    instance.ended(Duration::from_secs(25)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_not_ready() {
    let project = Project::new(SQLITE).await;
    let instance = project.start();
    assert_eq!(instance.readiness().await, 200);
    // Until the log is copied into the file: that would repair it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let file = fs::OpenOptions::new().write(true).open(project.path("store.db")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 65_536], 0).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(instance.readiness().await, 503);
}
