//! OpenAI's rules, as its guide "Prompt caching" gives them for models before GPT-5.6.
//!
//! 1. Caching is automatic: nothing is marked, and writing costs nothing extra.
//! 2. A hit needs an exact, repeated prefix of at least 1,024 tokens.
//! 3. Hits grow in steps of 128 tokens.
//! 4. Messages, tools, images and the schema of structured output are all part of the prefix.
//! 5. A prefix stays for 5 to 10 minutes after it was last used.

use std::time::Duration;

use serde_json::Value;

use super::pieces::of_openai;
use super::{CacheUsage, PromptCache};

/// The numbers of OpenAI's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenaiRules {
    /// Shorter prefixes are not cached.
    pub min_tokens: u64,
    /// Hits are a multiple of this.
    pub step_tokens: u64,
    /// The lifetime of an unused prefix: 5 to 10 minutes are documented; the shorter one is safe to assume.
    pub lifetime: Duration,
}

impl Default for OpenaiRules {
    fn default() -> Self {
        Self { min_tokens: 1024, step_tokens: 128, lifetime: Duration::from_secs(300) }
    }
}

pub(super) fn request(
    cache: &mut PromptCache,
    rules: &OpenaiRules,
    body: &Value,
    now: Duration,
) -> CacheUsage {
    let root = cache.root(body);
    let pieces: Vec<usize> = of_openai(body).iter().map(|it| cache.known.number(it)).collect();
    let path = cache.prefixes.path(root, &pieces);
    let total: u64 = pieces.iter().map(|it| cache.known.tokens(*it)).sum();

    let n_same = path.iter().take_while(|it| cache.prefixes.is_alive(**it, now)).count();
    let same: u64 = pieces[..n_same].iter().map(|it| cache.known.tokens(*it)).sum();
    // The first piece that differs may begin as one that was seen: prefixes end at tokens, not at messages.
    let begun = pieces.get(n_same).map_or(0, |piece| {
        let last = n_same.checked_sub(1).map_or(root, |it| path[it]);
        cache.known.common_tokens(*piece, cache.prefixes.live_pieces(last, now))
    });
    for prefix in path {
        cache.prefixes.write(prefix, now, rules.lifetime);
    }

    let step = rules.step_tokens.max(1);
    let hit = (same + begun).min(total) / step * step;
    let read = if hit >= rules.min_tokens { hit } else { 0 };
    CacheUsage { input_tokens: total - read, cache_read_tokens: read, cache_write_tokens: 0 }
}
