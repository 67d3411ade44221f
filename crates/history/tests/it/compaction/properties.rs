//! What holds for all conversations and all limits.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use contexture_history::compaction::{
    ExtractLimits, FactLimits, Flaw, Frontier, Layout, Plan, PlanLimits, ResultLimits, Strategy as Way,
    SummaryVerdict, Trigger, Unextractable, VerdictRules, extract, facts, judge, preview_turns, rounds,
    shorten, shorten_turns,
};
use contexture_history::{
    Body, Cost, Fact, FactKind, Item, Seq, Timestamp, Turn, TurnNo, Visibility, item_cost,
};
use contexture_message::{
    Encoding, Image, MediaSource, Message, Part, Role, TokenCounter, Tokens, ToolCall, ToolOutput,
    ToolResult, message_tokens,
};
use proptest::prelude::*;
use serde_json::json;

use super::plan::items;
use crate::properties::n_unpaired;

/// Messages of one turn in the notation of items, with calls that are answered in place, late or never.
fn log() -> impl Strategy<Value = (Vec<Item>, Option<TurnNo>)> {
    let answered = "abc".chars().map(|it| format!("assistant +{it}\ntool ={it}")).collect::<Vec<_>>();
    let what = prop_oneof![
        4 => Just("user ask".to_owned()),
        4 => Just("assistant say".to_owned()),
        6 => prop::sample::select(answered),
        2 => "assistant \\+[abc] \\+[abc]".prop_map(|it| it),
        2 => "tool =[abc]".prop_map(|it| it),
        1 => "user =[abc] and".prop_map(|it| it),
        1 => prop::sample::select(vec!["envelope", "event", "note"]).prop_map(str::to_owned),
        1 => Just("suspended".to_owned()),
    ];
    let turn = prop::collection::vec((what, 1_u32..400), 0..7);
    let turns = prop::collection::vec(turn, 0..7);
    let summary = prop::option::of(1_u32..300);
    (turns, any::<bool>(), summary).prop_map(|(turns, is_in_flight, summary)| {
        let n_turns = turns.len();
        let mut text = String::new();
        if let Some(tokens) = summary {
            text.push_str(&format!("t90 {tokens} summary 1-9\n"));
        }
        for (idx, turn) in turns.iter().enumerate() {
            let mark = if is_in_flight && idx + 1 == n_turns { "…" } else { "" };
            for line in turn.iter().flat_map(|(what, tokens)| what.lines().map(move |it| (it, tokens))) {
                text.push_str(&format!("t{}{mark} {} {}\n", idx + 1, line.1, line.0));
            }
        }
        items(&text)
    })
}

fn limits() -> impl Strategy<Value = PlanLimits> {
    (0_u32..2000, 0_usize..8, 0_usize..4, 0_usize..4, 0_u32..300).prop_map(
        |(trigger, min_messages, batch, preserve, min_range)| PlanLimits {
            trigger_tokens: Tokens(trigger),
            min_messages,
            micro_batch_groups: batch,
            preserve_recent_api_rounds: preserve,
            min_range_tokens: Tokens(min_range),
            ..PlanLimits::for_window(Tokens(1000))
        },
    )
}

/// Pairs calls and results by position, by the rule of repair.
fn links(items: &[Item]) -> Vec<(usize, usize)> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut links = Vec::new();
    for (position, item) in items.iter().enumerate() {
        for part in item.body.as_message().iter().flat_map(|it| &it.content) {
            match part {
                Part::ToolCall(call) => open.entry(&call.id).or_default().push(position),
                Part::ToolResult(result) => {
                    let call = open.get_mut(result.call_id.as_str()).and_then(Vec::pop);
                    links.extend(call.map(|it| (it, position)));
                }
                _ => {}
            }
        }
    }
    links
}

fn words(item: &Item) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    match item.body.as_message() {
        Some(message) => !message.is_blank() && !message.content.iter().all(is_result),
        None => matches!(item.body.kind(), "envelope" | "system_event"),
    }
}

