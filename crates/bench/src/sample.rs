//! Data of the same kinds as the files', made from a seed: the same bytes on every machine.

use contexture_message::{Encoding, Role, TokenCounter, ToolCall, ToolDefinition};
use indexmap::IndexMap;
use serde_json::json;

use crate::data::{
    Composition, Conversation, FileContext, FileMessage, FileTurn, MOST_MESSAGES, SessionData, StorePlace,
    Tree, TreeNode,
};

/// What a text is like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// English sentences.
    Prose,
    /// Lines of a programming language.
    Code,
    /// Records in JSON.
    Json,
    /// Lines of a log, with signs that must be escaped.
    Logs,
    /// Chinese and Japanese.
    Cjk,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Prose, Kind::Code, Kind::Json, Kind::Logs, Kind::Cjk];

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Prose => "prose",
            Kind::Code => "code",
            Kind::Json => "json",
            Kind::Logs => "logs",
            Kind::Cjk => "cjk",
        }
    }
}

const WORDS: &str = "the of and to in is that it for was on are as with be this from or have an by not but what \
    service request response cache queue worker database index table column migration schema latency memory \
    customer invoice payment refund subscription account region deployment rollout incident alert dashboard \
    however therefore meanwhile although because unless whenever otherwise perhaps certainly probably \
    Amsterdam Nairobi Osaka Santiago Toronto Warsaw Helsinki Lisbon Jakarta Denver Tuesday October";
const NAMES: &str =
    "user_id session_id total count buffer offset cursor handle payload result items index value";
const CHARACTERS: &str = "我们需要先确认数据库的索引是否已经建立然后再检查缓存命中率このデータはサーバーから取得されたもので確認が必要です";

/// A generator of numbers: splitmix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }

    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    fn word(&mut self) -> &'static str {
        self.one_of(WORDS)
    }

    fn name(&mut self) -> &'static str {
        self.one_of(NAMES)
    }

    fn one_of(&mut self, words: &'static str) -> &'static str {
        let position = self.below(words.split_whitespace().count());
        words.split_whitespace().nth(position).unwrap_or_default()
    }

    fn kind(&mut self) -> Kind {
        Kind::ALL[self.below(Kind::ALL.len())]
    }

    pub(crate) fn text(&mut self, kind: Kind, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            if !text.is_empty() && kind != Kind::Cjk {
                text.push(if kind == Kind::Prose { ' ' } else { '\n' });
            }
            text.push_str(&self.line(kind));
        }
        text
    }

    fn line(&mut self, kind: Kind) -> String {
        let number = self.below(100_000);
        match kind {
            Kind::Prose => {
                let n_words = self.between(6, 20);
                let words: Vec<_> = (0..n_words).map(|_| self.word()).collect();
                format!("{}.", words.join(" "))
            }
            Kind::Code => {
                format!("    let {} = {}.{}(0x{number:x})?;", self.name(), self.name(), self.name())
            }
            Kind::Json => {
                let id = format!("{:016x}", self.roll());
                json!({"id": id, self.name(): number, "note": self.line(Kind::Prose)}).to_string()
            }
            Kind::Logs => format!(
                "2026-11-{:02} {:02}:{:02} WARN [{}-{}] {}={number} <{}> {} & {}>{}",
                self.between(1, 28),
                self.below(24),
                self.below(60),
                self.name(),
                self.below(64),
                self.name(),
                self.name(),
                self.line(Kind::Prose),
                self.name(),
                self.below(99),
            ),
            Kind::Cjk => {
                let (skip, take) = (self.below(30), self.between(6, 24));
                let signs = ["，", "。", "、", "\n"];
                let sign = signs[self.below(signs.len())];
                CHARACTERS.chars().skip(skip).take(take).chain(sign.chars()).collect()
            }
        }
    }
}

/// Returns a text of at least `bytes` bytes.
pub fn text(kind: Kind, bytes: usize) -> String {
    Dice(7).text(kind, bytes)
}

