//! What tools that load skills do to their thread.

use std::collections::BTreeSet;

use contexture_compose::ports::SkillVersion;
use serde::Deserialize;

use super::tool::Invocation;
use crate::skills::{
    Epoch, LoadedSkill, Place, SkillInject, SkillLoad, SkillRoom, SkillShare, key, load, loaded, name_of,
    unload,
};

impl Invocation {
    /// Loads a version of a skill: from the next request on, the thread shows its instructions until it is unloaded.
    /// The tool must run [alone](super::Tool::alone), and its result for the model must be the text of
    /// [`SkillLoad::Loaded`] and nothing else.
    pub fn load_skill(&self, version: SkillVersion, inject: SkillInject) -> SkillLoad {
        let thread = self.log.get();
        // What this round loaded or unloaded before is not in the log yet.
        let known = loaded(&thread)
            .into_keys()
            .chain(self.notes.keys().iter().filter_map(|it| name_of(it)).collect::<Vec<_>>());
        let known: BTreeSet<String> = known.filter(|it| *it != version.name).collect();
        let active: Vec<LoadedSkill> =
            known.iter().filter_map(|it| self.skill(it)).filter(|it| it.is_active).collect();
        let SkillShare { model, tokens, max_bytes } = self.skills.clone();
        let room = SkillRoom { tokens, max_bytes, counter: self.log.counter() }.beside(active.iter());
        let place = match inject {
            SkillInject::Auto => Place::Result { turn: self.turn, call: self.call.id.clone() },
            SkillInject::System => Place::System,
        };
        let epoch = Epoch::of(&thread, &model);
        let (outcome, changed) = load(self.skill(&version.name), version, (place, self.turn), epoch, &room);
        self.remember(changed.as_ref());
        outcome
    }

    /// Unloads a skill. Returns whether it was active.
    pub fn unload_skill(&self, name: &str) -> bool {
        let changed = unload(self.skill(name));
        self.remember(changed.as_ref());
        changed.is_some()
    }

    /// Returns a skill that the thread has loaded, active or not.
    pub fn skill(&self, name: &str) -> Option<LoadedSkill> {
        self.note(&key(name)).and_then(|it| LoadedSkill::deserialize(&it).ok())
    }

    fn remember(&self, changed: Option<&LoadedSkill>) {
        if let Some((key, value)) = changed.map(LoadedSkill::noted) {
            self.set_note(key, Some(value));
        }
    }
}
