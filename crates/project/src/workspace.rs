//! Lists a folder for the model.
//!
//! The full rule:
//!
//! 1. Folders are read breadth-first, sorted by name, until [`WorkspaceSnapshot::max_entries`] are found or
//!    [`WorkspaceSnapshot::max_depth`] is reached, so one large folder does not hide the others.
//! 2. Hidden files, `target`, `node_modules` and files ignored by `.gitignore` are skipped, with everything in them.
//! 3. Symbolic links are listed, not followed.
//! 4. Omitted entries are counted per folder; the output is cut at a line break at [`WorkspaceSnapshot::max_bytes`].
//! 5. Each name takes one line: control characters in it are escaped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use contexture_compose::{ContextProvider, Trust};
use contexture_message::Message;
use futures::channel::oneshot;
use ignore::Match;
use ignore::gitignore::Gitignore;

/// Folders with build output and dependencies.
const MADE: [&str; 2] = ["target", "node_modules"];

/// Lists a folder for the model, within limits.
///
/// ```
/// use contexture_project::WorkspaceSnapshot;
///
/// let snapshot = WorkspaceSnapshot { max_depth: 2, ..WorkspaceSnapshot::new("src") };
/// assert_eq!(snapshot.provider().name(), "workspace");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceSnapshot {
    /// The folder to list.
    pub root: PathBuf,
    /// A folder that `root` must lie in after links are resolved; its `.gitignore` applies, too.
    pub within: Option<PathBuf>,
    /// The maximum number of files and folders to list.
    pub max_entries: usize,
    /// The maximum number of levels to list.
    pub max_depth: usize,
    /// The maximum length of the list in bytes.
    pub max_bytes: usize,
}

/// Returns a context provider that lists the folder `root` as a tree. A thread may pin it.
///
/// ```no_run
/// use contexture_compose::Prompt;
/// use contexture_project::workspace_snapshot;
///
/// let prompt = Prompt::builder("coder").provider(workspace_snapshot(".")).build()?;
/// # Ok::<(), contexture_compose::Error>(())
/// ```
pub fn workspace_snapshot(root: impl Into<PathBuf>) -> ContextProvider {
    WorkspaceSnapshot::new(root).provider()
}

impl WorkspaceSnapshot {
    /// Returns a snapshot that lists up to 200 files and folders in four levels, in up to 8 KiB.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), within: None, max_entries: 200, max_depth: 4, max_bytes: 8 << 10 }
    }

    /// Returns the context provider `workspace`. It reads the folder on a separate thread, so that disk access does
    /// not block the caller.
    pub fn provider(self) -> ContextProvider {
        self.provider_as("workspace".to_owned(), false, None)
    }

    /// Like `provider`, under another name, or in real time (run in every turn). `path` identifies one of several
    /// folders.
    pub(crate) fn provider_as(self, name: String, real_time: bool, path: Option<String>) -> ContextProvider {
        let provider = ContextProvider::new(name, move |_, _| {
            let (snapshot, path) = (self.clone(), path.clone());
            async move {
                let (sender, receiver) = oneshot::channel();
                // The send fails only if the receiver was dropped, and then the list is not needed.
                let read = move || drop(sender.send(snapshot.tree()));
                thread::Builder::new().name("workspace".to_owned()).spawn(read)?;
                let tree = receiver.await??;
                Ok(tree.map(|it| Message::user(text(&it, path.as_deref(), real_time))).into_iter().collect())
            }
        });
        let provider = if real_time { provider.real_time() } else { provider.cached() };
        provider.trust(Trust::External)
    }

    /// Lists the folder; returns `None` if it is empty. Reads the disk.
    pub fn tree(&self) -> io::Result<Option<String>> {
        let root = self.root.canonicalize()?;
        let ignores = self.ignores(&root)?;
        let mut tree = Tree { folders: vec![Folder::default()], n_entries: 0 };
        let mut open = vec![Open { path: root, folder: 0, ignores, depth: 1 }];
        while !open.is_empty() {
            let level = std::mem::take(&mut open);
            for at in level {
                open.extend(self.read(at, &mut tree)?);
            }
        }
        let mut lines = Vec::new();
        tree.lines(0, 0, &mut lines);
        Ok(Some(self.cut(&lines)).filter(|it| !it.is_empty()))
    }

    /// Returns the `.gitignore` files above the folder, outermost first.
    fn ignores(&self, root: &Path) -> io::Result<Vec<Arc<Gitignore>>> {
        let Some(within) = &self.within else { return Ok(Vec::new()) };
        let within = within.canonicalize()?;
        let Ok(below) = root.strip_prefix(&within) else {
            let message = format!("`{}` leads out of the project", self.root.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        };
        let n_above = below.components().count();
        let above: Vec<&Path> = root.ancestors().skip(1).take(n_above).collect();
        Ok(above.into_iter().rev().filter_map(ignore_file).collect())
    }

    /// Adds the entries of a folder to the tree, and returns the folders to read next.
    fn read(&self, at: Open, tree: &mut Tree) -> io::Result<Vec<Open>> {
        let entries = match fs::read_dir(&at.path) {
            Ok(entries) => entries,
            // The root must be readable; a folder below it may be inaccessible, or removed in the meantime.
            Err(err) if at.depth == 1 => return Err(err),
            Err(_) => return Ok(Vec::new()),
        };
        let mut ignores = at.ignores;
        ignores.extend(ignore_file(&at.path));
        let mut found: Vec<(String, PathBuf, bool)> = Vec::new();
        for entry in entries.flatten() {
            let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_left_out(&name, &entry.path(), is_folder, &ignores) {
                found.push((name, entry.path(), is_folder));
            }
        }
        found.sort();
        let n_shown = found.len().min(self.max_entries.saturating_sub(tree.n_entries));
        tree.n_entries += n_shown;
        tree.folders[at.folder].n_more = found.len() - n_shown;
        let mut open = Vec::new();
        for (name, path, is_folder) in found.into_iter().take(n_shown) {
            let folder = is_folder.then(|| tree.add_folder());
            let is_read = at.depth < self.max_depth;
            let further = folder.filter(|_| is_read);
            open.extend(further.map(|folder| Open {
                path,
                folder,
                ignores: ignores.clone(),
                depth: at.depth + 1,
            }));
            let is_closed = is_folder && !is_read;
            tree.folders[at.folder].entries.push(Entry { name: escaped(&name), folder, is_closed });
        }
        Ok(open)
    }

    fn cut(&self, lines: &[String]) -> String {
        let mut out = String::new();
        for line in lines {
            if out.len() + line.len() > self.max_bytes {
                out.push_str(include_str!("templates/workspace-cut.txt"));
                break;
            }
            out.push_str(line);
            out.push('\n');
        }
        out.trim_end().to_owned()
    }
}

