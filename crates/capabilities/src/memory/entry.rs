//! The entry `memory`: the core block, recall, tools and capture of one namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_agent::{EndedTurn, Tool, TurnHook, turn_hook};
use contexture_compose::tags::escape_text;
use contexture_compose::{
    Block, BoxError, BoxFuture, Call, Contribution, Contributor, ConversationUse, Declaration, Entry,
    OnError, Piece, Placement, Priority, Profile, Scope, SharedTool, Source, Trust,
};
use contexture_history::SystemEvent;
use contexture_history::compaction::{holds, normal};
use contexture_message::{Part, Tokens};
use contexture_session::{SessionId, Thread};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::blocks::{CORE, MEMORY_CATALOGUE};
use super::capture::{Accept, CaptureMode, Extractor};
use super::core::{CoreRules, News, core_text, rules, told};
use super::error::MemoryError;
use super::namespace::{Namespace, NamespaceRule, tenant_of};
use super::record::{Layer, Record};
use super::space::{Memories, MemoryHit, MemorySpace, RecordFilter, SearchRequest};
use super::tools::{file_tool, own_tools};
use super::words::{origin, words};
use super::working::{WorkingLayer, WorkingOptions};
use crate::blackboard::{BlackboardEntry, BoardError, Boards, blackboard};
use crate::query::QueryValues;

/// The priority of recalled lines under a budget.
const PRIORITY: f64 = 55.0;
/// The difference between the priorities of two neighbouring ranks.
const STEP: f64 = 0.01;
/// So many hits beyond the limit are looked at, to say why they are not there.
const BEYOND: usize = 5;
/// So many sessions are known to show a memory, before they are looked up again.
const MAX_SHOWN: usize = 10_000;
/// A recalled line shows so many characters of a text.
const MAX_RECALLED_CHARS: usize = 600;
/// A run of so many words of a memory in an answer is a quote.
const QUOTED_WORDS: usize = 6;

/// When memories are put into requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchivalMode {
    /// Never, and there are no tools to search for them.
    Off,
    /// When the model asks for them with a tool.
    #[default]
    ToolOnly,
    /// Those that match what the user says are part of the turn's reminders.
    Auto,
}

/// What of a memory goes into requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryPolicy {
    /// When memories are put into requests.
    pub archival_mode: ArchivalMode,
    /// How many lines at most.
    pub archival_limit: usize,
    /// Lines below this score are left out.
    pub archival_min_score: f64,
    /// Whether the core block also has the rules of the user, whichever agent they were told to.
    pub include_user_core: bool,
    /// Whether the core block also has the rules of the agent, told by any user.
    pub include_agent_core: bool,
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        Self {
            archival_mode: ArchivalMode::ToolOnly,
            archival_limit: 10,
            archival_min_score: 0.1,
            include_user_core: false,
            include_agent_core: false,
        }
    }
}

/// Which tools the model gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryTools {
    /// None.
    Off,
    /// `memory_search`, `memory_read`, `remember` and `forget`.
    #[default]
    Own,
    /// `memory`, with the six commands of Anthropic's memory tool.
    Files,
}

/// How turns are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureOptions {
    /// When.
    pub mode: CaptureMode,
    /// Whether what a model wants to remember is accepted or proposed.
    pub accept: Accept,
    /// Whether a model is asked for facts at the end of each turn. Projects ask the model that pipelines ask.
    pub extract: bool,
}

/// The options of the entry, as a project writes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// The id of the entry in Explanations: `memory:<id>`.
    pub id: String,
    /// Whose memory it is.
    pub namespace: NamespaceRule,
    /// What goes into requests.
    pub policy: MemoryPolicy,
    /// Whether there is a core block.
    pub core: bool,
    /// How many tokens the core block may have.
    pub core_tokens: u32,
    /// Whether there is a catalogue of what is remembered.
    pub catalogue: bool,
    /// Which tools the model gets.
    pub tools: MemoryTools,
    /// How turns are captured.
    pub capture: CaptureOptions,
    /// The working state of each session. Without it, the layer `working` is free text. An entry keeps the state once
    /// [`MemoryEntry::working`] has given it a place.
    pub working: Option<WorkingOptions>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            id: "memory".to_owned(),
            namespace: NamespaceRule::default(),
            policy: MemoryPolicy::default(),
            core: true,
            core_tokens: 1_000,
            catalogue: false,
            tools: MemoryTools::Own,
            capture: CaptureOptions::default(),
            working: None,
        }
    }
}

