//! The skills of a thread as one request shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_compose::{
    BoxError, BoxFuture, Call, Contribution, Contributor, Declaration, Entry, Piece, Placement, Priority,
    Profile, Rank, Source, Volatility,
};
use contexture_history::{Envelope, Turn};
use contexture_message::{Message, Part, Request, Role, Tokens, ToolOutput, ToolResult};
use contexture_session::NewItem;
use serde_json::{Value, json};

use super::record::{Epoch, LoadedSkill, Place, SkillRoom};
use crate::text::fill;

/// The entries of the system message stand behind the frozen prefix.
const LAST: i32 = i32::MAX;

/// What decides where skills stand in a request.
pub(crate) struct SkillMoment {
    pub(crate) epoch: Epoch,
    /// Whether the provider's cache is lost for a reason that the epoch does not tell: a pause, or a refresh.
    pub(crate) is_lost: bool,
    pub(crate) room: SkillRoom,
}

/// The skills that a run loads or refreshes, before the thread has them.
#[derive(Default)]
pub(crate) struct NewSkills {
    /// Their records.
    pub(crate) changed: Vec<LoadedSkill>,
    /// The envelopes with their instructions, by name.
    pub(crate) enclosed: Vec<(String, Envelope)>,
}

/// The skills of a thread as one request shows them.
#[derive(Default)]
pub(crate) struct SkillView {
    skills: BTreeMap<String, LoadedSkill>,
    /// The skills whose record changes with this request.
    changed: BTreeSet<String>,
    /// The skills that came to stand in the system message with this request.
    moved: BTreeSet<String>,
    /// The skills whose instructions stand before the history, because their place is not part of the request.
    restated: BTreeSet<String>,
}

impl SkillView {
    /// Returns the view at a moment. If the provider's cache is lost, everything moves where it belongs.
    pub(crate) fn at(skills: BTreeMap<String, LoadedSkill>, moment: &SkillMoment) -> Self {
        let mut view = Self { skills, ..Self::default() };
        let is_lost = |it: &LoadedSkill| moment.is_lost || it.epoch != moment.epoch;
        let mut room = moment.room.beside(view.skills.values().filter(|it| it.is_active && !is_lost(it)));
        for (name, skill) in view.skills.iter_mut().filter(|(_, it)| is_lost(it)) {
            let before = skill.clone();
            let place = if skill.is_active { Place::System } else { Place::Nowhere };
            let left = std::mem::replace(&mut skill.place, place);
            let stale = std::mem::take(&mut skill.stale).into_iter().map(|it| it.place);
            let gone = stale.chain([left]).filter(is_in_log);
            skill.former.extend(gone);
            skill.epoch = moment.epoch.clone();
            if skill.is_active {
                skill.fit(&room);
                room = room.beside(std::iter::once(&*skill));
                view.moved.insert(name.clone());
            }
            if *skill != before {
                view.changed.insert(name.clone());
            }
        }
        view
    }

    /// Returns the records of what changes with this request.
    pub(crate) fn records(&self) -> Vec<NewItem> {
        self.changed.iter().filter_map(|it| self.skills.get(it)).map(LoadedSkill::record).collect()
    }

