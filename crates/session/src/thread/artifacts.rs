//! Artifacts: named, versioned documents of a session, in the log of its main thread.
//!
//! A version is an item of the log with the whole text, so it is exported, copied and deleted with the log, and a large
//! text is stored once. A note lists the artifacts: it is replaced in the commit that adds a version, together with the
//! system event that tells the model. The rules in full:
//!
//! 1. Versions of an artifact are numbered from 1. A write that names the version it expects is refused if there is
//!    another one; without it, the write is the next version, whatever there is.
//! 2. A deleted artifact keeps its number: the next version continues it. Its text stays in the log, and is not read.
//! 3. The newest [`MAX_VERSIONS`] versions of an artifact can be read.

use std::collections::BTreeMap;

use contexture_history::{Application, Body, Change, Seq, SystemEvent, Timestamp, Visibility};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Thread;
use crate::log::draft::Draft;
use crate::log::notes::taken;
use crate::store::Span;
use crate::{ArtifactError, IdInvalid, NewItem, SessionError, State};

/// The note that lists the artifacts.
const LIST: &str = "contexture.artifacts";
/// The kind of the items that hold a version.
const VERSION: &str = "contexture.artifact";

/// Returns whether an item of a log is a record of artifacts: a version of one, or their list.
pub fn is_artifact_record(body: &Body) -> bool {
    match body {
        Body::Application(record) => record.kind == VERSION,
        Body::Change(Change::Noted { key, .. }) => key == LIST,
        _ => false,
    }
}
/// The most artifacts of a session, deleted ones included.
pub const MAX_ARTIFACTS: usize = 200;
/// How many versions of an artifact can be read.
pub const MAX_VERSIONS: usize = 50;
/// The largest text of an artifact, in bytes.
pub const MAX_ARTIFACT_BYTES: usize = 1024 * 1024;

/// A new version of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewArtifact {
    /// Its name within the session: letters, digits, `-`, `_`, `.` and `/`, at most 100 bytes.
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// Its title; by default that of the version before.
    pub title: Option<String>,
    /// Its media type; by default that of the version before.
    pub media_type: Option<String>,
    /// What it holds, for the catalogue; by default that of the version before.
    pub summary: Option<String>,
    /// The version that the writer has read; 0 if there must be none.
    pub expected: Option<u64>,
}

/// An artifact without its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactInfo {
    /// Its name within the session.
    #[serde(skip)]
    pub name: String,
    /// Its newest version.
    pub version: u64,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The size of the newest version, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// When the newest version was written.
    pub updated: Timestamp,
    /// Whether it was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    /// The versions that can be read, with their positions in the log, oldest first.
    versions: Vec<(u64, Seq)>,
}

impl ArtifactInfo {
    /// Returns the versions that can be read, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.versions.iter().map(|(version, _)| *version)
    }
}

/// A version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// What is known about it, of its newest version.
    pub info: ArtifactInfo,
    /// The version.
    pub version: u64,
    /// Its text.
    pub text: String,
}

type List = BTreeMap<String, ArtifactInfo>;

/// What happens to the model's view of an artifact.
#[derive(Clone, Copy)]
enum Act {
    Created,
    Updated,
    Deleted,
}

impl Thread {
    /// Lists the artifacts by name.
    pub async fn artifacts(&self) -> Result<Vec<ArtifactInfo>, SessionError> {
        let list = self.artifact_list().await?;
        Ok(list.into_values().filter(|it| !it.deleted).collect())
    }

