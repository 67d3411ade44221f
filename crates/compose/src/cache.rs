//! Provider caches: their rules, what they should read, and why they do not.

use std::borrow::Cow;

use contexture_message::tokens::message_tokens;
use contexture_message::{Breakpoint, CacheRules, TokenCounter, Tokens};
use serde::{Deserialize, Serialize};

use crate::Source;
use crate::arrange::Arranged;
use crate::render::Rendered;
use crate::segment::{Body, Slot};

/// Returns the rules that are assumed where nobody hands in better ones; no caching for unknown providers.
pub(crate) fn assumed_rules(model: Option<&str>) -> CacheRules {
    let name = model.unwrap_or_default().to_ascii_lowercase();
    let is = |word: &str| name.contains(word);
    if is("claude") || is("anthropic") {
        CacheRules { max_breakpoints: 4, min_tokens: Tokens(1024), lifetime_s: 300 }
    } else if is("gpt") || is("openai") || is("gemini") {
        CacheRules { max_breakpoints: 0, min_tokens: Tokens(1024), lifetime_s: 300 }
    } else {
        CacheRules { max_breakpoints: 0, min_tokens: Tokens(0), lifetime_s: 0 }
    }
}

/// What is known about the cache before the call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheFacts {
    /// Tokens at the beginning of the request that do not change with the turn.
    pub prefix_tokens: Tokens,
    /// Where the provider's cache is marked.
    pub breakpoints: Vec<Breakpoint>,
    /// What the provider should read from its cache, if the previous pass is known.
    #[serde(default)]
    pub forecast: Option<Forecast>,
}

/// What the provider should read from its cache, given the previous pass of the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Tokens that should be read from the cache.
    pub read_tokens: Tokens,
    /// Where the prefix differs from the previous pass, if it does before that one's end.
    pub changed: Option<PrefixChange>,
}

/// The first difference between two prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixChange {
    /// Who contributed the first byte that differs.
    pub source: String,
    /// Its position in the prefix: tools, system message, messages.
    pub byte: usize,
    /// Tokens of the previous pass that can't be read because of it.
    pub lost_tokens: Tokens,
}

/// A forecast beside what the provider reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// What was expected.
    pub expected: Tokens,
    /// What the provider read from its cache.
    pub reported: Tokens,
    /// Whether the provider read clearly less than expected (by more than a tenth).
    pub broken: bool,
}

impl Forecast {
    /// Compares the forecast with the usage that the provider reported.
    pub fn reconcile(&self, reported: Tokens) -> Reconciliation {
        let expected = self.read_tokens;
        let broken = u64::from(reported.0) * 10 < u64::from(expected.0) * 9;
        Reconciliation { expected, reported, broken }
    }
}

/// A piece of the prefix, as it is compared.
pub(crate) struct PrefixPiece<'a> {
    source: Source,
    /// Where it begins: tools, system message and messages one after the other.
    start: usize,
    text: Cow<'a, str>,
    tokens: Tokens,
}

/// Lists what is sent in the order in which providers see it: tools, the pieces of the system message, messages.
///
/// A message counts as the same whether it is this turn's or the history's: what matters is who speaks and what is
/// said.
pub(crate) fn prefix_pieces<'a>(
    arranged: &'a Arranged,
    rendered: &'a Rendered,
    counter: &dyn TokenCounter,
) -> Vec<PrefixPiece<'a>> {
    let draft = &arranged.draft;
    let mut pieces = Vec::new();
    let mut start = 0;
    for segment in draft.segments.iter().filter(|it| it.slot == Slot::Tools && it.fate.is_sent()) {
        let Body::Tool(tool) = &segment.body else { continue };
        // Plain data with string keys: writing it as JSON can't fail.
        let text = serde_json::to_string(&**tool.tool()).unwrap_or_default();
        let (source, tokens, n_bytes) = (segment.source.clone(), segment.tokens, text.len());
        pieces.push(PrefixPiece { source, start, text: text.into(), tokens });
        start += n_bytes;
    }
    for piece in &arranged.pieces {
        let block = || Source::named("tags", "block");
        let source = piece.segment.map_or_else(block, |it| draft.segments[it].source.clone());
        let text = Cow::Borrowed(&arranged.system_text()[piece.bytes.clone()]);
        pieces.push(PrefixPiece {
            source,
            start: start + piece.bytes.start,
            text,
            tokens: piece.tokens(draft),
        });
    }
    start += arranged.system_text().len();
    let n_system = usize::from(arranged.system.is_some());
    for (message, source) in rendered.request.messages.iter().skip(n_system).zip(&rendered.origins) {
        let content = serde_json::to_string(&message.content).unwrap_or_default();
        let text = format!("{} {content}", message.role.as_str());
        let n_bytes = text.len();
        let tokens = message_tokens(counter, message);
        pieces.push(PrefixPiece { source: source.clone(), start, text: text.into(), tokens });
        start += n_bytes;
    }
    pieces
}

/// Foretells how much of `now` the provider has seen as `before`.
pub(crate) fn forecast(before: &[PrefixPiece<'_>], now: &[PrefixPiece<'_>], rules: CacheRules) -> Forecast {
    let n_same = before.iter().zip(now).take_while(|(a, b)| a.text == b.text).count();
    let read: Tokens = now[..n_same].iter().map(|it| it.tokens).sum();
    let changed = before.get(n_same).map(|lost| {
        let here = now.get(n_same);
        PrefixChange {
            source: here.map_or_else(|| lost.source.to_string(), |it| it.source.to_string()),
            byte: here.map_or(lost.start, |it| it.start + common_prefix(&lost.text, &it.text)),
            lost_tokens: before[n_same..].iter().map(|it| it.tokens).sum(),
        }
    });
    let read_tokens = if read >= rules.min_tokens { read } else { Tokens(0) };
    Forecast { read_tokens, changed }
}

pub(crate) fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
