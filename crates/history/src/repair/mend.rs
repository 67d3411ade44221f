//! Pairs calls and results across groups of messages.
//!
//! The input is groups, such as turns; the output is one [`Mended`] for each. The rules are those of
//! [`repair`](crate::repair()), and one more: a group is complete by itself, so the result of a call is in the group
//! of the call. A group that is known to be paired is not examined.
//!
//! One pass over the parts matches results with calls and decides what stays. It leaves a gap where the results for a
//! message end, which is filled once all results have been seen.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, ToolCall, ToolOutput, ToolResult};
use contexture_message::{message_tokens, part_tokens};

use super::{Repair, RepairKind};
use crate::item::wording::interrupted;
use crate::neutral::{neutral_message, neutral_part};

/// Messages that must be complete by themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) messages: &'a [Arc<Message>],
    /// Whether its calls and results are known to be paired.
    pub(crate) is_paired: bool,
    /// Whether all engine tags in it are known to be written by the engine.
    pub(crate) is_neutral: bool,
}

/// A group whose calls and results are paired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mended {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) repairs: Vec<Repair>,
    pub(crate) difference: Difference,
}

/// The messages added and removed, as the model reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    came: Vec<Arc<Message>>,
    went: Vec<Gone>,
}

/// The part of a message that was removed.
#[derive(Clone, Debug)]
struct Gone {
    parts: Vec<Part>,
    /// How many fewer frames the message has.
    frames: u32,
}

impl Difference {
    /// Returns the cost of the group, given its cost `before` the repair. Only what was added or removed is counted.
    pub(crate) fn tokens(&self, before: Tokens, counter: &dyn TokenCounter) -> Tokens {
        let came: Tokens = self.came.iter().map(|it| message_tokens(counter, it)).sum();
        let frame = counter.profile().framing.message;
        let gone = |gone: &Gone| {
            let parts: Tokens = gone.parts.iter().map(|it| part_tokens(counter, it)).sum();
            parts + Tokens(frame.saturating_mul(gone.frames))
        };
        (before + came).saturating_sub(self.went.iter().map(gone).sum())
    }
}

/// Pairs the calls and results of all groups.
pub(crate) fn mend(groups: &[Group<'_>]) -> Vec<Mended> {
    if groups.iter().all(|it| it.is_paired) {
        return groups.iter().map(untouched).collect();
    }
    let mut mending = Mending { groups, ..Mending::default() };
    groups.iter().enumerate().for_each(|(idx, it)| mending.group(idx, it));
    mending.finish()
}

fn untouched(group: &Group<'_>) -> Mended {
    Mended { messages: group.messages.to_vec(), ..Mended::default() }
}

/// The state of a pass over all groups.
#[derive(Default)]
struct Mending<'a> {
    groups: &'a [Group<'a>],
    asking: Vec<Asking<'a>>,
    /// The calls without a result, by id: for each id the messages with such calls, and for each message its calls in
    /// order.
    open: HashMap<&'a str, Vec<(usize, VecDeque<usize>)>>,
    drafts: Vec<Draft>,
    /// How many messages have been seen, over all groups.
    n_messages: usize,
}

/// A message with tool calls.
struct Asking<'a> {
    group: usize,
    /// How many messages precede it, over all groups.
    position: usize,
    calls: Vec<(&'a ToolCall, bool)>,
    /// Results that were found elsewhere and moved here.
    moved: Vec<Arc<Message>>,
}

/// A group that is being repaired.
#[derive(Default)]
struct Draft {
    entries: Vec<Entry>,
    went: Vec<Gone>,
    /// The repairs, each with the position of its message.
    repairs: Vec<(usize, Repair)>,
}

enum Entry {
    Message(Arc<Message>),
    /// The end of the results for the message with this index in the list of messages with calls.
    Gap(usize),
}

/// What happens to the parts of a message.
struct Sorted {
    /// The results to remove, by part index, with the message and the call they belong to, if any.
    leaving: Vec<(usize, Option<(usize, usize)>)>,
    /// Whether the remaining parts are only results for the message before.
    is_answer: bool,
    /// Its own index in the list of messages with calls.
    asks: Option<usize>,
}

