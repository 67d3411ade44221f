//! What the functions of a prompt returned: its own texts, and the contributions of its entries. Later passes can reuse
//! it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::{Part, Role};
use serde_json::Value;

use crate::define::{Call, Contribution, Text};
use crate::lower::{Node, Stability};
use crate::segment::{SharedText, Volatility};
use crate::tags::block_tag_name;
use crate::{Error, Source};

/// Results of a pass that other passes can reuse: the prompt's own texts, and contributions by the identity of their
/// entry. Positions would not do, because another entry may take the same one. The node keeps the entry alive, and so
/// the identity valid.
pub(crate) struct Evaluated {
    pub(crate) contributions: HashMap<usize, (Arc<Node>, Arc<Contribution>)>,
    pub(crate) own: OwnTexts,
}

impl fmt::Debug for Evaluated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.contributions.values().map(|(node, _)| &node.place)).finish()
    }
}

/// The results of an earlier pass, and how much of them is reused.
#[derive(Clone, Debug)]
pub struct Reuse {
    pub(crate) results: Arc<Evaluated>,
    pub(crate) extent: ReuseExtent,
}

/// How much of an earlier pass is reused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReuseExtent {
    /// Entries that declare that they do not change with the turn.
    Step,
    /// Everything except the frozen prefix, which is evaluated when its bodies are no longer valid.
    Call,
}

impl Reuse {
    /// Returns the contribution of an entry, if it need not run again.
    pub(crate) fn contribution(&self, node: &Node) -> Option<Arc<Contribution>> {
        let is_reused = match self.extent {
            ReuseExtent::Step => !matches!(node.stability, Stability::Request),
            ReuseExtent::Call => node.stability.frozen_name().is_none(),
        };
        let known = self.results.contributions.get(&node.identity).filter(|_| is_reused);
        known.map(|(_, it)| Arc::clone(it))
    }

    /// Returns the prompt's own texts, if they need not be resolved again.
    pub(crate) fn own_texts(&self) -> Option<&OwnTexts> {
        match self.extent {
            ReuseExtent::Step => None,
            ReuseExtent::Call => Some(&self.results.own),
        }
    }
}

/// How long a contributor took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The contributor that was timed.
    pub source: Source,
    /// The family of contributors that it belongs to, if any.
    pub family: Option<String>,
    /// The elapsed time.
    pub took: Duration,
}

/// The prompt's own texts and values.
#[derive(Clone)]
pub(crate) struct OwnTexts {
    /// The system text with the adaptations around it.
    pub(crate) system: Vec<(Source, OwnText)>,
    /// The user slot, or the text for calls without a user message.
    pub(crate) user: OwnUser,
    /// The prompt's own list of messages, without the one that is this turn's user message.
    pub(crate) messages: Vec<(Role, OwnText)>,
    /// The text that replaces the tag block.
    pub(crate) section: Option<OwnText>,
    /// The values of the context slot, and how often they change.
    pub(crate) context: Vec<(Value, Volatility)>,
}

impl OwnTexts {
    /// Returns whether any text is a template that only `merge` can render.
    pub(crate) fn has_templates(&self) -> bool {
        let own = self.system.iter().map(|(_, text)| text);
        let listed = self.messages.iter().map(|(_, text)| text).chain(&self.section);
        own.chain(self.user.texts()).chain(listed).any(|it| matches!(it, OwnText::Template(_)))
    }
}

/// The prompt's own user messages, with the adaptations around them.
#[derive(Clone, Default)]
pub(crate) struct OwnUser {
    pub(crate) before: Vec<(Source, OwnText)>,
    pub(crate) messages: Vec<Vec<OwnPart>>,
    pub(crate) after: Vec<(Source, OwnText)>,
    /// Whether it is sent next to what the user says. If not, it is only for calls without a user message.
    pub(crate) is_slot: bool,
}

impl OwnUser {
    fn texts(&self) -> impl Iterator<Item = &OwnText> {
        let parts = self.messages.iter().flatten().filter_map(|it| match it {
            OwnPart::Text(text) => Some(text),
            OwnPart::Media(_) => None,
        });
        self.before.iter().chain(&self.after).map(|(_, text)| text).chain(parts)
    }
}

/// A part of the prompt's own user messages.
#[derive(Clone)]
pub(crate) enum OwnPart {
    Text(OwnText),
    Media(Part),
}

/// An evaluated text, or a template that only `merge` can render.
#[derive(Clone)]
pub(crate) enum OwnText {
    Ready(SharedText, Volatility),
    Template(Text),
}

impl OwnText {
    /// Returns the text and how often it changes.
    pub(crate) fn render(&self, owner: &Source, call: &Call) -> Result<(SharedText, Volatility), Error> {
        match self {
            OwnText::Ready(text, volatility) => Ok((text.clone(), *volatility)),
            OwnText::Template(text) => {
                let spelled = spelled(text, call);
                let call = spelled.as_ref().unwrap_or(call);
                let rendered =
                    text.render_now(call).map_err(|err| Error::of_function(owner, "the text", err))?;
                Ok((rendered, text.volatility()))
            }
        }
    }
}

/// Returns the call with the keys of `config.context` as the text spells them: `userPreferences` is
/// `user-preferences`. Returns `None` if all are spelled like their tags, or if the text iterates over the whole map,
/// where each key must occur once.
fn spelled(text: &Text, call: &Call) -> Option<Call> {
    let known = call.config.get("context")?.as_object().filter(|it| !it.is_empty())?;
    let reads = text.variables_in_all();
    let in_context =
        |it: &[String]| matches!(it, [config, context, ..] if config == "config" && context == "context");
    if reads.iter().any(|it| in_context(it) && it.len() == 2) {
        return None;
    }
    let keys = reads.iter().filter(|it| in_context(it)).filter_map(|it| it.get(2));
    let other = keys.filter(|it| !known.contains_key(*it)).filter_map(|key| {
        let value = known.get(&block_tag_name(key).ok()?)?;
        Some((key.clone(), value.clone()))
    });
    let other: Vec<(String, Value)> = other.collect();
    if other.is_empty() {
        return None;
    }
    let mut config = (*call.config).clone();
    if let Some(context) = config.get_mut("context").and_then(Value::as_object_mut) {
        context.extend(other);
    }
    Some(call.with_config(config))
}