/// Runs work in the background.
pub type Spawn = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// An entry with a memory. Make it with [`memory`].
#[derive(Clone)]
pub struct MemoryEntry(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    memories: Memories,
    options: MemoryOptions,
    extractor: Option<Arc<dyn Extractor>>,
    spawn: Option<Spawn>,
    /// The working state of each session.
    working: Option<BlackboardEntry>,
    /// The order of its blocks in the frozen prefix.
    order: i32,
    /// The namespaces whose threads were caught up with since this process started.
    caught_up: Arc<Mutex<BTreeSet<(String, Namespace)>>>,
    /// The sessions in which a namespace was shown since this process started.
    shown: Arc<Mutex<BTreeSet<(String, Namespace, String)>>>,
    /// What threads were told of their rules, with the stamps of the rules then, by tenant and thread.
    told: Arc<Mutex<BTreeMap<(String, String), ToldRules>>>,
}

/// What a thread was told of its rules.
#[derive(Clone, Debug)]
struct ToldRules {
    /// The stamps of the rules of each namespace.
    stamps: Vec<Option<String>>,
    /// The text that the model was told.
    text: String,
    /// The turns that say what the text lacks.
    turns: BTreeSet<String>,
}

/// Returns an entry with a memory for each user: a core block, tools, and capture at the end of each turn.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use contexture_compose::{BoxFuture, Prompt, ResolveOptions, Scope};
/// # use contexture_history::Timestamp;
/// # use contexture_session::{MemoryStore, Tenant, Time};
/// # #[derive(Debug)]
/// # struct Fixed;
/// # impl Time for Fixed {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
/// # }
/// # futures::executor::block_on(async {
/// use contexture_capabilities::memory::{Layer, Memories, MemoryPorts, Namespace, NewRecord, memory};
///
/// # let store = Arc::new(MemoryStore::new(Arc::new(Fixed)));
/// let memories = Memories::new(MemoryPorts { index: store.clone(), log: store, time: Arc::new(Fixed) });
/// let ada = memories.space(&Tenant::default(), Namespace::of_user("ada"))?;
/// ada.add(NewRecord::new(Layer::Rules, "Always answer in German.")).await?;
///
/// let prompt = Prompt::builder("support").system("You help.").include(memory(memories)).build()?;
/// let mut options = ResolveOptions::default().user_message("Hello");
/// options.scope = Scope { user: Some("ada".into()), ..Scope::default() };
/// let pass = prompt.resolve(options).await?;
/// let system = pass.request().messages[0].joined_text();
/// assert!(system.contains("<core-memory>\n- Always answer in German.\n</core-memory>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn memory(memories: Memories) -> MemoryEntry {
    MemoryEntry(Arc::new(Parts {
        memories,
        options: MemoryOptions::default(),
        extractor: None,
        spawn: None,
        working: None,
        order: 0,
        caught_up: Arc::default(),
        shown: Arc::default(),
        told: Arc::default(),
    }))
}

impl MemoryEntry {
    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Sets all options.
    #[must_use]
    pub fn options(self, options: MemoryOptions) -> Self {
        self.with(|it| it.options = options)
    }

    /// Sets whose memory it is.
    #[must_use]
    pub fn namespace(self, namespace: NamespaceRule) -> Self {
        self.with(|it| it.options.namespace = namespace)
    }

    /// Sets what goes into requests.
    #[must_use]
    pub fn policy(self, policy: MemoryPolicy) -> Self {
        self.with(|it| it.options.policy = policy)
    }

    /// Sets which tools the model gets.
    #[must_use]
    pub fn tools(self, tools: MemoryTools) -> Self {
        self.with(|it| it.options.tools = tools)
    }

