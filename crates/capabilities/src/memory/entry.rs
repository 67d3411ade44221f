//! The entry `memory`: the core block, recall, tools and capture of one namespace.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_agent::{EndedTurn, Tool, TurnHook, turn_hook};
use contexture_compose::tags::escape_text;
use contexture_compose::{
    Block, BoxError, BoxFuture, Call, Contribution, Contributor, ConversationUse, Declaration, Entry,
    OnError, Piece, Placement, Priority, Profile, Scope, SharedTool, Source, Trust,
};
use contexture_history::compaction::{holds, normal};
use contexture_message::{Tokens, counter_for};
use contexture_session::{SessionId, Thread};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::capture::{Accept, CaptureMode, Extractor};
use super::error::MemoryError;
use super::namespace::{Namespace, NamespaceRule, tenant_of};
use super::record::{Layer, Record, Status};
use super::space::{Memories, MemoryHit, MemorySpace, RecordFilter, SearchRequest};
use super::tools::{file_tool, own_tools};
use super::words::{origin, words};
use crate::query::QueryValues;

/// The name of the core block.
pub const CORE: &str = "core-memory";
/// The name of the catalogue of what is remembered.
pub const MEMORY_CATALOGUE: &str = "available_memory";
/// The priority of recalled lines under a budget.
const PRIORITY: f64 = 55.0;
/// The difference between the priorities of two neighbouring ranks.
const STEP: f64 = 0.01;
/// So many hits beyond the limit are looked at, to say why they are not there.
const BEYOND: usize = 5;
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
    /// Whether the core block also has the rules of the agent, whoever told it.
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
    /// What becomes of what a model wants to remember.
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
        }
    }
}

/// Runs work that nobody waits for.
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
    /// The namespaces whose threads were caught up with since this process started.
    caught_up: Arc<Mutex<BTreeSet<(String, Namespace)>>>,
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
        caught_up: Arc::default(),
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

    /// Returns the part that puts memories into requests, for prompts that are composed by hand. It captures nothing.
    pub fn as_context(&self) -> Entry {
        let capture = CaptureOptions { mode: CaptureMode::Off, ..self.0.options.capture };
        self.clone().tools(MemoryTools::Off).capture(capture).into()
    }

    /// Returns the tools for a caller, for prompts and agents that are composed by hand.
    pub fn as_tools(&self, scope: &Scope) -> Result<Vec<Tool>, BoxError> {
        self.0.tools(&self.0.space(scope)??)
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
            MemoryTools::Own => own_tools(space, self.options.capture.accept)?,
            MemoryTools::Files => vec![file_tool(space)?],
        })
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
        let mut rules = Vec::new();
        for space in self.core_spaces(scope)? {
            self.catch_up(&space).await?;
            let now = space.now();
            let filter = RecordFilter {
                layer: Some(Layer::Rules),
                status: Some(Status::Accepted),
                ..RecordFilter::default()
            };
            rules.extend(space.list(&filter).await?.into_iter().filter(|it| it.holds_at(now)));
        }
        Ok(core_text(&rules, Tokens(self.options.core_tokens)))
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
        if self.options.capture.mode != CaptureMode::Off {
            self.catch_up(&space).await?;
            let session = call.scope.session.as_deref().and_then(|it| SessionId::parse(it).ok());
            if let Some(session) = session.filter(|_| !call.has_envelope()) {
                space.register(&session.main()).await?;
            }
            let hook = Hook { space: space.clone(), parts: self.clone() };
            contribution.hooks.push(turn_hook(Arc::new(hook)));
        }
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
        // What the request shows as it was said need not be recalled.
        let shown: BTreeSet<String> = call.conversation().iter().map(|it| it.id().to_string()).collect();
        let is_shown = |it: &MemoryHit| {
            it.layer == Layer::Episodes
                && it.thread == call.scope.session
                && it.turn.as_ref().is_some_and(|it| shown.contains(it))
        };
        // Rules are part of the core block.
        let is_core = |it: &MemoryHit| self.options.core && it.layer == Layer::Rules;
        hits.retain(|it| !is_shown(it) && !is_core(it));
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
        Ok(hits.into_iter().enumerate().map(piece).collect())
    }
}

fn recalled_piece(hit: &MemoryHit, rank: usize) -> Piece {
    // Line breaks would look like further lines of the reminders.
    let text = hit.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = words("recalled", &[("id", &hit.id), ("from", &origin(hit)), ("text", &text)]);
    let detail = json!({
        "memory": hit.id, "rank": rank + 1, "score": hit.score, "shares": hit.shares, "layer": hit.layer,
        "text": hit.text, "uses": hit.uses,
    });
    // There are few hits, so the cast is exact.
    let priority = Priority::new(PRIORITY - STEP * rank as f64).ok();
    let source = Some(Source::Noted(format!("memory:{}", hit.id).into()));
    Piece { priority, source, detail: Some(Arc::new(detail)), ..Piece::new(line) }
}

/// Returns rules as lines, oldest first: of two that contradict each other the later one applies.
fn core_text(rules: &[Record], room: Tokens) -> String {
    let counter = counter_for(None);
    let (mut left, mut lines) = (room, Vec::new());
    for rule in rules.iter().rev() {
        let line = format!("- {}", escape_text(&rule.text.split_whitespace().collect::<Vec<_>>().join(" ")));
        let tokens = counter.count(&line) + Tokens(1);
        if tokens > left {
            continue;
        }
        left = left.saturating_sub(tokens);
        lines.push(line);
    }
    lines.reverse();
    let n_left_out = rules.len() - lines.len();
    if n_left_out > 0 {
        lines.push(words("more", &[("n", &n_left_out.to_string())]));
    }
    lines.join("\n")
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
            // What is private to a run is not for others to remember.
            if turn.thread.is_scratch() {
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
            if !thread.is_scratch() {
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
            entries: self.blocks(),
            family: Some("memory".to_owned()),
            conversation: ConversationUse::AtTurnStart,
            ..Declaration::default()
        }
    }
}

impl Node {
    /// Returns the blocks in the frozen prefix.
    fn blocks(&self) -> Vec<Entry> {
        let MemoryOptions { core, catalogue, .. } = &self.parts.options;
        let mut blocks = Vec::new();
        if *core {
            let parts = Arc::clone(&self.parts);
            let body = move |call: Call| {
                let parts = Arc::clone(&parts);
                async move { Ok(parts.core(&call.scope).await?) }
            };
            blocks.push(Block::dynamic(CORE, body).description("Standing instructions").into());
        }
        if *catalogue {
            let parts = Arc::clone(&self.parts);
            let body = move |call: Call| {
                let parts = Arc::clone(&parts);
                async move { Ok(parts.catalogue(&call.scope).await?) }
            };
            blocks.push(Block::dynamic(MEMORY_CATALOGUE, body).description("What is remembered").into());
        }
        blocks
    }
}

impl From<MemoryEntry> for Entry {
    fn from(entry: MemoryEntry) -> Self {
        let id = format!("memory:{}", entry.0.options.id);
        Entry::Contributor(Arc::new(Node { id, parts: entry.0 }))
    }
}