/// A folder still to be read.
struct Open {
    path: PathBuf,
    /// Its index in the tree.
    folder: usize,
    /// The `.gitignore` files that apply to it, outermost first.
    ignores: Vec<Arc<Gitignore>>,
    depth: usize,
}

struct Tree {
    /// The first folder is the root.
    folders: Vec<Folder>,
    n_entries: usize,
}

#[derive(Default)]
struct Folder {
    entries: Vec<Entry>,
    n_more: usize,
}

struct Entry {
    name: String,
    folder: Option<usize>,
    /// Whether it is a folder below the depth limit, which is not read.
    is_closed: bool,
}

impl Tree {
    fn add_folder(&mut self) -> usize {
        self.folders.push(Folder::default());
        self.folders.len() - 1
    }

    /// The recursion is bounded by the depth limit.
    fn lines(&self, folder: usize, depth: usize, lines: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        let Folder { entries, n_more } = &self.folders[folder];
        for Entry { name, folder, is_closed } in entries {
            let end = match (folder, is_closed) {
                (None, _) => "",
                (Some(_), false) => "/",
                (Some(_), true) => "/ …",
            };
            lines.push(format!("{indent}{name}{end}"));
            folder.iter().for_each(|it| self.lines(*it, depth + 1, lines));
        }
        if *n_more > 0 {
            let more = include_str!("templates/workspace-more.txt").trim_end();
            lines.push(format!("{indent}{}", more.replace("{count}", &n_more.to_string())));
        }
    }
}

fn text(tree: &str, path: Option<&str>, real_time: bool) -> String {
    let template = match real_time {
        true => include_str!("templates/workspace-now.txt"),
        false => include_str!("templates/workspace.txt"),
    };
    let folder =
        path.map(|it| include_str!("templates/workspace-folder.txt").trim_end().replace("{path}", it));
    template.trim_end().replace("{folder}", &folder.unwrap_or_default()).replace("{tree}", tree)
}

fn ignore_file(folder: &Path) -> Option<Arc<Gitignore>> {
    let file = folder.join(".gitignore");
    // Invalid patterns are skipped, as in git.
    file.is_file().then(|| Arc::new(Gitignore::new(file).0))
}

fn is_left_out(name: &str, path: &Path, is_folder: bool, ignores: &[Arc<Gitignore>]) -> bool {
    if name.starts_with('.') || (is_folder && MADE.contains(&name)) {
        return true;
    }
    // The innermost `.gitignore` with a matching pattern decides.
    let verdicts = ignores.iter().rev().map(|it| it.matched(path, is_folder));
    let said = verdicts.into_iter().find(|it| !matches!(it, Match::None));
    matches!(said, Some(Match::Ignore(_)))
}

/// Escapes control and invisible characters, so that a name stays on one line.
fn escaped(name: &str) -> String {
    let is_unseen = |it: char| {
        it.is_control()
            || matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let shown = |it: char| match is_unseen(it) {
        true => it.escape_default().to_string(),
        false => it.to_string(),
    };
    name.chars().map(shown).collect()
}
