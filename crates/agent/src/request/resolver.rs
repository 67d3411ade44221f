//! Resolves the passes of a run.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contexture_compose::{
    Absence, Additions, Body, CacheRules, CallOverrides, Conversation, EditDecision, Entry, ErrorKind,
    GuardrailSide, InFlightTurn, InlineBlock, ModelLimits, Pass, Prompt, Prospect, ResolveOptions,
    ResultView, Reuse, Sent, SharedTool, TargetModel,
};
use contexture_history::compaction::{Caps, Frontier, ResultLimits};
use contexture_history::{Limit, Turn, TurnStatus};
use contexture_message::{Message, Settings, TokenCounter, Tokens};
use contexture_session::{NewItem, OmittedTurns, Snapshot, Thread};
use contexture_wire::ModelFacts;
use serde_json::json;

use super::frozen::{FrozenCheck, is_thawed};
use super::sent;
use crate::agent::Inner;
use crate::checks::{Guarded, guard};
use crate::compaction::{Ageing, AgeingRules, Learned, ageing, caps};
use crate::enclosed::attachment_entries;
use crate::error::{AgentError, ClientToolError};
use crate::event::Remark;
use crate::skills::{NewSkills, SkillView};
use crate::spec::{Attachment, RunSpec};
use crate::text::with_text;
use crate::tools::{ENGINE_TOOLS, OwnTools, Tool};

/// Assumed cache lifetime of a model whose cache rules are unknown. Most providers keep a prefix for five minutes.
const ASSUMED_LIFETIME_S: u64 = 300;

/// Resolves the passes of a run, and holds what they share.
pub(crate) struct Resolver {
    pub(crate) agent: Arc<Inner>,
    pub(crate) prompt: Prompt,
    pub(crate) spec: RunSpec,
    /// The prompt's own messages beside the user's, once guarded. They stay the same in all passes of the turn.
    pub(crate) own_messages: Option<Arc<[Message]>>,
    /// The pass to repeat, if any: nothing in it is evaluated a second time.
    pub(crate) repeats: Option<Pass>,
    /// Inline blocks of the request. Once recorded, they are part of the turn's envelope.
    pub(crate) blocks: Vec<InlineBlock>,
    /// Hidden attachments of the request. Once recorded, they are part of the turn's envelope.
    pub(crate) attachments: Vec<Attachment>,
    /// The entries of the caller, once they are read.
    pub(crate) caller_entries: Option<Vec<Entry>>,
    /// The entries of references, which all passes of the run share: they know why one was left out.
    pub(crate) references: Option<Vec<Entry>>,
    /// The state of the provider's cache.
    pub(crate) cache: CacheState,
    /// What the thread has learned about the model's limits, once loaded.
    pub(crate) learned: Option<Learned>,
    /// Whether to ignore the learned limits: nothing fits them, and the provider may accept more after all.
    pub(crate) ignores_learned: bool,
    /// Caps on shown results and messages that the thread has not recorded yet.
    pub(crate) caps: Option<Arc<Caps>>,
    /// Records of skills that the thread does not have yet.
    pub(crate) skills: NewSkills,
    /// The skills as the latest pass shows them.
    pub(crate) shown_skills: SkillView,
    /// The facts of the run's model: finding them means to try all patterns of the catalogue.
    pub(crate) facts: OnceLock<(String, ModelFacts)>,
}

/// What is known about the provider's cache before a call.
#[derive(Default)]
pub(crate) struct CacheState {
    /// The last request that was sent.
    pub(crate) previous: Option<Arc<Sent>>,
    /// How long ago it was sent; `None` while the turn runs.
    pub(crate) idle: Option<Duration>,
    /// Whether a new prefix was requested.
    pub(crate) refresh: bool,
    /// Whether the prefix was frozen in this turn. If so, the reasons to evaluate it again no longer apply.
    pub(crate) is_frozen: bool,
    /// The decisions about edits to bytes that were sent before.
    pub(crate) edits: Vec<EditDecision>,
}