    /// Sets how turns are captured.
    #[must_use]
    pub fn capture(self, capture: CaptureOptions) -> Self {
        self.with(|it| it.options.capture = capture)
    }

    /// Sets what finds facts; without it, rules, digests and what was said are captured.
    #[must_use]
    pub fn extractor(self, extractor: Arc<dyn Extractor>) -> Self {
        self.with(|it| it.extractor = Some(extractor))
    }

    /// Sets what runs work in the background; without it, turns wait for it.
    #[must_use]
    pub fn spawn(self, spawn: Spawn) -> Self {
        self.with(|it| it.spawn = Some(spawn))
    }

    /// Gives each session a working state under a schema: a blackboard with the id [`WORKING`](super::WORKING), which the model reads in
    /// a block and writes with tools. The schema is refused like that of any board.
    ///
    /// ```
    /// use contexture_capabilities::blackboard::Boards;
    /// use contexture_capabilities::memory::{Memories, WorkingOptions, memory};
    /// use serde_json::json;
    ///
    /// let schema = json!({"properties": {"step": {"type": "integer"}}});
    /// let entry = memory(Memories::unprovided()).working(&Boards::unprovided(), WorkingOptions::new(schema))?;
    /// # let _ = entry;
    /// # Ok::<(), contexture_capabilities::blackboard::BoardError>(())
    /// ```
    pub fn working(self, boards: &Boards, options: WorkingOptions) -> Result<Self, BoardError> {
        let board = blackboard(boards, options.board())?;
        Ok(self.with(|it| (it.working, it.options.working) = (Some(board), Some(options))))
    }

    /// Sets the order of its blocks in the frozen prefix: lower first, then by name.
    #[must_use]
    pub fn order(self, order: i32) -> Self {
        self.with(|it| it.order = order)
    }

    /// Returns the block that lists what is remembered, for the frozen prefix: procedures by their first lines, and how
    /// much there is of each other layer. The model reads the rest through tools.
    pub fn as_catalogue(&self) -> Block {
        self.0.catalogue_block()
    }

    /// Returns the part that puts memories into requests, for prompts that are composed by hand. It captures nothing.
    pub fn as_context(&self) -> Entry {
        let capture = CaptureOptions { mode: CaptureMode::Off, ..self.0.options.capture };
        self.clone().tools(MemoryTools::Off).capture(capture).into()
    }

    /// Returns the tools for a caller, for prompts and agents that are composed by hand.
    pub fn as_tools(&self, scope: &Scope) -> Result<Vec<Tool>, BoxError> {
        let mut tools = self.0.tools(&self.0.space(scope)??)?;
        if let Some(working) = self.0.working.as_ref().filter(|_| self.0.options.tools != MemoryTools::Off) {
            tools.extend(working.as_tools(scope)?);
        }
        Ok(tools)
    }
}

