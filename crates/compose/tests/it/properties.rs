//! What must hold for all inputs.

use std::time::Duration;

use contexture_compose::{
    Budget, Context, Contribution, Fate, Pass, Priority, Profile, Prompt, PromptBuilder, ResolveOptions,
    Slot, TagValue, Text, Turn, contributor,
};
use contexture_message::tokens::{counter_for, message_tokens, request_tokens};
use contexture_message::{Message, Tokens, ToolDefinition};
use contexture_testkit::{json, prose, resolve, resolve_input, text};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_assume, proptest};
use serde_json::{Value, json};

/// A context as a property test describes it.
#[derive(Clone, Debug)]
struct Piece {
    text: String,
    priority: u8,
    cached: bool,
    tagged: bool,
    wait: u8,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = (prose(), 0..=100u8, any::<bool>(), any::<bool>(), 0..4u8)
        .prop_map(|(text, priority, cached, tagged, wait)| Piece { text, priority, cached, tagged, wait });
    vec(piece, 0..12)
}

fn prompt_of(pieces: &[Piece]) -> PromptBuilder {
    pieces.iter().enumerate().fold(
        Prompt::builder("p").system("Own text of the prompt."),
        |prompt, (n, it)| {
            let context = match it.tagged {
                true => Context::new(format!("c{n}")).values(
                    json!({format!("tag-with-a-long-name-{}", n % 3): {"inner-tag-of-some-length": it.text}}),
                ),
                false => Context::text(format!("c{n}"), it.text.as_str()),
            };
            let context = context.priority(it.priority);
            prompt.include(if it.cached { context.cached() } else { context })
        },
    )
}

fn waiting_prompt(pieces: &[Piece], waits: bool) -> Prompt {
    let prompt = pieces.iter().enumerate().fold(Prompt::builder("p").system("Own."), |prompt, (n, it)| {
        let (text, wait) = (it.text.clone(), u64::from(it.wait) * 300);
        prompt.include(contributor(format!("c{n}"), move |_| {
            let text = text.clone();
            async move {
                if waits {
                    tokio::time::sleep(Duration::from_micros(wait)).await;
                }
                Ok(Contribution::text(text))
            }
        }))
    });
    prompt.build().expect("it builds")
}

fn system(pass: &Pass) -> &str {
    pass.request().messages.first().and_then(|it| it.as_text()).unwrap_or_default()
}

