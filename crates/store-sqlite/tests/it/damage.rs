//! Damaged files: a clear error or what was there before, and a way to save what is readable.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};

use contexture_session::{State, StoreError};
use contexture_store_sqlite::{Recovered, SqliteStore};

use crate::support::{Place, Threads, large};

const PAGE: u64 = crate::support::PAGE as u64;

/// A closed file with three sessions: `a` and `b` of 100 appends each, in turns, and `c` with large texts.
fn filled() -> Place {
    let place = Place::new();
    let threads = place.open();
    for name in ["a", "b", "c"] {
        threads.create(name);
    }
    for idx in 0..100 {
        threads.say("a", &[&format!("a{idx} {}", "x".repeat(700)), "answer"]);
        threads.say("b", &[&format!("b{idx} {}", "y".repeat(700))]);
    }
    threads.say("c", &[&large("one "), &large("two ")]);
    place
}

fn overwrite(place: &Place, offset: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(place.db()).expect("a file");
    file.seek(SeekFrom::Start(offset)).expect("an offset");
    file.write_all(bytes).expect("some bytes");
}

fn recover(place: &Place) -> (Recovered, Threads) {
    let before = std::fs::read(place.db()).expect("a file");
    let saved = place.file("saved.db");
    let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
    assert_eq!(std::fs::read(place.db()).expect("a file"), before, "the damaged file is only read");
    assert!(!place.file("saved.db.damaged").exists(), "the copy is removed");
    (recovered, Threads::open(&saved).expect("a sound file"))
}

/// Checks that a thread is a beginning of what it was, and usable.
fn assert_prefix(threads: &Threads, name: &str, whole: &[String]) -> usize {
    let texts = threads.texts(name);
    assert_eq!(texts, whole[..texts.len()], "`{name}` is a beginning of what it was");
    assert_eq!(State::replay(&threads.items(name)), threads.head(name).state);
    threads.say(name, &["next"]);
    texts.len()
}

/// Reads everything; `None` if the store says that it is damaged. Anything else is a failure of the test.
fn read_all(place: &Place, names: &[&str]) -> Option<Vec<Vec<String>>> {
    let damaged = |err: StoreError| {
        assert!(matches!(err, StoreError::Damaged { .. }), "{err:?}");
        assert!(err.to_string().contains("contexture.db is damaged: "), "{err}");
        assert!(err.to_string().contains("SqliteStore::recover"), "{err}");
    };
    let threads = Threads::open(&place.db()).map_err(damaged).ok()?;
    let read = |name: &&str| {
        let items = threads.try_items(name).map_err(damaged).ok()?;
        Some(crate::support::texts(&items))
    };
    names.iter().map(read).collect()
}

#[test]
fn an_overwritten_page_is_an_error_or_not_noticed_and_the_rest_is_saved() {
    let place = filled();
    let whole = read_all(&place, &["a", "b", "c"]).expect("a sound file");
    let sound = std::fs::read(place.db()).expect("a file");
    let pages = sound.len() as u64 / PAGE;
    let mut noticed = 0;
    for page in (1..pages).step_by(3) {
        overwrite(&place, page * PAGE, &[0xA5; PAGE as usize]);
        match read_all(&place, &["a", "b", "c"]) {
            Some(texts) => assert_eq!(texts, whole, "page {page}: what is returned is what was written"),
            None => noticed += 1,
        }
        let saved = place.file(&format!("saved-{page}.db"));
        // A page that held the list of threads takes their names with it.
        let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
        let threads = Threads::open(&saved).expect("a sound file");
        for (name, whole) in ["a", "b", "c"].iter().zip(&whole) {
            if let Ok(items) = threads.try_items(name) {
                assert_eq!(crate::support::texts(&items), whole[..items.len()], "page {page}, thread {name}");
            }
        }
        drop((threads, recovered));
        std::fs::write(place.db(), &sound).expect("a sound file again");
    }
    assert!(noticed > 3, "{noticed} of {pages} pages");
}

#[test]
fn what_is_readable_is_saved_and_the_rest_is_named() {
    let place = filled();
    let whole = read_all(&place, &["a", "b", "c"]).expect("a sound file");
    let file = std::fs::read(place.db()).expect("a file");
    // The page with the text of the 60th append.
    let at = file.windows(5).position(|it| it == b"a60 x").expect("the text") as u64;
    overwrite(&place, at / PAGE * PAGE, &[0; PAGE as usize]);
    assert!(read_all(&place, &["a"]).is_none());

    let (recovered, threads) = recover(&place);
    assert_eq!((recovered.sessions, recovered.threads), (3, 3));
    let kept = assert_prefix(&threads, "a", &whole[0]);
    assert!((80..=120).contains(&kept), "{kept} items");
    assert_prefix(&threads, "b", &whole[1]);
    assert_eq!(assert_prefix(&threads, "c", &whole[2]), 2);
    let lost = recovered.lost.join("\n");
    assert!(lost.contains("table `commits` could not be read at 1 places"), "{lost}");
    assert!(lost.contains(&format!("thread `a`: items {} to 200", kept + 1)), "{lost}");
}