    /// Returns the ids of the calls whose results must be shown whole, because instructions stand there. Those of a skill
    /// that was unloaded, too: a preview would change bytes that were sent.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        let places = self
            .skills
            .values()
            .flat_map(|it| std::iter::once(&it.place).chain(it.stale.iter().map(|it| &it.place)));
        places.filter_map(|it| match it {
            Place::Result { call, .. } => Some(call.as_str()),
            Place::Envelope(_) | Place::System | Place::Nowhere => None,
        })
    }

    /// Whether the instructions of a skill stand in an envelope.
    pub(crate) fn stands_in_envelope(&self, name: &str) -> bool {
        self.skills.get(name).is_some_and(|it| matches!(it.place, Place::Envelope(_)))
    }

    /// Returns the entries that show the skills, and explain where they are shown.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let stands = |it: &LoadedSkill| it.stale.iter().any(|it| it.text.is_some());
        let is_shown = |it: &&LoadedSkill| it.is_active || it.place == Place::System || stands(it);
        let shown = self.skills.values().filter(is_shown);
        shown.map(|it| self.entry(it)).collect()
    }

    fn entry(&self, skill: &LoadedSkill) -> Entry {
        let mut contribution = Contribution::default();
        contribution.pieces.extend(skill.stale.iter().filter_map(|it| it.text.as_ref()).map(Piece::composed));
        let reason = match &skill.place {
            Place::System => {
                contribution.pieces.push(Piece::composed(skill.text()));
                None
            }
            _ if self.restated.contains(&skill.name) => {
                contribution.messages.push(Message::user(skill.text()));
                contribution.is_composed = true;
                None
            }
            Place::Result { .. } => Some(format!("stands where it was loaded, in turn {}", skill.since)),
            Place::Envelope(turn) => Some(format!("stands in the envelope of turn {turn}")),
            Place::Nowhere => Some("not active".to_owned()),
        };
        contribution.pieces.extend(reason.map(|it| Piece { excluded: Some(it), ..Piece::new("") }));
        for piece in &mut contribution.pieces {
            piece.detail = Some(Arc::new(detail(skill)));
        }
        Entry::Contributor(Arc::new(ShownSkill { name: skill.name.clone(), contribution }))
    }

    /// Returns a turn with the instructions that stand in its results, and without those that stand elsewhere by now, if
    /// it has any.
    pub(crate) fn relocated(&self, turn: &Turn) -> Option<Turn> {
        let is_of_turn = |it: &RecordedPlace<'_>| match it.place {
            Place::Result { turn: of, .. } | Place::Envelope(of) => of.to_string() == **turn.id(),
            Place::System | Place::Nowhere => false,
        };
        let places = self.skills.values().flat_map(|it| self.recorded(it)).filter(is_of_turn);
        let places: Vec<RecordedPlace<'_>> = places.collect();
        if places.is_empty() {
            return None;
        }
        let mut is_changed = false;
        let messages = turn.messages().iter().map(|message| match relocated(message, &places) {
            Some(changed) => {
                is_changed = true;
                Arc::new(changed)
            }
            None => Arc::clone(message),
        });
        let messages: Vec<Arc<Message>> = messages.collect();
        is_changed.then(|| turn.clone().with_composed_messages(messages))
    }

    /// Returns the places of a skill in the log.
    fn recorded<'a>(&self, skill: &'a LoadedSkill) -> impl Iterator<Item = RecordedPlace<'a>> {
        let is_restated = self.restated.contains(&skill.name);
        let own = std::iter::once((&skill.place, !is_restated));
        let stale = skill.stale.iter().map(|it| (&it.place, true));
        let former = skill.former.iter().map(|it| (it, false));
        // What stands nowhere else comes last: a place that was left may have been taken again.
        let all = own.chain(stale).chain(former);
        all.map(move |(place, is_shown)| RecordedPlace { skill, place, is_shown })
    }

    /// Returns the active skills whose place in the log is not part of a request.
    fn missing(&self, request: &Request, named: &[String]) -> Vec<String> {
        let is_missing = |it: &&LoadedSkill| {
            it.is_active && is_in_log(&it.place) && !self.restated.contains(&it.name) && !has(request, it)
        };
        let missing = self.skills.values().filter(is_missing).map(|it| it.name.clone());
        missing.filter(|it| !named.contains(it)).collect()
    }

    /// Restates the skills that a request lacks, except those that are about to be recorded. Returns whether there are
    /// any.
    pub(crate) fn restate_missing(&mut self, request: &Request, recorded_next: &[String]) -> bool {
        let missing = self.missing(request, recorded_next);
        let is_any = !missing.is_empty();
        self.restated.extend(missing);
        is_any
    }

    /// Shows stubs in place of what is not sent yet, after a request did not fit by so many tokens. Returns whether
    /// anything changed.
    pub(crate) fn shrink(&mut self, over: Tokens) -> bool {
        let mut is_changed = false;
        for (name, skill) in &mut self.skills {
            let is_new = self.moved.contains(name) || self.restated.contains(name);
            if !is_new || !skill.is_active || skill.stub.is_some() {
                continue;
            }
            skill.stub = Some(format!("the request was {over} tokens too long"));
            is_changed = true;
            // Only what stands in the system message is kept: what is restated is decided for each request.
            if skill.place == Place::System {
                self.changed.insert(name.clone());
            }
        }
        is_changed
    }
}

