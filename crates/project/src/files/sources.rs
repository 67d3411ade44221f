//! A snapshot of the files of a project.

use contexture_message::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Fault, ProjectError};
use crate::files::{FileKind, Files, FilesError, base_names};

/// The text of every file of a project, or the reason it could not be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    files: BTreeMap<String, Result<Arc<str>, Fault>>,
    /// The folder that holds them, if there is one.
    root: Option<PathBuf>,
    /// The names of the folders below `knowledge/`.
    bases: BTreeSet<String>,
}

impl Sources {
    /// Reads all files of a project. Fails only if they cannot be listed.
    pub(crate) fn read(files: &dyn Files) -> Result<Self, FilesError> {
        let paths = files.list()?.into_iter().filter(|it| FileKind::of(it).is_some());
        let read = |path: String| {
            let text = files.read(&path).map(Arc::from);
            let text = text.map_err(|err| Fault {
                hint: err.hint(),
                ..Fault::new(ErrorCode::FileInvalid, err.reason()).in_file(&path)
            });
            (path, text)
        };
        let bases = base_names(files)?;
        Ok(Self { files: paths.map(read).collect(), root: files.root().map(Path::to_owned), bases })
    }

    /// Returns the folder that holds the files, if there is one.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns the names of the folders below `knowledge/`.
    pub(crate) fn bases(&self) -> &BTreeSet<String> {
        &self.bases
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str, ProjectError> {
        match self.files.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(fault)) => Err(fault.clone().into()),
            None => {
                Err(Fault::new(ErrorCode::NotFound, format!("`{path}` does not exist")).in_file(path).into())
            }
        }
    }

    /// Returns the paths of one kind, sorted.
    pub(crate) fn of_kind(&self, kind: FileKind) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str).filter(move |it| FileKind::of(it) == Some(kind))
    }

    /// Returns the paths that were added, removed or changed since `before`.
    pub(crate) fn changes(&self, before: &Sources) -> BTreeSet<String> {
        let paths = self.files.keys().chain(before.files.keys());
        paths.filter(|it| self.files.get(*it) != before.files.get(*it)).cloned().collect()
    }
}
