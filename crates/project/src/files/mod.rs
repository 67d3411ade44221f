//! File sources of a project.
//!
//! Only files that belong to a project are listed and read; ids from outside are never used as file names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

mod sources;

pub(crate) use sources::Sources;

/// The maximum size of a file in bytes; larger files are not read.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// The file name of the configuration.
pub(crate) const CONFIG: &str = "contexture.toml";

/// A source of project files. Paths are relative and use `/`.
///
/// Implementations list every file that [`read`](Self::read) can return; the order does not matter.
pub trait Files: Send + Sync {
    /// Returns the paths of all files.
    fn list(&self) -> Result<Vec<String>, FilesError>;

    /// Returns the text of a listed file.
    fn read(&self, path: &str) -> Result<String, FilesError>;

    /// Returns the local folder that holds the files, if there is one.
    fn root(&self) -> Option<&Path> {
        None
    }
}

/// An error reading a file or folder.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The file does not exist.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The file exceeds the size limit.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not valid UTF-8.
    #[error("`{path}` is not UTF-8: the byte at {valid_up_to} is not part of a character")]
    NotUtf8 {
        /// The path.
        path: String,
        /// The number of bytes before the first invalid one.
        valid_up_to: usize,
    },
    /// A symbolic link that points outside of the project.
    #[error("`{path}` is a link that leads out of the project; such links are not followed")]
    LinkOutside {
        /// The path.
        path: String,
    },
    /// A symbolic link whose target does not exist.
    #[error("`{path}` is a link that leads nowhere")]
    LinkNowhere {
        /// The path.
        path: String,
    },
    /// Any other I/O error.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// The I/O error.
        source: io::Error,
    },
}

impl FilesError {
    /// Returns the message without the path, for faults that name the file themselves.
    pub(crate) fn reason(&self) -> String {
        match self {
            FilesError::NotFound { .. } => "the file does not exist".to_owned(),
            FilesError::TooLarge { limit, .. } => format!("the file is larger than {limit} bytes"),
            FilesError::NotUtf8 { valid_up_to, .. } => {
                format!("the file is not UTF-8: the byte at {valid_up_to} is not part of a character")
            }
            FilesError::LinkOutside { .. } => {
                "the file is a link that leads out of the project; such links are not followed".to_owned()
            }
            FilesError::LinkNowhere { .. } => "the file is a link that leads nowhere".to_owned(),
            FilesError::Io { source, .. } => format!("cannot read the file: {source}"),
        }
    }

    /// Returns a hint on how to fix the error.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            FilesError::LinkOutside { .. } | FilesError::LinkNowhere { .. } => {
                "copy the file into the project, or link to a file inside it"
            }
            FilesError::NotUtf8 { .. } => "save the file as UTF-8",
            FilesError::NotFound { .. } | FilesError::TooLarge { .. } | FilesError::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// The kind of a file, determined by its path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileKind {
    Config,
    Prompt,
    Context,
    /// A partial, or a file next to prompts and contexts that can only be one.
    Partial,
    Block,
    Capability,
    Skill,
    Flow,
}

impl FileKind {
    /// Returns the kind of a path, or `None` if it is not a project file.
    pub(crate) fn of(path: &str) -> Option<FileKind> {
        if path.split('/').any(|it| it.is_empty() || it.starts_with('.')) || path.contains('\\') {
            return None;
        }
        let (folder, rest) = path.split_once('/').unwrap_or(("", path));
        let is_direct = !rest.contains('/');
        match folder {
            "" if path == CONFIG => Some(FileKind::Config),
            "prompts" if rest.ends_with(".md") => Some(FileKind::Prompt),
            "contexts" if rest.ends_with(".md") => Some(FileKind::Context),
            "prompts" | "contexts" | "capabilities" if rest.ends_with(".liquid") => Some(FileKind::Partial),
            "partials" => Some(FileKind::Partial),
            "blocks" if is_direct && rest.ends_with(".md") => Some(FileKind::Block),
            "flows" if rest.ends_with(".yaml") || rest.ends_with(".yml") => Some(FileKind::Flow),
            "capabilities" => {
                let inner = rest.split_once('/').map(|(_, file)| file);
                (inner == Some("capability.md")).then_some(FileKind::Capability)
            }
            "skills" => {
                let inner = rest.split_once('/').map(|(_, file)| file);
                (inner == Some("SKILL.md")).then_some(FileKind::Skill)
            }
            _ => None,
        }
    }
}

/// The folders of a project that hold files.
const FOLDERS: [&str; 7] = ["prompts", "contexts", "capabilities", "blocks", "partials", "skills", "flows"];

/// A project in a folder on disk.
///
/// Hidden files are skipped. Symbolic links that point out of the folder are not followed. If such a link should be a
/// file of the project, it is listed and reading it fails, so the author sees an error.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a file source for the folder `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Path {
        &self.0
    }
}

