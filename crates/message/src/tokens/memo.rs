//! A cache of token counts.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use super::{CounterProfile, TokenCounter, Tokens};

/// A counter that counts each text once and caches the number by the text's content.
///
/// It stores a 128-bit hash and a length, not the text, and at most as many entries as the capacity allows; evictions
/// never change a count. Share one among threads: it has many small locks, and none is held while a text is hashed or
/// counted.
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
    /// The capacity of each generation in each shard.
    generation: usize,
    shards: Vec<Mutex<Shard>>,
}

/// Cache statistics of a [`Remembered`] counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoStats {
    /// Texts whose count was cached.
    pub hits: u64,
    /// Texts that had to be counted.
    pub misses: u64,
    /// The number of cached counts.
    pub entries: usize,
}

/// Two generations: entries that are used move to the young one; when that is full, the old one is dropped
/// and the young one becomes old. This keeps entries in use without maintaining an ordered list.
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

/// A hasher for keys that are already hashes: it uses some of their bits.
#[derive(Default)]
struct Taken(u64);

/// Enough for the texts of a few thousand conversations in about 6 MB.
const CAPACITY: usize = 1 << 16;
const SHARDS: usize = 16;
/// Counting a text this short is as fast as looking it up.
const SHORT: usize = 16;

impl Remembered {
    /// Returns a counter that caches up to 65,536 texts.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self::with_capacity(counter, CAPACITY)
    }

    /// Returns a counter that caches up to `texts` texts. Below 32 it caches nothing.
    pub fn with_capacity(counter: Arc<dyn TokenCounter>, texts: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { counter, generation: texts / SHARDS / 2, shards }
    }

    /// Returns the cache statistics.
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
        // The shard uses the highest bits, the map inside it the lowest ones.
        let shard = &self.shards[(key.hash >> 124) as usize % SHARDS];
        if let Some(count) = locked(shard).get(key, self.generation) {
            return Tokens(count);
        }
        // The lock is not held here: two threads may count the same text, and get the same number.
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
        // Half of the hash is enough to find the bucket; equality compares all of it.
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

/// Locks a shard, ignoring poisoning: no change of a shard is ever left half done.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