impl Parts {
    /// Returns the memory of a call, or why it has none.
    fn space(&self, scope: &Scope) -> Result<Result<MemorySpace, &'static str>, MemoryError> {
        if !self.memories.is_provided() {
            return Ok(Err("there is no store for memory here"));
        }
        match self.options.namespace.of(scope) {
            Err(reason) => Ok(Err(reason)),
            Ok(namespace) => Ok(Ok(self.memories.space(&tenant_of(scope)?, namespace)?)),
        }
    }

    fn tools(&self, space: &MemorySpace) -> Result<Vec<Tool>, BoxError> {
        let is_off = self.options.policy.archival_mode == ArchivalMode::Off;
        Ok(match self.options.tools {
            MemoryTools::Off => Vec::new(),
            MemoryTools::Own if is_off => Vec::new(),
            MemoryTools::Own => own_tools(space, self.options.capture.accept, self.working_layer())?,
            MemoryTools::Files => vec![file_tool(space)?],
        })
    }

    fn working_layer(&self) -> WorkingLayer {
        match self.working {
            Some(_) => WorkingLayer::State,
            None => WorkingLayer::FreeText,
        }
    }

    /// Returns the namespaces whose rules are part of the core block.
    fn core_spaces(&self, scope: &Scope) -> Result<Vec<MemorySpace>, MemoryError> {
        let MemoryPolicy { include_user_core, include_agent_core, .. } = self.options.policy;
        let Ok(own) = self.space(scope)? else { return Ok(Vec::new()) };
        let of_user = scope.user.clone().filter(|_| include_user_core).map(Namespace::of_user);
        let of_agent =
            self.options.namespace.agent.clone().filter(|_| include_agent_core).map(Namespace::of_agent);
        let mut spaces = vec![own];
        for further in of_agent.into_iter().chain(of_user) {
            if spaces.iter().all(|it| *it.namespace() != further) {
                spaces.push(self.memories.space(&tenant_of(scope)?, further)?);
            }
        }
        Ok(spaces)
    }

    /// Returns the text of the core block: the rules that hold, the newest if there is no room for all.
    async fn core(&self, scope: &Scope) -> Result<String, MemoryError> {
        let spaces = self.core_spaces(scope)?;
        let mut stamps = Vec::with_capacity(spaces.len());
        for space in &spaces {
            self.catch_up(space).await?;
            // Before the rules: a change in between is then seen by the next turn.
            stamps.push(space.core_stamp().await?);
        }
        let (applying, _) = rules(&spaces).await?;
        let text = core_text(&applying, Tokens(self.options.core_tokens));
        self.note_told(scope, ToldRules { stamps, text: text.clone(), turns: BTreeSet::new() });
        Ok(text)
    }

    /// Returns the event for a thread whose frozen core block is out of date. `own` is the stamp of the first namespace,
    /// if it was read. The rules are read only if they changed since this process looked.
    async fn core_news(
        &self,
        call: &Call,
        frozen: &str,
        own: Option<Option<String>>,
    ) -> Result<Option<SystemEvent>, MemoryError> {
        let Some(thread) = thread_of(&call.scope) else { return Ok(None) };
        let (spaces, told) = (self.core_spaces(&call.scope)?, told(call, frozen));
        let mut stamps: Vec<Option<String>> = own.into_iter().collect();
        for space in &spaces[stamps.len().min(spaces.len())..] {
            stamps.push(space.core_stamp().await?);
        }
        let shown = call.shown_turns().map(|it| it.id().to_string()).collect();
        if self.is_told(&call.scope, (&stamps, told), &shown) {
            return Ok(None);
        }
        let (applying, past) = rules(&spaces).await?;
        let room = Tokens(self.options.core_tokens);
        let rules = CoreRules { applying: &applying, past: &past, room, thread, shown: &shown };
        match rules.news(told) {
            News::Updated(event) => Ok(Some(event)),
            News::None(turns) => {
                self.note_told(&call.scope, ToldRules { stamps, text: told.to_owned(), turns });
                Ok(None)
            }
        }
    }

    /// Notes that a thread was told everything about its rules.
    fn note_told(&self, scope: &Scope, told: ToldRules) {
        let Some(thread) = thread_of(scope) else { return };
        let key = (scope.tenant.clone().unwrap_or_default(), thread.to_owned());
        let mut known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_SHOWN {
            known.clear();
        }
        known.insert(key, told);
    }

    /// Whether a thread, which was told a text and shows these turns, was told everything about its rules.
    fn is_told(
        &self,
        scope: &Scope,
        (stamps, told): (&[Option<String>], &str),
        shown: &BTreeSet<String>,
    ) -> bool {
        let Some(thread) = thread_of(scope) else { return false };
        let key = (scope.tenant.clone().unwrap_or_default(), thread.to_owned());
        let known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |it: &ToldRules| *it.stamps == *stamps && it.text == told && it.turns.is_subset(shown);
        known.get(&key).is_some_and(is_same)
    }

    /// Notes that the memories of a call are shown in its session, once in this process.
    async fn show_in(&self, scope: &Scope, session: &SessionId) -> Result<(), MemoryError> {
        for space in self.core_spaces(scope)? {
            let key = (space.tenant().to_string(), space.namespace().clone(), session.to_string());
            let lock = || self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if lock().contains(&key) {
                continue;
            }
            space.show_in(session).await?;
            let mut shown = lock();
            if shown.len() >= MAX_SHOWN {
                shown.clear();
            }
            shown.insert(key);
        }
        Ok(())
    }

    /// Captures what an earlier process left behind, once in this one.
    async fn catch_up(&self, space: &MemorySpace) -> Result<(), MemoryError> {
        if self.options.capture.mode == CaptureMode::Off {
            return Ok(());
        }
        let key = (space.tenant().to_string(), space.namespace().clone());
        let is_first = self.caught_up.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if is_first && let Err(err) = space.catch_up().await {
            self.caught_up.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Err(err);
        }
        Ok(())
    }

    async fn catalogue(&self, scope: &Scope) -> Result<String, MemoryError> {
        let Ok(space) = self.space(scope)? else { return Ok(String::new()) };
        let now = space.now();
        let mut records = space.list(&RecordFilter::default()).await?;
        records.retain(|it| it.holds_at(now));
        let count = |layer: Layer| records.iter().filter(|it| it.layer == layer).count();
        let counted = [Layer::Rules, Layer::Facts, Layer::Digests].map(|it| (it, count(it)));
        let counted = counted.into_iter().filter(|(_, n)| *n > 0);
        let counted =
            counted.map(|(layer, n)| words("catalogue", &[("layer", layer.as_str()), ("n", &n.to_string())]));
        let first = |it: &Record| it.text.lines().next().unwrap_or_default().to_owned();
        let procedures = records.iter().filter(|it| it.layer == Layer::Procedures);
        let procedures = procedures.map(|it| words("procedure", &[("id", &it.id), ("text", &first(it))]));
        let lines: Vec<String> = counted.chain(procedures).collect();
        Ok(escape_text(&lines.join("\n")).into_owned())
    }

    fn catalogue_block(&self) -> Block {
        let parts = self.clone();
        let body = move |call: Call| {
            let parts = parts.clone();
            async move { Ok(parts.catalogue(&call.scope).await?) }
        };
        Block::dynamic(MEMORY_CATALOGUE, body).description("What is remembered").order(self.order)
    }

    async fn contribution(&self, call: Call) -> Result<Contribution, BoxError> {
        let mut contribution = Contribution::default();
        let space = match self.space(&call.scope)? {
            Ok(space) => space,
            Err(reason) => {
                contribution.pieces.push(Piece { excluded: Some(reason.to_owned()), ..Piece::new("") });
                return Ok(contribution);
            }
        };
        contribution.tools = self.tools(&space)?.into_iter().map(SharedTool::from).collect();
        let session = call.scope.session.as_deref().and_then(|it| SessionId::parse(it).ok());
        if let Some(session) = session.as_ref().filter(|_| !call.has_envelope()) {
            self.show_in(&call.scope, session).await?;
        }
        let mut stamp = None;
        if self.options.capture.mode != CaptureMode::Off {
            self.catch_up(&space).await?;
            if let Some(session) = session.filter(|_| !call.has_envelope()) {
                stamp = Some(space.register(&session.main()).await?);
            }
        }
        if let Some(frozen) = call.frozen_block(CORE).filter(|_| !call.has_envelope() && self.options.core) {
            contribution.events.extend(self.core_news(&call, frozen, stamp).await?);
        }
        let hook = Hook { space: space.clone(), parts: self.clone() };
        contribution.hooks.push(turn_hook(Arc::new(hook)));
        if self.options.policy.archival_mode == ArchivalMode::Auto && !call.has_envelope() {
            contribution.pieces = self.recalled(&space, &call).await?;
        }
        Ok(contribution)
    }

    /// Returns what matches what the user says, each line a piece of its own.
    async fn recalled(&self, space: &MemorySpace, call: &Call) -> Result<Vec<Piece>, BoxError> {
        let query = QueryValues::of(call).query(None)?;
        if query.is_empty() {
            return Ok(Vec::new());
        }
        let MemoryPolicy { archival_limit, archival_min_score, .. } = self.options.policy;
        let request = SearchRequest::new(query.as_str(), archival_limit + BEYOND);
        let mut hits = space.search(&request).await?;
        // Rules are part of the core block.
        hits.retain(|it| !(self.options.core && it.layer == Layer::Rules));
        // What the request shows as it was said, or was reminded of before, need not be recalled.
        let shown = |it: &MemoryHit| Some(shown_piece(it, shown_already(it, call)?));
        let (shown, hits): (Vec<_>, Vec<_>) =
            hits.into_iter().map(|it| (shown(&it), it)).partition(|(shown, _)| shown.is_some());
        let hits = hits.into_iter().map(|(_, hit)| hit);
        let piece = |(rank, hit): (usize, MemoryHit)| {
            let excluded = if hit.score < archival_min_score {
                Some(format!("score {:.3} is below archival_min_score {archival_min_score:.3}", hit.score))
            } else if rank >= archival_limit {
                Some(format!("rank {} is beyond archival_limit {archival_limit}", rank + 1))
            } else {
                None
            };
            Piece { excluded, ..recalled_piece(&hit, rank) }
        };
        let recalled = hits.enumerate().map(piece);
        Ok(recalled.chain(shown.into_iter().filter_map(|(piece, _)| piece)).collect())
    }
}

