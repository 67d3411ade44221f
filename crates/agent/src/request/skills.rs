//! The skills of a thread in the requests of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_compose::BoxError;
use contexture_compose::ports::SkillVersion;
use contexture_history::compaction::ResultLimits;
use contexture_history::{Envelope, EnvelopeTag};
use contexture_message::Tokens;
use contexture_session::Snapshot;

use super::resolver::Resolver;
use crate::error::AgentError;
use crate::skills::{
    Epoch, NewSkills, Place, SkillLoad, SkillMoment, SkillRoom, SkillShare, SkillView, load, loaded,
};

impl Resolver {
    /// Returns the skills of a thread as a pass on it shows them.
    pub(super) fn skill_view(&self, thread: &Snapshot) -> SkillView {
        let mut skills = loaded(thread);
        skills.extend(self.skills.changed.iter().map(|it| (it.name.clone(), it.clone())));
        if skills.is_empty() {
            return SkillView::default();
        }
        let SkillShare { model, tokens, max_bytes } = self.skill_share(thread);
        let check = self.moment(thread, &model);
        let engine = self.agent.engine.as_ref().unwrap_or(self.prompt.engine());
        let counter = engine.counters.for_model(Some(&model));
        let moment = SkillMoment {
            epoch: Epoch::of(thread, &model),
            is_lost: check.is_lost(),
            room: SkillRoom { tokens, max_bytes, counter },
        };
        SkillView::at(skills, &moment)
    }

    /// Returns what skills may take: a quarter of the window, and half of the budget of the system text.
    pub(crate) fn skill_share(&self, thread: &Snapshot) -> SkillShare {
        let model = self.model_on(thread).unwrap_or_default();
        let quarter = self.usable_on(thread).map_or(u32::MAX, |it| it.0 / 4);
        let half = self.prompt.definition().budget.token_budget.map_or(u32::MAX, |it| it.0 / 2);
        let max_bytes = self.agent.config.max_result_bytes;
        SkillShare { model, tokens: Tokens(quarter.min(half)), max_bytes }
    }

    /// Loads the skills that a run names, and the current versions of active ones if a refresh was requested. Nothing
    /// is written: the records go with the beginning of the turn.
    pub(crate) async fn load_skills(
        &mut self,
        thread: &Snapshot,
        names: &[String],
    ) -> Result<(), AgentError> {
        let known = loaded(thread);
        let mut new = NewSkills::default();
        let refreshed = known.values().filter(|it| it.is_active && self.cache.refresh);
        for skill in refreshed {
            // A skill that is gone stays as it was loaded.
            let Some(version) = self.skill_version(&skill.name).await? else { continue };
            if version.hash != skill.hash {
                let mut skill = skill.clone();
                skill.replace(version);
                new.changed.push(skill);
            }
        }
        let SkillShare { model, tokens, max_bytes } = self.skill_share(thread);
        let engine = self.agent.engine.as_ref().unwrap_or(self.prompt.engine());
        let room = SkillRoom { tokens, max_bytes, counter: engine.counters.for_model(Some(&model)) };
        let mut room = room.beside(known.values().filter(|it| it.is_active));
        for name in names.iter().collect::<BTreeSet<_>>() {
            let version = self.skill_version(name).await?;
            let version = version.ok_or_else(|| AgentError::NoSuchSkill { skill: name.clone() })?;
            let turn = thread.turn().next();
            let place = (Place::Envelope(turn), turn);
            let (outcome, changed) =
                load(known.get(name).cloned(), version, place, Epoch::of(thread, &model), &room);
            if let SkillLoad::Loaded(text) = outcome {
                new.enclosed.push((name.clone(), Envelope::text(EnvelopeTag::SystemContext, text)));
            }
            room = room.beside(changed.iter());
            new.changed.extend(changed);
        }
        self.skills = new;
        Ok(())
    }

    async fn skill_version(&self, name: &str) -> Result<Option<SkillVersion>, AgentError> {
        let Some(source) = &self.agent.skills else { return Ok(None) };
        let failed =
            |err: BoxError| AgentError::SkillUnreadable { skill: name.to_owned(), reason: err.to_string() };
        source.load(name).await.map_err(failed)
    }

    /// Returns the envelopes of the skills that the run loads and that stand there.
    pub(crate) fn skill_envelopes(&self) -> Vec<Envelope> {
        let stands = |name: &str| self.shown_skills.stands_in_envelope(name);
        self.skills.enclosed.iter().filter(|(name, _)| stands(name)).map(|(_, it)| it.clone()).collect()
    }

    /// Returns the limits without those of results in which instructions of skills stand. The ladder may still cut them.
    pub(super) fn with_whole_skills(&self, limits: ResultLimits) -> ResultLimits {
        let mut places = self.shown_skills.places().filter(|it| !limits.caps.contains_key(*it)).peekable();
        if places.peek().is_none() {
            return limits;
        }
        let mut caps = (*limits.caps).clone();
        caps.extend(places.map(|it| (it.to_owned(), Tokens(u32::MAX))));
        ResultLimits { caps: Arc::new(caps), ..limits }
    }
}
