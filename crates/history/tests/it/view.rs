//! The views of a log besides the history.

use contexture_history::{Item, Limit, Visibility, all, client};
use contexture_message::Tokens;

use crate::log::item;

/// Items 1 to 4; the second is hidden from the client. Each costs 10 tokens.
fn items() -> Vec<Item> {
    let visible = |seq: u64| if seq == 2 { Visibility::HISTORY } else { Visibility::BOTH };
    (1..=4).map(|seq| Item { visibility: visible(seq), ..item(seq, 1, "user hi") }).collect()
}

fn seqs(items: &[&Item]) -> String {
    items.iter().map(|it| it.seq.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_number_counts_items() {
    let items = items();
    assert_eq!(seqs(&client(&items, None)), "1 3 4");
    assert_eq!(seqs(&client(&items, Some(Limit::Turns(2)))), "3 4");
    assert_eq!(seqs(&all(&items, Some(Limit::Turns(3)))), "2 3 4");
    assert_eq!(seqs(&all(&items, Some(Limit::Turns(0)))), "");
}

#[test]
fn tokens_pack_items_and_always_keep_the_newest() {
    let items = items();
    let tokens = |count: u32| Some(Limit::Tokens(Tokens(count)));
    assert_eq!(seqs(&all(&items, tokens(25))), "3 4");
    assert_eq!(seqs(&client(&items, tokens(30))), "1 3 4");
    assert_eq!(seqs(&client(&items, tokens(1))), "4");
    assert_eq!(seqs(&client(&[], tokens(1))), "");
}