impl Files for Folder {
    fn root(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn list(&self) -> Result<Vec<String>, FilesError> {
        let root = self.0.canonicalize().map_err(|it| failed(&self.0.display().to_string(), it))?;
        let mut walk = Walk { root, seen: BTreeSet::new(), found: Vec::new() };
        if walk.root.join(CONFIG).is_file() {
            walk.found.push(CONFIG.to_owned());
        }
        let mut open: Vec<String> = FOLDERS.iter().rev().map(|it| (*it).to_owned()).collect();
        while let Some(folder) = open.pop() {
            open.extend(walk.folder(&folder)?);
        }
        Ok(walk.found)
    }

    fn read(&self, path: &str) -> Result<String, FilesError> {
        if FileKind::of(path).is_none() {
            return Err(FilesError::NotFound { path: path.to_owned() });
        }
        read_inside(&self.0, path)
    }
}

/// Reads a file of a folder. A link that leads out of the folder is not followed.
pub(crate) fn read_inside(folder: &Path, path: &str) -> Result<String, FilesError> {
    let io = |it| failed(path, it);
    let root = folder.canonicalize().map_err(io)?;
    let file = root.join(path);
    let real = file.canonicalize().map_err(|err| match file.is_symlink() {
        true => FilesError::LinkNowhere { path: path.to_owned() },
        false => failed(path, err),
    })?;
    if !real.starts_with(&root) {
        return Err(FilesError::LinkOutside { path: path.to_owned() });
    }
    let file = fs::File::open(real).map_err(io)?;
    let mut bytes = Vec::new();
    // The file may grow while it is read, so read at most one byte more than allowed.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FilesError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    String::from_utf8(bytes).map_err(|err| FilesError::NotUtf8 {
        path: path.to_owned(),
        valid_up_to: err.utf8_error().valid_up_to(),
    })
}

/// Finds the files of a project.
struct Walk {
    root: PathBuf,
    /// Visited folders; a link may lead back to one of them.
    seen: BTreeSet<PathBuf>,
    found: Vec<String>,
}

impl Walk {
    /// Adds the files of a folder and returns its subfolders.
    fn folder(&mut self, folder: &str) -> Result<Vec<String>, FilesError> {
        let Some(real) = self.inside(&self.root.join(folder)) else { return Ok(Vec::new()) };
        if !real.is_dir() || !self.seen.insert(real.clone()) {
            return Ok(Vec::new());
        }
        let io = |it| failed(folder, it);
        let mut folders = Vec::new();
        for entry in fs::read_dir(&real).map_err(io)? {
            let entry = entry.map_err(io)?;
            // Names that are not UTF-8 are skipped: a prompt could not refer to them.
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = format!("{folder}/{name}");
            let Some(real) = self.inside(&entry.path()) else {
                let leads_to_folder = entry.path().is_dir();
                self.found.extend(Some(path).filter(|it| FileKind::of(it).is_some() && !leads_to_folder));
                continue;
            };
            if name.starts_with('.') {
                continue;
            } else if real.is_dir() {
                folders.push(path);
            } else if real.is_file() && FileKind::of(&path).is_some() {
                self.found.push(path);
            }
        }
        Ok(folders)
    }

    /// Returns the real path if it lies inside the project; `None` for broken links.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok().filter(|it| it.starts_with(&self.root))
    }
}

fn failed(path: &str, source: io::Error) -> FilesError {
    match source.kind() {
        io::ErrorKind::NotFound => FilesError::NotFound { path: path.to_owned() },
        _ => FilesError::Io { path: path.to_owned(), source },
    }
}

/// A project in memory, for tests and embedded prompts.
///
/// ```
/// use contexture_project::{Files, InMemory};
///
/// let files = InMemory::new([("prompts/hello.md", "Be brief.")]);
/// assert_eq!(files.read("prompts/hello.md")?, "Be brief.");
/// # Ok::<(), contexture_project::FilesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InMemory(pub BTreeMap<String, String>);

impl InMemory {
    /// Creates a file source from paths and texts.
    pub fn new<P: Into<String>, T: Into<String>>(files: impl IntoIterator<Item = (P, T)>) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.into(), text.into())).collect())
    }
}

impl Files for InMemory {
    fn list(&self) -> Result<Vec<String>, FilesError> {
        Ok(self.0.keys().cloned().collect())
    }

    fn read(&self, path: &str) -> Result<String, FilesError> {
        self.0.get(path).cloned().ok_or_else(|| FilesError::NotFound { path: path.to_owned() })
    }
}

/// The folder whose folders are knowledge bases.
pub(crate) const KNOWLEDGE: &str = "knowledge";

/// Lists the names of the folders below `knowledge/`. Their files may be large, so they are not read with the project.
pub(crate) fn base_names(files: &dyn Files) -> Result<BTreeSet<String>, FilesError> {
    let name = |path: &str| {
        let (base, _) = path.strip_prefix(KNOWLEDGE)?.strip_prefix('/')?.split_once('/')?;
        (!base.is_empty() && !base.starts_with('.')).then(|| base.to_owned())
    };
    let Some(root) = files.root() else {
        return Ok(files.list()?.iter().filter_map(|it| name(it)).collect());
    };
    let folder = root.join(KNOWLEDGE);
    if !folder.is_dir() {
        return Ok(BTreeSet::new());
    }
    let io = |it| failed(KNOWLEDGE, it);
    let entries = fs::read_dir(&folder).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    let folders = entries.into_iter().filter(|it| it.path().is_dir());
    Ok(folders.filter_map(|it| it.file_name().into_string().ok()).filter(|it| !it.starts_with('.')).collect())
}

/// Whether a name could refer to a file in the project.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.split('/').any(|it| it.is_empty() || it.starts_with('.'))
}