/// Returns a conversation; two turns of five call a tool.
pub fn conversation(n_turns: usize) -> Conversation {
    let mut dice = Dice(1);
    let said = |role, content| FileMessage {
        id: None,
        role,
        content,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    };
    let turns = (0..n_turns).map(|turn| {
        let kind = dice.kind();
        let length = dice.between(60, 700);
        let mut messages = vec![said(Role::User, dice.text(kind, length))];
        if turn % 5 < 2 {
            let (id, name) = (format!("call_{turn}"), "search".to_owned());
            let arguments = json!({"query": dice.line(Kind::Prose), "limit": dice.below(5000)});
            let call = ToolCall { id: id.clone(), name: name.clone(), arguments };
            messages.push(FileMessage { tool_calls: vec![call], ..said(Role::Assistant, String::new()) });
            let kind = dice.kind();
            let length = if turn % 10 == 0 { dice.between(2_000, 20_000) } else { dice.between(60, 900) };
            let result = said(Role::Tool, dice.text(kind, length));
            messages.push(FileMessage { tool_call_id: Some(id), name: Some(name), ..result });
        }
        let kind = dice.kind();
        let length = dice.between(120, 1500);
        messages.push(said(Role::Assistant, dice.text(kind, length)));
        FileTurn { messages }
    });
    let turns = turns.collect();
    let system = said(Role::System, "You are a careful assistant.".to_owned());
    let mut conversation = Conversation { system, turns };
    for (n, message) in conversation.messages_mut().enumerate() {
        message.id = Some(format!("m{n:06}"));
    }
    conversation
}

/// Returns sessions of `n` messages.
pub fn session(n: usize, sessions: usize, place: &StorePlace) -> SessionData {
    let conversation = conversation(n.min(MOST_MESSAGES) / 2 + 200);
    let messages = conversation.turns.iter().flat_map(FileTurn::to_messages).collect();
    SessionData::of(messages, n, sessions, place)
}

/// Returns a composition of contexts of 500 to 12,000 bytes, under a budget that forces some two fifths out.
pub fn composition(n_contexts: usize) -> Composition {
    let mut dice = Dice(2);
    let tags = ["document", "memory", "ticket", "search_result", "note"];
    let contexts: Vec<FileContext> = (0..n_contexts)
        .map(|position| {
            let kind = dice.kind();
            let length = dice.between(500, 12_000);
            FileContext {
                id: format!("c{position:03}"),
                tag: tags[dice.below(tags.len())].to_owned(),
                priority: (dice.between(1, 99) * 1000 + position) as u32,
                body: dice.text(kind, length),
            }
        })
        .collect();
    let tools = (0..12).map(|position| {
        let field = json!({"type": "string", "description": dice.line(Kind::Prose)});
        ToolDefinition::new(format!("tool_{position:02}"), dice.line(Kind::Prose))
            .parameters(json!({"type": "object", "properties": {"query": field}, "required": ["query"]}))
    });
    let tools = tools.collect();
    let needed: u32 = contexts.iter().map(|it| Encoding::O200kBase.count(&it.body).0).sum();
    let (system, user) = (dice.text(Kind::Prose, 2_400), dice.line(Kind::Prose));
    Composition { system, contexts, tools, user, budget_tokens: needed / 5 * 3 + 2_000 }
}

/// Returns a tree of depth 3 with about `n_leaves` leaves, ten in each group and five groups in each section.
pub fn tree(n_leaves: usize) -> Tree {
    let mut dice = Dice(3);
    let node = |tag: String, id: String, children| TreeNode {
        tag,
        attrs: IndexMap::from([("id".to_owned(), id)]),
        text: None,
        children,
    };
    let sections = (0..n_leaves.div_ceil(50)).map(|section| {
        let groups = (0..5).map(|group| {
            let leaves = (0..10).map(|leaf| {
                let kind = [Kind::Logs, Kind::Code, Kind::Prose][dice.below(3)];
                let length = dice.between(80, 600);
                let text = Some(dice.text(kind, length) + " if a < b && c > d then <done/> &amp; \"quoted\"");
                let mut leaf = node("record".to_owned(), format!("n{section}_{group}_{leaf}"), Vec::new());
                leaf.attrs.insert("kind".to_owned(), "a<b&c \"d\"".to_owned());
                TreeNode { text, ..leaf }
            });
            let leaves = leaves.collect();
            node(format!("group_{}", dice.name()), format!("g{section}_{group}"), leaves)
        });
        let groups = groups.collect();
        node(format!("section_{}", dice.name()), format!("s{section}"), groups)
    });
    let children = sections.collect();
    Tree { root: TreeNode { tag: "context".to_owned(), children, ..TreeNode::default() } }
}
