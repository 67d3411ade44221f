//! Prompt blocks: where they stand, what a thread pins of them, and what nobody can forge.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contexture_compose::tags::{ENGINE_TAG_NAMES, neutralise};
use contexture_compose::{
    Arrangement, Block, CacheConfig, Context, Cost, InFlightTurn, InlineBlock, OnError, Placement, Prompt,
    PromptBuilder, ResolveOptions, Reuse, Text, Turn, contributor,
};
use contexture_history::{Body, Envelope, EnvelopeTag, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::tokens::{counter_for, request_tokens};
use contexture_message::{Message, Part, Role, Tokens, ToolCall, ToolOutput, ToolResult};
use contexture_testkit::{failure, prose, request, resolve, text};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::json;

/// Resolves a prompt and shows its request, then its parts and warnings. The only caller of the API in most tests here.
fn resolved(prompt: PromptBuilder, options: ResolveOptions) -> String {
    let built = match prompt.build() {
        Ok(prompt) => prompt,
        Err(err) => return failure(&err),
    };
    match resolve(&built, options) {
        Ok(pass) => {
            let explanation = pass.explain();
            let parts = explanation.parts.iter().map(|it| {
                let reason = it.reason.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
                format!("{} {} {:?} {}{reason}", it.source, it.slot, it.volatility, it.state)
            });
            let warnings = explanation.warnings.iter().map(|it| format!("warning: {it}"));
            let rest: Vec<String> = parts.chain(warnings).collect();
            format!("{}\n---\n{}", request(&pass), rest.join("\n"))
        }
        Err(err) => failure(&err),
    }
}

fn template(source: &str) -> Text {
    Text::template(source).expect("a template")
}

fn history() -> Vec<Turn> {
    vec![Turn::new("t1", vec![Message::user("q1"), Message::assistant("a1")])]
}

/// One block of every place, in an order that is not theirs.
fn everywhere() -> PromptBuilder {
    Prompt::builder("p")
        .system("Own.")
        .include(Block::text("clock", template("{{ input.time }}")).turn())
        .include(Context::text("first", "First."))
        .include(Block::text("live", "Live.").real_time())
        .include(Context::text("stable", "Stable.").cached())
        .include(Block::text("page", "Page 7").user().turn())
        .include(Block::text("house_rules", "Be kind."))
        .include(Block::text("about", "Ada, since 2019").user())
        .include(Block::text("brand", "Sturdy boots.").order(-1))
        .context(json!({"risk": "low"}))
}

#[test]
fn every_block_stands_in_its_place() {
    let options = ResolveOptions::new(json!({"time": "noon"})).user_message("Hi");
    insta::assert_snapshot!(resolved(everywhere(), options), @r#"
    [system]
    Own.

    <brand>
    Sturdy boots.
    </brand>

    <house-rules>
    Be kind.
    </house-rules>

    Stable.

    First.

    <live>
    Live.
    </live>

    <risk>
    low
    </risk>

    <clock>
    noon
    </clock>
    [user]
    [{"type":"text","text":"Hi"},{"type":"text","text":"<system-context>\n<about>\nAda, since 2019\n</about>\n<page>\nPage 7\n</page>\n</system-context>"}]
    ---
    prompt system Static kept
    block:brand system Conversation kept
    block:house-rules system Conversation kept
    context:stable system Static kept
    context:first system Static kept
    block:live system Static kept
    prompt tags Static kept
    block:clock system Turn kept
    block:about envelope Turn kept
    block:page envelope Turn kept
    in_flight in_flight Turn kept
    warning: block:clock changes each turn and stands before the history: 0 history tokens can't be cached; put it into the user's message instead
    "#);
}

#[test]
fn a_block_of_the_conversation_is_said_where_no_turn_holds_it_and_a_turns_block_costs_the_history() {
    let options = ResolveOptions::new(json!({"time": "noon"})).user_message("Hi").history(history());
    insta::assert_snapshot!(resolved(everywhere(), options), @r#"
    [system]
    Own.

    <brand>
    Sturdy boots.
    </brand>

    <house-rules>
    Be kind.
    </house-rules>

    Stable.

    First.

    <live>
    Live.
    </live>

    <risk>
    low
    </risk>

    <clock>
    noon
    </clock>
    [user]
    q1
    [assistant]
    a1
    [user]
    [{"type":"text","text":"Hi"},{"type":"text","text":"<system-context>\n<about>\nAda, since 2019\n</about>\n<page>\nPage 7\n</page>\n</system-context>"}]
    ---
    prompt system Static kept
    block:brand system Conversation kept
    block:house-rules system Conversation kept
    context:stable system Static kept
    context:first system Static kept
    block:live system Static kept
    prompt tags Static kept
    block:clock system Turn kept
    history:t1 history Conversation kept
    block:about envelope Turn kept
    block:page envelope Turn kept
    in_flight in_flight Turn kept
    warning: block:clock changes each turn and stands before the history: 10 history tokens can't be cached; put it into the user's message instead
    "#);
}

#[test]
fn by_volatility_the_frozen_prefix_follows_what_is_the_same_for_everyone() {
    let prompt = everywhere().cache(CacheConfig { arrange: Arrangement::CacheFirst });
    let shown = resolved(prompt, ResolveOptions::new(json!({"time": "noon"})));
    insta::assert_snapshot!(shown.split("---").next().unwrap_or_default(), @"
    [system]
    Own.

    First.

    <live>
    Live.
    </live>

    Stable.

    <brand>
    Sturdy boots.
    </brand>

    <house-rules>
    Be kind.
    </house-rules>

    <risk>
    low
    </risk>

    <clock>
    noon
    </clock>
    [user]
    <system-context>
    <about>
    Ada, since 2019
    </about>
    <page>
    Page 7
    </page>
    </system-context>
    ");
}

#[test]
fn bodies_are_escaped_unless_the_developer_says_raw() {
    let sly = "a < b & <system-context>";
    let prompt = Prompt::builder("p")
        .include(Block::text("plain", sly))
        .include(Block::text("raw", sly).raw())
        .include(Block::text("templated", template("{{ input.sly }}\n")))
        .include(Block::dynamic("made", move |_| async move { Ok(sly.to_owned()) }));
    let shown = resolved(prompt, ResolveOptions::new(json!({"sly": sly})).block("inline", sly));
    insta::assert_snapshot!(shown.split("---").next().unwrap_or_default(), @"
    [system]
    <made>
    a < b & &lt;system-context>
    </made>

    <plain>
    a &lt; b &amp; &lt;system-context&gt;
    </plain>

    <raw>
    a < b & &lt;system-context>
    </raw>

    <templated>
    a &lt; b &amp; &lt;system-context&gt;
    </templated>
    [user]
    <system-context>
    <inline>
    a &lt; b &amp; &lt;system-context&gt;
    </inline>
    </system-context>
    ");
}

#[test]
fn a_blank_block_and_one_that_does_not_apply_say_nothing() {
    let prompt = Prompt::builder("p")
        .system("Own.")
        .include(Block::text("blank", " \n "))
        .include(Block::text("off", "Off.").enabled(false))
        .include(Block::text("theirs", "Theirs.").agent("other"))
        .include(Block::text("ours", "Ours.").agent("other").agent("p"))
        .include(Block::dynamic("broken", |_| async { Err("no network".into()) }).on_error(OnError::Skip));
    insta::assert_snapshot!(resolved(prompt, ResolveOptions::default()), @"
    [system]
    Own.

    <ours>
    Ours.
    </ours>
    ---
    prompt system Static kept
    block:blank system Conversation empty
    block:ours system Conversation kept
    block:off system Turn excluded (the block is not enabled)
    block:theirs system Turn excluded (`agents` of the block does not list this prompt)
    block:broken system Turn excluded (skipped: block:broken: the contributor failed: no network)
    ");
}

#[test]
fn names_are_checked_like_any_tag() {
    let named = |name: &str| {
        resolved(Prompt::builder("p").include(Block::text(name, "x")), ResolveOptions::default())
    };
    insta::assert_snapshot!(named("System_Context"), @"tag_name_reserved at use[0]: `System_Context` is the reserved tag name `system-context`");
    insta::assert_snapshot!(named("two words"), @"tag_name_invalid at use[0]: `two words` is not a valid name: only ASCII letters, digits, `_` and `-` can stand in a name");
    let two =
        Prompt::builder("p").include(Block::text("page_state", "x")).include(Block::text("pageState", "y"));
    insta::assert_snapshot!(resolved(two, ResolveOptions::default()), @"duplicate_id at p: two different entries have the id `page-state`: use[0] and use[1]");
    let rules = Block::text("rules", "Once.");
    let twice = Prompt::builder("p").include(rules.clone()).include(rules);
    insta::assert_snapshot!(resolved(twice, ResolveOptions::default()), @"
    [system]
    <rules>
    Once.
    </rules>
    ---
    block:rules system Conversation kept
    ");
}

#[test]
fn the_name_of_a_requests_block_must_be_free() {
    let prompt = || {
        Prompt::builder("p")
            .include(Context::text("page_state", "x"))
            .include(Block::text("rules", "y").enabled(false))
    };
    let with = |name: &str| resolved(prompt(), ResolveOptions::default().block(name, "z"));
    insta::assert_snapshot!(with("pageState"), @"duplicate_id at p: two different entries have the id `page-state`: context:page_state at use[0] and blocks[0] of the request");
    insta::assert_snapshot!(with("rules"), @"duplicate_id at p: two different entries have the id `rules`: block:rules at use[1] and blocks[0] of the request");
    insta::assert_snapshot!(with("system-event"), @"tag_name_reserved at blocks[0] of the request: `system-event` is the reserved tag name `system-event`");
    let twice = ResolveOptions::default().block("a", "1").block("A", "2");
    insta::assert_snapshot!(resolved(prompt(), twice), @"duplicate_id at p: two different entries have the id `a`: blocks[0] of the request and blocks[1] of the request");
}

#[test]
fn one_envelope_holds_all_pieces_in_their_order() {
    let mut options = ResolveOptions::default().user_message("Hi").block("zebra", "z").block("ape", "a");
    options.additions.blocks.push(InlineBlock { name: "first".into(), body: "1".into(), order: -5 });
    let prompt = Prompt::builder("p")
        .include(Block::text("page", "Page 7").user().turn().order(3))
        .include(Context::text("note", "A note.").placement(Placement::User));
    let built = prompt.build().expect("it builds");
    let pass = resolve(&built, options).expect("it resolves");
    let [user] = &pass.request().messages[..] else { panic!("one message") };
    let [_, Part::Text { text, .. }] = &user.content[..] else { panic!("two parts") };
    insta::assert_snapshot!(text, @"
    <system-context>
    <first>
    1
    </first>
    A note.
    <ape>
    a
    </ape>
    <zebra>
    z
    </zebra>
    <page>
    Page 7
    </page>
    </system-context>
    ");
    let counted = request_tokens(&*counter_for(None), pass.request());
    assert!(
        counted.0.abs_diff(pass.explain().total_tokens.0) <= 8,
        "{counted} {}",
        pass.explain().total_tokens
    );
}

#[test]
fn what_a_thread_has_pinned_gives_the_same_bytes_whatever_the_definition_says_now() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = |runs: &Arc<AtomicUsize>| {
        let runs = Arc::clone(runs);
        Block::dynamic("news", move |_| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move { Ok(format!("News {run} <b> </system-event>\n")) }
        })
    };
    let before = Prompt::builder("p")
        .system("Own.")
        .include(Block::text("rules", "Be <kind>."))
        .include(counting(&runs))
        .include(Block::text("nothing", template("{{ input.word }}")));
    let first = resolve(&before.build().expect("it builds"), ResolveOptions::new(json!({"word": " "})));
    let first = first.expect("it resolves");
    let listed: Vec<String> =
        first.frozen_blocks().iter().map(|it| format!("{} {:?} {}", it.name, it.body, it.hash)).collect();
    insta::assert_snapshot!(listed.join("\n"), @r#"
    news "News 0 <b> &lt;/system-event>" c7c043c126d615b05d3c0e8bf795a2ea
    nothing "" 99aa06d3014798d86001c324468d497f
    rules "Be &lt;kind&gt;." db70665842ecd06b71d05d3843a86511
    "#);

    let after = Prompt::builder("p")
        .system("Own.")
        .include(counting(&runs).ttl(Duration::from_secs(1)).raw())
        .include(Block::text("nothing", template("{{ input.word }}")))
        .include(Block::text("rules", "Be <strict>.").raw());
    let after = after.build().expect("it builds");
    let options = ResolveOptions::new(json!({"word": "now something"}));
    let pinned = resolve(&after, options.clone().frozen_by(&first)).expect("it resolves");
    assert_eq!(request(&pinned), request(&first));
    assert_eq!(pinned.frozen_blocks(), first.frozen_blocks());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_ne!(request(&resolve(&after, options).expect("it resolves")), request(&first));
}

#[test]
fn the_frozen_prefix_never_gives_way_to_the_history() {
    let turns: Vec<Turn> =
        (0..30).map(|n| Turn::new(n.to_string(), vec![Message::user("word ".repeat(20))])).collect();
    let prompt = Prompt::builder("p")
        .include(Block::text("rules", "Be kind. ".repeat(10)))
        .include(Context::text("c", "Gives way. ".repeat(10)))
        .input_budget(120)
        .build()
        .expect("it builds");
    let states = |turns: &[Turn]| {
        let pass = resolve(&prompt, ResolveOptions::default().history(turns.to_vec())).expect("it resolves");
        let states: Vec<String> =
            pass.explain().parts[..2].iter().map(|it| format!("{} {}", it.source, it.state)).collect();
        states.join(", ")
    };
    assert_eq!(states(&turns[..1]), "block:rules kept, context:c kept");
    assert_eq!(states(&turns), "block:rules kept, context:c dropped");
}

#[test]
fn a_block_of_the_user_is_evaluated_once_in_a_turn() {
    let runs = AtomicUsize::new(0);
    let counting = Block::dynamic("page", move |_| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { Ok(format!("Page {run}")) }
    });
    let prompt = Prompt::builder("p").include(counting.user().turn()).build().expect("it builds");
    let options = || ResolveOptions::default().user_message("Hi");
    let first = resolve(&prompt, options()).expect("it resolves");
    let second = resolve(&prompt, options().reuse(Reuse::previous_step(&first)));
    assert_eq!(request(&first), request(&second.expect("it resolves")));
    let next = resolve(&prompt, options()).expect("it resolves");
    assert_ne!(request(&first), request(&next));
}

#[test]
fn a_contributor_brings_a_block_along() {
    let bringing = contributor("c", |_| async {
        Ok(contexture_compose::Contribution::default().and_entry(Block::text("brought", "Along.").agent("p")))
    });
    let prompt =
        Prompt::builder("p").system("Own.").include(Context::text("c", "C.").cached()).include(bringing);
    let shown = resolved(prompt, ResolveOptions::default());
    insta::assert_snapshot!(shown.split("---").next().unwrap_or_default(), @"
    [system]
    Own.

    <brought>
    Along.
    </brought>

    C.
    ");
}

fn item(body: Body) -> Item {
    Item {
        seq: Seq(1),
        turn: TurnNo(1),
        visibility: Visibility::HISTORY,
        cost: Cost { counter: "another".into(), tokens: Tokens(1) },
        author: None,
        at: Timestamp(0),
        body,
    }
}

/// A turn as a log gives it.
fn logged(user: &str, hidden: &str) -> Turn {
    let mut turn = Turn::start(TurnNo(1));
    turn.apply(&item(Body::Message(Arc::new(Message::user(user)))));
    turn.apply(&item(Body::Envelope(Envelope::text(EnvelopeTag::SystemReminders, hidden))));
    turn
}

#[test]
fn the_envelopes_of_a_turn_in_flight_stay_what_they_are() {
    let prompt = Prompt::builder("p")
        .include(Block::text("page", "Page 7").user().turn())
        .user(template("{{ input.words }}"));
    let turn = logged("Hi </system-context>", "Ada likes tea <system-event>");
    let mut options =
        ResolveOptions::new(json!({"words": "Hi </system-context>"})).turn(InFlightTurn::New(turn));
    options.conversation.in_flight.push(Arc::new(Message::assistant("Hello <system-reminders>")));
    insta::assert_snapshot!(resolved(prompt, options), @r#"
    [user]
    [{"type":"text","text":"Hi &lt;/system-context>"},{"type":"text","text":"<system-reminders>\nAda likes tea &lt;system-event>\n</system-reminders>"},{"type":"text","text":"<system-context>\n<page>\nPage 7\n</page>\n</system-context>"}]
    [assistant]
    Hello &lt;system-reminders>
    ---
    block:page envelope Turn kept
    in_flight in_flight Turn kept
    "#);
    let plain = Turn::new("t", vec![Message::user("<system-context>")]);
    let options = ResolveOptions::default().turn(InFlightTurn::New(plain));
    insta::assert_snapshot!(resolved(Prompt::builder("p"), options), @"
    [user]
    &lt;system-context>
    ---
    in_flight in_flight Turn kept
    ");
}

/// A text with something that a model might take for a tag of the engine.
fn sly() -> impl Strategy<Value = String> {
    let names = select(ENGINE_TAG_NAMES);
    let before = select(vec!["", "/", " ", "\n\n/ ", "\u{200b}", "/\u{feff}", "&lt;", "<"]);
    let inside = select(vec!["", "\u{200b}", "\u{ad}", "\u{2060}"]);
    let after = select(vec![">", " name='x'>", "\n", "/>", "", " a=\"1\" b>", "&gt;"]);
    let spelled =
        (names, before, inside, after, 0..4u8).prop_map(|(name, before, inside, after, spelling)| {
            let name = match spelling {
                0 => name.to_owned(),
                1 => name.to_uppercase(),
                2 => name.replace('-', "_"),
                _ => name.replace('s', "ſ"),
            };
            let (head, tail) = name.split_at(name.char_indices().nth(2).map_or(0, |(at, _)| at));
            format!("<{before}{head}{inside}{tail}{after}")
        });
    // The end of one text and the beginning of the next may make a tag together.
    let cut = select(vec![
        "a <",
        "system-context>",
        "</",
        "system-event name=x>",
        "< /",
        "\u{200b}system-reminders>",
    ]);
    prop_oneof![spelled, cut.prop_map(str::to_owned), text()]
}

/// Counts the engine's tags in everything that a model reads.
fn engine_tags(messages: &[Arc<Message>]) -> usize {
    let texts = messages.iter().flat_map(|it| &it.content).map(|part| match part {
        Part::Text { text, .. } => text.clone(),
        Part::ToolResult(result) => match &result.output {
            ToolOutput::Text(text) => text.clone(),
            other => format!("{other:?}"),
        },
        Part::ToolCall(call) => call.arguments["q"].as_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    });
    texts.map(|it| neutralise(&it).matches("&lt;").count() - it.matches("&lt;").count()).sum()
}

/// Builds a turn as its log would: what the user says, then the envelope that was sent.
fn replayed(said: &str, envelope: Option<Envelope>) -> Turn {
    let mut turn = Turn::start(TurnNo(1));
    let envelope = envelope.map(Body::Envelope);
    let words = (!said.trim().is_empty()).then(|| Body::Message(Arc::new(Message::user(said))));
    for body in words.into_iter().chain(envelope) {
        turn.apply(&Item {
            seq: Seq(1),
            turn: TurnNo(1),
            visibility: Visibility::BOTH,
            cost: Cost { counter: "o200k_base".into(), tokens: Tokens(1) },
            author: None,
            at: Timestamp(0),
            body,
        });
    }
    turn
}

#[test]
fn what_the_turn_holds_already_is_neither_evaluated_nor_added() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&runs);
    let prompt = Prompt::builder("p")
        .include(
            Block::dynamic("page", move |_| {
                counting.fetch_add(1, Ordering::Relaxed);
                async { Ok("7".to_owned()) }
            })
            .user()
            .turn(),
        )
        .include(Block::text("about", "Ada").user())
        .include(
            Context::text("note", "A note.")
                .placement(Placement::User)
                .tool(contexture_message::ToolDefinition::new("find", "Finds.")),
        )
        .build()
        .expect("it builds");
    let options = |turn| ResolveOptions::default().turn(turn).block("inline", "x");
    let first = resolve(&prompt, options(InFlightTurn::New(replayed("Hi", None)))).expect("it resolves");
    let next = resolve(&prompt, options(InFlightTurn::Recorded(replayed("Hi", first.envelope()))))
        .expect("it resolves");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(first.request(), next.request());
    let mut excluded: Vec<String> =
        next.explain().excluded.iter().map(|it| format!("{}: {}", it.source, it.reason)).collect();
    excluded.sort();
    let names = ["block:about", "block:inline", "block:page", "context:note"];
    assert_eq!(excluded, names.map(|it| format!("{it}: already in the turn's envelope")));
    assert_eq!(next.envelope(), None);
}

proptest! {
    #[test]
    fn the_envelope_is_counted_and_keeps_to_the_limit(bodies in vec(prose(), 0..8), limit in 30..300u32, says in any::<bool>()) {
        let blocks = bodies.iter().enumerate().map(|(n, it)| Block::text(format!("b{n}"), it.as_str()).user().turn());
        let prompt = blocks.fold(Prompt::builder("p").system("Own."), PromptBuilder::include).input_budget(limit);
        let options = if says { ResolveOptions::default().user_message("Hi") } else { ResolveOptions::default() };
        let pass = resolve(&prompt.build().expect("it builds"), options).expect("all blocks may give way");
        let counted = request_tokens(&*counter_for(None), pass.request()).0;
        prop_assert!(counted <= limit, "{counted} > {limit}");
        let n_blocks = u32::try_from(bodies.len()).expect("few");
        prop_assert!(pass.explain().total_tokens.0.abs_diff(counted) <= 4 + 2 * n_blocks);
    }

    #[test]
    fn no_text_in_any_slot_makes_a_tag_of_the_engine(it in proptest::array::uniform12(sly())) {
        let [system, context, frozen, raw, dynamic, live, last, hidden, inline, said, result, logged_text] = it;
        let made = dynamic.clone();
        let prompt = Prompt::builder("p")
            .system(system.as_str())
            .include(Context::text("c", context.as_str()))
            .include(Context::text("hidden", hidden.as_str()).placement(Placement::User))
            .include(Context::text("hidden_too", context.as_str()).placement(Placement::User))
            .include(Block::text("frozen", frozen.as_str()))
            .include(Block::text("raw", raw.as_str()).raw())
            .include(Block::dynamic("dynamic", move |_| { let made = made.clone(); async move { Ok(made) } }))
            .include(Block::text("live", live.as_str()).raw().real_time())
            .include(Block::text("last", last.as_str()).raw().turn())
            .include(Block::text("page", raw.as_str()).raw().user().turn())
            .context(json!({"tag": context}))
            .user(said.as_str())
            .build().expect("it builds");
        let call = ToolCall { id: "c1".into(), name: "find".into(), arguments: json!({"q": result}) };
        let output = ToolResult { call_id: "c1".into(), name: "find".into(), output: ToolOutput::Text(result.clone()) };
        let mut options = ResolveOptions::default()
            .turn(InFlightTurn::New(logged(&logged_text, &hidden)))
            .instructions(said.as_str())
            .history(vec![Turn::new("t1", vec![Message::user(said.as_str()), Message::assistant(result.as_str())])]);
        options.conversation.in_flight = vec![
            Arc::new(Message::parts(Role::Assistant, vec![Part::ToolCall(call)])),
            Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(output)])),
        ];
        options.cache.frozen = [("frozen".to_owned(), Arc::from(inline.as_str()))].into();
        let pass = resolve(&prompt, options.block("inline", inline.as_str())).expect("it resolves");
        // The envelope of the turn in flight and that of the pass; each opens and closes.
        let n_tags = engine_tags(&pass.request().messages);
        let has_hidden = [&hidden, &context, &raw, &inline].iter().any(|it| !it.trim().is_empty());
        prop_assert!(n_tags == 2 + 2 * usize::from(has_hidden), "{n_tags}: {:#?}", pass.request().messages);
    }

    #[test]
    fn a_turn_that_holds_its_envelope_gives_the_same_bytes(
        it in proptest::array::uniform5(sly()), ends in select(vec!["", "\n", "\r\n\n", " {text} {", "&lt;"]), own in any::<bool>(),
    ) {
        let [said, user, first, raw, inline] = it.map(|it| format!("{it}{ends}"));
        let prompt = Prompt::builder("p")
            .system("Own.")
            .include(Context::text("hidden", user.as_str()).placement(Placement::User))
            .include(Block::text("page", user.as_str()).user().turn())
            .include(Block::text("raw", raw.as_str()).raw().user().turn())
            .include(Block::text("about", first.as_str()).user())
            .build().expect("it builds");
        // The words may be the prompt's own or the thread's.
        let mut words = ResolveOptions::default();
        words.conversation.user = Some([contexture_message::Message::user(said.as_str())].into());
        let mut options = if own { words } else { ResolveOptions::default().user_message(said.as_str()) };
        let sent = resolve(&prompt, options.clone().block("inline", inline.as_str())).expect("it resolves");
        let turn = replayed(&said, sent.envelope());
        options.conversation.in_flight.clear();
        let options = options.turn(InFlightTurn::Recorded(turn));
        let again = resolve(&prompt, options.block("inline", inline.as_str())).expect("it resolves");
        let bytes = |it: &contexture_compose::Pass| serde_json::to_string(it.request()).expect("it serialises");
        prop_assert_eq!(bytes(&sent), bytes(&again));
    }
}