    /// Returns a version of an artifact, by default the newest; `None` if there is none.
    pub async fn artifact(&self, name: &str, version: Option<u64>) -> Result<Option<Artifact>, SessionError> {
        let mut list = self.artifact_list().await?;
        let Some(info) = list.remove(name).filter(|it| !it.deleted) else { return Ok(None) };
        let version = version.unwrap_or(info.version);
        let Some((_, seq)) = info.versions.iter().find(|(it, _)| *it == version) else { return Ok(None) };
        let items = self.read(Span::After { seq: Seq(seq.0.saturating_sub(1)), max: 1 }).await?;
        let text = items.into_iter().next().and_then(|it| match it.body {
            Body::Application(Application { kind, mut value }) if kind == VERSION => {
                match value["text"].take() {
                    serde_json::Value::String(text) => Some(text),
                    _ => None,
                }
            }
            _ => None,
        });
        Ok(text.map(|text| Artifact { info, version, text }))
    }

    /// Writes a version of an artifact and tells the model, as one commit; nothing if the key was used before. Returns the
    /// artifact as it is now.
    ///
    /// ```
    /// # use contexture_session::{NewArtifact, SessionError, SessionStart, conformance};
    /// # futures::executor::block_on(async {
    /// # let sessions = conformance::sessions_in_memory();
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// let thread = session.main();
    /// let plan = |text: &str, expected| NewArtifact {
    ///     name: "plan.md".into(), text: text.into(), expected, ..NewArtifact::default()
    /// };
    /// assert_eq!(thread.put_artifact(plan("# Plan", None), None).await?.version, 1);
    /// assert_eq!(thread.put_artifact(plan("# Plan B", Some(1)), None).await?.version, 2);
    /// assert!(thread.put_artifact(plan("# Plan C", Some(1)), None).await.is_err());
    /// assert_eq!(thread.artifact("plan.md", Some(1)).await?.unwrap().text, "# Plan");
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub async fn put_artifact(
        &self,
        new: NewArtifact,
        key: Option<&str>,
    ) -> Result<ArtifactInfo, SessionError> {
        check(&new)?;
        let now = self.live.shared.ports.time.now();
        self.refresh().await?;
        let drafted = |state: &State| {
            let mut list = self.listed(state);
            let found = list.get(&new.name).filter(|it| !it.deleted).map_or(0, |it| it.version);
            if let Some(expected) = new.expected.filter(|it| *it != found) {
                return Err(ArtifactError::Stale { name: new.name.clone(), expected, found }.into());
            }
            if list.len() >= MAX_ARTIFACTS && !list.contains_key(&new.name) {
                let (what, found) = ("artifacts of the session", list.len() + 1);
                return Err(ArtifactError::TooMuch { what, found, max: MAX_ARTIFACTS }.into());
            }
            let info = list.entry(new.name.clone()).or_default();
            // The version is appended right behind the end of the log.
            info.add(&new, state.end.next(), now);
            let act = if found == 0 { Act::Created } else { Act::Updated };
            let event = event(act, &new.name, info);
            let value = json!({"name": new.name, "version": info.version, "text": new.text});
            let version = NewItem::application(VERSION, value).visibility(Visibility::NONE);
            let listed = NewItem::note(LIST, Some(json!(list)));
            Ok([version, listed, NewItem::from(event)].map(|it| (state.turn, it)).into())
        };
        self.write_once(key, drafted).await?;
        let name = new.name.clone();
        let info = self.artifact_list().await?.remove(&name).filter(|it| !it.deleted);
        info.ok_or_else(|| ArtifactError::Missing { name }.into())
    }

    /// Deletes an artifact and tells the model, as one commit; nothing if the key was used before.
    pub async fn delete_artifact(
        &self,
        name: &str,
        expected: Option<u64>,
        key: Option<&str>,
    ) -> Result<(), SessionError> {
        let now = self.live.shared.ports.time.now();
        self.refresh().await?;
        self.write_once(key, |state| {
            let mut list = self.listed(state);
            let missing = || ArtifactError::Missing { name: name.to_owned() };
            let info = list.get_mut(name).filter(|it| !it.deleted).ok_or_else(missing)?;
            if let Some(expected) = expected.filter(|it| *it != info.version) {
                let found = info.version;
                return Err(ArtifactError::Stale { name: name.to_owned(), expected, found }.into());
            }
            info.deleted = true;
            info.updated = now;
            info.versions.clear();
            let event = event(Act::Deleted, name, info);
            let listed = NewItem::note(LIST, Some(json!(list)));
            Ok([listed, NewItem::from(event)].map(|it| (state.turn, it)).into())
        })
        .await
    }

