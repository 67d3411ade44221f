//! The folder `/memories` as the six commands see it: paths, and what a command does with them. Nothing here reads or
//! writes; the rules and the wordings are those of Anthropic's memory tool.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The root of all paths.
pub(crate) const ROOT: &str = "/memories";
const MAX_LINES: usize = 999_999;
/// The width of a line number.
const WIDTH: usize = 6;
/// What a folder itself takes on the disks of most systems.
const FOLDER_BYTES: u64 = 4096;

/// A command of the model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Command {
    View {
        path: String,
        #[serde(default)]
        view_range: Option<Vec<i64>>,
    },
    Create {
        path: String,
        file_text: String,
    },
    StrReplace {
        path: String,
        old_str: String,
        new_str: String,
    },
    Insert {
        path: String,
        insert_line: i64,
        insert_text: String,
    },
    Delete {
        path: String,
    },
    Rename {
        old_path: String,
        new_path: String,
    },
}

impl Command {
    /// Returns the path of the file whose text decides, if there is one.
    pub(crate) fn reads(&self) -> Option<&str> {
        match self {
            Command::View { path, .. } | Command::StrReplace { path, .. } | Command::Insert { path, .. } => {
                Some(path)
            }
            Command::Create { .. } | Command::Delete { .. } | Command::Rename { .. } => None,
        }
    }
}

/// What is in the folder: names relative to the root, with `/` between their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) folders: BTreeSet<String>,
    /// The files with their sizes in bytes.
    pub(crate) files: BTreeMap<String, u64>,
}

/// What a command changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) folders: Vec<String>,
    pub(crate) write: Option<(String, String)>,
    pub(crate) moves: Vec<(String, String)>,
    pub(crate) deletes: Vec<String>,
    pub(crate) folder_deletes: Vec<String>,
}

/// What a command answers. Changes are made in both cases: some commands make folders before they fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) result: Result<String, String>,
    pub(crate) changes: Changes,
}

impl Answer {
    fn failed(text: impl Into<String>) -> Self {
        Self { result: Err(text.into()), changes: Changes::default() }
    }

    fn done(text: impl Into<String>, changes: Changes) -> Self {
        Self { result: Ok(text.into()), changes }
    }
}

/// Returns the name of a path relative to the root, which is itself empty.
pub(crate) fn resolve(path: &str) -> Result<String, String> {
    let Some(rest) = path.strip_prefix(ROOT) else {
        return Err(format!("Path must start with /memories, got: {path}"));
    };
    let escape = || format!("Path {path} would escape /memories directory");
    // The root has a name in its own parent: a path may leave it and come back.
    let mut parts = vec!["memories"];
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(escape)?),
            part => parts.push(part),
        }
    }
    match parts.split_first() {
        Some((&"memories", inside)) => Ok(inside.join("/")),
        _ => Err(escape()),
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File,
    Missing,
}

impl Tree {
    fn node(&self, name: &str) -> Node {
        match () {
            () if name.is_empty() || self.folders.contains(name) => Node::Folder,
            () if self.files.contains_key(name) => Node::File,
            () => Node::Missing,
        }
    }

    /// Returns the folders to make so that a name has a parent, or the error of a system where a part is a file.
    fn parents(&self, name: &str, path: &str) -> Result<Vec<String>, String> {
        let mut missing = Vec::new();
        let mut parts: Vec<&str> = name.split('/').collect();
        parts.pop();
        while !parts.is_empty() {
            let parent = parts.join("/");
            match self.node(&parent) {
                Node::Folder => break,
                Node::File => return Err(not_a_folder(path)),
                Node::Missing => missing.push(parent),
            }
            parts.pop();
        }
        missing.reverse();
        Ok(missing)
    }

