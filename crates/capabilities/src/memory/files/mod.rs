//! The folder `/memories`: files that a model keeps, with the six commands of Anthropic's memory tool.
//!
//! A file is a record like any other, with versions, uses and provenance; its id is its path. Folders have documents of
//! their own, since an empty folder stays.

pub(crate) mod tree;

use contexture_session::StoreError;
use contexture_session::sources::{ExpectedVersion, SourceChange};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::tree::{Answer, Changes, Command, ROOT, Tree, resolve};
use super::error::MemoryError;
use super::record::{Author, Layer, NewRecord, Provenance, Record, RecordEdit, Trust, edited};
use super::sources::{Kind, document, record_document, record_of, version_id};
use super::space::MemorySpace;

/// What the ids of files begin with.
const FILE: &str = "file:";

/// The answer of a command: its text, or the text of its error.
pub type FileAnswer = Result<String, String>;

#[derive(Serialize, Deserialize)]
struct Folder {
    folder: bool,
}

fn record_id(name: &str) -> String {
    format!("{FILE}{ROOT}/{name}")
}

impl MemorySpace {
    /// Runs a command on the folder, as JSON: `{"command": "view", "path": "/memories"}`. A command that can't be read
    /// is an error; one that fails answers so.
    pub async fn run_file_command(
        &self,
        command: &Value,
        from: Option<Provenance>,
    ) -> Result<FileAnswer, MemoryError> {
        let command = Command::deserialize(command).map_err(|err| MemoryError::Invalid(err.to_string()))?;
        loop {
            let tree = self.tree().await?;
            let file = match command.reads().map(resolve) {
                Some(Ok(name)) if tree.files.contains_key(&name) => self.get(&record_id(&name)).await?,
                _ => None,
            };
            let Answer { result, changes } = tree.run(&command, file.as_ref().map(|it| it.text.as_str()));
            if changes == Changes::default() {
                return Ok(result);
            }
            let change = self.file_change(&changes, file.as_ref(), from.as_ref()).await?;
            match self.commit(change).await {
                // Another call has changed the same file: the command is answered for what there is now.
                Err(StoreError::Stale { .. }) => {}
                done => return Ok(done.map(|()| result)?),
            }
        }
    }

    async fn tree(&self) -> Result<Tree, MemoryError> {
        let files = self.all(Kind::Record, &format!("{FILE}{ROOT}/")).await?;
        let start = format!("{}{FILE}{ROOT}/", Kind::Record.prefix());
        let file = |it: &contexture_session::sources::SourceInfo| {
            Some((it.id.as_str().strip_prefix(&start)?.to_owned(), it.bytes))
        };
        let folders = self.all(Kind::Folder, "").await?;
        let folder =
            |it: &contexture_session::sources::SourceInfo| Kind::Folder.name(&it.id).map(str::to_owned);
        Ok(Tree {
            folders: folders.iter().filter_map(folder).collect(),
            files: files.iter().filter_map(file).collect(),
        })
    }

    async fn file_change(
        &self,
        changes: &Changes,
        file: Option<&Record>,
        from: Option<&Provenance>,
    ) -> Result<SourceChange, MemoryError> {
        let Changes { folders, write, moves, deletes, folder_deletes } = changes;
        let mut change = SourceChange::default();
        for name in folder_deletes {
            change.remove.push(Kind::Folder.id(name)?);
        }
        for name in deletes {
            change.remove.push(Kind::Record.id(&record_id(name))?);
            let versions = self.all(Kind::Version, &format!("{}/", record_id(name))).await?;
            change.remove.extend(versions.into_iter().map(|it| it.id));
        }
        for (old, new) in moves {
            self.moving_file(&mut change, &record_id(old), &record_id(new)).await?;
        }
        for name in folders {
            let (id, now) = (Kind::Folder.id(name)?, self.now());
            let folder = Folder { folder: true };
            change.put.push(self.with_analyzer(|it| document(id, "1".to_owned(), &folder, &[], (now, it))));
        }
        if let Some((name, text)) = write {
            let further = self.writing(file, record_id(name), text, from)?;
            change.expected.extend(further.expected);
            change.remove.extend(further.remove);
            change.put.extend(further.put);
        }
        Ok(change)
    }

    fn writing(
        &self,
        known: Option<&Record>,
        id: String,
        text: &str,
        from: Option<&Provenance>,
    ) -> Result<SourceChange, MemoryError> {
        let now = self.now();
        match known {
            Some(known) => {
                let edit = RecordEdit { text: Some(text.to_owned()), ..RecordEdit::default() };
                self.replacing(known, edited(known.clone(), edit, now))
            }
            None => {
                let new = NewRecord {
                    author: Author::Model,
                    trust: Trust::Derived,
                    provenance: from.into_iter().cloned().collect(),
                    ..NewRecord::new(Layer::Facts, text)
                };
                self.creating(&new.record(id, now))
            }
        }
    }

    /// Moves a file with its earlier versions.
    async fn moving_file(&self, change: &mut SourceChange, old: &str, new: &str) -> Result<(), MemoryError> {
        let Some(record) = self.get(old).await? else { return Ok(()) };
        let (from, to) = (Kind::Record.id(old)?, Kind::Record.id(new)?);
        change.expected.push(ExpectedVersion { id: from.clone(), version: Some(record.stored_version()) });
        change.expected.push(ExpectedVersion { id: to.clone(), version: None });
        change.remove.push(from);
        let moved = |it: Record| Record { id: new.to_owned(), ..it };
        change.put.push(self.with_analyzer(|it| record_document(&moved(record), to, it)));
        let versions = self.all(Kind::Version, &format!("{old}/")).await?;
        for (info, texts) in self.with_texts(versions).await? {
            let version = moved(record_of(&info, texts.first().map_or("", String::as_str))?);
            let id = version_id(new, version.version)?;
            change.put.push(self.with_analyzer(|it| record_document(&version, id, it)));
            change.remove.push(info.id);
        }
        Ok(())
    }
}
