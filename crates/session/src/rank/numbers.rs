//! Maps by numbers of texts, which need no hash that withstands an attacker: they are given by the store.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers.
pub(super) type NumberMap<T> = HashMap<u64, T, BuildHasherDefault<NumberHasher>>;

/// Spreads the bits of a number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|it| self.write_u64(u64::from(*it)));
    }

    fn write_u64(&mut self, number: u64) {
        // Maps use the highest and the lowest bits.
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
