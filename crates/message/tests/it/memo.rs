//! Remembered counts: equal, bounded, shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_message::tokens::{Encoding, Remembered, TokenCounter, Tokens};
use proptest::prelude::proptest;
use proptest::prop_assert_eq;

use crate::texts::mixed;

fn numbered(number: usize) -> String {
    format!("text number {number}, long enough to be remembered")
}

proptest! {
    #[test]
    fn counts_are_the_same_with_and_without(texts in proptest::collection::vec(mixed(12), 1..60), capacity in 0..200_usize) {
        let memo = Remembered::with_capacity(Arc::new(Encoding::O200kBase), capacity);
        for text in texts.iter().chain(&texts).chain(texts.iter().rev()) {
            prop_assert_eq!(memo.count(text), Encoding::O200kBase.count(text));
        }
    }
}

#[test]
fn a_text_is_counted_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let memo = Remembered::new(Arc::new(move |text: &str| {
        seen.fetch_add(1, Ordering::Relaxed);
        Tokens(text.len() as u32)
    }));
    for _ in 0..5 {
        assert_eq!(memo.count(&numbered(1)), Tokens(43));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let stats = memo.stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (4, 1, 1));
    assert_eq!(memo.profile().name, "custom");
}

#[test]
fn the_memo_is_bounded_and_keeps_what_is_in_use() {
    let memo = Remembered::with_capacity(Arc::new(Encoding::O200kBase), 640);
    for number in 0..10_000 {
        memo.count(&numbered(number));
        memo.count("a text that is asked for all the time");
        assert!(number % 500 != 0 || memo.stats().entries <= 640);
    }
    let stats = memo.stats();
    assert!(stats.entries > 300 && stats.entries <= 640, "{stats:?}");
    assert_eq!((stats.hits, stats.misses), (9_999, 10_001));
}

#[test]
fn threads_share_one_memo() {
    let memo = Remembered::with_capacity(Arc::new(Encoding::O200kBase), 256);
    let expected: Vec<Tokens> = (0..400).map(|it| Encoding::O200kBase.count(&numbered(it))).collect();
    std::thread::scope(|scope| {
        for start in 0..8 {
            let (memo, expected) = (&memo, &expected);
            scope.spawn(move || {
                for step in 0..2_000 {
                    let number = (start * 50 + step * 7) % 400;
                    assert_eq!(memo.count(&numbered(number)), expected[number]);
                }
            });
        }
    });
    let stats = memo.stats();
    assert_eq!(stats.hits + stats.misses, 16_000);
    assert!(stats.entries <= 256);
}