fn is_in_log(place: &Place) -> bool {
    matches!(place, Place::Result { .. } | Place::Envelope(_))
}

/// Whether the text of a skill stands in its place.
fn has(request: &Request, skill: &LoadedSkill) -> bool {
    let text = skill.text();
    let mut parts = request.messages.iter().flat_map(|it| it.content.iter().map(|part| (it.role, part)));
    match &skill.place {
        Place::Result { call, .. } => parts.any(|(_, part)| match part {
            Part::ToolResult(ToolResult { call_id, output: ToolOutput::Text(shown), .. }) => {
                call_id == call && *shown == text
            }
            _ => false,
        }),
        Place::Envelope(_) => parts.any(|(role, part)| match part {
            Part::Text { text: shown, .. } => role == Role::User && is_envelope_of(shown, &text),
            _ => false,
        }),
        Place::System | Place::Nowhere => true,
    }
}

/// Whether a part is an envelope of the engine that holds this text. No one else can write its tag.
fn is_envelope_of(part: &str, text: &str) -> bool {
    part.starts_with("<system-context>") && part.contains(text)
}

/// A place in the log where instructions stand or stood.
struct RecordedPlace<'a> {
    skill: &'a LoadedSkill,
    place: &'a Place,
    /// Whether requests show the instructions there.
    is_shown: bool,
}

/// Returns a message of a turn with what is shown in these places of the turn, if that differs from the log.
fn relocated(message: &Message, places: &[RecordedPlace<'_>]) -> Option<Message> {
    let mut content = message.content.clone();
    let mut is_changed = false;
    let opening = |it: &LoadedSkill| format!("<active-skill name=\"{}\"", it.name);
    content.retain_mut(|part| match part {
        Part::ToolResult(ToolResult { call_id, output: ToolOutput::Text(text), .. }) => {
            let shown = places.iter().find_map(|it| match it.place {
                Place::Result { call, .. } if call == call_id => {
                    let restored = it.skill.restored(text)?;
                    Some(if it.is_shown { restored } else { note_of(it.skill) })
                }
                _ => None,
            });
            if let Some(shown) = shown {
                *text = shown;
                is_changed = true;
            }
            true
        }
        Part::Text { text, .. } => {
            let is_of = |it: &RecordedPlace<'_>| {
                matches!(it.place, Place::Envelope(_)) && is_envelope_of(text, &opening(it.skill))
            };
            // An envelope that still stands is a part of the log that no one else can write.
            let is_gone = places.iter().find(|it| is_of(it)).is_some_and(|it| !it.is_shown);
            is_changed |= is_gone;
            !is_gone
        }
        _ => true,
    });
    is_changed.then(|| Message { content, ..message.clone() })
}

/// Returns what stands in a result whose instructions stand elsewhere.
fn note_of(skill: &LoadedSkill) -> String {
    let template = match (&skill.place, skill.is_active) {
        (_, false) => include_str!("templates/unloaded.txt"),
        (Place::System, true) => include_str!("templates/moved.txt"),
        (_, true) => include_str!("templates/restated.txt"),
    };
    fill(template, &[("name", &skill.name)])
}

fn detail(skill: &LoadedSkill) -> Value {
    let mut detail =
        json!({"version": skill.hash, "active": skill.is_active, "since": skill.since.to_string()});
    if let Some(reason) = &skill.stub {
        detail["stub"] = json!(reason);
    }
    if !skill.allowed_tools.is_empty() {
        detail["allowed_tools"] = json!(skill.allowed_tools);
    }
    detail
}

/// A skill as a contributor to one request.
struct ShownSkill {
    name: String,
    contribution: Contribution,
}

impl Contributor for ShownSkill {
    fn id(&self) -> &str {
        &self.name
    }

    fn contribute(&self, _call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(std::future::ready(Ok(self.contribution.clone())))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let profile = Profile {
            priority: Priority::LOADED_SKILL,
            // It is never dropped: where it does not fit, a stub takes its place.
            pinned: true,
            cached: true,
            volatility: Some(Volatility::Conversation),
            placement: Placement::Prefix,
            rank: Rank { order: LAST, name: self.name.clone() },
            ..Profile::default()
        };
        let source = Some(Source::Skill(self.name.as_str().into()));
        Declaration { profile, source, ..Declaration::default() }
    }
}