    fn inside<'a>(names: impl Iterator<Item = &'a String>, folder: &str) -> Vec<String> {
        let start = format!("{folder}/");
        names.filter(|it| it.starts_with(&start)).cloned().collect()
    }

    /// Runs a command. `text` is that of the file it [reads](Command::reads), if that is a file.
    pub(crate) fn run(&self, command: &Command, text: Option<&str>) -> Answer {
        let answer = match command {
            Command::View { path, view_range } => self.view(path, view_range.as_deref(), text),
            Command::Create { path, file_text } => self.create(path, file_text),
            Command::StrReplace { path, old_str, new_str } => {
                self.str_replace(path, (old_str, new_str), text)
            }
            Command::Insert { path, insert_line, insert_text } => {
                self.insert(path, *insert_line, insert_text, text)
            }
            Command::Delete { path } => self.delete(path),
            Command::Rename { old_path, new_path } => self.rename(old_path, new_path),
        };
        answer.unwrap_or_else(Answer::failed)
    }

    fn view(&self, path: &str, range: Option<&[i64]>, text: Option<&str>) -> Result<Answer, String> {
        let name = resolve(path)?;
        match (self.node(&name), text) {
            (Node::Folder, _) => Ok(Answer::done(self.listing(&name, path), Changes::default())),
            (Node::File, Some(text)) => Ok(Answer::done(numbered(path, text, range)?, Changes::default())),
            (Node::File | Node::Missing, _) => Err(missing(path)),
        }
    }

    fn listing(&self, folder: &str, path: &str) -> String {
        let mut lines = vec![format!(
            "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        )];
        lines.push(format!("{}\t{path}", size(FOLDER_BYTES)));
        self.list(folder, path, 1, &mut lines);
        lines.join("\n")
    }

    fn list(&self, folder: &str, shown: &str, depth: usize, lines: &mut Vec<String>) {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let own = |name: &&String| {
            let rest = name.strip_prefix(&start).unwrap_or_default();
            name.starts_with(&start) && !rest.is_empty() && !rest.contains('/') && !rest.starts_with('.')
        };
        let folders = self.folders.iter().filter(own).map(|it| (it, None));
        let files = self.files.iter().filter(|(it, _)| own(it)).map(|(it, bytes)| (it, Some(*bytes)));
        let sorted: BTreeMap<&String, Option<u64>> = folders.chain(files).collect();
        for (name, bytes) in sorted {
            let shown = format!("{shown}/{}", &name[start.len()..]);
            match bytes {
                Some(bytes) => lines.push(format!("{}\t{shown}", size(bytes))),
                None => {
                    lines.push(format!("{}\t{shown}/", size(FOLDER_BYTES)));
                    if depth < 2 {
                        self.list(name, &shown, depth + 1, lines);
                    }
                }
            }
        }
    }

    fn create(&self, path: &str, file_text: &str) -> Result<Answer, String> {
        let name = resolve(path)?;
        if self.node(&name) != Node::Missing {
            return Err(format!("File {path} already exists"));
        }
        let folders = self.parents(&name, path)?;
        let write = Some((name, file_text.to_owned()));
        let changes = Changes { folders, write, ..Changes::default() };
        Ok(Answer::done(format!("File created successfully at: {path}"), changes))
    }

    /// Returns the name and the text of a file that is to be edited.
    fn edited<'a>(&self, path: &str, text: Option<&'a str>) -> Result<(String, &'a str), String> {
        let name = resolve(path)?;
        match (self.node(&name), text) {
            (Node::Missing, _) => Err(missing(path)),
            (Node::Folder, _) => Err(format!("The path {path} is not a file.")),
            (Node::File, None) => Err(format!(
                "The file {path} no longer exists (may have been deleted or renamed concurrently)."
            )),
            (Node::File, Some(text)) => Ok((name, text)),
        }
    }

    fn str_replace(
        &self,
        path: &str,
        (old, new): (&str, &str),
        text: Option<&str>,
    ) -> Result<Answer, String> {
        let (name, text) = self.edited(path, text)?;
        match text.matches(old).count() {
            0 => {
                return Err(format!(
                    "No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                ));
            }
            1 => {}
            _ => {
                let lines: Vec<String> = lines_with(text, old).iter().map(ToString::to_string).collect();
                return Err(format!(
                    "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {}. Please \
                     ensure it is unique",
                    lines.join(", ")
                ));
            }
        }
        let at = text.find(old).unwrap_or_default();
        let changed = text[..at].matches('\n').count();
        let replaced = text.replace(old, new);
        let lines: Vec<&str> = replaced.split('\n').collect();
        let shown = changed.saturating_sub(2)..lines.len().min(changed + 3);
        let snippet: Vec<String> = shown.map(|it| line(it + 1, lines[it])).collect();
        let changes = Changes { write: Some((name, replaced.clone())), ..Changes::default() };
        let answer =
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):";
        Ok(Answer::done(format!("{answer}\n{}", snippet.join("\n")), changes))
    }

    fn insert(&self, path: &str, at: i64, new: &str, text: Option<&str>) -> Result<Answer, String> {
        let (name, text) = self.edited(path, text)?;
        let mut lines: Vec<&str> = text.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        let Some(at) = usize::try_from(at).ok().filter(|it| *it <= lines.len()) else {
            return Err(format!(
                "Invalid `insert_line` parameter: {at}. It should be within the range [0, {}].",
                lines.len()
            ));
        };
        lines.insert(at, new.trim_end_matches('\n'));
        let mut text = lines.join("\n");
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let changes = Changes { write: Some((name, text)), ..Changes::default() };
        Ok(Answer::done(format!("The file {path} has been edited."), changes))
    }

    fn delete(&self, path: &str) -> Result<Answer, String> {
        let name = resolve(path)?;
        let changes = match self.node(&name) {
            Node::Folder if name.is_empty() => {
                return Err("Cannot delete the /memories directory itself".to_owned());
            }
            Node::Folder => {
                let mut folders = Self::inside(self.folders.iter(), &name);
                folders.push(name.clone());
                let deletes = Self::inside(self.files.keys(), &name);
                Changes { deletes, folder_deletes: folders, ..Changes::default() }
            }
            Node::File => Changes { deletes: vec![name], ..Changes::default() },
            Node::Missing => return Err(format!("The path {path} does not exist")),
        };
        Ok(Answer::done(format!("Successfully deleted {path}"), changes))
    }

    fn rename(&self, old_path: &str, new_path: &str) -> Result<Answer, String> {
        let (old, new) = (resolve(old_path)?, resolve(new_path)?);
        if old.is_empty() {
            return Err("Cannot rename the /memories directory itself".to_owned());
        }
        if self.node(&new) != Node::Missing {
            return Err(format!("The destination {new_path} already exists"));
        }
        // The parents are made before it is known whether there is anything to move.
        let folders = self.parents(&new, new_path)?;
        let made = Changes { folders: folders.clone(), ..Changes::default() };
        let failed = |text: String| Ok(Answer { result: Err(text), changes: made.clone() });
        let is_inside = new.starts_with(&format!("{old}/"));
        match self.node(&old) {
            Node::File if is_inside => failed(not_a_folder(new_path)),
            _ if is_inside => failed(format!("The path {old_path} can't be moved into itself")),
            Node::Missing if self.has_file_above(&old) => failed(not_a_folder(old_path)),
            Node::Missing => failed(format!("The path {old_path} does not exist")),
            Node::File | Node::Folder => {
                let text = format!("Successfully renamed {old_path} to {new_path}");
                Ok(Answer::done(text, self.moved(&old, &new, folders)))
            }
        }
    }

    fn has_file_above(&self, name: &str) -> bool {
        self.files.keys().any(|it| name.starts_with(&format!("{it}/")))
    }

    fn moved(&self, old: &str, new: &str, mut folders: Vec<String>) -> Changes {
        let target = |it: &String| format!("{new}{}", &it[old.len()..]);
        if self.files.contains_key(old) {
            let moves = vec![(old.to_owned(), new.to_owned())];
            return Changes { folders, moves, ..Changes::default() };
        }
        let mut inner = Self::inside(self.folders.iter(), old);
        inner.push(old.to_owned());
        folders.extend(inner.iter().map(target));
        let files = Self::inside(self.files.keys(), old);
        let moves = files.into_iter().map(|it| (it.clone(), target(&it))).collect();
        Changes { folders, moves, folder_deletes: inner, ..Changes::default() }
    }
}

fn missing(path: &str) -> String {
    format!("The path {path} does not exist. Please provide a valid path.")
}

/// What a system says where a part of a path is a file; the reference passes on the system's own error.
fn not_a_folder(path: &str) -> String {
    format!("Not a directory: {path}")
}

fn line(number: usize, text: &str) -> String {
    format!("{number:>WIDTH$}\t{text}")
}

/// Returns the text of a file with line numbers.
fn numbered(path: &str, text: &str, range: Option<&[i64]>) -> Result<String, String> {
    let lines: Vec<&str> = text.split('\n').collect();
    if lines.len() > MAX_LINES {
        return Err(format!("File {path} exceeds maximum line limit of 999,999 lines."));
    }
    let (start, end) = match range {
        Some(&[first, last]) => (index(first.max(1) - 1), end_of(last, lines.len())),
        _ => (0, lines.len()),
    };
    let shown = (start..end.min(lines.len())).map(|it| line(it + 1, lines[it]));
    let shown: Vec<String> = shown.collect();
    Ok(format!("Here's the content of {path} with line numbers:\n{}", shown.join("\n")))
}

fn index(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Returns where a range ends. As in Python, -1 is all, and other negative numbers count from the end.
fn end_of(last: i64, lines: usize) -> usize {
    match last {
        -1 => lines,
        it if it < 0 => lines.saturating_sub(usize::try_from(it.unsigned_abs()).unwrap_or(usize::MAX)),
        it => index(it),
    }
}

/// Returns the lines where a text occurs, overlapping occurrences included.
fn lines_with(text: &str, old: &str) -> Vec<usize> {
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let found = starts.filter(|at| text[*at..].starts_with(old));
    found.map(|at| text[..at].matches('\n').count() + 1).collect()
}

/// Returns a size as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "K", "M", "G"];
    if bytes == 0 {
        return "0B".to_owned();
    }
    let unit = (bytes.ilog2() / 10).min(3);
    let (whole, rest) = (bytes >> (10 * unit), bytes & ((1 << (10 * unit)) - 1));
    let name = UNITS[unit as usize];
    match rest {
        0 => format!("{whole}{name}"),
        // Sizes are far below 2^53, so the casts are exact.
        _ => format!("{:.1}{name}", bytes as f64 / (1_u64 << (10 * unit)) as f64),
    }
}
