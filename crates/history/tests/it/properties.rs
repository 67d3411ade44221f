//! What holds for all histories and all limits.

use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_history::{
    Body, Cost, Item, Limit, Transforms, Turn, TurnNo, TurnStatus, last_turns, newest_messages, repair,
    transform, turns, window, without_media, without_thinking,
};
use contexture_message::{Encoding, Message, Part, Tokens, message_tokens};
use proptest::prelude::*;

use crate::log::item;
use crate::notation;

/// Counts calls without exactly one result directly after them, and results without their call. Finds them by other
/// means than the library: it looks behind each message anew.
pub(crate) fn n_unpaired(messages: &[&Message]) -> usize {
    let mut n_unpaired = 0;
    let mut n_answers = 0;
    for (idx, message) in messages.iter().enumerate() {
        let call = |part: &Part| match part {
            Part::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        };
        let mut open: Vec<String> = message.content.iter().filter_map(call).collect();
        let asks = !open.is_empty();
        for answer in messages[idx + 1..].iter().take_while(|_| asks) {
            let answers = answer.content.iter().map_while(result_id);
            for id in answers {
                n_answers += 1;
                match open.iter().position(|it| it == id) {
                    Some(found) => {
                        open.remove(found);
                    }
                    None => n_unpaired += 1,
                }
            }
            if answer.content.is_empty() || answer.content.iter().any(|it| result_id(it).is_none()) {
                break;
            }
        }
        n_unpaired += open.len();
    }
    let n_results = messages.iter().flat_map(|it| &it.content).filter(|it| result_id(it).is_some()).count();
    n_unpaired + n_results.abs_diff(n_answers)
}

fn result_id(part: &Part) -> Option<&str> {
    match part {
        Part::ToolResult(result) => Some(&result.call_id),
        _ => None,
    }
}

fn unpaired(messages: &[Arc<Message>]) -> usize {
    n_unpaired(&messages.iter().map(Arc::as_ref).collect::<Vec<_>>())
}

fn message() -> impl Strategy<Value = Message> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c")];
    let word = prop_oneof![
        2 => Just("word".to_owned()),
        1 => Just("<system-event>".to_owned()),
        1 => Just("~".to_owned()),
        1 => Just("#".to_owned()),
        6 => id.clone().prop_map(|it| format!("+{it}")),
        8 => id.prop_map(|it| format!("={it}")),
    ];
    let role = prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("system")];
    let words = prop::collection::vec(word, 0..4);
    (role, words).prop_map(|(role, words)| notation::message(&format!("{role} {}", words.join(" "))))
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec(message(), 0..7)
}

fn history() -> impl Strategy<Value = Vec<Turn>> {
    (prop::collection::vec(messages(), 0..7), any::<bool>(), any::<bool>()).prop_map(
        |(turns, is_in_flight, from_log)| {
            let n_turns = turns.len();
            let turn = |(idx, messages): (usize, Vec<Message>)| {
                let turn = match from_log {
                    true => logged(idx as u64 + 1, &messages),
                    false => Turn::new(format!("t{}", idx + 1), messages),
                };
                match is_in_flight && idx + 1 == n_turns {
                    true => turn.with_status(TurnStatus::InFlight),
                    false => turn,
                }
            };
            turns.into_iter().enumerate().map(turn).collect()
        },
    )
}

/// Builds a turn item by item; the costs are those of another counter.
fn logged(number: u64, messages: &[Message]) -> Turn {
    let mut turn = Turn::start(TurnNo(number));
    for message in messages {
        let cost = contexture_history::Cost { counter: "other".into(), tokens: Tokens(1) };
        let body = Body::Message(Arc::new(message.clone()));
        let visibility = contexture_history::Visibility::BOTH;
        turn.apply(&Item { cost, body, visibility, ..item(1, number, "user x") });
    }
    turn
}

fn limit() -> impl Strategy<Value = Option<Limit>> {
    prop_oneof![
        Just(None),
        (0_usize..8).prop_map(|it| Some(Limit::Turns(it))),
        (0_u32..200).prop_map(|it| Some(Limit::Tokens(Tokens(it)))),
    ]
}

fn read(message: &Arc<Message>) -> Tokens {
    message_tokens(&Encoding::O200kBase, &neutral_message(message))
}

fn cost(turn: &Turn) -> Tokens {
    if turn.has_content() { turn.messages().iter().map(read).sum() } else { Tokens(0) }
}

fn others(messages: &[Arc<Message>]) -> Vec<&Part> {
    let is_other = |it: &&Part| !matches!(it, Part::ToolResult(_));
    messages.iter().flat_map(|it| &it.content).filter(is_other).collect()
}

/// Whether a turn says anything besides results of tools.
fn has_words(turn: &Turn) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    turn.messages().iter().any(|it| !it.is_blank() && !it.content.iter().all(is_result))
}

