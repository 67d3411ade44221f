//! Processes that are killed while they index, and two that index one base.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use contexture_knowledge::folder::Folder;
use futures::executor::block_on;

use crate::support::{Base, sqlite};

const PLACE: &str = "CONTEXTURE_KNOWLEDGE_PLACE";
const KILLS: usize = 50;
const DOCUMENTS: usize = 40;
const PARAGRAPHS: usize = 4;

/// Not a test of its own: what the tests below start. It indexes a folder once and tells its progress.
#[test]
#[ignore = "started by the tests of this file"]
#[allow(clippy::print_stdout, reason = "the parent waits for it")]
fn child() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let place = Path::new(&place);
    let base = Base::on(sqlite(&place.join("base.db")));
    let indexer = base.indexer.clone().with_batch(2 * PARAGRAPHS);
    let folder = Folder::new(place.join("files"));
    let report = block_on(indexer.sync(&base.key, &folder, &|it| println!("progress {}", it.done))).unwrap();
    println!("progress {} {report:?}", DOCUMENTS);
}

fn start(place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kills::child", "--exact", "--ignored", "--nocapture"])
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Writes all documents in a version. Each paragraph is a chunk of its own and names the version.
fn write_files(place: &Path, version: usize) {
    std::fs::create_dir_all(place.join("files")).unwrap();
    for no in 0..DOCUMENTS {
        let filler = "some words that fill a paragraph until it is a chunk of its own ".repeat(25);
        let part = |it: usize| format!("version{version} part{it} {filler}");
        let text = (0..PARAGRAPHS).map(part).collect::<Vec<_>>().join("\n\n");
        std::fs::write(place.join(format!("files/{no}.md")), text).unwrap();
    }
}

/// Checks that each document is whole and of one version. Returns how many are of this one.
fn check(place: &Path, version: usize) -> usize {
    let base = Base::on(sqlite(&place.join("base.db")));
    let mut current = 0;
    for id in base.ids() {
        let texts = base.texts(&id);
        assert_eq!(texts.len(), PARAGRAPHS, "`{id}` is whole");
        let versions: Vec<&str> = texts.iter().map(|it| it.split(' ').next().unwrap()).collect();
        assert!(versions.iter().all(|it| *it == versions[0]), "`{id}` is of one version: {versions:?}");
        current += usize::from(versions[0] == format!("version{version}"));
    }
    let info = block_on(base.store.base(base.key.clone())).unwrap().unwrap();
    assert_eq!(info.documents as usize, base.ids().len());
    assert_eq!(info.chunks as usize, base.ids().len() * PARAGRAPHS);
    if current > 0 {
        assert_eq!(base.find(&format!("version{version}")).len(), (current * PARAGRAPHS).min(10));
    }
    current
}

#[test]
fn a_kill_leaves_whole_documents_and_the_next_run_continues() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut moment: u64 = 0x9E37_79B9_7F4A_7C15;
    let (mut version, mut interrupted, mut done) = (0, 0, 0);
    write_files(place, version);
    for _ in 0..KILLS {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = start(place);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The moment is counted from the first commit on, so that each child gets somewhere.
        lines.by_ref().find(|it| it.contains("progress")).unwrap();
        std::thread::sleep(Duration::from_micros((moment >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let current = check(place, version);
        assert!(current > 0 && current >= done, "{current} documents are there, {done} were before");
        interrupted += usize::from(current < DOCUMENTS);
        done = current;
        if current == DOCUMENTS {
            version += 1;
            done = 0;
            write_files(place, version);
        }
    }
    assert!(
        interrupted > 0 && version > 0,
        "{interrupted} runs were interrupted, {version} versions finished"
    );
}

#[test]
fn two_processes_index_one_base() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for version in 0..3 {
        write_files(place, version);
        let children = [start(place), start(place)];
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        assert_eq!(check(place, version), DOCUMENTS);
    }
}