/// Returns the thread of a call: that of a pass, or else the main one of its session.
fn thread_of(scope: &Scope) -> Option<&str> {
    scope.thread.as_deref().or(scope.session.as_deref())
}

/// Returns where the request shows a hit already: the turn that it comes from, or a turn that was reminded of it.
fn shown_already(hit: &MemoryHit, call: &Call) -> Option<String> {
    let here = thread_of(&call.scope);
    let is_sent = |turn: &String| call.shown_turns().any(|it| **it.id() == **turn);
    if let Some(turn) = hit.turn.as_ref().filter(|it| hit.thread.as_deref() == here && is_sent(it)) {
        return here.map(|_| format!("turn {turn} of this conversation is part of the request"));
    }
    let line = recalled_line(hit);
    let says = |it: &Part| matches!(it, Part::Text { text, .. } if text.contains(&line));
    let turn =
        call.shown_turns().rev().find(|it| it.messages().iter().any(|it| it.content.iter().any(says)))?;
    Some(format!("turn {} of this conversation was reminded of it", turn.id()))
}

/// Returns the piece of a hit that the request shows already.
fn shown_piece(hit: &MemoryHit, reason: String) -> Piece {
    let detail = json!({"score": hit.score, "layer": hit.layer, "text": hit.text});
    Piece {
        excluded: Some(reason),
        source: Some(Source::Noted(format!("memory:{}", hit.id).into())),
        detail: Some(Arc::new(detail)),
        ..Piece::new("")
    }
}

