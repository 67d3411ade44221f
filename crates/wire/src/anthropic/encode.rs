//! Encodes requests.
//!
//! Turns a [`Request`] into the body of the Messages API. The bytes depend only on the request and the target. The
//! content of a message is always a list of blocks, so that new messages do not change the bytes before them.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::{Breakpoint, Message, Part, Request, Role, ToolDefinition};
use serde_json::{Map, Value};

use super::tools::encode_tools;
use super::turns::{Block, Speaker, Turn, may_think};
use super::{citations, encode_parts, marks, settings};
use crate::loss::Losses;
use crate::{Encoded, Target, calls, passthrough, reference};

const GO_AHEAD: &str = include_str!("../templates/go-ahead.txt");

/// Encodes a request.
pub(crate) fn encode_request(target: &Target, request: &Request) -> Encoded {
    let mut losses = Losses::default();
    let (mut system, mut turns) = conversation(target, request, &mut losses);
    citations::settle(&mut turns, settings::has_schema(target, request), &mut losses);
    let mut tools = encode_tools(&target.facts, &request.tools, &mut losses);
    marks::mark(&request.breakpoints, &mut tools, &mut system, &mut turns);
    let settings = settings::encode(target, request, may_think(&turns), &mut losses);

    let mut body = Map::new();
    body.insert("model".to_owned(), target.model.as_str().into());
    body.insert("max_tokens".to_owned(), settings.max_tokens.into());
    if let Some(system) = system_field(system) {
        body.insert("system".to_owned(), system);
    }
    body.insert("messages".to_owned(), turns.into_iter().map(Turn::into_json).collect());
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    body.extend(settings.fields);
    if target.stream {
        body.insert("stream".to_owned(), true.into());
    }
    passthrough::merge(&mut body, target, &request.settings.provider);
    Encoded { body: Value::Object(body), losses: losses.into_vec() }
}

/// Encodes the system prompt: a single text without a mark as a string, anything else as a list of blocks.
fn system_field(mut system: Vec<Block>) -> Option<Value> {
    if let [only] = system.as_mut_slice()
        && only.json.get("cache_control").is_none()
    {
        return only.json.get_mut("text").map(Value::take);
    }
    (!system.is_empty()).then(|| system.into_iter().map(|it| it.json).collect())
}

fn conversation(target: &Target, request: &Request, losses: &mut Losses) -> (Vec<Block>, Vec<Turn>) {
    let (cuts, tools) = (cuts(&request.breakpoints), &request.tools);
    let mut writer = Writer { target, tools, losses, cuts, system: Vec::new(), turns: Vec::new() };
    let mut leading = true;
    for (index, message) in request.messages.iter().enumerate() {
        leading &= message.role == Role::System;
        match leading {
            true => writer.system_message(index, message),
            false => writer.message(index, message),
        }
    }
    writer.begin_with_user();
    writer.results_first();
    writer.end_without_blanks();
    (writer.system, writer.turns)
}

/// Returns, by message, the offsets at which text is split to place cache marks.
fn cuts(breakpoints: &[Breakpoint]) -> BTreeMap<usize, Vec<usize>> {
    let mut cuts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for breakpoint in breakpoints {
        if let Breakpoint::Text { message, byte } = breakpoint {
            cuts.entry(*message).or_default().push(*byte);
        }
    }
    cuts.values_mut().for_each(|it| it.sort_unstable());
    cuts
}

struct Writer<'a> {
    target: &'a Target,
    tools: &'a [Arc<ToolDefinition>],
    losses: &'a mut Losses,
    cuts: BTreeMap<usize, Vec<usize>>,
    system: Vec<Block>,
    turns: Vec<Turn>,
}

