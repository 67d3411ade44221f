//! `knowledge add`: adds files to a base.
//!
//! The id of a document is the path of its file within the folder that was given, or the name of a file that was given
//! itself. Files are read and written in batches, so a folder of any size fits into memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use contexture::SystemTime;
use contexture::knowledge::document::{self, Converter, Document};
use contexture::knowledge::folder::Folder;
use contexture::knowledge::{
    FileContent, Files, IndexProgress, IndexReport, Refusal, SkipReason, SkippedFile,
};
use contexture_message::ErrorCode;
use contexture_session::Time;

use super::{Bases, StoredBase, indexing, reindex};
use crate::error::Failure;
use crate::output::{Progress, Reply};

/// How many files are read before they are written.
const BATCH: usize = 256;

pub(super) async fn run(bases: &Bases, base: &str, paths: &[PathBuf]) -> Result<Reply, Failure> {
    let found = bases.writable(base)?;
    let mut files = Vec::new();
    for path in paths {
        files.extend(files_of(path)?);
    }
    each_once(&files)?;
    let known = bases.store.base(found.key.clone()).await?;
    if known.is_none() {
        bases.store.put_base(found.key.clone(), found.base.settings(), SystemTime.now()).await?;
    }
    let report = index(bases, &found, &files).await?;
    let embedded = reindex::embed(bases, &found).await?;
    let reply = reindex::reply(bases, vec![(found.key.base.clone(), report, embedded)]);
    if bases.as_json || bases.project.knowledge().get(base).is_some() {
        return Ok(reply);
    }
    Ok(reply.note(format!("prompts can use it once contexture.toml names it: `[knowledge.{base}]`")))
}

/// A file to add.
struct File {
    folder: Folder,
    path: String,
    /// Whether it was named itself: then it must be a document.
    is_named: bool,
}

/// Refuses two files that would be one document: the second would replace the first.
fn each_once(files: &[File]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let Some(twice) = files.iter().find(|it| !seen.insert(&it.path)) else { return Ok(()) };
    let text = format!("two files have the path `{}`, and a base has one document of each", twice.path);
    Err(Failure::new(ErrorCode::FileInvalid, text).at(twice.path.clone()).hint("add the folder above both"))
}

fn files_of(path: &Path) -> Result<Vec<File>, Failure> {
    let shown = path.display().to_string();
    let unreadable = |why: String| {
        let text = format!("cannot read `{shown}`: {why}");
        Failure::new(ErrorCode::FileInvalid, text).at(shown.clone())
    };
    let metadata = std::fs::metadata(path).map_err(|err| unreadable(err.to_string()))?;
    if metadata.is_dir() {
        let folder = Folder::new(path);
        let paths = folder.list().map_err(|err| unreadable(err.detail))?;
        return Ok(paths
            .into_iter()
            .map(|path| File { folder: folder.clone(), path, is_named: false })
            .collect());
    }
    if !metadata.is_file() {
        return Err(unreadable("it is neither a file nor a folder".to_owned()));
    }
    let whole = path.canonicalize().map_err(|err| unreadable(err.to_string()))?;
    let name = path.file_name().and_then(|it| it.to_str());
    let name = name.ok_or_else(|| unreadable("its name is not valid UTF-8".to_owned()))?;
    // The folder of a link is not the folder of its file, and only the latter is read.
    let target = whole.file_name().and_then(|it| it.to_str()).unwrap_or(name);
    if target != name {
        return Err(unreadable("it is a link; name the file itself".to_owned()));
    }
    let folder = Folder::new(whole.parent().unwrap_or(&whole));
    Ok(vec![File { folder, path: name.to_owned(), is_named: true }])
}

async fn index(bases: &Bases, found: &StoredBase, files: &[File]) -> Result<IndexReport, Failure> {
    let progress = Progress::new(bases.screen);
    let show = indexing(&progress, &found.key.base);
    let (indexer, converter) = (found.base.indexer(), found.base.converter());
    let mut all = IndexReport::default();
    for (idx, batch) in files.chunks(BATCH).enumerate() {
        let mut documents = Vec::new();
        for file in batch {
            match read(file, converter.as_deref()) {
                Ok(document) => documents.push(document),
                Err(SkippedFile { path, reason }) if file.is_named => return Err(refused(&path, &reason)),
                Err(skipped) => all.skipped.push(skipped),
            }
        }
        let (before, chunks) = ((idx * BATCH) as u64, all.chunks);
        let shown = |it: IndexProgress| {
            let (done, total) = (before + it.done, files.len() as u64);
            show(IndexProgress { done, total, chunks: chunks + it.chunks });
        };
        let report = indexer.add(&found.key, documents, &shown).await?;
        all.added += report.added;
        all.updated += report.updated;
        all.unchanged += report.unchanged;
        all.chunks += report.chunks;
    }
    Ok(all)
}

fn read(file: &File, converter: Option<&dyn Converter>) -> Result<Document, SkippedFile> {
    let skipped = |reason: SkipReason| SkippedFile { path: file.path.clone(), reason };
    match file.folder.read(&file.path).map_err(|err| skipped(err.into()))? {
        FileContent::TooLarge { bytes } => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            Err(skipped(Refusal::TooLarge { bytes }.into()))
        }
        FileContent::Bytes { bytes, at } => {
            let document =
                document::read(&file.path, &bytes, converter).map_err(|err| skipped(err.into()))?;
            Ok(Document { at, ..document })
        }
    }
}

fn refused(path: &str, reason: &SkipReason) -> Failure {
    let failure = Failure::new(ErrorCode::FileInvalid, format!("`{path}` can't be added: {reason}")).at(path);
    match reason {
        SkipReason::Refused(refusal) => match refusal.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        SkipReason::Unreadable(_) => failure,
    }
}
