//! Whether the file at the path is the one that is open.
//!
//! A file that was removed or replaced while open can still be written, but those writes are lost when it is closed.
//! So before a commit is acknowledged, it checks that the path still leads to the open file. The same goes for the
//! write-ahead log, which holds commits first.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// The file and its log as they were opened.
#[derive(Debug)]
pub(crate) struct Identity {
    files: Vec<(PathBuf, FileId)>,
}

/// Tells a file from all others that there are at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

#[cfg(unix)]
fn file_id(metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

/// On platforms without inodes an existing file counts as the one that was opened: an open file can't be removed
/// there.
#[cfg(not(unix))]
fn file_id(_: &Metadata) -> FileId {
    FileId { device: 0, inode: 0 }
}

/// Returns the path of a file beside another one.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Identity {
    /// Remembers the files of a store that has just been opened.
    pub(crate) fn of(path: &Path) -> Self {
        let marked = |path: PathBuf| Some((path.clone(), file_id(&std::fs::metadata(path).ok()?)));
        Self { files: [path.to_owned(), with_suffix(path, "-wal")].into_iter().filter_map(marked).collect() }
    }

    /// Returns the path of a file that was removed or replaced.
    pub(crate) fn missing(&self) -> Option<&Path> {
        let is_there = |(path, opened): &(PathBuf, FileId)| {
            std::fs::metadata(path).is_ok_and(|found| file_id(&found) == *opened)
        };
        self.files.iter().find(|it| !is_there(it)).map(|it| it.0.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    #[cfg(unix)]
    fn a_file_that_was_removed_or_replaced_is_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, wal) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        std::fs::write(&path, "a").expect("a file");
        let alone = Identity::of(&path);
        assert_eq!(alone.missing(), None);
        std::fs::write(&wal, "log").expect("a file");
        let both = Identity::of(&path);
        assert_eq!((alone.missing(), both.missing()), (None, None));
        std::fs::remove_file(&wal).expect("it was there");
        assert_eq!((alone.missing(), both.missing()), (None, Some(wal.as_path())));
        // Another file under the same name; the first one stays, so that its inode is not reused.
        std::fs::rename(&path, folder.path().join("b.db")).expect("it was there");
        assert_eq!(alone.missing(), Some(path.as_path()));
        std::fs::write(&path, "a").expect("a file");
        assert_eq!(alone.missing(), Some(path.as_path()));
    }
}