impl<'a> Mending<'a> {
    fn group(&mut self, idx: usize, group: &Group<'a>) {
        self.drafts.push(Draft::default());
        if group.is_paired {
            self.drafts[idx].entries.extend(group.messages.iter().cloned().map(Entry::Message));
            self.n_messages += group.messages.len();
            return;
        }
        // The message with calls whose results may come here.
        let mut asked = None;
        for message in group.messages {
            let sorted = self.sort(idx, asked, message);
            let stays = message.content.is_empty() || sorted.leaving.len() < message.content.len();
            if stays && !sorted.is_answer {
                self.drafts[idx].entries.extend(asked.map(Entry::Gap));
                asked = sorted.asks;
            }
            if stays {
                self.drafts[idx].entries.push(Entry::Message(remaining(message, &sorted)));
            }
            if !sorted.leaving.is_empty() {
                self.take_out(idx, message, &sorted);
            }
            self.n_messages += 1;
        }
        self.drafts[idx].entries.extend(asked.map(Entry::Gap));
    }

    fn sort(&mut self, group: usize, asked: Option<usize>, message: &'a Message) -> Sorted {
        let mut sorted = Sorted { leaving: Vec::new(), is_answer: !message.content.is_empty(), asks: None };
        for (idx, part) in message.content.iter().enumerate() {
            match part {
                Part::ToolResult(result) => {
                    let call = self.answer(&result.call_id);
                    let asking = call.map(|(asking, _)| asking);
                    if asking.is_none() || asking != asked || !sorted.is_answer {
                        sorted.leaving.push((idx, call));
                    }
                }
                Part::ToolCall(call) => {
                    sorted.is_answer = false;
                    sorted.asks = Some(self.ask(group, sorted.asks, call));
                }
                Part::Text { .. }
                | Part::Image(_)
                | Part::File(_)
                | Part::Evidence(_)
                | Part::Thinking(_) => {
                    sorted.is_answer = false;
                }
            }
        }
        sorted
    }

    /// Adds a call to its message, and returns the index of that message in the list of messages with calls.
    fn ask(&mut self, group: usize, asking: Option<usize>, call: &'a ToolCall) -> usize {
        let asking = asking.unwrap_or_else(|| {
            let position = self.n_messages;
            self.asking.push(Asking { group, position, calls: Vec::new(), moved: Vec::new() });
            self.asking.len() - 1
        });
        let calls = &mut self.asking[asking].calls;
        calls.push((call, false));
        let call_idx = calls.len() - 1;
        let open = self.open.entry(&call.id).or_default();
        match open.last_mut() {
            Some((known, calls)) if *known == asking => calls.push_back(call_idx),
            _ => open.push((asking, VecDeque::from([call_idx]))),
        }
        asking
    }

    /// Finds the call that a result belongs to: the index of the message and of the call in it.
    fn answer(&mut self, id: &str) -> Option<(usize, usize)> {
        let open = self.open.get_mut(id)?;
        let (asking, calls) = open.last_mut()?;
        let (asking, call) = (*asking, calls.pop_front()?);
        if calls.is_empty() {
            open.pop();
        }
        self.asking[asking].calls[call].1 = true;
        Some((asking, call))
    }

