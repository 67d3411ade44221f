//! Previews the next turn without sending anything.

use std::sync::Arc;

use contexture_compose::{InFlightTurn, Pass, Prompt};
use contexture_history::Turn;
use contexture_message::{Message, Role};
use contexture_session::Thread;

use super::opening::open;
use crate::request::{CacheState, Resolver, recorded_with_reminders};
use crate::spec::{RunRequest, check_attachments};
use crate::{Agent, AgentError};

impl Agent {
    /// Returns the first request that the next turn on a thread would send. No model is called and nothing is written.
    ///
    /// Without a user message, the request ends with the history. Entries are evaluated and input guardrails run, as
    /// in a real turn. Room that the turn would have to make first, for example by a compaction, is not made, and it is
    /// not decided which results have become old since the last turn.
    pub async fn preview<In, Out>(
        &self,
        prompt: &Prompt<In, Out>,
        thread: &Thread,
        request: RunRequest,
    ) -> Result<Pass, AgentError> {
        let RunRequest { spec, user, blocks, attachments, reminders, skills, refresh, .. } = request;
        spec.check()?;
        check_attachments(&attachments)?;
        let cache = CacheState { refresh, ..CacheState::default() };
        let resolver = Resolver::new(Arc::clone(&self.0), prompt.untyped(), spec);
        let mut resolver = Resolver { blocks, attachments, cache, ..resolver };
        let before = thread.get();
        resolver.read_state(thread, &before);
        resolver.check_client_tools(&before).await?;
        resolver.load_skills(&before, &skills).await?;
        let user = user.filter(|it| !it.is_blank()).map(|it| Message { role: Role::User, ..it });
        let user = resolver.said(&before, user).await?;
        if user.is_none() {
            resolver.own_messages = Some(Arc::default());
            let nothing = InFlightTurn::Recorded(Turn::new("in_flight", Vec::new()));
            return resolver.resolve(&before, nothing, None).await;
        }
        let opening = open(&mut resolver, &before, user).await?;
        let (number, enclosed) = (before.turn().next(), resolver.skill_envelopes());
        let turn = recorded_with_reminders(number, &opening.user, &opening.pass, &reminders, &enclosed);
        let Some(turn) = turn else { return Ok(opening.pass) };
        // Nothing is evaluated a second time, since only the envelope of the reminders is new.
        resolver.repeats = Some(opening.pass);
        resolver.resolve(&before, InFlightTurn::Recorded(turn), None).await
    }
}