/// Returns the line of the reminders for a hit. A long text is cut: the model can read all of it by its id.
fn recalled_line(hit: &MemoryHit) -> String {
    // Line breaks would look like further lines of the reminders.
    let mut text = hit.text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(MAX_RECALLED_CHARS) {
        text.truncate(text[..end].rfind(' ').unwrap_or(end));
        text.push_str(" […]");
    }
    words("recalled", &[("id", &hit.id), ("from", &origin(hit)), ("text", &text)])
}

fn recalled_piece(hit: &MemoryHit, rank: usize) -> Piece {
    let line = recalled_line(hit);
    let detail = json!({
        "memory": hit.id, "rank": rank + 1, "score": hit.score, "shares": hit.shares, "layer": hit.layer,
        "text": hit.text, "uses": hit.uses,
    });
    // There are few hits, so the cast is exact.
    let priority = Priority::new(PRIORITY - STEP * rank as f64).ok();
    let source = Some(Source::Noted(format!("memory:{}", hit.id).into()));
    Piece { priority, source, detail: Some(Arc::new(detail)), ..Piece::new(line) }
}

/// What runs at the end of a turn, and before a compaction.
struct Hook {
    space: MemorySpace,
    parts: Parts,
}

impl TurnHook for Hook {
    fn ended<'a>(&'a self, turn: &'a EndedTurn<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let used = turn.answer.map(|it| used(turn, &it.joined_text())).unwrap_or_default();
            reported(self.space.count_uses(&used).await);
            reported(self.space.finish_forgetting().await);
            // What is private to a run is not for others to remember.
            if turn.thread.is_scratch() || self.parts.options.capture.mode == CaptureMode::Off {
                return;
            }
            let (space, parts, thread) = (self.space.clone(), self.parts.clone(), turn.thread.id().clone());
            let work = async move {
                reported(space.capture(&thread).await);
                let is_with_model = parts.options.capture.mode != CaptureMode::Inline;
                if let Some(extractor) = parts.extractor.as_ref().filter(|_| is_with_model) {
                    reported(space.extract(&thread, &**extractor, parts.options.capture.accept).await);
                }
            };
            match &self.parts.spawn {
                Some(spawn) if self.parts.options.capture.mode == CaptureMode::Background => {
                    spawn(Box::pin(work));
                }
                _ => work.await,
            }
        })
    }

    fn compacting<'a>(&'a self, thread: &'a Thread) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !thread.is_scratch() && self.parts.options.capture.mode != CaptureMode::Off {
                // Without a model: the turn waits for it. What an extractor has not seen stays in the log for it.
                reported(self.space.capture(thread.id()).await);
            }
        })
    }
}