impl Writer<'_> {
    fn system_message(&mut self, message: usize, content: &Message) {
        let mut offset = 0;
        for (index, part) in content.content.iter().enumerate() {
            let at = format!("messages[{message}].content[{index}]");
            match part {
                Part::Text { text, .. } => {
                    let blocks = self.texts(message, text, &mut offset, &at);
                    self.system.extend(blocks);
                }
                Part::Evidence(it) => {
                    let json = encode_parts::text(&reference::evidence(it));
                    self.system.push(Block { json, message, text_end: None });
                }
                Part::Image(_) | Part::File(_) => {
                    self.losses.add(at, "said as a reference: the system prompt is text");
                    let json = encode_parts::text(&reference::part(part));
                    self.system.push(Block { json, message, text_end: None });
                }
                Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                    self.losses.add(at, "left out: the system prompt is text");
                }
            }
        }
    }

    fn message(&mut self, index: usize, message: &Message) {
        let at = format!("messages[{index}]");
        if message.name.is_some() {
            self.losses.add(format!("{at}.name"), "speakers have no names here, left out");
        }
        let speaker = match message.role {
            Role::System => {
                self.losses.add(at.as_str(), "said by the user: there are no later system messages");
                Speaker::User
            }
            Role::User | Role::Tool => Speaker::User,
            Role::Assistant => Speaker::Assistant,
        };
        if message.content.is_empty() {
            self.losses.add(at.as_str(), "left out: it is empty");
        }
        let mut offset = 0;
        for (part_idx, part) in message.content.iter().enumerate() {
            self.part(index, speaker, part, &mut offset, &format!("{at}.content[{part_idx}]"));
        }
    }

    fn part(&mut self, message: usize, speaker: Speaker, part: &Part, offset: &mut usize, at: &str) {
        let said_by_user = speaker == Speaker::User;
        let (speaker, json) = match part {
            Part::Text { text, citations } => {
                let mut blocks = self.texts(message, text, offset, at);
                if let Some(first) = blocks.first_mut().filter(|_| !said_by_user) {
                    let own = citations::own(self.target, citations, at, self.losses);
                    first.json = citations::cited(first.json.take(), own);
                }
                return blocks.into_iter().for_each(|it| self.push(speaker, it));
            }
            Part::Evidence(it) if !said_by_user => {
                self.losses.add(at, "said as a text: the assistant shows no search results");
                (speaker, encode_parts::text(&reference::evidence(it)))
            }
            Part::Evidence(it) => match citations::search_result(it, at, self.losses) {
                Some(json) => (speaker, json),
                None => return,
            },
            Part::Image(_) | Part::File(_) if !said_by_user => {
                self.losses.add(at, "said as a reference: the assistant says no images or files");
                (speaker, encode_parts::text(&reference::part(part)))
            }
            Part::Image(it) => (speaker, encode_parts::image(self.target, it, at, self.losses)),
            Part::File(it) => (speaker, encode_parts::file(self.target, it, at, self.losses)),
            Part::Thinking(_) if said_by_user => {
                return self.losses.add(at, "left out: only the assistant thinks");
            }
            Part::Thinking(it) => match encode_parts::thinking(self.target, it) {
                Ok(json) => (speaker, json),
                Err(reason) => return self.losses.add(at, format!("left out: {reason}")),
            },
            Part::ToolCall(it) => {
                if said_by_user {
                    self.losses.add(at, "said by the assistant: only it calls tools");
                }
                let name = calls::name(&it.name, self.tools, at, self.losses);
                (Speaker::Assistant, encode_parts::tool_use(it, &name, at, self.losses))
            }
            Part::ToolResult(it) => {
                if !said_by_user {
                    self.losses.add(at, "said by the user: the assistant gives no results");
                }
                (Speaker::User, encode_parts::tool_result(self.target, it, at, self.losses))
            }
        };
        self.push(speaker, Block { json, message, text_end: None });
    }

    fn push(&mut self, speaker: Speaker, block: Block) {
        match self.turns.last_mut() {
            Some(turn) if turn.speaker == speaker => turn.blocks.push(block),
            Some(_) | None => self.turns.push(Turn { speaker, blocks: vec![block] }),
        }
    }

    /// Encodes a text as blocks, split where marks are placed. Blank texts are left out: the API rejects them.
    fn texts(&mut self, message: usize, text: &str, offset: &mut usize, at: &str) -> Vec<Block> {
        let start = *offset;
        *offset += text.len();
        if text.trim().is_empty() {
            if !text.is_empty() {
                self.losses.add(at, "left out: a text can't be blank");
            }
            return Vec::new();
        }
        let cuts = self.cuts.get(&message).map(Vec::as_slice).unwrap_or_default();
        let pieces = pieces(text, start, cuts).into_iter();
        pieces
            .map(|(piece, end)| Block { json: encode_parts::text(piece), message, text_end: Some(end) })
            .collect()
    }

    fn begin_with_user(&mut self) {
        if self.turns.first().is_some_and(|it| it.speaker == Speaker::User) {
            return;
        }
        self.losses.add("messages", "the user must speak first: a short text was put before");
        let block = Block { json: encode_parts::text(GO_AHEAD.trim_end()), message: 0, text_end: None };
        self.turns.insert(0, Turn { speaker: Speaker::User, blocks: vec![block] });
    }

    /// Trims the end of a final assistant text: the API rejects a prefill that ends in whitespace.
    fn end_without_blanks(&mut self) {
        let Some(Turn { speaker: Speaker::Assistant, blocks }) = self.turns.last_mut() else { return };
        let last = blocks.last_mut().filter(|it| it.is("text"));
        if let Some(block) = last
            && let Some(text) = block.json["text"].as_str()
            && text != text.trim_end()
        {
            let at = format!("messages[{}]", block.message);
            self.losses.add(at, "trailing whitespace was removed: the model continues from there");
            block.json["text"] = Value::from(text.trim_end());
        }
    }

    /// Moves results to the front of user turns: they must directly follow the calls.
    fn results_first(&mut self) {
        for turn in &mut self.turns {
            turn.blocks.sort_by_key(|it| turn.speaker == Speaker::User && !it.is("tool_result"));
        }
    }
}

/// Splits a text that starts at byte `start` of its message. Each piece comes with its end offset in the message's
/// text.
///
/// No piece is blank: if only blank text would follow a cut, the cut moves behind it.
fn pieces<'a>(text: &'a str, start: usize, cuts: &[usize]) -> Vec<(&'a str, usize)> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().filter(|&&it| it > start && it < start + text.len()) {
        let to = text.floor_char_boundary(cut - start);
        if to <= from || text[from..to].trim().is_empty() {
            continue;
        }
        if text[to..].trim().is_empty() {
            pieces.push((&text[from..], cut));
            return pieces;
        }
        pieces.push((&text[from..to], cut));
        from = to;
    }
    pieces.push((&text[from..], start + text.len()));
    pieces
}
