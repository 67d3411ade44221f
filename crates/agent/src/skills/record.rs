//! The record of a loaded skill: a note in the thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_compose::ports::SkillVersion;
use contexture_compose::tags::escape_attribute;
use contexture_history::neutral::neutralise;
use contexture_history::{Body, Change, Seq, TurnNo};
use contexture_message::{TokenCounter, Tokens};
use contexture_session::{NewItem, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::text::fill;

/// The notes of skills begin with this.
const PREFIX: &str = "contexture.skill.";

/// Returns whether an item of a log is the record of a loaded skill.
pub fn is_skill_record(body: &Body) -> bool {
    matches!(body, Body::Change(Change::Noted { key, .. }) if key.starts_with(PREFIX))
}

/// Where the instructions of a skill stand once it is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillInject {
    /// Where it was loaded, until the provider's cache is lost anyway; then in the system message.
    #[default]
    Auto,
    /// In the system message at once, which costs the provider's cache of everything behind it.
    System,
}

/// A skill that a thread has loaded, at the version that it has loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedSkill {
    /// The name of the skill.
    pub name: String,
    /// The hash of the loaded version.
    pub hash: String,
    /// The instructions of the loaded version.
    pub instructions: Arc<str>,
    /// The tools that may run without approval while it is active; if there are none, it says nothing about tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Whether it is active. One that was unloaded is kept until the model no longer sees it.
    pub is_active: bool,
    /// The turn since which it is active.
    pub since: TurnNo,
    pub(crate) place: Place,
    /// Why the instructions are not shown, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stub: Option<String>,
    /// The state of the provider's cache when the instructions came to stand where they are.
    pub(crate) epoch: Epoch,
    /// Places of this skill in the log whose text a request no longer shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) former: Vec<Place>,
    /// Other versions that still stand somewhere. They go when the provider's cache is lost anyway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) stale: Vec<Standing>,
}

/// A version that is no longer the loaded one, and whose text still stands somewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standing {
    hash: String,
    pub(crate) place: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stub: Option<String>,
    /// The text, if it stands in the system message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// Where the instructions of a skill stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// In the result of a call.
    Result {
        /// The turn of the call: ids may repeat in others.
        turn: TurnNo,
        call: String,
    },
    /// In an envelope of a user message.
    Envelope(TurnNo),
    /// In the system message.
    System,
    /// Nowhere: the skill was unloaded.
    Nowhere,
}

/// What has to stay the same for the provider's cache to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Epoch {
    pub(crate) model: String,
    pub(crate) archives: u64,
    pub(crate) history_after: Seq,
}

impl Epoch {
    pub(crate) fn of(thread: &Snapshot, model: &str) -> Self {
        let state = thread.state();
        Self { model: model.to_owned(), archives: state.n_archives, history_after: state.history_after }
    }
}

/// How much room there is for the instructions of all active skills together.
#[derive(Clone)]
pub(crate) struct SkillRoom {
    pub(crate) tokens: Tokens,
    /// A text with more bytes would be shown as a preview.
    pub(crate) max_bytes: usize,
    pub(crate) counter: Arc<dyn TokenCounter>,
}

/// What skills may take of the window of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillShare {
    pub(crate) model: String,
    pub(crate) tokens: Tokens,
    pub(crate) max_bytes: usize,
}

/// The outcome of loading a skill.
#[derive(Clone, Debug, PartialEq)]
pub enum SkillLoad {
    /// It is loaded. The text stands for it in the request, and belongs in the result of the call.
    Loaded(String),
    /// It is loaded, and its instructions are in the system message from the next request on.
    InSystem,
    /// It was unloaded before, and its instructions still stand where they stood.
    ActiveAgain,
    /// It is active already.
    ActiveSince {
        /// The turn in which it was loaded.
        turn: TurnNo,
        /// Whether there is another version by now. It is used after a refresh.
        is_outdated: bool,
    },
}

impl LoadedSkill {
    /// Returns the text that stands for the skill in a request.
    pub(crate) fn text(&self) -> String {
        let text = match &self.stub {
            None => (*self.instructions).to_owned(),
            Some(reason) => {
                let values = [("name", self.name.as_str()), ("reason", reason.as_str())];
                fill(include_str!("templates/stub.txt"), &values)
            }
        };
        // The instructions can neither close the tag around them nor open another of the engine's.
        let text = neutralise(text.trim_end());
        let (name, version) = (escape_attribute(&self.name), escape_attribute(&self.hash));
        let values = [("name", &*name), ("version", &*version), ("text", &*text)];
        fill(include_str!("templates/active_skill.txt"), &values)
    }

    /// Returns the text of a result as [`text`](Self::text) wrote it, if it stands for this skill. The log neutralises
    /// the engine's tags in every result; whether this one is the engine's, only a record of its place can tell.
    pub(crate) fn restored(&self, result: &str) -> Option<String> {
        let opening = format!(" name=\"{}\"", escape_attribute(&self.name));
        let inner = result.strip_prefix("&lt;active-skill").filter(|it| it.starts_with(&opening))?;
        let inner = inner.trim_end().strip_suffix("&lt;/active-skill>")?;
        Some(format!("<active-skill{inner}</active-skill>"))
    }