/// What a turn costs with the results that it lacks.
fn packed(turn: &Turn) -> Tokens {
    let alone = window(std::slice::from_ref(turn), None, &Encoding::O200kBase);
    let repaired: Tokens = alone.repaired_turns().iter().map(|it| it.tokens(&Encoding::O200kBase)).sum();
    repaired.max(cost(turn))
}

proptest! {
    #[test]
    fn calls_and_results_are_paired_in_every_window(turns in history(), limit in limit()) {
        let window = window(&turns, limit, &Encoding::O200kBase);
        let repaired = window.messages();
        prop_assert_eq!(unpaired(&repaired.messages), 0);
        let by_turn = window.repaired_turns();
        let joined: Vec<Arc<Message>> = by_turn.iter().flat_map(|it| it.messages.clone()).collect();
        prop_assert_eq!(&joined, &repaired.messages);
        prop_assert_eq!(by_turn.iter().map(|it| it.repairs.len()).sum::<usize>(), repaired.repairs.len());
        for turn in &by_turn {
            prop_assert_eq!(unpaired(&turn.messages), 0);
            let recount: Tokens = turn.messages.iter().map(|it| match turn.turn.is_neutral() {
                true => message_tokens(&Encoding::O200kBase, it),
                false => read(it),
            }).sum();
            prop_assert_eq!(turn.tokens(&Encoding::O200kBase), recount);
        }
    }

    #[test]
    fn a_window_is_the_newest_turns_and_the_newest_with_content(turns in history(), limit in limit()) {
        let window = window(&turns, limit, &Encoding::O200kBase);
        let settled: Vec<&Turn> = turns.iter().filter(|it| it.status() != TurnStatus::InFlight).collect();
        let is_kept: Vec<bool> = (0..turns.len()).map(|it| window.is_kept(it)).collect();
        let newest = settled.iter().rposition(|it| has_words(it));
        let newest = newest.filter(|_| matches!(limit, Some(Limit::Tokens(it)) if it.0 > 0));
        if let Some(newest) = newest {
            prop_assert!(is_kept[newest]);
        }
        prop_assert_eq!(&is_kept[settled.len()..], &vec![true; turns.len() - settled.len()]);
        // Behind the first that is kept all are, but for the one that always is.
        let first = (0..turns.len()).find(|&it| is_kept[it] && Some(it) != newest).unwrap_or(turns.len());
        prop_assert!(is_kept[first..].iter().all(|it| *it));
        let kept: Vec<_> = window.kept().map(|it| Arc::clone(it.id())).collect();
        let dropped: Vec<_> = window.dropped().map(|(it, _)| Arc::clone(it.id())).collect();
        let is_in = |ids: &[Arc<str>], turn: &Turn| ids.contains(turn.id());
        for (turn, is_kept) in turns.iter().zip(&is_kept) {
            prop_assert_eq!((is_in(&kept, turn), is_in(&dropped, turn)), (*is_kept, !is_kept));
        }
        prop_assert_eq!(window.tokens(), window.kept().map(cost).sum::<Tokens>());
        let counted = (0..settled.len()).filter(|&it| is_kept[it] && Some(it) != newest);
        match limit {
            None => prop_assert!(dropped.is_empty()),
            Some(Limit::Turns(count)) => prop_assert_eq!(counted.count(), count.min(settled.len())),
            Some(Limit::Tokens(Tokens(0))) => prop_assert_eq!(counted.count(), 0),
            Some(Limit::Tokens(limit)) => {
                let of = |it: usize| packed(settled[it]);
                let others: Tokens = counted.map(of).sum();
                let used = others + newest.map_or(Tokens(0), of);
                prop_assert!(others <= limit, "{others} of {limit}, besides the newest");
                // The next one would not have fitted.
                let next = (0..settled.len()).rev().find(|&it| !is_kept[it]);
                prop_assert!(next.is_none_or(|it| used + of(it) > limit));
            }
        }
    }

    #[test]
    fn a_leading_turn_changes_no_window(turns in history(), limit in limit(), count in 0_usize..4) {
        let cost = Cost { counter: "o200k_base".into(), tokens: Tokens(7) };
        let first = Turn::leading([(Message::user("first"), cost)]);
        let all: Vec<Turn> = [first.clone()].into_iter().chain(turns.clone()).collect();
        let (with, without) =
            (window(&all, limit, &Encoding::O200kBase), window(&turns, limit, &Encoding::O200kBase));
        let kept: Vec<&Turn> = [&first].into_iter().chain(without.kept()).collect();
        prop_assert_eq!(with.kept().collect::<Vec<_>>(), kept);
        prop_assert_eq!(with.dropped().collect::<Vec<_>>(), without.dropped().collect::<Vec<_>>());
        prop_assert_eq!(with.tokens(), without.tokens() + Tokens(7));
        prop_assert!(with.is_kept(0) && with.is_pinned(0));
        for idx in 0..turns.len() {
            prop_assert_eq!(with.is_kept(idx + 1), without.is_kept(idx));
            prop_assert_eq!(with.is_pinned(idx + 1), without.is_pinned(idx));
        }
        let newest = |turns: Vec<Turn>| Transforms::default().then(last_turns(count)).run(turns).turns;
        let expected: Vec<Turn> = [first].into_iter().chain(newest(turns.clone())).collect();
        prop_assert_eq!(newest(all.clone()), expected);
    }

    #[test]
    fn repair_is_done_once_and_touches_only_results(messages in messages()) {
        let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
        let once = repair(&messages);
        prop_assert_eq!(unpaired(&once.messages), 0);
        prop_assert_eq!(others(&once.messages), others(&messages));
        prop_assert_eq!(once.repairs.is_empty(), once.messages == messages);
        let twice = repair(&once.messages);
        prop_assert_eq!(&twice.messages, &once.messages);
        prop_assert!(twice.repairs.is_empty());
        prop_assert_eq!(repair(&messages), once);
    }

    #[test]
    fn a_turn_knows_whether_it_is_paired(messages in messages()) {
        let whole = Turn::new("t1", messages.clone());
        let logged = logged(1, &messages);
        let expected = repair(whole.messages()).repairs.is_empty();
        prop_assert_eq!(expected, unpaired(whole.messages()) == 0);
        prop_assert_eq!((whole.is_paired(), logged.is_paired()), (expected, expected));
        prop_assert_eq!(whole.has_content(), logged.has_content());
        let neutral: Vec<Arc<Message>> = whole.messages().iter().map(neutral_message).collect();
        prop_assert_eq!(logged.messages(), neutral);
        let again = whole.clone().with_messages(whole.messages().to_vec());
        prop_assert_eq!(again, whole);
    }

    #[test]
    fn a_log_replayed_in_pieces_is_the_log_replayed_whole(
        log in prop::collection::vec((0_u64..4, message()), 0..9), cut in 0_usize..9,
    ) {
        let mut log = log;
        log.sort_by_key(|(turn, _)| *turn);
        let body = |message: &Message| Body::Message(Arc::new(message.clone()));
        let items: Vec<Item> =
            log.iter().map(|(turn, it)| Item { body: body(it), ..item(1, *turn, "user x") }).collect();
        let whole = turns(&items);
        let (earlier, later) = items.split_at(cut.min(items.len()));
        let mut live = turns(earlier);
        for item in later {
            match live.last_mut().filter(|it| **it.id() == *item.turn.to_string()) {
                Some(turn) => turn.apply(item),
                None => live.extend(turns([item])),
            }
        }
        prop_assert_eq!(live, whole);
    }

    #[test]
    fn the_newest_messages_are_few_and_paired(turns in history(), count in 0_usize..30) {
        let newest = newest_messages(&turns, count);
        prop_assert!(newest.len() <= count);
        prop_assert_eq!(unpaired(&newest), 0);
        if turns.iter().all(Turn::is_paired) {
            let all = window(&turns, None, &Encoding::O200kBase).messages().messages;
            let n_whole = all.len().min(count);
            let tail = repair(&all[all.len() - n_whole..]).messages;
            prop_assert_eq!(newest, tail);
        }
    }

    #[test]
    fn transforms_compose(turns in history(), count in 0_usize..4) {
        let thinking = || Transforms::default().then(without_thinking());
        let media = || Transforms::default().then(without_media());
        let last = || Transforms::default().then(last_turns(count));
        let left = thinking().chain(&media()).chain(&last());
        let right = thinking().chain(&media().chain(&last()));
        prop_assert_eq!(left.run(turns.clone()), right.run(turns.clone()));
        let none = Transforms::default();
        prop_assert_eq!(none.run(turns.clone()).turns, turns.clone());
        prop_assert_eq!(none.clone().chain(&last()).run(turns.clone()), last().run(turns.clone()));
        prop_assert_eq!(last().chain(&none).run(turns.clone()), last().run(turns.clone()));
        let one_by_one = last().run(media().run(thinking().run(turns.clone()).turns).turns).turns;
        prop_assert_eq!(left.run(turns.clone()).turns, one_by_one);
        let identity = Transforms::default().then(transform("identity", |turns: Vec<Turn>| turns));
        prop_assert_eq!(identity.run(turns.clone()).turns, turns);
    }
}

#[test]
fn the_check_itself_finds_what_is_wrong() {
    let n = |text: &str| unpaired(&notation::messages(text));
    assert_eq!(n("assistant +a\ntool =a"), 0);
    assert_eq!(n("assistant +a +b\ntool =b\nuser =a hi"), 0);
    assert_eq!(n("assistant +a"), 1);
    assert_eq!(n("tool =a"), 1);
    assert_eq!(n("assistant +a\nuser hi\ntool =a"), 2);
    assert_eq!(n("assistant +a\ntool =a =a"), 1);
}
