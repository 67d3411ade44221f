//! The JSON of every type, both ways.

use std::fmt::Debug;
use std::sync::Arc;

use contexture_message::{
    Breakpoint, Citation, CitationOrigin, Evidence, File, Image, MediaSource, Message, Part, RawCitation,
    Request, Role, Settings, Span, Thinking, ToolCall, ToolChoice, ToolDefinition, ToolOutput, ToolResult,
    Usage,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{collection, option, prop_assert, prop_assert_eq};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads `value` and writes it again.
fn reread<T: Serialize + DeserializeOwned>(value: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(value).unwrap()).unwrap()
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

/// The message of the error that `value` is refused with.
fn refused<T: DeserializeOwned + Debug>(value: Value) -> String {
    serde_json::from_value::<T>(value).unwrap_err().to_string()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i16>().prop_map(|it| Value::from(f64::from(it) / 4.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn citation() -> impl Strategy<Value = Citation> {
    let span = || option::of((any::<usize>(), any::<usize>()).prop_map(|(start, end)| Span { start, end }));
    let raw =
        option::of((any::<String>(), value()).prop_map(|(provider, value)| RawCitation { provider, value }));
    let texts = (any::<String>(), any::<String>(), option::of(any::<String>()));
    (span(), texts, span(), any::<bool>(), raw).prop_map(
        |(answer_span, (source, chunk, quote), source_span, is_text, raw)| {
            let origin = if is_text { CitationOrigin::Text } else { CitationOrigin::Provider };
            Citation { answer_span, source, chunk, quote, source_span, origin, raw }
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    let text = any::<String>;
    let maybe = || option::of(any::<String>());
    let source = || prop_oneof![text().prop_map(MediaSource::Data), text().prop_map(MediaSource::Url)];
    let plain = prop_oneof![
        text().prop_map(Part::text),
        (text(), collection::vec(citation(), 1..3))
            .prop_map(|(text, citations)| Part::Text { text, citations }),
        (text(), text(), maybe(), collection::vec(text(), 0..3), any::<bool>()).prop_map(
            |(chunk, source, title, text, citations)| Part::Evidence(Evidence {
                chunk,
                source,
                title,
                text,
                citations
            })
        ),
        (source(), maybe()).prop_map(|(source, media_type)| Part::Image(Image { source, media_type })),
        (prop_oneof![source(), text().prop_map(MediaSource::Id)], maybe(), maybe())
            .prop_map(|(source, media_type, name)| Part::File(File { source, media_type, name })),
        (text(), maybe(), maybe()).prop_map(|(text, signature, provider)| Part::Thinking(Thinking {
            text,
            signature,
            provider,
            redacted: false
        })),
        (text(), text(), value()).prop_map(|(id, name, arguments)| Part::ToolCall(ToolCall {
            id,
            name,
            arguments
        })),
    ];
    plain.prop_recursive(2, 8, 3, move |inner| {
        let output = prop_oneof![
            text().prop_map(ToolOutput::Text),
            value().prop_map(ToolOutput::Json),
            maybe().prop_map(|reason| ToolOutput::ExecutionDenied { reason }),
            text().prop_map(ToolOutput::ErrorText),
            value().prop_map(ToolOutput::ErrorJson),
            collection::vec(inner, 0..3).prop_map(ToolOutput::Content),
        ];
        (text(), text(), output)
            .prop_map(|(call_id, name, output)| Part::ToolResult(ToolResult { call_id, name, output }))
    })
}

/// Any message.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::System), Just(Role::User), Just(Role::Assistant), Just(Role::Tool)];
    (role, collection::vec(part(), 0..4), option::of(any::<String>())).prop_map(|(role, content, id)| {
        Message { name: id.clone().map(|it| format!("n{it}")), role, content, id }
    })
}

proptest! {
    #[test]
    fn any_message_reads_back_as_it_was_written(message in message()) {
        let text = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }

    #[test]
    fn any_json_is_read_or_refused_without_a_panic(value in value()) {
        let _ = serde_json::from_value::<Message>(value.clone());
        let _ = serde_json::from_value::<Part>(value.clone());
        let _ = serde_json::from_value::<Request>(json!({"messages": value}));
    }
}

#[test]
fn content_is_a_string_or_parts() {
    let text = json!({"role": "user", "content": "hi"});
    assert_eq!(reread::<Message>(text.clone()), text);
    let one = json!({"role": "user", "content": [{"type": "text", "text": "hi"}]});
    assert_eq!(reread::<Message>(one), text);
    let two = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "id": "m1"});
    assert_eq!(reread::<Message>(two.clone()), two);
    let none = json!({"role": "tool", "content": []});
    assert_eq!(reread::<Message>(none.clone()), none);
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let refusals = [
        refused::<Message>(user(json!([{"type": "audio", "data": ""}]))),
        refused::<Message>(json!({"role": "user", "content": "", "colour": 1})),
        refused::<Message>(json!({"role": "robot", "content": ""})),
        refused::<Message>(user(json!(7))),
        refused::<Part>(json!({"type": "text", "text": "", "colour": 1})),
        refused::<Part>(json!({"type": "tool_call", "id": "", "name": "", "colour": 1})),
        refused::<Part>(json!({"type": "image", "url": "", "colour": 1})),
        refused::<Part>(json!({"type": "image", "url": "", "id": "x"})),
        refused::<Part>(json!({"type": "image", "url": "", "data": ""})),
        refused::<Part>(json!({"type": "file", "name": "a"})),
        refused::<ToolDefinition>(json!({"name": "a", "strict": true})),
        refused::<Settings>(json!({"temprature": 1})),
        refused::<Request>(json!({"messages": [], "stream": true})),
        refused::<ToolOutput>(json!({"type": "video", "value": 1})),
        refused::<ToolOutput>(json!({"type": "text"})),
        refused::<ToolOutput>(json!({"type": "text", "value": "", "colour": 1})),
        refused::<ToolOutput>(json!({"type": "execution-denied", "value": {"why": ""}})),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    unknown variant `audio`, expected one of `text`, `image`, `file`, `evidence`, `thinking`, `tool_call`, `tool_result`
    unknown field `colour`, expected one of `role`, `content`, `id`, `name`
    unknown variant `robot`, expected one of `system`, `user`, `assistant`, `tool`
    invalid type: integer `7`, expected a string or a list of parts
    unknown field `colour`, expected `text` or `citations`
    unknown field `colour`, expected one of `id`, `name`, `arguments`
    unknown field `colour`, expected one of `media_type`, `name`, `data`, `url`, `id`
    unknown field `id`
    give exactly one of `data`, `url`, found 2
    give exactly one of `data`, `url`, `id`, found 0
    unknown field `strict`, expected one of `name`, `description`, `parameters`, `native`
    unknown field `temprature`, expected one of `temperature`, `max_tokens`, `top_p`, `top_k`, `stop`, `seed`, `reasoning`, `provider`
    unknown field `stream`, expected one of `model`, `messages`, `tools`, `tool_choice`, `output`, `settings`, `breakpoints`
    unknown variant `video`, expected one of `text`, `json`, `execution-denied`, `error-text`, `error-json`, `content`
    missing field `value`
    unknown field `colour`, expected one of `type`, `value`, `reason`
    unknown field `why`, expected `reason`
    "#);
}

#[test]
fn tool_outputs_have_six_kinds() {
    let kinds = [
        json!({"type": "text", "value": "a"}),
        json!({"type": "json", "value": {"a": 1}}),
        json!({"type": "execution-denied", "value": {"reason": "no"}}),
        json!({"type": "execution-denied", "value": {}}),
        json!({"type": "error-text", "value": "a"}),
        json!({"type": "error-json", "value": [1]}),
        json!({"type": "content", "value": [{"type": "text", "text": "a"}]}),
    ];
    for kind in kinds {
        assert_eq!(reread::<ToolOutput>(kind.clone()), kind);
    }
    let bare = json!({"type": "execution-denied", "value": {}});
    for short in [json!({"type": "execution-denied"}), json!({"type": "execution-denied", "value": null})] {
        assert_eq!(reread::<ToolOutput>(short), bare);
    }
    // The AI SDK's spelling.
    let denied = json!({"type": "execution-denied", "reason": "no"});
    assert_eq!(reread::<ToolOutput>(denied), json!({"type": "execution-denied", "value": {"reason": "no"}}));
    let content = json!({"type": "content", "value": [
        {"type": "text", "text": "A map."},
        {"type": "media", "data": "AAAA", "mediaType": "image/png"},
        {"type": "image-url", "url": "https://example.com/a.png"},
        {"type": "file-data", "data": "AAAA", "mediaType": "application/pdf", "filename": "a.pdf"},
    ]});
    let ours = json!({"type": "content", "value": [
        {"type": "text", "text": "A map."},
        {"type": "image", "data": "AAAA", "media_type": "image/png"},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "file", "data": "AAAA", "media_type": "application/pdf", "name": "a.pdf"},
    ]});
    assert_eq!(reread::<ToolOutput>(content), ours);
    assert_eq!(ToolOutput::from_value(json!("a")), ToolOutput::Text("a".into()));
    assert_eq!(ToolOutput::from_value(json!(["a"])), ToolOutput::Json(json!(["a"])));
    assert_eq!(ToolOutput::failure("x"), ToolOutput::ErrorJson(json!({"error": "x"})));
}

#[test]
fn a_request_reads_back_as_it_was_written() {
    same(&Request {
        model: Some("openai/gpt-5-mini".into()),
        messages: vec![Arc::new(Message::system("a")), Arc::new(Message::user("b").with_id("m2"))],
        tools: vec![Arc::new(ToolDefinition::new("look", "Looks."))],
        tool_choice: Some(ToolChoice::Tool("look".into())),
        output: Some(Arc::new(json!({"type": "object"}))),
        settings: Settings { seed: Some(-1), stop: vec!["x".into()], ..Settings::default() },
        breakpoints: vec![
            Breakpoint::Tools,
            Breakpoint::Text { message: 0, byte: 1 },
            Breakpoint::Message { message: 1 },
        ],
    });
    same(&Request::default());
    for choice in [json!("auto"), json!("none"), json!("required"), json!({"tool": "look"})] {
        assert_eq!(reread::<ToolChoice>(choice.clone()), choice);
    }
    assert_eq!(
        reread::<ToolDefinition>(json!({"name": "a"})),
        json!({"name": "a", "description": "", "parameters": {"type": "object"}})
    );
    for role in ["system", "user", "assistant", "tool"] {
        assert_eq!(Role::parse(role).map(Role::as_str), Some(role));
        assert_eq!(reread::<Role>(json!(role)), json!(role));
    }
}

#[test]
fn settings_keep_their_numbers_and_merge_by_field() {
    let written =
        json!({"temperature": 1, "top_p": 0.5, "max_tokens": 9, "stop": ["a"], "provider": {"a": 1, "b": 1}});
    assert_eq!(reread::<Settings>(written.clone()), written);
    assert_eq!(reread::<Settings>(json!({"stop": "a"})), json!({"stop": ["a"]}));

    let base: Settings = serde_json::from_value(written).unwrap();
    let over: Settings =
        serde_json::from_value(json!({"temperature": 0, "top_k": 3, "seed": 5, "provider": {"b": 2}}))
            .unwrap();
    let merged = serde_json::to_value(base.clone().overridden_by(&over)).unwrap();
    assert_eq!(
        merged,
        json!({"temperature": 0, "max_tokens": 9, "top_p": 0.5, "top_k": 3, "stop": ["a"], "seed": 5, "provider": {"a": 1, "b": 2}})
    );
    assert_eq!(base.clone().overridden_by(&Settings::default()), base);
}

#[test]
fn cache_figures_that_are_not_reported_are_left_out() {
    let unreported = json!({"input_tokens": 5, "output_tokens": 2, "reasoning_tokens": 0});
    assert_eq!(reread::<Usage>(unreported.clone()), unreported);
    // As it was written before figures could be missing.
    let zero = json!({"input_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0, "output_tokens": 2, "reasoning_tokens": 0});
    assert_eq!(reread::<Usage>(zero.clone()), zero);
    let read: Usage = serde_json::from_value(zero).unwrap();
    let mut sum: Usage = serde_json::from_value(unreported).unwrap();
    sum += sum;
    assert_eq!((sum.input_tokens, sum.cache_read_tokens), (10, None));
    sum += read;
    assert_eq!((sum.input_tokens, sum.cache_read_tokens), (15, Some(0)));
}

#[test]
fn evidence_and_citations_have_one_form() {
    let evidence =
        json!({"type": "evidence", "chunk": "h:1", "source": "a.md", "text": ["x"], "citations": true});
    assert_eq!(reread::<Part>(evidence.clone()), evidence);
    let cited = json!({"role": "assistant", "content": [{"type": "text", "text": "30 days", "citations": [
        {"answer_span": {"start": 0, "end": 2}, "source": "a.md", "chunk": "h:1", "quote": "30", "origin": "text"},
    ]}]});
    assert_eq!(reread::<Message>(cited.clone()), cited);
    assert!(
        refused::<Part>(
            json!({"type": "evidence", "chunk": "h:1", "source": "a.md", "text": [], "score": 1})
        )
        .contains("unknown field `score`")
    );
    assert!(
        refused::<Citation>(json!({"source": "a", "chunk": "b", "origin": "text", "page": 1}))
            .contains("unknown field `page`")
    );
}

proptest! {
    #[test]
    fn citations_of_a_message_lie_in_its_text(message in message(), citation in citation()) {
        let mut message = message;
        let text = message.joined_text();
        message.cite(citation.clone());
        let all = message.citations();
        for it in &all {
            prop_assert!(it.raw.is_none());
            prop_assert!(it.answer_span.is_some_and(|it| it.of(&text).is_some()), "{it:?}");
        }
        let raws = |message: &Message| -> usize {
            let parts = message.content.iter();
            parts.map(|it| if let Part::Text { citations, .. } = it { citations.iter().filter(|it| it.raw.is_some()).count() } else { 0 }).sum()
        };
        // What the provider expects back is never lost.
        let n_raws = raws(&message);
        message.set_citations(all);
        prop_assert_eq!(raws(&message), n_raws);
    }
}