impl Resolver {
    /// Returns the resolver of a run, before the thread is read.
    pub(crate) fn new(agent: Arc<Inner>, prompt: Prompt, spec: RunSpec) -> Self {
        Self {
            agent,
            prompt,
            spec,
            own_messages: None,
            repeats: None,
            blocks: Vec::new(),
            attachments: Vec::new(),
            caller_entries: None,
            references: None,
            cache: CacheState::default(),
            learned: None,
            ignores_learned: false,
            caps: None,
            skills: NewSkills::default(),
            shown_skills: SkillView::default(),
            facts: OnceLock::new(),
        }
    }

    /// Resolves the prompt for a thread and its turn in flight.
    ///
    /// Which turns a request has is known once it is resolved. If the instructions of an active skill turn out to be
    /// missing, or not to fit, the prompt is resolved again with another view of the skills.
    pub(crate) async fn resolve(
        &mut self,
        thread: &Snapshot,
        in_flight: InFlightTurn,
        before: Option<&Pass>,
    ) -> Result<Pass, AgentError> {
        self.shown_skills = self.skill_view(thread);
        self.read_entries().await?;
        // A turn that begins is recorded with the instructions of the skills that its request names.
        let is_new = matches!(in_flight, InFlightTurn::New(_));
        let named: Vec<String> =
            self.skills.enclosed.iter().filter(|_| is_new).map(|it| it.0.clone()).collect();
        loop {
            let options = self.options(thread, in_flight.clone(), before)?;
            let resolved = self.prompt.resolve(options).await;
            let is_settled = match &resolved {
                Ok(pass) => !self.shown_skills.restate_missing(pass.request(), &named),
                Err(err) => !excess(err).is_some_and(|it| self.shown_skills.shrink(it)),
            };
            if is_settled {
                return Ok(resolved?);
            }
        }
    }

    /// Returns what the user says: the message of the request. Where that has no text, the prompt may make one of the
    /// input; the attachments of the request stay.
    pub(crate) async fn said(
        &mut self,
        thread: &Snapshot,
        user: Option<Message>,
    ) -> Result<Option<Message>, AgentError> {
        let has_text = user.as_ref().is_some_and(|it| !it.joined_text().trim().is_empty());
        if has_text || self.prompt.definition().user_message.is_none() {
            return Ok(user);
        }
        let none = InFlightTurn::Recorded(Turn::new("in_flight", Vec::new()));
        let options = self.options(thread, none, None)?;
        let Some(mut said) = self.prompt.said_message(&options).await? else { return Ok(user) };
        said.content.extend(user.into_iter().flat_map(|it| it.content));
        Ok(Some(said))
    }

