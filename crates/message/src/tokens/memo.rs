//! Counts that are remembered.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use super::{CounterProfile, TokenCounter, Tokens};

/// A counter that counts a text once and remembers the number by the text's content.
///
/// What is kept is a 128-bit hash and a length, not the text, and at most as many as the capacity says;
/// the counts are the same whatever was forgotten. Share one among threads: it has many small locks, and none is held
/// while a text is hashed or counted.
///
/// ```
/// use contexture_message::tokens::{Remembered, TokenCounter, counter_for};
///
/// let counter = Remembered::new(counter_for(Some("gpt-4o")));
/// let text = "The same policy in every request.";
/// assert_eq!(counter.count(text), counter.count(text));
/// assert_eq!((counter.stats().hits, counter.stats().misses), (1, 1));
/// ```
pub struct Remembered {
    counter: Arc<dyn TokenCounter>,
    /// Of each generation in each shard.
    generation: usize,
    shards: Vec<Mutex<Shard>>,
}

/// How often a [`Remembered`] counter knew a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoStats {
    /// Texts whose count was known.
    pub hits: u64,
    /// Texts that had to be counted.
    pub misses: u64,
    /// Counts that are remembered now.
    pub entries: usize,
}

/// Two generations: what is asked for moves to the young one; when that is full, the old one is forgotten
/// and the young one grows old. So what is in use stays, without a list to keep in order.
#[derive(Default)]
struct Shard {
    young: Counts,
    old: Counts,
    hits: u64,
    misses: u64,
}

type Counts = HashMap<Key, u32, BuildHasherDefault<Taken>>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    hash: u128,
    len: usize,
}

/// A hasher for keys that are hashes: it takes some of their bits.
#[derive(Default)]
struct Taken(u64);

/// Enough for the texts of some thousand conversations in about 6 MB.
const CAPACITY: usize = 1 << 16;
const SHARDS: usize = 16;
/// Counting a text as short as this is as quick as remembering it.
const SHORT: usize = 16;

impl Remembered {
    /// Returns a counter that remembers up to 65,536 texts.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self::with_capacity(counter, CAPACITY)
    }

    /// Returns a counter that remembers up to `texts` texts. Below 32 it remembers nothing.
    pub fn with_capacity(counter: Arc<dyn TokenCounter>, texts: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { counter, generation: texts / SHARDS / 2, shards }
    }

    /// Returns how often a text was known.
    pub fn stats(&self) -> MemoStats {
        self.shards.iter().fold(MemoStats::default(), |sum, it| {
            let shard = locked(it);
            MemoStats {
                hits: sum.hits + shard.hits,
                misses: sum.misses + shard.misses,
                entries: sum.entries + shard.young.len() + shard.old.len(),
            }
        })
    }
}

impl TokenCounter for Remembered {
    fn count(&self, text: &str) -> Tokens {
        if text.len() <= SHORT {
            return self.counter.count(text);
        }
        let key = Key { hash: xxh3_128(text.as_bytes()), len: text.len() };
        // The shard takes the highest bits, the map inside it the lowest ones.
        let shard = &self.shards[(key.hash >> 124) as usize % SHARDS];
        if let Some(count) = locked(shard).get(key, self.generation) {
            return Tokens(count);
        }
        // The lock is free meanwhile: two threads may count the same text, and get the same number.
        let count = self.counter.count(text);
        locked(shard).insert(key, count.0, self.generation);
        count
    }

    fn profile(&self) -> CounterProfile {
        self.counter.profile()
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("counter", &self.counter.profile().name)
            .field("stats", &self.stats())
            .finish()
    }
}

impl Shard {
    fn get(&mut self, key: Key, generation: usize) -> Option<u32> {
        if let Some(&count) = self.young.get(&key) {
            self.hits += 1;
            return Some(count);
        }
        let count = self.old.remove(&key);
        match count {
            Some(count) => {
                self.hits += 1;
                self.insert(key, count, generation);
            }
            None => self.misses += 1,
        }
        count
    }

    fn insert(&mut self, key: Key, count: u32, generation: usize) {
        if generation == 0 {
            return;
        }
        if self.young.len() >= generation && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, count);
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Half of the hash is plenty to find the place; equality looks at all of it.
        state.write_u64(self.hash as u64);
    }
}

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A lock that a panicking thread left behind is as good as any: no change of a shard is ever half done.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
