//! Edits of earlier bytes against the cache that they break.

use std::time::Duration;

use contexture_compose::{
    CacheRules, Edit, EditDecision, Price, Prompt, Prospect, ResolveOptions, forced, weigh,
};
use contexture_message::Tokens;
use contexture_testkit::resolve;
use proptest::prelude::{any, prop_assert, proptest};

const WARM: CacheRules = CacheRules { max_breakpoints: 4, min_tokens: Tokens(1024), lifetime_s: 300 };

fn edit(saves: u32, behind: u32) -> Edit {
    Edit { name: "previews".into(), saves: Tokens(saves), behind: Tokens(behind) }
}

/// Weighs an edit and shows the decision. The only caller of the API in most tests here.
fn weighed(saves: u32, behind: u32, prospect: Prospect) -> String {
    let EditDecision { chosen, saves_tokens, breaks_tokens, gain, loss, reason, .. } =
        weigh(&edit(saves, behind), &prospect);
    let chosen = if chosen { "yes" } else { "no" };
    format!(
        "{chosen}: -{saves_tokens} in each, {breaks_tokens} again, gains {gain:.4}, loses {loss:.4}; {reason}"
    )
}

fn calls(calls: u32) -> Prospect {
    Prospect { rules: WARM, calls, ..Prospect::default() }
}

fn priced(calls: u32) -> Prospect {
    let price =
        Price { input: Some(3.0), cache_read: Some(0.3), cache_write: Some(3.75), ..Price::default() };
    Prospect { price: Some(price), rules: WARM, calls, ..Prospect::default() }
}

#[test]
fn an_edit_pays_off_after_enough_calls() {
    insta::assert_snapshot!(weighed(10_000, 20_000, calls(9)), @"no: -10000 in each, 10000 again, gains 9000.0000, loses 9000.0000; 10000 fewer tokens in each of 9 calls are not worth reading 10000 tokens again (prices not known: cached reads taken as a tenth, writes as full reads)");
    insta::assert_snapshot!(weighed(10_000, 20_000, calls(10)), @"yes: -10000 in each, 10000 again, gains 10000.0000, loses 9000.0000; 10000 fewer tokens in each of 10 calls are worth more than reading 10000 tokens again (prices not known: cached reads taken as a tenth, writes as full reads)");
}

#[test]
fn prices_decide_where_they_are_known() {
    insta::assert_snapshot!(weighed(10_000, 20_000, priced(11)), @"no: -10000 in each, 10000 again, gains 0.0330, loses 0.0345; 10000 fewer tokens in each of 11 calls are not worth reading 10000 tokens again");
    insta::assert_snapshot!(weighed(10_000, 20_000, priced(12)), @"yes: -10000 in each, 10000 again, gains 0.0360, loses 0.0345; 10000 fewer tokens in each of 12 calls are worth more than reading 10000 tokens again");
}

#[test]
fn a_cold_cache_can_not_be_broken() {
    let idle = Prospect { idle: Some(Duration::from_secs(301)), ..calls(2) };
    insta::assert_snapshot!(weighed(10, 20_000, idle.clone()), @"yes: -10 in each, 0 again, gains 11.0000, loses 0.0000; the cache has expired, the edit costs nothing (prices not known: cached reads taken as a tenth, writes as full reads)");
    insta::assert_snapshot!(weighed(0, 20_000, idle), @"no: -0 in each, 0 again, gains 0.0000, loses 0.0000; the cache has expired, but the edit saves nothing (prices not known: cached reads taken as a tenth, writes as full reads)");
    insta::assert_snapshot!(weighed(10, 20_000, Prospect { calls: 2, ..Prospect::default() }), @"yes: -10 in each, 0 again, gains 20.0000, loses 0.0000; nothing is cached, the edit costs nothing (prices not known: cached reads taken as a tenth, writes as full reads)");
}

#[test]
fn decisions_are_explained() {
    let edits = vec![weigh(&edit(10, 20), &calls(1)), forced(&edit(10, 20), "the window is full")];
    let mut options = ResolveOptions::default();
    options.cache.edits = edits.clone();
    let prompt = Prompt::builder("p").build().expect("it builds");
    let explanation = resolve(&prompt, options).expect("it resolves").explain();
    assert_eq!(explanation.cache.edits, edits);
    let json = serde_json::to_value(&explanation).expect("plain data");
    assert_eq!(json["cache"]["edits"][1]["reason"], "the window is full");
}

proptest! {
    #[test]
    fn more_calls_never_speak_against_an_edit(saves in 0..50_000u32, behind in 0..200_000u32, n in 0..100u32, known in any::<bool>()) {
        let prospect = |n| if known { priced(n) } else { calls(n) };
        let (few, many) = (weigh(&edit(saves, behind), &prospect(n)), weigh(&edit(saves, behind), &prospect(n + 1)));
        prop_assert!(!few.chosen || many.chosen);
        prop_assert!(few.gain >= 0.0 && few.loss >= 0.0 && few.loss == many.loss);
        prop_assert!(!few.chosen || few.gain > few.loss);
    }
}