#[test]
fn a_lost_first_page_is_rebuilt() {
    let place = filled();
    let whole = read_all(&place, &["a", "b", "c"]).expect("a sound file");
    overwrite(&place, 0, &[0xFF; PAGE as usize]);
    assert!(read_all(&place, &["a"]).is_none());
    let (recovered, threads) = recover(&place);
    assert_eq!((recovered.items, recovered.lost.len()), (302, 0), "{:?}", recovered.lost);
    for (name, whole) in ["a", "b", "c"].iter().zip(&whole) {
        assert_eq!(assert_prefix(&threads, name, whole), whole.len());
    }
}

#[test]
fn a_truncated_file_is_saved_up_to_the_cut() {
    let place = filled();
    let whole = read_all(&place, &["a", "b", "c"]).expect("a sound file");
    let length = std::fs::metadata(place.db()).expect("a file").len();
    OpenOptions::new()
        .write(true)
        .open(place.db())
        .expect("a file")
        .set_len(length / 4 * 3 + 100)
        .expect("a cut");
    assert!(read_all(&place, &["a"]).is_none());
    let (recovered, threads) = recover(&place);
    assert!(assert_prefix(&threads, "a", &whole[0]) > 20);
    assert!(!recovered.lost.is_empty());
}

#[test]
fn a_torn_log_gives_what_was_whole() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    (0..20).for_each(|idx| threads.say("a", &[&format!("text {idx}"), "answer"]));
    // As a crash leaves them: copied while the store is open.
    let torn = Place::new();
    for suffix in ["", "-wal"] {
        let name = format!("contexture.db{suffix}");
        std::fs::copy(place.file(&name), torn.file(&name)).expect("a copy");
    }
    let log = torn.file("contexture.db-wal");
    let length = std::fs::metadata(&log).expect("a log").len();
    let whole = threads.texts("a");
    let mut seen = Vec::new();
    for cut in (0..20).map(|it| length - it * 1_777) {
        let case = Place::new();
        std::fs::copy(torn.db(), case.db()).expect("a copy");
        let bytes = std::fs::read(&log).expect("a log");
        std::fs::write(case.file("contexture.db-wal"), &bytes[..usize::try_from(cut).expect("a length")])
            .expect("a log");
        seen.push(assert_prefix(&case.open(), "a", &whole));
    }
    assert_eq!(seen[0], 40);
    assert!(seen.is_sorted_by(|a, b| a >= b) && seen.iter().all(|it| it % 2 == 0), "{seen:?}");
}

#[test]
fn a_missing_row_is_an_error_and_not_a_hole() {
    let place = filled();
    let conn = rusqlite::Connection::open(place.db()).expect("a file");
    conn.execute("DELETE FROM commits WHERE log = 1 AND first = 101", []).expect("a deletion");
    drop(conn);
    let err = place.open().try_items("a").expect_err("an error");
    assert!(err.to_string().contains("is damaged: thread `a`, item 101: it is missing"), "{err}");
    let (recovered, threads) = recover(&place);
    assert_eq!(threads.items("a").len(), 100);
    assert_eq!(recovered.lost, ["thread `a`: items 101 to 200; item 101: it is missing"]);
}

#[test]
fn threads_without_a_name_get_one() {
    let place = filled();
    let conn = rusqlite::Connection::open(place.db()).expect("a file");
    conn.execute("DELETE FROM logs WHERE name = 'a'", []).expect("a deletion");
    drop(conn);
    let (recovered, threads) = recover(&place);
    assert_eq!(threads.items("recovered-1").len(), 200);
    assert_eq!((recovered.sessions, recovered.threads, recovered.items), (4, 4, 302));
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let place = filled();
    let err = SqliteStore::recover(place.db(), place.db()).expect_err("a refusal");
    assert!(err.to_string().ends_with("is not available: it exists already"), "{err}");
    let err = SqliteStore::recover(place.file("none.db"), place.file("saved.db")).expect_err("a refusal");
    assert!(matches!(err, StoreError::Unavailable { .. }), "{err:?}");
    assert!(!place.file("saved.db").exists());
}
