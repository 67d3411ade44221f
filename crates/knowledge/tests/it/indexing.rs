//! Keeping a base up to date.

use std::sync::Mutex;

use contexture_knowledge::folder::Folder;
use contexture_knowledge::{IndexError, IndexProgress, IndexReport};
use contexture_session::StoreError;
use futures::executor::block_on;

use crate::support::{Base, MemoryFiles, key};

fn counts(report: &IndexReport) -> (u64, u64, u64, u64) {
    (report.added, report.updated, report.unchanged, report.removed)
}

#[test]
fn only_what_has_changed_is_indexed() {
    let (base, files) =
        (Base::new(), MemoryFiles::with(&[("a.md", "# A\n\nalpha"), ("b.md", "beta"), ("c.md", "gamma")]));
    assert_eq!(counts(&base.sync(&files)), (3, 0, 0, 0));
    assert_eq!(counts(&base.sync(&files)), (0, 0, 3, 0));
    files.put("b.md", b"delta");
    files.remove("c.md");
    files.put("d.md", b"epsilon");
    assert_eq!(counts(&base.sync(&files)), (1, 1, 1, 1));
    assert_eq!(base.ids(), ["a.md", "b.md", "d.md"]);
    assert_eq!(
        (base.find("beta"), base.find("gamma"), base.find("delta")),
        (vec![], vec![], vec!["b.md".to_owned()])
    );
}

#[test]
fn what_was_added_otherwise_stays() {
    let (base, files) = (Base::new(), MemoryFiles::with(&[("a.md", "alpha")]));
    base.add("https://example.com/page", "a page");
    base.sync(&files);
    files.remove("a.md");
    assert_eq!(base.sync(&files).removed, 1);
    assert_eq!(base.ids(), ["https://example.com/page"]);
}

#[test]
fn files_that_are_no_documents_are_told() {
    let (base, files) = (Base::new(), MemoryFiles::with(&[("a.md", "alpha"), ("b.md", "beta")]));
    base.sync(&files);
    // A document that became something else is gone; one that can't be read now is kept.
    files.put("a.md", b"\0\0");
    files.lock_up("b.md");
    files.put("c.pdf", b"%PDF-");
    let report = base.sync(&files);
    let skipped: Vec<String> =
        report.skipped.iter().map(|it| format!("{}: {}", it.path, it.reason)).collect();
    insta::assert_snapshot!(skipped.join("\n"), @r"
    a.md: it is a binary file
    b.md: `b.md` can't be read: it is locked
    c.pdf: PDF files have to be converted to text first
    ");
    assert_eq!(base.ids(), ["b.md"]);
}

#[test]
fn progress_is_told_after_each_commit() {
    let base = Base::new();
    let paths: Vec<String> = (0..10).map(|it| format!("{it}.md")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|it| (it.as_str(), "text")).collect();
    let told: Mutex<Vec<IndexProgress>> = Mutex::default();
    let on_progress = |it: IndexProgress| told.lock().unwrap().push(it);
    let indexer = base.indexer.clone().with_batch(4);
    block_on(indexer.sync(&base.key, &MemoryFiles::with(&files), &on_progress)).unwrap();
    let told: Vec<(u64, u64, u64)> =
        told.lock().unwrap().iter().map(|it| (it.done, it.total, it.chunks)).collect();
    assert_eq!(told, [(4, 10, 4), (8, 10, 8), (10, 10, 10)]);
}

#[test]
fn a_missing_base_is_an_error() {
    let base = Base::new();
    let missing = block_on(base.indexer.add(&key("other"), Vec::new(), &|_| {}));
    assert!(matches!(missing, Err(IndexError::Store(StoreError::NotFound { .. }))), "{missing:?}");
    let folder = Folder::new("no/such/folder");
    let missing = block_on(base.indexer.sync(&base.key, &folder, &|_| {}));
    assert!(matches!(missing, Err(IndexError::Files(_))), "{missing:?}");
}

#[cfg(unix)]
#[test]
fn links_do_not_leave_the_folder_or_run_in_circles() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("base");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(place.path().join("secret.md"), "secret").unwrap();
    std::fs::write(root.join("a.md"), "alpha").unwrap();
    std::fs::write(root.join(".hidden.md"), "hidden").unwrap();
    std::fs::write(root.join("sub/b..md"), "beta").unwrap();
    symlink("..", root.join("sub/up")).unwrap();
    symlink(".", root.join("self")).unwrap();
    symlink("../secret.md", root.join("leak.md")).unwrap();
    symlink(place.path(), root.join("out")).unwrap();
    symlink("nowhere", root.join("broken.md")).unwrap();
    symlink("a.md", root.join("same.md")).unwrap();
    let base = Base::new();
    let report = base.sync(&Folder::new(&root));
    assert_eq!(base.ids(), ["a.md", "same.md", "sub/b..md"], "{report:?}");
}

#[test]
fn a_document_that_changes_while_it_is_read_is_never_mixed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.md");
    let text = |word: &str| format!("{word} ").repeat(20_000);
    std::fs::write(&path, text("aaaa")).unwrap();
    let (base, folder) = (Base::new(), Folder::new(place.path()));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..300 {
                std::fs::write(&path, text(if round % 2 == 0 { "bbbb" } else { "aaaa" })).unwrap();
            }
        });
        while !writer.is_finished() {
            base.sync(&folder);
            let words: std::collections::BTreeSet<String> =
                base.texts("a.md").iter().flat_map(|it| it.split(' ')).map(str::to_owned).collect();
            assert!(words.len() <= 1, "{words:?}");
        }
    });
    base.sync(&folder);
    assert_eq!(base.texts("a.md").join(" "), text("aaaa").trim());
}