/// What a hook can't do now, the next turn does: the log keeps it.
fn reported<T>(result: Result<T, MemoryError>) {
    if let Err(err) = result {
        tracing::warn!(error = %err, "memory: will try again with the next turn");
    }
}

/// Returns the ids of the recalled records that an answer quotes or cites.
fn used(turn: &EndedTurn<'_>, answer: &str) -> Vec<String> {
    let answer = normal(answer);
    let details = turn.pass.segments().iter().filter_map(|it| it.detail.as_deref());
    let recalled = details.filter_map(|it| Some((it["memory"].as_str()?, it["text"].as_str()?)));
    let is_used =
        |(id, text): &(&str, &str)| answer.contains(&format!("[{}]", normal(id))) || quotes(&answer, text);
    recalled.filter(is_used).map(|(id, _)| id.to_owned()).collect()
}

/// Whether an answer has all words of a short text, or a run of words of a longer one.
fn quotes(answer: &str, text: &str) -> bool {
    let text = normal(text);
    let text = text.trim_end_matches(['.', '!', '?']);
    let all: Vec<&str> = text.split(' ').collect();
    if all.len() <= QUOTED_WORDS {
        return !text.is_empty() && holds(answer, text);
    }
    all.windows(QUOTED_WORDS).any(|it| holds(answer, &it.join(" ")))
}

/// The entry under its id in the prompt.
struct Node {
    id: String,
    parts: Arc<Parts>,
}

impl Contributor for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(self.parts.contribution(call))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let profile = Profile {
            priority: Priority::new(PRIORITY).unwrap_or_default(),
            placement: Placement::Reminders,
            trust: Trust::User,
            on_error: OnError::Fail,
            ..Profile::default()
        };
        Declaration {
            profile,
            entries: self.entries(),
            family: Some("memory".to_owned()),
            conversation: ConversationUse::AtTurnStart,
            ..Declaration::default()
        }
    }
}

impl Node {
    /// Returns the blocks in the frozen prefix, and the working state.
    fn entries(&self) -> Vec<Entry> {
        let MemoryOptions { core, catalogue, tools, .. } = &self.parts.options;
        let mut blocks = Vec::new();
        if *core {
            let parts = Arc::clone(&self.parts);
            let body = move |call: Call| {
                let parts = Arc::clone(&parts);
                async move { Ok(parts.core(&call.scope).await?) }
            };
            let block = Block::dynamic(CORE, body).description("Standing instructions");
            blocks.push(block.order(self.parts.order).into());
        }
        if *catalogue {
            blocks.push(self.parts.catalogue_block().into());
        }
        blocks.extend(self.parts.working.as_ref().map(|it| match tools {
            MemoryTools::Off => it.as_context(),
            MemoryTools::Own | MemoryTools::Files => it.clone().into(),
        }));
        blocks
    }
}

impl std::fmt::Debug for MemoryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEntry").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl From<MemoryEntry> for Entry {
    fn from(entry: MemoryEntry) -> Self {
        let id = format!("memory:{}", entry.0.options.id);
        Entry::Contributor(Arc::new(Node { id, parts: entry.0 }))
    }
}