    /// Returns the key of the note, and its value.
    pub(crate) fn noted(&self) -> (String, Value) {
        (key(&self.name), json!(self))
    }

    /// Returns the record of it.
    pub(crate) fn record(&self) -> NewItem {
        let (key, value) = self.noted();
        NewItem::note(key, Some(value))
    }

    /// Shows the instructions if there is room for them, or else a stub.
    pub(crate) fn fit(&mut self, room: &SkillRoom) {
        self.stub = None;
        let text = self.text();
        let is_result = matches!(self.place, Place::Result { .. });
        let tokens = room.counter.count(&text);
        let (template, values) = if is_result && text.len() > room.max_bytes {
            let values = [("bytes", text.len().to_string()), ("max", room.max_bytes.to_string())];
            (include_str!("templates/too_long.txt"), values)
        } else if tokens > room.tokens {
            let values = [("tokens", tokens.to_string()), ("room", room.tokens.to_string())];
            (include_str!("templates/too_large.txt"), values)
        } else {
            return;
        };
        self.stub = Some(fill(template, &values.each_ref().map(|(key, it)| (*key, it.as_str()))));
    }

    /// Returns what stands of it, if anything does.
    fn standing(&self) -> Option<Standing> {
        let text = (self.place == Place::System).then(|| self.text());
        let (hash, place, stub) = (self.hash.clone(), self.place.clone(), self.stub.clone());
        (place != Place::Nowhere).then_some(Standing { hash, place, stub, text })
    }

    /// Takes over another version.
    pub(crate) fn replace(&mut self, version: SkillVersion) {
        self.instructions = with_files(&version);
        (self.hash, self.allowed_tools) = (version.hash, version.allowed_tools);
    }
}

/// Returns the name of the skill that a note is about.
pub(crate) fn name_of(key: &str) -> Option<String> {
    key.strip_prefix(PREFIX).map(str::to_owned)
}

/// Returns the key of the note about a skill.
pub(crate) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Returns the skills that a thread has loaded, by name.
pub(crate) fn loaded(thread: &Snapshot) -> BTreeMap<String, LoadedSkill> {
    let notes = thread.notes_under(PREFIX);
    let skills = notes.filter_map(|(_, value)| LoadedSkill::deserialize(&**value).ok());
    skills.map(|it| (it.name.clone(), it)).collect()
}

/// Loads a version of a skill. Returns the outcome and what changed in the record, if anything did.
pub(crate) fn load(
    known: Option<LoadedSkill>,
    version: SkillVersion,
    (place, turn): (Place, TurnNo),
    epoch: Epoch,
    room: &SkillRoom,
) -> (SkillLoad, Option<LoadedSkill>) {
    if let Some(active) = known.as_ref().filter(|it| it.is_active) {
        let is_outdated = active.hash != version.hash;
        return (SkillLoad::ActiveSince { turn: active.since, is_outdated }, None);
    }
    let (former, mut stale) =
        known.as_ref().map(|it| (it.former.clone(), it.stale.clone())).unwrap_or_default();
    stale.extend(known.as_ref().and_then(LoadedSkill::standing));
    let stands = stale.iter().position(|it| it.hash == version.hash).map(|it| stale.remove(it));
    let is_new = stands.is_none();
    let (place, stub) = stands.map_or((place, None), |it| (it.place, it.stub));
    let epoch = known.map_or(epoch, |it| it.epoch);
    let instructions = with_files(&version);
    let SkillVersion { name, hash, allowed_tools, .. } = version;
    let (is_active, since) = (true, turn);
    let mut skill = LoadedSkill {
        name,
        hash,
        instructions,
        allowed_tools,
        is_active,
        since,
        place,
        stub,
        epoch,
        former,
        stale,
    };
    if is_new {
        skill.fit(room);
    }
    let outcome = match skill.place {
        _ if !is_new => SkillLoad::ActiveAgain,
        Place::System | Place::Nowhere => SkillLoad::InSystem,
        Place::Result { .. } | Place::Envelope(_) => SkillLoad::Loaded(skill.text()),
    };
    (outcome, Some(skill))
}

/// Returns the instructions of a version, with the list of its files. They are read with a tool; scripts are not run.
fn with_files(version: &SkillVersion) -> Arc<str> {
    if version.files.is_empty() {
        return Arc::clone(&version.instructions);
    }
    let (text, files) = (version.instructions.trim_end(), version.files.join(", "));
    fill(include_str!("templates/files.txt"), &[("text", text), ("files", &files)]).into()
}

/// Unloads a skill. Returns what changed in the record: nothing if it is not active.
pub(crate) fn unload(known: Option<LoadedSkill>) -> Option<LoadedSkill> {
    let active = known.filter(|it| it.is_active)?;
    Some(LoadedSkill { is_active: false, ..active })
}

impl SkillRoom {
    /// Returns the room that is left beside these skills.
    pub(crate) fn beside<'a>(&self, skills: impl Iterator<Item = &'a LoadedSkill>) -> Self {
        let taken = skills.map(|it| self.counter.count(&it.text()));
        let tokens = taken.fold(self.tokens, Tokens::saturating_sub);
        Self { tokens, ..self.clone() }
    }
}