    async fn write_once(
        &self,
        key: Option<&str>,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<(), SessionError> {
        let Some(key) = key else { return self.write(draft).await.map(drop) };
        let drafted = |state: &State| {
            let mut draft = draft(state)?;
            draft.push((state.turn, taken(key)));
            Ok(draft)
        };
        self.once(key, drafted).await.map(drop)
    }

    async fn artifact_list(&self) -> Result<List, SessionError> {
        let snapshot = self.refresh().await?;
        Ok(self.listed(snapshot.state()))
    }

    /// Reads the list. The snapshot is as new as the state: callers that write hold the writer lock.
    fn listed(&self, state: &State) -> List {
        let snapshot = self.get();
        let note = state.notes.get(LIST).and_then(|_| snapshot.note(LIST));
        let mut list = note.and_then(|it| List::deserialize(&**it).ok()).unwrap_or_default();
        list.iter_mut().for_each(|(name, it)| it.name.clone_from(name));
        list
    }
}

impl ArtifactInfo {
    fn add(&mut self, new: &NewArtifact, seq: Seq, at: Timestamp) {
        if self.deleted {
            (self.title, self.media_type, self.summary, self.deleted) = (None, None, None, false);
        }
        self.version += 1;
        self.title = new.title.clone().or(self.title.take());
        self.media_type = new.media_type.clone().or(self.media_type.take());
        self.summary = new.summary.clone().or(self.summary.take());
        (self.bytes, self.updated) = (new.text.len() as u64, at);
        self.versions.push((self.version, seq));
        let n_old = self.versions.len().saturating_sub(MAX_VERSIONS);
        self.versions.drain(..n_old);
    }
}

fn check(new: &NewArtifact) -> Result<(), SessionError> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | '/');
    let name = &new.name;
    let has_step = name.split('/').any(|it| it.is_empty() || it.starts_with('.'));
    if name.len() > 100 || has_step || !name.chars().all(is_allowed) {
        let why = "it has 1 to 100 ASCII letters, digits, `-`, `_`, `.` and `/`, and no step is empty or begins with a dot";
        return Err(IdInvalid::new("artifact name", name, why).into());
    }
    let length = |it: &Option<String>| it.as_ref().map_or(0, String::len);
    let sizes = [
        ("bytes of the text", new.text.len(), MAX_ARTIFACT_BYTES),
        ("bytes of the title", length(&new.title), 200),
        ("bytes of the media type", length(&new.media_type), 200),
        ("bytes of the summary", length(&new.summary), 1_000),
    ];
    match sizes.into_iter().find(|(_, found, max)| found > max) {
        Some((what, found, max)) => Err(ArtifactError::TooMuch { what, found, max }.into()),
        None => Ok(()),
    }
}

fn event(act: Act, name: &str, info: &ArtifactInfo) -> SystemEvent {
    let (word, template) = match act {
        Act::Created => ("created", include_str!("../../templates/artifact-created.txt")),
        Act::Updated => ("updated", include_str!("../../templates/artifact-updated.txt")),
        Act::Deleted => ("deleted", include_str!("../../templates/artifact-deleted.txt")),
    };
    let text = template.trim_end().replace("{version}", &info.version.to_string()).replace("{name}", name);
    let one_line = |it: &String| it.split_whitespace().collect::<Vec<_>>().join(" ");
    let about = info.summary.as_ref().or(info.title.as_ref()).filter(|_| !matches!(act, Act::Deleted));
    let text = about.map_or(text.clone(), |it| format!("{text}\n{}", one_line(it)));
    SystemEvent::new(format!("artifact.{word}"), text).data(json!({"name": name, "version": info.version}))
}
