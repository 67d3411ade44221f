//! The entry `blackboard`: a snapshot in the frozen prefix, changes in the turn, and tools.

use std::sync::Arc;

use contexture_agent::Tool;
use contexture_compose::tags::{block_tag_name, neutralise};
use contexture_compose::{
    Block, BoxError, BoxFuture, Call, Contribution, Contributor, ConversationUse, Declaration, Entry, Piece,
    Placement, Priority, Profile, Scope, SharedTool, Source, Trust,
};

use super::board::{Board, Boards};
use super::definition::{BoardDefinition, BoardOptions};
use super::error::BoardError;
use super::render;
use super::scope::BoardOwner;
use super::tools;

/// The priority of boards under a budget.
const PRIORITY: f64 = 70.0;

/// An entry with a board. Make it with [`blackboard`].
#[derive(Clone, Debug)]
pub struct BlackboardEntry {
    boards: Boards,
    definition: Arc<BoardDefinition>,
    has_tools: bool,
}

/// Returns an entry with a board: what it holds is part of every request, and the model gets tools to change it.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use contexture_compose::{BoxFuture, Prompt, ResolveOptions, Scope};
/// # use contexture_history::Timestamp;
/// # use contexture_session::{MemoryStore, Names, Time};
/// # use serde_json::json;
/// # #[derive(Debug)]
/// # struct Fixed;
/// # impl Time for Fixed {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
/// # }
/// # impl Names for Fixed {
/// #     fn next(&self) -> String { "name".to_owned() }
/// # }
/// # futures::executor::block_on(async {
/// use contexture_capabilities::blackboard::{
///     BoardOptions, BoardOwner, BoardPorts, BoardScope, BoardWrite, Boards, blackboard,
/// };
///
/// # let store = Arc::new(MemoryStore::new(Arc::new(Fixed)));
/// let boards = Boards::new(BoardPorts { store, time: Arc::new(Fixed), names: Arc::new(Fixed) });
/// let schema = json!({"properties": {"goal": {"type": "string"}}});
/// let plan = blackboard(&boards, BoardOptions::new("plan", schema).scope(BoardScope::Tenant))?;
///
/// plan.board(&BoardOwner::default())?.write(BoardWrite::put("/goal", "Ship it")?).await?;
/// let prompt = Prompt::builder("support").system("You help.").include(plan).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hello")).await?;
/// let system = pass.request().messages[0].joined_text();
/// assert!(system.contains(r#"{"version":2,"state":{"goal":"Ship it"}}"#), "{system}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn blackboard(boards: &Boards, options: BoardOptions) -> Result<BlackboardEntry, BoardError> {
    let definition = Arc::new(BoardDefinition::new(options)?);
    boards.define(Arc::clone(&definition));
    Ok(BlackboardEntry { boards: boards.clone(), has_tools: definition.options().tools, definition })
}

impl BlackboardEntry {
    /// Returns the part that puts the board into requests, for prompts that are composed by hand.
    pub fn as_context(&self) -> Entry {
        Self { has_tools: false, ..self.clone() }.into()
    }

    /// Returns the tools for a caller, for prompts and agents that are composed by hand.
    pub fn as_tools(&self, scope: &Scope) -> Result<Vec<Tool>, BoxError> {
        Ok(tools::tools(&self.board(&BoardOwner::of(scope)?)?)?)
    }

    /// Returns the board of an owner.
    pub fn board(&self, owner: &BoardOwner) -> Result<Board, BoardError> {
        self.boards.board(&self.definition, owner)
    }

    /// Returns the board of a call, or why it has none.
    fn board_of(&self, scope: &Scope) -> Result<Result<Board, &'static str>, BoardError> {
        match self.board(&BoardOwner::of(scope)?) {
            Err(BoardError::Unavailable(reason)) => Ok(Err(reason)),
            board => board.map(Ok),
        }
    }

    /// Returns the name of the block with the snapshot.
    fn block_name(&self) -> String {
        format!("blackboard-{}", self.definition.id())
    }

    async fn snapshot(&self, scope: &Scope) -> Result<String, BoardError> {
        let Ok(board) = self.board_of(scope)? else { return Ok(String::new()) };
        Ok(render::snapshot(&board.read().await?, self.definition.schema().initial()))
    }

    async fn contribution(&self, call: Call) -> Result<Contribution, BoxError> {
        let mut contribution = Contribution::default();
        let board = match self.board_of(&call.scope)? {
            Ok(board) => board,
            Err(reason) => {
                contribution.pieces.push(Piece { excluded: Some(reason.to_owned()), ..Piece::new("") });
                return Ok(contribution);
            }
        };
        if self.has_tools {
            contribution.tools = tools::tools(&board)?.into_iter().map(SharedTool::from).collect();
        }
        // Without a kept snapshot this request gets a new one, and a recorded turn has its changes.
        let shown = call.frozen_block(&block_tag_name(&self.block_name())?).filter(|_| !call.has_envelope());
        if let Some(shown) = shown {
            let state = board.read().await?;
            let changes = render::changes(&state, shown)?;
            contribution.pieces.extend(changes.map(|it| self.changes_piece(&it)));
        }
        Ok(contribution)
    }

    fn changes_piece(&self, changes: &str) -> Piece {
        let text = include_str!("templates/changes.txt").trim_end().replace("{id}", self.definition.id());
        let text = text.replace("{changes}", &neutralise(changes));
        Piece { source: Some(self.source()), ..Piece::composed(text) }
    }

    fn source(&self) -> Source {
        Source::Noted(self.owner().into())
    }

    fn owner(&self) -> String {
        format!("blackboard:{}", self.definition.id())
    }
}

/// The entry under its id in the prompt.
struct Node {
    id: String,
    entry: BlackboardEntry,
    snapshot: Entry,
}

impl Contributor for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(self.entry.contribution(call))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let profile = Profile {
            priority: Priority::new(PRIORITY).unwrap_or_default(),
            placement: Placement::User,
            trust: Trust::User,
            ..Profile::default()
        };
        Declaration {
            profile,
            entries: vec![self.snapshot.clone()],
            family: Some("blackboard".to_owned()),
            conversation: ConversationUse::AtTurnStart,
            source: Some(self.entry.source()),
            ..Declaration::default()
        }
    }
}

impl From<BlackboardEntry> for Entry {
    fn from(entry: BlackboardEntry) -> Self {
        let of_block = entry.clone();
        let body = move |call: Call| {
            let entry = of_block.clone();
            async move { Ok(entry.snapshot(&call.scope).await?) }
        };
        let block =
            Block::dynamic(entry.block_name(), body).priority(Priority::new(PRIORITY).unwrap_or_default());
        let description = entry.definition.options().description.clone();
        let block =
            block.description(description.unwrap_or_else(|| format!("Blackboard {}", entry.definition.id())));
        Entry::Contributor(Arc::new(Node { id: entry.owner(), snapshot: block.into(), entry }))
    }
}