fn is_answer(item: &Item) -> bool {
    item.body.as_message().is_some_and(|it| it.role == Role::Assistant)
}

/// Returns the position of the current prompt.
fn prompt(items: &[Item], in_flight: Option<TurnNo>) -> Option<usize> {
    let is_prompt = |it: &Item| Some(it.turn) == in_flight && it.body.kind() == "user" && words(it);
    items.iter().rposition(is_prompt)
}

fn check(
    plan: &Plan,
    items: &[Item],
    in_flight: Option<TurnNo>,
    limits: &PlanLimits,
) -> Result<(), TestCaseError> {
    let Range { start, end } = plan.span;
    prop_assert!(start < end && end <= items.len());
    prop_assert_eq!((plan.n_items, plan.before >= limits.min_range_tokens), (end - start, true));
    let tokens: Tokens =
        items[start..end].iter().filter(|it| it.visibility.history).map(|it| it.cost.tokens).sum();
    prop_assert_eq!(tokens, plan.before);
    for (call, result) in links(items) {
        prop_assert_eq!(plan.span.contains(&call), plan.span.contains(&result), "a call lost its result");
    }
    if let Some(prompt) = prompt(items, in_flight) {
        prop_assert!(!plan.span.contains(&prompt), "the prompt is in the range");
    }
    let messages = |items: &[Item]| -> Vec<Arc<Message>> {
        items.iter().filter_map(|it| it.body.as_message().cloned()).collect()
    };
    let unpaired =
        |messages: &[Arc<Message>]| n_unpaired(&messages.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    if unpaired(&messages(items)) == 0 {
        prop_assert_eq!(unpaired(&messages(&items[start..end])), 0);
        let rest = [messages(&items[..start]), messages(&items[end..])].concat();
        prop_assert_eq!(unpaired(&rest), 0);
    }
    match plan.strategy {
        Way::SessionCompaction => {
            prop_assert_eq!(start, 0);
            prop_assert!(end == items.len() || items[end].turn != items[end - 1].turn, "a turn is split");
            prop_assert!(items[..end].iter().all(|it| Some(it.turn) != in_flight));
            let newest = items.iter().rfind(|it| Some(it.turn) != in_flight && words(it));
            prop_assert!(newest.is_none_or(|newest| items[..end].iter().all(|it| it.turn != newest.turn)));
        }
        Way::ReactiveMicro | Way::ReactiveFull => {
            let n_after = items[end..].iter().filter(|it| is_answer(it)).count();
            let n_answers = items.iter().filter(|it| is_answer(it)).count();
            prop_assert!(n_after >= limits.preserve_recent_api_rounds.min(n_answers));
        }
    }
    Ok(())
}

/// A result with so many words, or with images.
fn result(id: usize, n_words: usize, kind: u8) -> Message {
    let text = "some <words> of a log, and\nmore ".repeat(n_words);
    let image = || Part::Image(Image { source: MediaSource::Url("u".to_owned()), media_type: None });
    let output = match kind {
        0 => ToolOutput::Text(text),
        1 => ToolOutput::Json(json!({ "text": text })),
        2 => ToolOutput::ErrorText(text),
        3 => ToolOutput::ExecutionDenied { reason: Some(text) },
        _ => ToolOutput::Content(vec![image(), Part::text(text), image()]),
    };
    let result = ToolResult { call_id: format!("c{id}"), name: "find".to_owned(), output };
    Message::parts(Role::Tool, vec![Part::ToolResult(result)])
}

fn results() -> impl Strategy<Value = Vec<Arc<Message>>> {
    prop::collection::vec((0_usize..80, 0_u8..6, any::<bool>()), 0..6).prop_map(|it| {
        let message = |(id, (n_words, kind, is_text)): (usize, (usize, u8, bool))| match is_text {
            true => Message::user("go on"),
            false => result(id, n_words, kind),
        };
        it.into_iter().enumerate().map(message).map(Arc::new).collect()
    })
}

/// A turn of a log, whose items were counted when they were appended.
fn counted_turn(messages: &[Arc<Message>]) -> Turn {
    let mut turn = Turn::start(TurnNo(1));
    for message in messages {
        let body = Body::Message(Arc::clone(message));
        let tokens = item_cost(&Encoding::O200kBase, &body, Visibility::BOTH);
        turn.apply(&Item {
            seq: Seq(1),
            turn: TurnNo(1),
            visibility: Visibility::BOTH,
            cost: Cost { counter: "o200k_base".into(), tokens },
            author: None,
            at: Timestamp(0),
            body,
        });
    }
    turn
}

fn result_limits() -> impl Strategy<Value = ResultLimits> {
    (0_u32..300, 0_u32..600, 0_u32..200).prop_map(|(old, recent, preview)| ResultLimits {
        max_tokens_per_tool_result: Tokens(old),
        keep_recent_tool_results: 2,
        max_tokens_per_recent_tool_result: Tokens(recent),
        preview_tokens: Tokens(preview),
        caps: Arc::default(),
    })
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => "[a-zà-ü]{1,9}",
        1 => prop::sample::select(vec![
            "always", "niemals", "src/main.rs", "ORDER-7", "\"Big Plan\"", "https://a.example/x", "`x y`", "sorry",
            "Σ", "İ", "<system-event>", "&lt;", "'", "“", "```\n", "\n- ", ". ", "?", "{text}", "Names to keep:\n", "🦀",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(word, 0..30).prop_map(|it| it.join(" "))
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let message = (text(), 0_u8..5, 0_usize..4).prop_map(|(text, kind, id)| match kind {
        0 | 1 => Message::user(text),
        2 => Message::assistant(text),
        3 => {
            let call =
                ToolCall { id: format!("c{id}"), name: "find".into(), arguments: json!({ "q": text }) };
            Message::parts(Role::Assistant, vec![Part::ToolCall(call)])
        }
        _ => result(id, 3, 0),
    });
    let turn = prop::collection::vec(message, 0..6);
    prop::collection::vec(turn, 0..6).prop_map(|it| {
        it.into_iter().enumerate().map(|(idx, messages)| Turn::new(format!("t{idx}"), messages)).collect()
    })
}

fn cost(turns: &[Turn]) -> Tokens {
    turns.iter().flat_map(Turn::messages).map(|it| message_tokens(&Encoding::O200kBase, it)).sum()
}

proptest! {
    #[test]
    fn rounds_cover_everything_once((items, _) in log()) {
        let messages: Vec<Arc<Message>> = items.iter().filter_map(|it| it.body.as_message().cloned()).collect();
        let rounds = rounds(&messages);
        let ends: Vec<usize> = rounds.iter().map(|it| it.span.end).collect();
        let starts: Vec<usize> = rounds.iter().map(|it| it.span.start).chain([messages.len()]).collect();
        prop_assert_eq!(starts[0], 0);
        prop_assert_eq!(&starts[1..], &ends);
        prop_assert!(rounds.iter().rev().skip(1).all(|it| it.is_answered));
    }

    #[test]
    fn plans_take_whole_rounds_and_leave_the_prompt((items, in_flight) in log(), limits in limits()) {
        let layout = Layout::new(&items, in_flight, &Encoding::O200kBase);
        let plans = [
            layout.at_boundary(&limits),
            layout.micro(Trigger::Asked, &limits),
            layout.full(Trigger::PromptTooLong, &limits),
        ];
        for plan in plans.iter().flatten() {
            check(plan, &items, in_flight, &limits)?;
        }
        let again = Layout::new(&items, in_flight, &Encoding::O200kBase);
        prop_assert_eq!(again.full(Trigger::PromptTooLong, &limits), plans[2].clone());
    }

    #[test]
    fn shortening_twice_is_shortening_once(
        messages in results(), frontier in 0_usize..7, limits in result_limits(),
    ) {
        let once = shorten(&messages, Frontier(frontier), &limits, &Encoding::O200kBase);
        let twice = shorten(&once.messages, Frontier(frontier), &limits, &Encoding::O200kBase);
        prop_assert_eq!(&twice.messages, &once.messages);
        prop_assert!(twice.changed.is_empty());
        for (new, old) in once.messages.iter().zip(&messages) {
            let tokens = |it: &Message| message_tokens(&Encoding::O200kBase, it);
            prop_assert!(Arc::ptr_eq(new, old) || tokens(new) < tokens(old));
        }
    }

    #[test]
    fn what_is_appended_changes_no_earlier_byte(
        messages in results(), more in results(), frontier in 0_usize..7, limits in result_limits(),
    ) {
        let frontier = Frontier(frontier.min(Frontier::newest(&messages, &limits).0));
        let before = shorten(&messages, frontier, &limits, &Encoding::O200kBase);
        let longer = [messages.clone(), more].concat();
        let after = shorten(&longer, frontier, &limits, &Encoding::O200kBase);
        prop_assert_eq!(&after.messages[..messages.len()], &before.messages[..]);
    }

    #[test]
    fn an_extract_is_accepted_or_impossible(turns in turns(), max_tokens in 0_u32..400, factor in 1_u32..4) {
        let before = Tokens(cost(&turns).0 * factor);
        let facts = facts(&turns, &[], &FactLimits::new(Tokens(4000), before), &Encoding::O200kBase);
        let limits = ExtractLimits { max_tokens: Tokens(max_tokens), ..ExtractLimits::default() };
        let made = extract(&turns, &facts, before, &limits, &Encoding::O200kBase);
        prop_assert_eq!(&made, &extract(&turns, &facts, before, &limits, &Encoding::O200kBase));
        match made {
            Ok(text) => {
                match judge(&text, &facts, before, &limits.rules, &Encoding::O200kBase) {
                    SummaryVerdict::Accepted { text: accepted, .. } => {
                        let read = message_tokens(&Encoding::O200kBase, &Message::user(text.as_str()));
                        prop_assert!(read <= limits.max_tokens + Tokens(3));
                        prop_assert_eq!(accepted, text);
                    }
                    SummaryVerdict::Rejected { flaws } => prop_assert!(false, "{flaws:?}"),
                }
            }
            Err(err) => prop_assert!(err.needed > err.allowed || facts.is_empty()),
        }
    }

    #[test]
    fn a_range_that_is_worth_a_summary_has_an_extract(turns in turns(), more in 0_u32..2000) {
        let before = Tokens(cost(&turns).0.max(256 + more));
        let facts = facts(&turns, &[], &FactLimits::new(Tokens(4000), before), &Encoding::O200kBase);
        let made = extract(&turns, &facts, before, &ExtractLimits::default(), &Encoding::O200kBase);
        // Facts are never left out, so only facts that fill the range leave no room for an extract.
        let is_filled = |err: &Unextractable| before.0.saturating_sub(err.allowed.0) < 64;
        prop_assert!(made.as_ref().err().is_none_or(is_filled), "{before:?} {made:?}");
    }

    #[test]
    fn turns_are_shortened_as_their_messages_are(
        messages in results(), cut in 0_usize..6, frontier in 0_usize..7, limits in result_limits(),
    ) {
        let whole = shorten(&messages, Frontier(frontier), &limits, &Encoding::O200kBase);
        let (first, second) = messages.split_at(cut.min(messages.len()));
        let turn = |it: &[Arc<Message>]| Turn::new("t1", it.iter().map(|it| (**it).clone()).collect());
        let (turns, changed) =
            shorten_turns(vec![turn(first), turn(second)], Frontier(frontier), &limits, &Encoding::O200kBase);
        let joined: Vec<Arc<Message>> = turns.iter().flat_map(Turn::messages).cloned().collect();
        prop_assert_eq!((joined, changed), (whole.messages, whole.changed));
    }

    #[test]
    fn a_known_cost_saves_looking_and_stays_right(
        lists in prop::collection::vec(results(), 0..4), frontier in 0_usize..12, limits in result_limits(),
    ) {
        let logged: Vec<Turn> = lists.iter().map(|it| counted_turn(it)).collect();
        let unknown: Vec<Turn> = logged.iter().map(|it| it.clone().with_messages(it.messages().to_vec())).collect();
        let preview = |turns: &[Turn]| preview_turns(turns, Frontier(frontier), &limits, &Encoding::O200kBase);
        let (known, counted) = (preview(&logged), preview(&unknown));
        prop_assert_eq!(&known.changed, &counted.changed);
        for (known, counted) in known.turns.iter().zip(&counted.turns) {
            prop_assert_eq!(known.as_ref().map(Turn::messages), counted.as_ref().map(Turn::messages));
            if let Some(turn) = known {
                let sum = turn.messages().iter().map(|it| message_tokens(&Encoding::O200kBase, it)).sum();
                prop_assert_eq!(turn.cost().map(|it| it.tokens), Some(sum));
            }
        }
    }

    #[test]
    fn no_text_is_too_strange(texts in prop::collection::vec("(?s).{0,80}", 1..5), lead in any::<bool>()) {
        let template = include_str!("../../../templates/summary.txt");
        let lead = template.split_once("{text}").filter(|_| lead).map_or("", |(lead, _)| lead);
        let messages = texts.iter().map(|it| Message::user(format!("{lead}{it}"))).collect();
        let turns = [Turn::new("t1", messages), Turn::new("t2", vec![Message::assistant(texts.concat())])];
        let before = cost(&turns);
        let facts = facts(&turns, &[], &FactLimits::default(), &Encoding::O200kBase);
        prop_assert!(facts.iter().all(|it| !it.text.contains('\n')));
        // Every summary has an event, however little it replaces.
        let long = Tokens(before.0 * 9 + 100);
        let made = extract(&turns, &facts, long, &ExtractLimits::default(), &Encoding::O200kBase);
        prop_assert!(made.is_ok(), "{made:?}");
        judge(&texts.concat(), &facts, before, &VerdictRules::default(), &Encoding::O200kBase);
    }

    #[test]
    fn facts_are_bounded_and_deterministic(turns in turns(), max_tokens in 0_u32..100) {
        let limits = FactLimits { max_tokens: Tokens(max_tokens), max_artifacts: 3, max_fact_chars: 40, ..FactLimits::default() };
        let found = facts(&turns, &[], &limits, &Encoding::O200kBase);
        prop_assert_eq!(&found, &facts(&turns, &[], &limits, &Encoding::O200kBase));
        let chars = |it: &Fact| it.text.chars().count();
        let tokens = |it: &Fact| Encoding::O200kBase.count(&it.text);
        let is_kept = |it: &&Fact| matches!(it.kind, FactKind::Instruction | FactKind::OpenCall);
        prop_assert!(found.iter().filter(is_kept).map(tokens).sum::<Tokens>() <= Tokens(max_tokens));
        prop_assert!(found.iter().all(|it| chars(it) <= 40 && !it.text.contains('\n')));
        prop_assert!(found.iter().filter(|it| it.kind == FactKind::Artifact).count() <= 3);
    }

    #[test]
    fn a_bad_summary_is_rejected(turns in turns(), blank in "[ \n\t]{0,5}", n_words in 100_usize..200) {
        let rules = VerdictRules::default();
        let flaws = |text: &str, facts: &[Fact], before| {
            match judge(text, facts, before, &rules, &Encoding::O200kBase) {
                SummaryVerdict::Accepted { .. } => Vec::new(),
                SummaryVerdict::Rejected { flaws } => flaws,
            }
        };
        let before = cost(&turns);
        prop_assert!(flaws(&blank, &[], before).contains(&Flaw::Empty));
        let is_too_long = |it: &Flaw| matches!(it, Flaw::TooLong { .. });
        prop_assert!(flaws(&"word ".repeat(n_words), &[], Tokens(100)).iter().any(is_too_long));
        // What it lacks is added: that is no flaw.
        let all = facts(&turns, &[], &FactLimits::default(), &Encoding::O200kBase);
        prop_assert!(flaws("All was fine.", &all, Tokens(10_000)).is_empty());
    }
}
