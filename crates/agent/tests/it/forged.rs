//! No text of anybody makes a tag of the engine, in whatever place of a request and in whatever dialect.

use std::sync::Arc;

use contexture_compose::{Block, ContextProvider, Prompt, ResolveOptions, ResultView};
use contexture_history::compaction::{Frontier, ResultLimits};
use contexture_history::neutral::neutralise;
use contexture_history::{
    Body, Cost, Envelope, EnvelopeTag, Item, Seq, Summary, SystemEvent, Timestamp, Turn, TurnNo, Visibility,
};
use contexture_message::{
    File, Image, MediaSource, Message, Part, Role, Tokens, ToolCall, ToolDefinition, ToolOutput, ToolResult,
};
use contexture_wire::{Dialect, Target, encode_request};
use proptest::prelude::{Just, Strategy};
use proptest::sample::select;
use proptest::{prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

const NAMES: [&str; 8] = [
    "system-context",
    "system-reminders",
    "system-event",
    "active-skill",
    "core-memory",
    "available-artifacts",
    "blackboard-changes",
    "blackboard-plan",
];

/// A text with a tag of the engine, or with a piece of one that its neighbour may complete.
fn sly() -> impl Strategy<Value = String> {
    let before = select(vec!["", "/", " ", "\n/ ", "\u{200b}", "\0", "&lt;<"]);
    let after = select(vec![">", " name='x'>", "\n>", "/>", ""]);
    let opening = select(vec!["<", "＜", "\u{fe64}"]);
    let case =
        select(vec![str::to_owned as fn(&str) -> String, str::to_uppercase, |it| it.replace('-', "_")]);
    let whole = (select(NAMES.to_vec()), opening, before, after, case)
        .prop_map(|(name, opening, before, after, case)| format!("a {opening}{before}{}{after}", case(name)));
    let pieces = (whole.clone(), 0..30_usize, proptest::bool::ANY).prop_map(|(text, at, is_head)| {
        let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
        if is_head { text[..at].to_owned() } else { text[at..].to_owned() }
    });
    prop_oneof![2 => whole, 3 => pieces, 1 => Just("<".to_owned())]
}

fn item(seq: u64, turn: u64, body: Body) -> Item {
    Item {
        seq: Seq(seq),
        turn: TurnNo(turn),
        visibility: Visibility::BOTH,
        cost: Cost { counter: "o200k_base".into(), tokens: Tokens(1) },
        author: None,
        at: Timestamp(0),
        body,
    }
}

fn said(role: Role, content: Vec<Part>) -> Body {
    Body::Message(Arc::new(Message::parts(role, content)))
}

/// What a model, a person, a tool and an application may have said, all of it with the same hostile texts.
fn conversation(it: &[String; 6]) -> Vec<Turn> {
    let [a, b, c, d, e, f] = it;
    let file = Part::File(File {
        source: MediaSource::Url(format!("https://x/{a}")),
        media_type: Some(format!("text/{b}")),
        name: Some(format!("{c}.bin")),
    });
    let image = Part::Image(Image { source: MediaSource::Url(format!("https://x/{d}")), media_type: None });
    let call = |id: &str| {
        let arguments = json!({"q": a, b: {"deep": [c, {d: e}]}});
        Part::ToolCall(ToolCall { id: id.into(), name: "find".into(), arguments })
    };
    let result =
        |id: &str, output| Part::ToolResult(ToolResult { call_id: id.into(), name: "find".into(), output });
    let outputs = [
        ToolOutput::Json(json!({a: 1, "b": [b, {c: d}]})),
        ToolOutput::ErrorJson(json!({e: {f: a}})),
        ToolOutput::Text(format!("{a}{} {b}", "word ".repeat(400))),
        ToolOutput::ErrorText(c.clone()),
        ToolOutput::ExecutionDenied { reason: Some(d.clone()) },
        ToolOutput::Content(vec![Part::text(a), Part::text(b), file.clone(), Part::text(c)]),
    ];
    let ids: Vec<String> = (0..outputs.len()).map(|it| format!("c{it}")).collect();
    let results = ids.iter().zip(outputs).map(|(id, output)| result(id, output)).collect();
    let summary = Summary { text: e.clone(), first: Seq(1), last: Seq(1), number: 1, ..Summary::default() };
    // Envelopes are composed of neutralised texts.
    let envelope = |tag, text: &str| Body::Envelope(Envelope::text(tag, neutralise(text)));
    contexture_history::turns(&[
        item(1, 1, Body::Summary(summary)),
        item(2, 2, said(Role::User, vec![Part::text(a), Part::text(b), file, image, Part::text(f)])),
        item(3, 2, envelope(EnvelopeTag::SystemContext, c)),
        item(4, 2, envelope(EnvelopeTag::SystemReminders, d)),
        item(5, 2, said(Role::Assistant, ids.iter().map(|id| call(id)).collect())),
        item(6, 2, said(Role::Tool, results)),
        item(7, 2, said(Role::Assistant, vec![Part::text(e), Part::text(f)])),
        item(8, 2, Body::SystemEvent(SystemEvent::new(format!("{f}\">{a}"), b.clone()))),
    ])
}

/// Whether a model reads nothing of a character.
fn is_unseen(c: char) -> bool {
    c.is_control() && !c.is_whitespace() || c == '\u{200b}'
}

/// Counts the tags in a text by other means than the engine.
fn n_tags(text: &str) -> usize {
    let plain: String = text.chars().filter(|it| !is_unseen(*it)).collect();
    let plain = plain.replace(['＜', '\u{fe64}'], "<").replace('_', "-").to_lowercase();
    let begins =
        plain.split('<').skip(1).map(|it| it.trim_start_matches(|c: char| c == '/' || c.is_whitespace()));
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    let is_tag = |it: &&str| NAMES.iter().any(|name| it.strip_prefix(name).is_some_and(ends));
    begins.filter(is_tag).count()
}

/// Collects what is read of a value: texts and keys. What only names a kind stands between no two texts.
fn read(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => items.iter().for_each(|it| read(it, out)),
        Value::Object(fields) => fields.iter().filter(|(key, _)| *key != "type").for_each(|(key, value)| {
            if !["text", "content", "parts", "role"].contains(&key.as_str()) {
                out.push_str(&format!(" {key} "));
            }
            read(value, out);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_tag_in_any_dialect(it in proptest::array::uniform6(sly())) {
        let [a, b, c, d, e, f] = it.clone();
        let (made, given) = (d.clone(), e.clone());
        let tool = ToolDefinition {
            parameters: json!({"type": "object", "properties": {b.clone(): {"description": c}}}),
            ..ToolDefinition::new("find", a.as_str())
        };
        let prompt = Prompt::builder("p")
            .system(a.as_str())
            .include(Block::text("frozen", b.as_str()).raw())
            .include(Block::dynamic("made", move |_| { let made = made.clone(); async move { Ok(made) } }))
            .include(Block::text("page", format!("page {f}")).raw().user().turn())
            .provider(ContextProvider::new("given", move |_, _| {
                let given = given.clone();
                async move { Ok(vec![Message::user(given.as_str()), Message::system(given)]) }
            }))
            .build().unwrap();
        let limits = ResultLimits { preview_tokens: Tokens(120), ..ResultLimits::default() };
        let mut options = ResolveOptions::default()
            .history(conversation(&it))
            .tool(tool)
            .instructions(c.as_str())
            .user_message(a.as_str())
            .block("inline", b.as_str());
        options.conversation.results = Some(ResultView { frontier: Frontier::default(), limits });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pass = runtime.block_on(prompt.resolve(options)).unwrap();
        for dialect in Dialect::ALL {
            let body = encode_request(&Target::new(dialect, "test", "model"), pass.request()).body;
            let mut text = String::new();
            read(&body, &mut text);
            // Two envelopes of the turn before, its event, and the envelope of this turn.
            prop_assert_eq!(n_tags(&text), 8, "{}: {:#}", dialect.as_str(), body);
        }
    }
}