    /// Runs the input guardrails on messages. Returns the messages and whether any of them was rewritten.
    pub(crate) async fn guard_messages(
        &self,
        pass: &Pass,
        messages: Vec<Message>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(Vec<Message>, bool), AgentError> {
        let (mut guarded, mut is_rewritten) = (Vec::with_capacity(messages.len()), false);
        for message in messages {
            let outcome = self.guard(pass, GuardrailSide::Input, &message.joined_text()).await?;
            remarks.extend(outcome.remarks);
            is_rewritten |= outcome.rewritten.is_some();
            guarded.push(match outcome.rewritten {
                Some(text) => with_text(message, text),
                None => message,
            });
        }
        Ok((guarded, is_rewritten))
    }

    /// Resolves the prompt without any history: the start of a request for a summary.
    pub(crate) async fn resolve_bare(&mut self, thread: &Snapshot) -> Result<Pass, AgentError> {
        self.shown_skills = self.skill_view(thread);
        self.read_entries().await?;
        let none = InFlightTurn::Recorded(Turn::new("in_flight", Vec::new()));
        let mut options = self.options(thread, none, None)?;
        options.conversation.history.clear();
        Ok(self.prompt.resolve(options).await?)
    }

    fn options(
        &self,
        thread: &Snapshot,
        in_flight: InFlightTurn,
        before: Option<&Pass>,
    ) -> Result<ResolveOptions, AgentError> {
        let model = self.model_on(thread).ok_or(AgentError::NoModel)?;
        let facts = self.facts(&model);
        let is_new = matches!(in_flight, InFlightTurn::New(_));
        let results = ResultView { frontier: Frontier(thread.n_old_results()), limits: self.results(thread) };
        let limits = self.limits(&model);
        let shows_history = self.prompt.definition().history.limit != Some(Limit::Turns(0));
        let offer = |it: &OwnTools| it.offer(thread, limits.context_window, shows_history);
        let own = self.agent.toolbox.own.as_ref().map(offer).unwrap_or_default();
        let history = thread.turns().iter().filter(|it| it.status() != TurnStatus::InFlight);
        let skills = &self.shown_skills;
        let relocated = |it: &Turn| skills.relocated(it).unwrap_or_else(|| it.clone());
        let in_flight = match in_flight {
            InFlightTurn::New(turn) => InFlightTurn::New(turn),
            InFlightTurn::Recorded(turn) => InFlightTurn::Recorded(relocated(&turn)),
        };
        Ok(ResolveOptions {
            input: if self.spec.input.is_null() { json!({}) } else { self.spec.input.clone() },
            scope: self.spec.scope.clone(),
            cache: contexture_compose::CacheState {
                frozen: self.moment(thread, &model).frozen(self.prompt.id()),
                refresh: self.cache.refresh && !self.cache.is_frozen,
                previous: self.cache.previous.clone(),
                idle: self.cache.idle,
                edits: self.cache.edits.clone(),
            },
            target: TargetModel {
                provider: None,
                model: Some(model),
                limits,
                cache_rules: facts.cache,
                price: facts.price,
            },
            overrides: CallOverrides { settings: self.spec.settings.clone(), ..CallOverrides::default() },
            additions: Additions {
                tools: self.offered_tools(),
                // Spare tools never replace what the prompt declares; the run's tools come before the engine's.
                spare_tools: self.named_tools()?.into_iter().chain(own.always).collect(),
                result_reader: own.with_previews,
                blocks: if is_new { self.blocks.clone() } else { Vec::new() },
                entries: self.own_entries(is_new)?,
                ..Additions::default()
            },
            conversation: Conversation {
                instructions: self.spec.instructions.clone().or_else(|| thread.instructions().map(Arc::from)),
                history: history.map(|it| relocated(it)).collect(),
                absent: thread.omitted().iter().map(absence).collect(),
                results: Some(results),
                turn: Some(in_flight),
                in_flight: Vec::new(),
                user: self.own_messages.clone(),
            },
            reuse: self.repeats.as_ref().map(Reuse::same_call).or_else(|| before.map(Reuse::previous_step)),
            engine: self.agent.engine.clone(),
        })
    }

    /// Returns the tools that every pass offers: the agent's and the client's.
    fn offered_tools(&self) -> Vec<SharedTool> {
        let of_client = self.spec.client_tools.iter().cloned().map(SharedTool::new);
        self.agent.toolbox.shared.iter().cloned().chain(of_client).collect()
    }

    /// Returns an error if a pass offers a tool that nothing can run, or if a tool of the client replaces one that
    /// comes with its function: the name is taken.
    pub(crate) fn check_tools(&self, pass: &Pass) -> Result<(), AgentError> {
        let is_taken = |it: &&SharedTool| it.runner().is_some() && self.is_of_client(&it.tool().name);
        if let Some(taken) = pass.extras().replaced_tools.iter().find(is_taken) {
            return Err(ClientToolError::Collision { tool: taken.tool().name.clone() }.into());
        }
        // The segments are searched once for all tools: a long thread has many of both.
        let carried = pass.segments().iter().filter_map(|it| match &it.body {
            Body::Tool(tool) => tool.runner()?.get::<Tool>().map(|_| tool.tool().name.as_str()),
            Body::Nothing | Body::Text(_) | Body::Messages(_) | Body::Tags(_) => None,
        });
        let of_client = self.spec.client_tools.iter().map(|it| it.name.as_str());
        let runnable: BTreeSet<&str> = carried.chain(of_client).collect();
        let is_runnable = |name: &str| runnable.contains(name) || self.agent.toolbox.get(name).is_some();
        match pass.request().tools.iter().find(|it| !is_runnable(&it.name)) {
            Some(tool) => Err(AgentError::NoExecutor { tool: tool.name.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the tools that the run names, or an error for the first one that the agent does not have.
    pub(crate) fn named_tools(&self) -> Result<Vec<SharedTool>, AgentError> {
        let each = self.spec.tools.iter().map(|name| match self.agent.toolbox.get(name) {
            Some(tool) => Ok(SharedTool::from(tool.clone())),
            None => Err(AgentError::NoSuchTool { tool: name.clone() }),
        });
        each.collect()
    }

    /// Reads the entries of the caller, and prepares what the request brings, unless that was done.
    async fn read_entries(&mut self) -> Result<(), AgentError> {
        if self.caller_entries.is_none() {
            let entries = match &self.agent.caller_entries {
                Some(port) => {
                    port.entries(&self.spec.scope, self.prompt.id()).await.map_err(AgentError::Entries)?
                }
                None => Vec::new(),
            };
            self.caller_entries = Some(entries);
        }
        if self.references.is_none() {
            self.references = Some(self.agent.references.entries(&self.spec.context_refs));
        }
        Ok(())
    }

    /// Returns the entries beside the prompt's: those of the caller, what the run searches and brings, and the skills
    /// of the thread.
    fn own_entries(&self, is_new: bool) -> Result<Vec<Entry>, AgentError> {
        let mut entries = self.caller_entries.clone().unwrap_or_default();
        if is_new {
            entries.extend(self.named_knowledge()?);
        }
        entries.extend(self.references.iter().flatten().cloned());
        if is_new {
            entries.extend(attachment_entries(&self.attachments));
        }
        entries.extend(self.shown_skills.entries());
        Ok(entries)
    }

    /// Returns the entry for what the run searches. Once the turn is recorded, the snippets are part of its envelope.
    fn named_knowledge(&self) -> Result<Vec<Entry>, AgentError> {
        let Some(request) = &self.spec.knowledge else { return Ok(Vec::new()) };
        let unknown = |base: String| AgentError::NoSuchBase { base };
        let first = request.bases.first().cloned().unwrap_or_default();
        let bases = self.agent.knowledge.as_ref().ok_or_else(|| unknown(first))?;
        Ok(vec![bases.entry(request).map_err(unknown)?])
    }

    /// Whether the client runs the tool.
    pub(crate) fn is_of_client(&self, tool: &str) -> bool {
        self.spec.client_tools.iter().any(|it| it.name == tool)
    }

    /// Returns an error if a client tool has the name of another tool.
    pub(crate) async fn check_client_tools(&mut self, thread: &Snapshot) -> Result<(), AgentError> {
        let mut names = BTreeSet::new();
        let is_named = |name: &str| self.spec.tools.iter().any(|it| it == name);
        let is_engines = |name: &str| self.agent.toolbox.own.is_some() && ENGINE_TOOLS.contains(&name);
        let is_taken =
            |name: &str| self.agent.toolbox.offered.get(name).is_some() || is_named(name) || is_engines(name);
        let twice = self.spec.client_tools.iter().find(|it| is_taken(&it.name) || !names.insert(&*it.name));
        if let Some(tool) = twice {
            return Err(ClientToolError::Collision { tool: tool.name.clone() }.into());
        }
        // An executor collides only if this prompt declares its tool.
        if !names.iter().any(|it| self.agent.toolbox.executors.get(it).is_some()) {
            return Ok(());
        }
        let of_client = std::mem::take(&mut self.spec.client_tools);
        let pass = self.resolve_bare(thread).await;
        self.spec.client_tools = of_client;
        let mut sent = pass?.request().tools.clone().into_iter();
        match sent
            .find(|it| self.is_of_client(&it.name) && self.agent.toolbox.executors.get(&it.name).is_some())
        {
            Some(tool) => Err(ClientToolError::Collision { tool: tool.name.clone() }.into()),
            None => Ok(()),
        }
    }

    /// Returns the model to call on a thread: the run's, the thread's, the prompt's or the agent's, in that order.
    pub(crate) fn model_on(&self, thread: &Snapshot) -> Option<String> {
        let chosen = thread.model().map(|it| format!("{}/{}", it.provider, it.model));
        let own = self.prompt.definition().model.clone();
        self.spec.model.clone().or(chosen).or(own).or_else(|| self.agent.config.model.clone())
    }

    /// Returns the records of what a pass freezes and which of the engine's tools it offers, if the thread lacks them.
    pub(crate) fn to_freeze(&self, thread: &Snapshot, pass: &Pass) -> Vec<NewItem> {
        let model = self.model_on(thread);
        let frozen = model.and_then(|it| self.moment(thread, &it).record(pass));
        let own = self.agent.toolbox.own.as_ref().and_then(|it| it.record(thread, pass));
        frozen.into_iter().chain(own).chain(self.shown_skills.records()).collect()
    }

    /// Reads the state of the thread's cache and limits before a turn begins or is resumed.
    pub(crate) fn read_state(&mut self, thread: &Thread, snapshot: &Snapshot) {
        self.spec.scope.thread = Some(thread.id().to_string());
        let idle = self.agent.time.now().0.saturating_sub(snapshot.state().updated.0);
        self.cache.idle = Some(Duration::from_millis(u64::try_from(idle).unwrap_or(0)));
        self.cache.previous = sent::last(thread, snapshot);
        self.cache.refresh |= is_thawed(snapshot);
        self.recall_limits(snapshot);
    }

    /// Loads what the thread has learned about its model.
    pub(crate) fn recall_limits(&mut self, snapshot: &Snapshot) {
        self.learned = self.model_on(snapshot).map(|it| Learned::of(snapshot, &it));
    }

    /// Decides which items of a thread count as old from now on. `must` is the reason if ageing is forced.
    pub(crate) async fn age(
        &mut self,
        thread: &Thread,
        must: Option<&str>,
    ) -> Result<Option<NewItem>, AgentError> {
        let snapshot = thread.get();
        let facts = self.facts(&self.model_on(&snapshot).unwrap_or_default());
        let config = &self.agent.config.compaction;
        // An unknown model may still have a cache: servers that cache prefixes are common.
        let rules =
            facts.cache.unwrap_or(CacheRules { lifetime_s: ASSUMED_LIFETIME_S, ..CacheRules::default() });
        let prospect =
            Prospect { price: facts.price, rules, idle: self.cache.idle, calls: config.expected_calls };
        let terms = AgeingRules {
            limits: &self.results(&snapshot),
            hidden_turns: config.hidden_context_turns,
            prospect: &prospect,
            must,
        };
        let Ageing { decisions, record } = ageing(thread, &snapshot, &terms).await?;
        match must {
            // A forced edit is added to the decisions already made in this turn.
            Some(_) => self.cache.edits.extend(decisions.into_iter().filter(|_| record.is_some())),
            None => self.cache.edits = decisions,
        }
        Ok(record)
    }

    /// Returns the facts that decide whether the frozen prefix is still valid.
    pub(super) fn moment<'a>(&'a self, thread: &'a Snapshot, model: &'a str) -> FrozenCheck<'a> {
        let lifetime = self.facts(model).cache.map_or(ASSUMED_LIFETIME_S, |it| it.lifetime_s);
        let CacheState { idle, refresh, is_frozen, .. } = self.cache;
        FrozenCheck {
            thread,
            model,
            user: self.spec.scope.user.as_deref(),
            idle: idle.filter(|_| !is_frozen).unwrap_or_default(),
            lifetime: Duration::from_secs(lifetime),
            refresh: refresh && !is_frozen,
        }
    }

    /// Returns the limits of a model, corrected by what the thread has learned about it.
    fn limits(&self, model: &str) -> ModelLimits {
        self.learned.filter(|_| !self.ignores_learned).unwrap_or_default().limits(self.facts(model))
    }

    /// Ignores the learned limits from now on. Returns whether this changes anything, which it does at most once.
    pub(crate) fn ignore_learned(&mut self) -> bool {
        let is_limited = self.learned.is_some_and(|it| it.is_guess());
        !std::mem::replace(&mut self.ignores_learned, true) && is_limited
    }

    /// Returns how many tokens a request may have, by our count.
    pub(crate) fn usable(&self, pass: &Pass) -> Option<Tokens> {
        let request = pass.request();
        let limits = self.limits(request.model.as_deref().unwrap_or_default());
        limits.input_tokens(&request.settings).filter(|it| it.0 > 0)
    }

    /// Returns how many tokens a request on a thread may have, by our count, before a pass exists.
    pub(crate) fn usable_on(&self, thread: &Snapshot) -> Option<Tokens> {
        let settings = self.prompt.definition().settings.clone().overridden_by(&self.spec.settings);
        self.limits(&self.model_on(thread)?).input_tokens(&settings).filter(|it| it.0 > 0)
    }

    /// Returns how many of the provider's tokens a request may have, and whether the window is assumed.
    pub(crate) fn window(&self, pass: &Pass) -> (Option<Tokens>, bool) {
        let request = pass.request();
        let (facts, is_assumed) = self.facts(request.model.as_deref().unwrap_or_default()).with_window();
        let limits = Learned::default().limits(facts);
        (limits.input_tokens(&request.settings).filter(|it| it.0 > 0), is_assumed)
    }

    /// Returns the caps on shown results and messages.
    pub(crate) fn caps(&self, thread: &Snapshot) -> Arc<Caps> {
        self.caps.clone().unwrap_or_else(|| caps::of(thread))
    }

    /// Returns the limits of shown tool results.
    pub(crate) fn results(&self, thread: &Snapshot) -> ResultLimits {
        let facts = self.facts(&self.model_on(thread).unwrap_or_default());
        let limits = self.agent.config.compaction.result_limits(thread, facts);
        let limits = match &self.caps {
            Some(caps) => ResultLimits { caps: Arc::clone(caps), ..limits },
            None => limits,
        };
        self.with_whole_skills(limits)
    }

    /// Returns the counter for a summary request, and how many tokens the request may have.
    pub(crate) fn summary_room(
        &self,
        thread: &Snapshot,
        pass: &Pass,
        model: Option<&str>,
    ) -> (Arc<dyn TokenCounter>, Option<Tokens>) {
        let own = pass.request().model.as_deref();
        let engine = self.agent.engine.as_ref().unwrap_or(self.prompt.engine());
        let counter = engine.counters.for_model(model.or(own));
        let room = match model {
            Some(model) => {
                let learned = Learned::of(thread, model);
                learned.limits(self.facts(model)).input_tokens(&Settings::default())
            }
            None => self.usable(pass),
        };
        let margin = counter.profile().margin_percent();
        let room = room.map(|it| it.saturating_sub(Tokens(it.0 / 100 * margin)));
        (counter, room)
    }

    /// Learns from the reported usage of a request.
    pub(crate) fn answered(&mut self, pass: &Pass, reported: u64) {
        let learned = self.learned.get_or_insert_default();
        learned.answered(pass.total_tokens(), reported, pass.is_counted_exactly());
    }

    /// Learns from a refused request and returns the record of it.
    pub(crate) fn refused(&mut self, thread: &Snapshot, counted: Tokens, refusal: &str) -> Option<NewItem> {
        self.learned.get_or_insert_default().refused(counted, refusal);
        self.learned_record(thread, None)
    }

    /// Returns the record of what was learned about the model, if the thread does not have it yet.
    pub(crate) fn learned_record(&self, thread: &Snapshot, pass: Option<&Pass>) -> Option<NewItem> {
        let usable = pass.and_then(|it| self.window(it).0);
        self.learned?.record(thread, &self.model_on(thread)?, usable)
    }

    pub(crate) fn facts(&self, model: &str) -> ModelFacts {
        let find = || (model.to_owned(), self.agent.catalogue.facts(model));
        match self.facts.get_or_init(find) {
            (known, facts) if known == model => *facts,
            _ => self.agent.catalogue.facts(model),
        }
    }

    pub(crate) async fn guard(
        &self,
        pass: &Pass,
        side: GuardrailSide,
        text: &str,
    ) -> Result<Guarded, AgentError> {
        let known = |id: &str| self.agent.guardrails.get(id).cloned();
        guard(&pass.extras().guardrails, side, text, known).await
    }
}

/// Returns by how much a request is too long, if that is the error.
fn excess(err: &contexture_compose::Error) -> Option<Tokens> {
    match err.kind() {
        ErrorKind::BudgetExceeded { need, limit, .. } => Some(need.saturating_sub(*limit)),
        _ => None,
    }
}

fn absence(OmittedTurns { turns, reason }: &OmittedTurns) -> Absence {
    Absence { source: format!("history:{turns}"), reason: reason.clone() }
}
