//! Reads the folder of a base. The only module that touches the file system or starts a process.

use std::collections::BTreeSet;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_history::Timestamp;

use crate::document::{Converter, MAX_BYTES};
use crate::index::{FileContent, FileError, Files};

/// How deep folders are nested at most.
const MAX_DEPTH: usize = 32;
/// How many files are read at most.
const MAX_FILES: usize = 1_000_000;
/// How often a file is read that keeps changing.
const ATTEMPTS: usize = 3;

/// How long the conversion of one file may take.
const CONVERSION_LIMIT: Duration = Duration::from_secs(120);

/// The files of a folder, such as `knowledge/handbook`.
///
/// Links are followed only to places inside the folder, and each folder is read once, so links in a circle do no harm.
/// Hidden files and folders are left out.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Returns the files of a folder, which must exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn walk(&self) -> std::io::Result<Vec<String>> {
        let root = self.root.canonicalize()?;
        let mut walk = Walk { root: root.clone(), seen: BTreeSet::new(), files: Vec::new() };
        walk.folder(&root, "", 0)?;
        walk.files.sort_unstable();
        Ok(walk.files)
    }
}

struct Walk {
    root: PathBuf,
    /// The folders that were read, without links in their paths.
    seen: BTreeSet<PathBuf>,
    files: Vec<String>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> std::io::Result<()> {
        let real = folder.canonicalize()?;
        if depth > MAX_DEPTH || !real.starts_with(&self.root) || !self.seen.insert(real) {
            return Ok(());
        }
        let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            // A name that is not Unicode can't be that of a document.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') || self.files.len() >= MAX_FILES {
                continue;
            }
            // Follows links; one that leads nowhere is left out.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if metadata.is_dir() {
                self.folder(&entry.path(), &path, depth + 1)?;
            } else if metadata.is_file()
                && entry.path().canonicalize().is_ok_and(|it| it.starts_with(&self.root))
            {
                self.files.push(path);
            }
        }
        Ok(())
    }
}

impl Files for Folder {
    fn list(&self) -> Result<Vec<String>, FileError> {
        self.walk()
            .map_err(|err| FileError { path: self.root.display().to_string(), detail: err.to_string() })
    }

    fn read(&self, path: &str) -> Result<FileContent, FileError> {
        let error = |detail: String| FileError { path: path.to_owned(), detail };
        let place = self.root.join(path);
        let size = |place: &Path| std::fs::metadata(place).map_err(|err| error(err.to_string()));
        let content = |place: &Path| std::fs::read(place).map_err(|err| error(err.to_string()));
        for _ in 0..ATTEMPTS {
            let before = size(&place)?;
            if before.len() > MAX_BYTES as u64 {
                return Ok(FileContent::TooLarge { bytes: before.len() });
            }
            // Twice: times of changes are too coarse to tell whether it changed in between.
            let (bytes, again) = (content(&place)?, content(&place)?);
            let after = size(&place)?;
            let is_same = before.len() == after.len() && before.modified().ok() == after.modified().ok();
            if is_same && bytes == again && bytes.len() as u64 == after.len() {
                return Ok(FileContent::Bytes { bytes, at: modified(&after) });
            }
        }
        Err(error("it changed while it was read".to_owned()))
    }
}

fn modified(metadata: &std::fs::Metadata) -> Timestamp {
    let since = metadata.modified().ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
    Timestamp(since.and_then(|it| i64::try_from(it.as_millis()).ok()).unwrap_or(0))
}

/// Converts files by a command, which reads the file from its standard input and writes text to its standard output.
/// `{path}` in an argument is the file's name.
#[derive(Clone, Debug)]
pub struct CommandConverter {
    program: String,
    arguments: Vec<String>,
}

impl CommandConverter {
    /// Returns a converter that runs a program.
    pub fn new(program: impl Into<String>, arguments: Vec<String>) -> Self {
        Self { program: program.into(), arguments }
    }

    /// Returns what a program writes to its standard output and standard error, both read beside the writing: a program
    /// that writes before it has read everything must not block.
    fn output(&self, child: &mut Child, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (input, bytes) = (child.stdin.take(), bytes.to_vec());
        std::thread::spawn(move || {
            // A program may end before it has read everything.
            _ = input.map(|mut it| it.write_all(&bytes));
        });
        let (sender, receiver) = channel();
        let said = child.stderr.take().map(|it| read_beside(it, channel().0));
        let text = child.stdout.take().map(|it| read_beside(it, sender));
        receiver.recv_timeout(CONVERSION_LIMIT).map_err(|_| {
            format!("`{}` did not finish within {} s", self.program, CONVERSION_LIMIT.as_secs())
        })?;
        let joined = |it: Option<JoinHandle<Vec<u8>>>| it.and_then(|it| it.join().ok()).unwrap_or_default();
        let text = joined(text);
        if text.len() > MAX_BYTES {
            return Err(format!("`{}` wrote more than {MAX_BYTES} bytes", self.program));
        }
        Ok((text, joined(said)))
    }
}

/// Reads a stream to its end, at most a little more than is allowed, and then tells so.
fn read_beside(stream: impl Read + Send + 'static, done: Sender<()>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        _ = stream.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        // The reader may have given up.
        _ = done.send(());
        bytes
    })
}

impl Converter for CommandConverter {
    fn convert(&self, path: &str, bytes: &[u8]) -> Result<String, String> {
        // A name that begins with a dash must not be an option.
        let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
        let mut child = Command::new(&self.program)
            .args(self.arguments.iter().map(|it| it.replace("{path}", &path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|err| format!("`{}`: {err}", self.program))?;
        let output = self.output(&mut child, bytes);
        if output.is_err() {
            // It may have ended meanwhile; either way it is waited for.
            _ = child.kill();
        }
        let status = child.wait().map_err(|err| format!("`{}`: {err}", self.program))?;
        let (text, said) = output?;
        if !status.success() {
            let said = String::from_utf8_lossy(&said);
            return Err(format!("`{}` ended with {status}: {}", self.program, said.trim()));
        }
        String::from_utf8(text).map_err(|_| format!("`{}` wrote no valid UTF-8", self.program))
    }
}