    /// Removes results from a message: each is moved to its call, or dropped.
    fn take_out(&mut self, group: usize, message: &Arc<Message>, sorted: &Sorted) {
        let mut homes: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
        let mut parts = Vec::with_capacity(sorted.leaving.len());
        for (idx, home) in &sorted.leaving {
            let part = &message.content[*idx];
            parts.push(if self.groups[group].is_neutral { part.clone() } else { neutral_part(part.clone()) });
            let Part::ToolResult(result) = part else { continue };
            match home {
                Some((asking, call)) => {
                    homes.entry(*asking).or_default().push(part.clone());
                    let Asking { group, position, calls, .. } = &self.asking[*asking];
                    let repair = repair_of(&result.call_id, &calls[*call].0.name, RepairKind::Moved);
                    self.drafts[*group].repairs.push((*position, repair));
                }
                None => {
                    let repair = repair_of(&result.call_id, &result.name, RepairKind::LeftOut);
                    self.drafts[group].repairs.push((self.n_messages, repair));
                }
            }
        }
        let frames = n_frames(message, 0) - n_frames(message, sorted.leaving.len());
        self.drafts[group].went.push(Gone { parts, frames });
        for (asking, parts) in homes {
            let moved = match parts.len() == message.content.len() {
                true => Arc::clone(message),
                false => Arc::new(Message::parts(Role::Tool, parts)),
            };
            let from_outside =
                !self.groups[group].is_neutral && self.groups[self.asking[asking].group].is_neutral;
            self.asking[asking].moved.push(if from_outside { neutral_message(&moved) } else { moved });
        }
    }

    fn finish(mut self) -> Vec<Mended> {
        let mut gaps: Vec<Vec<Arc<Message>>> = Vec::with_capacity(self.asking.len());
        for asking in &mut self.asking {
            let mut gap = std::mem::take(&mut asking.moved);
            for (call, _) in asking.calls.iter().filter(|(_, is_answered)| !is_answered) {
                gap.push(Arc::new(completion(call)));
                let repair = repair_of(&call.id, &call.name, RepairKind::Completed);
                self.drafts[asking.group].repairs.push((asking.position, repair));
            }
            gaps.push(gap);
        }
        let groups = self.drafts.into_iter().zip(self.groups);
        groups.map(|(draft, group)| draft.filled(&mut gaps, group.is_neutral)).collect()
    }
}

impl Draft {
    /// Fills the gaps and returns the repaired group.
    fn filled(mut self, gaps: &mut [Vec<Arc<Message>>], is_neutral: bool) -> Mended {
        self.repairs.sort_by_key(|(position, _)| *position);
        let repairs = self.repairs.into_iter().map(|(_, repair)| repair).collect();
        let mut messages = Vec::with_capacity(self.entries.len());
        let mut came = Vec::new();
        for entry in self.entries {
            match entry {
                Entry::Message(message) => messages.push(message),
                Entry::Gap(asking) => {
                    let gap = std::mem::take(&mut gaps[asking]);
                    let read =
                        |it: &Arc<Message>| if is_neutral { Arc::clone(it) } else { neutral_message(it) };
                    came.extend(gap.iter().map(read));
                    messages.extend(gap);
                }
            }
        }
        Mended { messages, repairs, difference: Difference { came, went: self.went } }
    }
}

/// Returns the message without the parts to remove.
fn remaining(message: &Arc<Message>, sorted: &Sorted) -> Arc<Message> {
    if sorted.leaving.is_empty() {
        return Arc::clone(message);
    }
    let mut leaving = sorted.leaving.iter().map(|(idx, _)| *idx).peekable();
    let parts = message.content.iter().enumerate().filter(|(idx, _)| leaving.next_if_eq(idx).is_none());
    let content = parts.map(|(_, part)| part.clone()).collect();
    Arc::new(Message { role: message.role, content, id: message.id.clone(), name: message.name.clone() })
}

/// Counts the frames of a message without `n_leaving` of its results, as [`message_tokens`] does.
fn n_frames(message: &Message, n_leaving: usize) -> u32 {
    if n_leaving > 0 && n_leaving == message.content.len() {
        return 0;
    }
    let framed = message.content.iter().filter(|it| matches!(it, Part::ToolCall(_) | Part::ToolResult(_)));
    u32::try_from(framed.count() - n_leaving).unwrap_or(u32::MAX).max(1)
}

fn completion(call: &ToolCall) -> Message {
    let output = ToolOutput::ErrorText(interrupted().to_owned());
    let result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), output };
    Message::parts(Role::Tool, vec![Part::ToolResult(result)])
}

fn repair_of(call_id: &str, name: &str, what: RepairKind) -> Repair {
    Repair { call_id: call_id.to_owned(), name: name.to_owned(), what }
}