proptest! {
    #[test]
    fn the_limit_is_never_exceeded_with_an_exact_counter(pieces in pieces(), limit in 6..400u32, fill in any::<bool>()) {
        let budget = Budget { token_budget: Some(Tokens(limit)), fill, ..Budget::default() };
        let prompt = prompt_of(&pieces).budget(budget).build().expect("it builds");
        let pass = resolve(&prompt, ResolveOptions::default()).expect("own text fits");
        prop_assert!(counter_for(None).count(system(&pass)).0 <= limit);
    }

    #[test]
    fn the_whole_request_never_exceeds_its_limit(pieces in pieces(), limit in 60..500u32, turns in vec(prose(), 0..6)) {
        let history: Vec<Turn> = turns.iter().enumerate().map(|(n, it)| Turn::new(n.to_string(), vec![Message::user(it.as_str())])).collect();
        let prompt = prompt_of(&pieces).input_budget(limit).user("Now.").build().expect("it builds");
        let pass = match resolve(&prompt, ResolveOptions::default().history(history)) {
            Ok(pass) => pass,
            // The newest turn alone may be too big; nothing else may go wrong.
            Err(err) => {
                prop_assert_eq!(err.code(), "budget_exceeded");
                return Ok(());
            }
        };
        let counter = counter_for(None);
        let total: u32 = pass.request().messages.iter().map(|it| message_tokens(&*counter, it).0).sum();
        prop_assert!(total + counter.profile().framing.request <= limit);
    }

    #[test]
    fn no_priority_is_inverted(pieces in pieces(), limit in 6..400u32) {
        let prompt = prompt_of(&pieces).token_budget(limit).build().expect("it builds");
        let pass = resolve(&prompt, ResolveOptions::default()).expect("own text fits");
        let dropped = pass.segments().iter().filter(|it| matches!(it.fate, Fate::Dropped { .. })).map(|it| it.priority).max();
        let kept = pass.segments().iter().filter(|it| it.fate.is_sent() && !it.pinned).map(|it| it.priority).min();
        if let (Some(dropped), Some(kept)) = (dropped, kept) {
            prop_assert!(kept >= dropped);
        }
    }

    #[test]
    fn output_order_never_depends_on_priority(pieces in pieces(), priorities in vec(0..=100u8, 12)) {
        let reranked: Vec<Piece> = pieces.iter().zip(priorities).map(|(it, priority)| Piece { priority, ..it.clone() }).collect();
        let one = resolve(&prompt_of(&pieces).build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
        let two = resolve(&prompt_of(&reranked).build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
        prop_assert_eq!(system(&one), system(&two));
    }

    #[test]
    fn equal_inputs_give_equal_bytes_whoever_finishes_first(pieces in pieces()) {
        let (waiting, ready) = (waiting_prompt(&pieces, true), waiting_prompt(&pieces, false));
        let one = resolve(&waiting, ResolveOptions::default()).expect("it resolves");
        let two = resolve(&ready, ResolveOptions::default()).expect("it resolves");
        prop_assert_eq!(serde_json::to_vec(one.request()).expect("plain data"), serde_json::to_vec(two.request()).expect("plain data"));
        prop_assert_eq!(one.explain().parts, two.explain().parts);
    }

    #[test]
    fn changing_one_volatile_entry_leaves_all_bytes_before_it_alone(pieces in pieces(), at in 0..12usize, a in prose(), b in prose()) {
        let position = at.min(pieces.len());
        let with = |text: &str| {
            let mut prompt = Prompt::builder("p").system("Own.");
            let volatile = Context::text("volatile", Text::of(|it: &Value| it["v"].as_str().unwrap_or_default().to_owned()));
            for (n, it) in pieces.iter().enumerate() {
                if n == position {
                    prompt = prompt.include(volatile.clone());
                }
                let context = Context::text(format!("c{n}"), it.text.as_str());
                prompt = prompt.include(if it.cached { context.cached() } else { context });
            }
            if position == pieces.len() {
                prompt = prompt.include(volatile);
            }
            resolve_input(&prompt.build().expect("it builds"), json!({"v": text})).expect("it resolves")
        };
        let (one, two) = (with(&a), with(&b));
        let cached = pieces.iter().filter(|it| it.cached);
        let before = pieces[..position].iter().filter(|it| !it.cached);
        let expected: Vec<&str> = std::iter::once("Own.")
            .chain(cached.chain(before).map(|it| it.text.as_str()).filter(|it| !it.trim().is_empty()))
            .collect();
        let expected = expected.join("\n\n");
        prop_assert!(system(&one).starts_with(&expected) && system(&two).starts_with(&expected));
    }

    #[test]
    fn parts_and_separators_add_up_to_the_counted_whole(pieces in pieces()) {
        let pass = resolve(&prompt_of(&pieces).build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
        let explanation = pass.explain();
        let counted = counter_for(None).count(system(&pass)).0;
        let joints = u32::try_from(system(&pass).matches('\n').count()).expect("small") + 1;
        prop_assert!(explanation.budget.used.0.abs_diff(counted) <= joints, "{} {}", explanation.budget.used, counted);
    }

    #[test]
    fn the_total_is_what_the_request_costs(pieces in pieces(), user in prose(), turns in vec(prose(), 0..4)) {
        let history: Vec<Turn> = turns.iter().enumerate().map(|(n, it)| Turn::new(n.to_string(), vec![Message::user(it.as_str())])).collect();
        let prompt = prompt_of(&pieces).user(user.as_str()).tool(ToolDefinition::new("find", "Finds things.")).build().expect("it builds");
        let pass = resolve(&prompt, ResolveOptions::default().history(history)).expect("it resolves");
        let counted = request_tokens(&*counter_for(None), pass.request()).0;
        let joints = u32::try_from(system(&pass).matches('\n').count()).expect("small") + 1;
        let total = pass.explain().total_tokens.0;
        prop_assert!(total.abs_diff(counted) <= joints, "{total} {counted}");
    }

    #[test]
    fn no_value_key_or_text_makes_it_panic(own in text(), values in vec(json(), 0..4), input in json(), template in text()) {
        let mut prompt = Prompt::builder("p").system(own.as_str()).user(own.as_str());
        for (n, value) in values.into_iter().enumerate() {
            let context = Context::new(format!("v{n}")).values(value.clone());
            prompt = prompt.context(TagValue::from(value)).include(context);
        }
        if let Ok(template) = Text::template(&template) {
            prompt = prompt.include(Context::text("t", template));
        }
        if let Ok(prompt) = prompt.build() {
            let _ = resolve_input(&prompt, input).map(|it| it.explain());
        }
    }

    #[test]
    fn no_text_forges_the_engines_tags(a in text(), b in text()) {
        let prompt = Prompt::builder("p").system(a.as_str()).include(Context::text("b", b.as_str())).context(json!({"d": a})).user(b.as_str());
        let pass = resolve(&prompt.build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
        for message in &pass.request().messages {
            let text = message.as_text().expect("a text").to_ascii_lowercase();
            for name in ["<system-context", "</system-context", "<system-reminders", "</system-reminders", "<system-event"] {
                prop_assert!(!text.contains(name), "{text}");
            }
        }
    }

    #[test]
    fn a_ranked_piece_keeps_its_rank(priority in 0.0..100.0f64) {
        prop_assume!(priority.is_finite());
        let priority = Priority::new(priority).expect("in range");
        let ranked = contributor("hits", move |_| async move { Ok(Contribution::default().and_ranked("hit", priority)) });
        let prompt = Prompt::builder("p").include(ranked.profile(Profile::default())).build().expect("it builds");
        let pass = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
        let segment = pass.segments().iter().find(|it| it.slot == Slot::System).expect("a segment");
        prop_assert_eq!(segment.priority, priority);
    }
}
