//! Finds the folders of skills.
//!
//! A skill is a folder with a `SKILL.md`, at most three levels below a root. Depth, numbers and sizes are bounded, hidden
//! files are left out, and links that lead out of a root are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture_message::ErrorCode;

use super::source::Contents;
use crate::error::Fault;
use crate::files::{Files, FilesError, read_inside};

/// The file that makes a folder a skill.
const SKILL: &str = "SKILL.md";
/// The folders that are searched in every project.
const ROOTS: [&str; 2] = ["skills", ".agents/skills"];
/// How deep below a root skills are searched, and below a skill its files.
const MAX_DEPTH: usize = 3;
/// How many skills a project can have.
const MAX_SKILLS: usize = 1_000;
/// How many files of a skill are listed.
const MAX_FILES: usize = 200;
/// How many entries of a folder are looked at.
const MAX_ENTRIES: usize = 5_000;

/// A folder with a `SKILL.md`.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) folder: String,
    /// The `SKILL.md`, as faults name it.
    pub(super) file: String,
    pub(super) text: Result<String, Fault>,
    /// The other files, sorted.
    pub(super) files: Vec<String>,
    pub(super) contents: Contents,
    pub(super) faults: Vec<Fault>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Scanned {
    pub(super) folders: Vec<Found>,
    /// What was left out, and why.
    pub(super) faults: Vec<Fault>,
}

/// Finds the skills of a project. `paths` are further roots, relative to the project.
pub(super) fn scan(files: &dyn Files, paths: &[String]) -> Scanned {
    let mut scanned = Scanned::default();
    let roots = ROOTS.into_iter().chain(paths.iter().map(String::as_str));
    match files.root() {
        Some(project) => roots.for_each(|it| scanned.root(project, it)),
        None => {
            let list = files.list().unwrap_or_default();
            roots.for_each(|it| scanned.in_memory(files, &list, it));
        }
    }
    scanned
}

impl Scanned {
    fn root(&mut self, project: &Path, root: &str) {
        let Ok(real) = project.join(root).canonicalize() else { return };
        let is_own = ROOTS.contains(&root);
        // The folders of the project stay in the project; a path of the configuration may lead elsewhere.
        if is_own && !project.canonicalize().is_ok_and(|it| real.starts_with(it)) {
            return;
        }
        let mut open = vec![(real.clone(), root.to_owned(), 0)];
        while let Some((folder, shown, depth)) = open.pop() {
            let mut below = subfolders(&folder, &real);
            below.sort();
            below.reverse();
            for (path, name) in below {
                let shown = format!("{shown}/{name}");
                match path.join(SKILL).symlink_metadata().is_ok() {
                    true => self.folder(&path, name, shown),
                    false if depth + 1 < MAX_DEPTH => open.push((path, shown, depth + 1)),
                    false => {}
                }
            }
        }
        self.sort();
    }

    fn folder(&mut self, path: &Path, name: String, shown: String) {
        let file = format!("{shown}/{SKILL}");
        if self.is_full(&file) {
            return;
        }
        let text = read_inside(path, SKILL).map_err(|err| unreadable(&err, &file));
        let files = files_below(path);
        let contents = Contents::Folder(path.to_owned());
        self.folders.push(Found { name, folder: shown, file, text, files, contents, faults: Vec::new() });
    }

    /// Finds the skills of a project that is not on a disk.
    fn in_memory(&mut self, files: &dyn Files, list: &[String], root: &str) {
        for file in list {
            let inner = file.strip_prefix(root).and_then(|it| it.strip_prefix('/'));
            let Some(shown) = inner.and_then(|it| it.strip_suffix(SKILL)?.strip_suffix('/')) else {
                continue;
            };
            if shown.split('/').count() > MAX_DEPTH || self.is_full(file) {
                continue;
            }
            let name = shown.rsplit('/').next().unwrap_or(shown).to_owned();
            let folder = format!("{root}/{shown}");
            let below = list.iter().filter_map(|it| it.strip_prefix(&folder)?.strip_prefix('/'));
            let below = below.filter(|it| *it != SKILL).take(MAX_FILES);
            let contents: BTreeMap<String, Arc<str>> = below
                .filter_map(|it| Some((it.to_owned(), files.read(&format!("{folder}/{it}")).ok()?.into())))
                .collect();
            let text = files.read(file).map_err(|err| unreadable(&err, file));
            self.folders.push(Found {
                name,
                folder,
                file: file.clone(),
                text,
                files: contents.keys().cloned().collect(),
                contents: Contents::Memory(contents),
                faults: Vec::new(),
            });
        }
        self.sort();
    }

    fn is_full(&mut self, file: &str) -> bool {
        let is_full = self.folders.len() >= MAX_SKILLS;
        if is_full && self.faults.is_empty() {
            let message =
                format!("a project can have {MAX_SKILLS} skills; this and further ones are left out");
            self.faults.push(Fault::new(ErrorCode::FileInvalid, message).in_file(file));
        }
        is_full
    }

    /// Sorts by name. The sort is stable: of two skills with the same name the one of the earlier root comes first.
    fn sort(&mut self) {
        self.folders.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

fn unreadable(err: &FilesError, file: &str) -> Fault {
    Fault { hint: err.hint(), ..Fault::new(ErrorCode::FileInvalid, err.reason()).in_file(file) }
}

/// Lists the folders in a folder, with their names. A link that leads out of `root` is left out.
fn subfolders(folder: &Path, root: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = entries.take(MAX_ENTRIES).flatten().filter_map(|it| {
        let name = it.file_name().to_str().filter(|it| !it.starts_with('.'))?.to_owned();
        let real = it.path().canonicalize().ok().filter(|it| it.starts_with(root) && it.is_dir())?;
        Some((real, name))
    });
    named.collect()
}

/// Lists the files of a skill besides its `SKILL.md`, sorted. Links that lead out of the folder are left out.
fn files_below(skill: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(skill.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.take(MAX_ENTRIES).flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let Ok(real) = entry.path().canonicalize() else { continue };
            if name.starts_with('.') || !real.starts_with(skill) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if real.is_dir() && depth + 1 < MAX_DEPTH {
                open.push((real, format!("{path}/"), depth + 1));
            } else if real.is_file() && path != SKILL {
                found.push(path);
            }
        }
    }
    found.sort();
    found.truncate(MAX_FILES);
    found
}
