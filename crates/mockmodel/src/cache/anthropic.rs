//! Anthropic's rules, as its guide "Prompt caching" gives them.
//!
//! 1. The prompt is laid out as tools, system, messages. A changed block changes every prefix behind it.
//! 2. `cache_control` marks the end of a prefix. There are at most four marks; more is an error, and so is a mark of an hour
//!    behind one of minutes.
//! 3. An entry is written at a mark and nowhere else, and only if its prefix has the model's minimum of tokens. Too short a
//!    prefix is no error.
//! 4. A read looks for entries that were written before: at most 20 places for each mark, the mark itself being the first,
//!    block by block backwards.
//! 5. An entry lives for five minutes (or an hour, if its mark says so) after the request that wrote or last used it. Using
//!    it costs nothing extra.
//! 6. `tool_choice` and thinking parameters belong to the messages: see `pieces.rs`.
//!
//! Some texts say that calls side by side count as one place of the 20. Here each counts for itself: the stricter reading.

use std::time::Duration;

use serde_json::Value;

use super::pieces::{Mark, Piece, of_anthropic};
use super::{CacheRefused, CacheUsage, PromptCache};

/// The numbers of Anthropic's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnthropicRules {
    /// Shorter prefixes are not written: 1,024 for most models, 2,048 or 4,096 for some.
    pub min_tokens: u64,
    /// How many marks a request may have.
    pub max_marks: usize,
    /// How many places are looked at for each mark.
    pub lookback: usize,
    /// The lifetime of an unused entry.
    pub lifetime: Duration,
    /// The same for marks with `ttl: "1h"`.
    pub long_lifetime: Duration,
}

impl Default for AnthropicRules {
    fn default() -> Self {
        Self {
            min_tokens: 1024,
            max_marks: 4,
            lookback: 20,
            lifetime: Duration::from_secs(300),
            long_lifetime: Duration::from_secs(3600),
        }
    }
}

pub(super) fn request(
    cache: &mut PromptCache,
    rules: &AnthropicRules,
    body: &Value,
    now: Duration,
) -> Result<CacheUsage, CacheRefused> {
    let pieces = of_anthropic(body);
    let marks = marks(rules, &pieces)?;
    let root = cache.root(body);
    let numbers: Vec<usize> = pieces.iter().map(|it| cache.known.number(it)).collect();
    let path = cache.prefixes.path(root, &numbers);
    // What the prompt costs up to and with each piece.
    let costs: Vec<u64> = numbers
        .iter()
        .scan(0, |sum, it| {
            *sum += cache.known.tokens(*it);
            Some(*sum)
        })
        .collect();

    let hit = marks.iter().rev().find_map(|(end, _)| {
        let places = (0..=*end).rev().take(rules.lookback);
        places.into_iter().find(|it| cache.prefixes.is_alive(path[*it], now))
    });
    if let Some(hit) = hit {
        // The shorter prefixes are part of what is used.
        path[..=hit].iter().for_each(|it| cache.prefixes.refresh(*it, now));
    }
    let long_enough = marks.iter().filter(|(end, _)| costs[*end] >= rules.min_tokens);
    let mut written = 0;
    for (end, mark) in long_enough {
        let lifetime = match mark {
            Mark::Short => rules.lifetime,
            Mark::Hour => rules.long_lifetime,
        };
        cache.prefixes.write(path[*end], now, lifetime);
        written = costs[*end];
    }

    let total = costs.last().copied().unwrap_or(0);
    let read = hit.map_or(0, |it| costs[it]);
    let write = written.saturating_sub(read);
    Ok(CacheUsage { input_tokens: total - read - write, cache_read_tokens: read, cache_write_tokens: write })
}

/// Returns the positions of the marked pieces.
fn marks(rules: &AnthropicRules, pieces: &[Piece]) -> Result<Vec<(usize, Mark)>, CacheRefused> {
    let marks: Vec<(usize, Mark)> =
        pieces.iter().enumerate().filter_map(|(at, it)| Some((at, it.mark?))).collect();
    if marks.len() > rules.max_marks {
        return Err(CacheRefused::TooManyMarks { marks: marks.len(), limit: rules.max_marks });
    }
    let is_behind = |pair: &[(usize, Mark)]| matches!(pair, [(_, Mark::Short), (_, Mark::Hour)]);
    match marks.windows(2).any(is_behind) {
        true => Err(CacheRefused::LongBehindShort),
        false => Ok(marks),
    }
}
