//! What must hold for all requests and answers: what is encoded and read again is the same, wherever no loss was reported.
//!
//! Some things are written in one way only, without a loss, and are not made here: outputs of tools that are no text come
//! back as the text that the model read; consecutive assistant messages of Responses come back as one; media types of
//! addresses, names and media types of uploaded files, and names of files behind an address are not sent; an image without
//! a media type is a PNG; a thinking budget raises the most tokens to write; breakpoints, ids of messages, entries for the
//! provider and a tool choice without tools have no place on the wire.

use std::sync::Arc;

use contexture_message::{
    Answer, Delta, Effort, File, Image, MediaSource, Message, Part, Reasoning, Request, Role, Settings,
    StopReason, Thinking, ToolCall, ToolChoice, ToolDefinition, ToolOutput, ToolResult, Usage,
};
use contexture_wire::{
    Dialect, StreamDecoder, StreamEncoder, Target, decode_answer, decode_request, encode_answer,
    encode_request,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

use super::golden::target;

const DIALECTS: [Dialect; 2] = [Dialect::Openai, Dialect::OpenaiResponses];

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäß🎈\"\\\\\n ]{1,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z_]{1,8}"
}

fn json_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
        Just(Value::Null),
        vec(any::<u8>(), 0..3).prop_map(Value::from),
    ];
    vec((name(), leaf), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

fn image() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[A-Za-z0-9+/]{4,16}".prop_map(|data| Image {
            source: MediaSource::Data(data),
            media_type: Some("image/jpeg".to_owned())
        }),
        name().prop_map(|name| Image {
            source: MediaSource::Url(format!("https://example.org/{name}.png")),
            media_type: None
        }),
    ]
    .prop_map(Part::Image)
}

fn file() -> impl Strategy<Value = Part> {
    prop_oneof![
        ("[A-Za-z0-9+/]{4,16}", name()).prop_map(|(data, name)| File {
            source: MediaSource::Data(data),
            media_type: Some("application/pdf".to_owned()),
            name: Some(name)
        }),
        name().prop_map(|it| File { source: MediaSource::Id(it), media_type: None, name: None }),
        name().prop_map(|it| File {
            source: MediaSource::Url(format!("https://example.org/{it}.pdf")),
            media_type: None,
            name: None
        }),
    ]
    .prop_map(Part::File)
}

fn thinking() -> impl Strategy<Value = Part> {
    let signed = (option::of(text()), name()).prop_map(|(summary, secret)| {
        let summary: Vec<Value> =
            summary.iter().map(|it| json!({"type": "summary_text", "text": it})).collect();
        let item =
            json!({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": secret});
        let text = summary.first().map(|it| it["text"].as_str().unwrap().to_owned());
        let (text, signature) = (text.unwrap_or_default(), Some(item.to_string()));
        Thinking { text, signature, provider: Some("openai".to_owned()), redacted: false }
    });
    let unsigned =
        text().prop_map(|text| Thinking { text, provider: Some("openai".to_owned()), ..Thinking::default() });
    let foreign = text().prop_map(|text| Thinking {
        text,
        signature: Some("secret".to_owned()),
        provider: Some("anthropic".to_owned()),
        redacted: false,
    });
    prop_oneof![signed, unsigned, foreign].prop_map(Part::Thinking)
}

fn call() -> impl Strategy<Value = ToolCall> {
    ("call_[a-z0-9]{6}", name(), json_object()).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name,
        arguments,
    })
}

fn user() -> impl Strategy<Value = Message> {
    let part = prop_oneof![3 => text().prop_map(Part::text), 1 => image(), 1 => file()];
    vec(part, 0..4).prop_map(|parts| Message::parts(Role::User, parts))
}

/// An assistant message, the results of its calls, and what the user says then.
fn exchange() -> impl Strategy<Value = Vec<Message>> {
    let part = prop_oneof![
        3 => text().prop_map(Part::text),
        1 => thinking(),
        2 => call().prop_map(Part::ToolCall),
        1 => image(),
    ];
    (vec(part, 0..5), text(), vec(user(), 1..3)).prop_map(|(parts, result, after)| {
        let results: Vec<Message> = parts.iter().filter_map(|it| tool_message(it, &result)).collect();
        let said = Message::parts(Role::Assistant, parts);
        std::iter::once(said).chain(results).chain(after).collect()
    })
}

fn tool_message(part: &Part, text: &str) -> Option<Message> {
    let Part::ToolCall(ToolCall { id, name, .. }) = part else { return None };
    let (call_id, name) = (id.clone(), name.clone());
    let result = ToolResult { call_id, name, output: ToolOutput::Text(text.to_owned()) };
    Some(Message::parts(Role::Tool, vec![Part::ToolResult(result)]))
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    (vec(text().prop_map(Message::system), 0..3), user(), vec(exchange(), 0..3)).prop_map(
        |(system, first, rest)| system.into_iter().chain([first]).chain(rest.into_iter().flatten()).collect(),
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let efforts = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];
    let number = || (0..20u32).prop_map(|it| Number::from_f64(f64::from(it) / 10.0).unwrap());
    let chosen = (option::of(number()), option::of(number()), option::of(any::<i64>()), vec(text(), 0..6));
    (chosen, option::of(30_000..60_000u32), option::of(proptest::sample::select(efforts.to_vec()))).prop_map(
        |((temperature, top_p, seed, stop), max_tokens, effort)| Settings {
            temperature,
            top_p,
            seed,
            stop,
            // Thinking without a limit would set one.
            reasoning: effort.filter(|_| max_tokens.is_some()).map(Reasoning::Effort),
            max_tokens,
            ..Settings::default()
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let tool = (name(), prop_oneof![Just(String::new()), text()], json_object()).prop_map(
        |(name, description, parameters)| ToolDefinition {
            parameters,
            ..ToolDefinition::new(name, description)
        },
    );
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        name().prop_map(ToolChoice::Tool)
    ];
    (messages(), vec(tool, 0..3), option::of(choice), option::of(json_object()), settings()).prop_map(
        |(messages, tools, choice, output, settings)| Request {
            model: Some("gpt-5-mini".to_owned()),
            messages: messages.into_iter().map(Arc::new).collect(),
            tool_choice: choice.filter(|_| !tools.is_empty()),
            tools: tools.into_iter().map(Arc::new).collect(),
            output: output.map(Arc::new),
            settings,
            breakpoints: Vec::new(),
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let usage =
        (0..9999u64, option::of(0..99u64), option::of(1..99u64), 0..9999u64, 0..99u64).prop_map(|it| Usage {
            input_tokens: it.0,
            cache_read_tokens: it.1,
            cache_write_tokens: it.2,
            output_tokens: it.3,
            reasoning_tokens: it.4,
        });
    let part =
        prop_oneof![2 => text().prop_map(Part::text), 1 => thinking(), 1 => call().prop_map(Part::ToolCall)];
    let stop = prop_oneof![
        4 => Just(None),
        1 => Just(Some(StopReason::MaxTokens)),
        1 => Just(Some(StopReason::Refused)),
        1 => Just(Some(StopReason::StopText)),
        1 => name().prop_map(|it| Some(StopReason::Other(format!("x{it}")))),
    ];
    (vec(part, 0..5), stop, usage, option::of(name())).prop_map(|(parts, stop, usage, id)| {
        let answer = Answer::parts(parts);
        let stop = stop.unwrap_or(answer.stop);
        Answer { stop, usage, id, model: Some("gpt-5-mini-2025".to_owned()), ..answer }
    })
}

/// The pieces that a provider would have sent.
fn deltas(answer: &Answer) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut n_calls = 0;
    for part in &answer.message.content {
        match part {
            Part::Text { text, .. } => {
                let (head, tail) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
                deltas.extend([head, tail].map(|it| Delta::Text(it.to_owned())));
            }
            Part::Thinking(thinking) => deltas.push(Delta::Thinking(thinking.text.clone())),
            Part::ToolCall(call) => {
                let (index, json) = (n_calls, call.arguments.to_string());
                let (head, tail) = json.split_at(1);
                n_calls += 1;
                deltas.push(Delta::Call { index, id: call.id.clone(), name: call.name.clone() });
                deltas.extend([head, tail].map(|it| Delta::Arguments { index, json: it.to_owned() }));
            }
            Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {}
        }
    }
    deltas
}

fn streamed(target: &Target, deltas: &[Delta]) -> Answer {
    let (mut encoder, mut decoder) = (StreamEncoder::new(target), StreamDecoder::new(target));
    let frames = deltas.iter().flat_map(|it| encoder.push(it));
    let read: Vec<Delta> = frames.flat_map(|it| decoder.push(&it).unwrap()).collect();
    let Some(Delta::Done(answer)) = read.last() else { panic!("the stream has no end") };
    (**answer).clone()
}

/// Whether reading the messages again can't tell them from others.
fn is_plain(dialect: Dialect, request: &Request) -> bool {
    let assistants = |pair: &[Arc<Message>]| pair.iter().all(|it| it.role == Role::Assistant);
    dialect == Dialect::Openai || !request.messages.windows(2).any(assistants)
}

proptest! {
    #[test]
    fn requests_come_back(request in request()) {
        for dialect in DIALECTS {
            let target = target(dialect);
            let encoded = encode_request(&target, &request);
            prop_assert_eq!(&encoded, &encode_request(&target, &request));
            let decoded = decode_request(&target, &encoded.body).unwrap();
            if encoded.losses.is_empty() && is_plain(dialect, &request) {
                prop_assert_eq!(&decoded.value, &request);
                prop_assert_eq!(decoded.losses, vec![]);
            }
            // Whatever was lost, what came through comes through again.
            let again = encode_request(&target, &decoded.value);
            prop_assert_eq!(again.body, encoded.body);
        }
    }

    #[test]
    fn answers_come_back(answer in answer()) {
        for dialect in DIALECTS {
            let target = target(dialect);
            let encoded = encode_answer(&target, &answer);
            let decoded = decode_answer(&target, &encoded.body).unwrap();
            if encoded.losses.is_empty() {
                prop_assert_eq!(&decoded.value, &answer);
            }
            prop_assert_eq!(decoded.losses, vec![]);
        }
    }

    #[test]
    fn streams_come_back(answer in answer(), only_done in any::<bool>()) {
        for dialect in DIALECTS {
            let target = target(dialect);
            let mut deltas = if only_done { Vec::new() } else { deltas(&answer) };
            deltas.push(Delta::Done(Box::new(answer.clone())));
            let mut read = streamed(&target, &deltas);
            if dialect == Dialect::OpenaiResponses && (deltas.len() > 1 || answer.id.is_none()) {
                // The stream has an id before the answer's own is known.
                prop_assert_eq!(read.id.as_deref(), Some("resp_0"));
                read.id = answer.id.clone();
            }
            if encode_answer(&target, &answer).losses.is_empty() {
                prop_assert_eq!(read, answer.clone());
            }
        }
    }
}

/// A part of any kind, as it may stand in a message of any role.
fn any_part() -> impl Strategy<Value = Part> {
    let simple = || prop_oneof![text().prop_map(Part::text), image(), file(), thinking()];
    let output = prop_oneof![
        text().prop_map(ToolOutput::Text),
        json_object().prop_map(ToolOutput::Json),
        option::of(text()).prop_map(|reason| ToolOutput::ExecutionDenied { reason }),
        text().prop_map(ToolOutput::ErrorText),
        json_object().prop_map(ToolOutput::ErrorJson),
        vec(prop_oneof![simple(), call().prop_map(Part::ToolCall)], 0..3).prop_map(ToolOutput::Content),
    ];
    let result =
        (name(), name(), output).prop_map(|(call_id, name, output)| ToolResult { call_id, name, output });
    prop_oneof![simple(), call().prop_map(Part::ToolCall), result.prop_map(Part::ToolResult)]
}

/// Messages in no sensible order.
fn any_messages() -> impl Strategy<Value = Request> {
    let role = proptest::sample::select(vec![Role::System, Role::User, Role::Assistant, Role::Tool]);
    let message =
        (role, vec(any_part(), 0..5)).prop_map(|(role, parts)| Arc::new(Message::parts(role, parts)));
    vec(message, 0..6).prop_map(|messages| Request { messages, ..Request::default() })
}

/// How many calls and results there are.
fn n_calls_and_results(request: &Request) -> (usize, usize) {
    let parts = || request.messages.iter().flat_map(|it| &it.content);
    let n_calls = parts().filter(|it| matches!(it, Part::ToolCall(_))).count();
    (n_calls, parts().filter(|it| matches!(it, Part::ToolResult(_))).count())
}

proptest! {
    #[test]
    fn any_request_is_written_with_all_its_calls_and_results(request in any_messages()) {
        for dialect in DIALECTS {
            let target = target(dialect);
            let encoded = encode_request(&target, &request);
            let decoded = decode_request(&target, &encoded.body).unwrap();
            prop_assert_eq!(n_calls_and_results(&decoded.value), n_calls_and_results(&request));
        }
    }
}

/// Any JSON at all.
fn any_json() -> impl Strategy<Value = Value> {
    let words =
        ["role", "content", "type", "text", "user", "assistant", "tool", "function", "message", "reasoning"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    let keys = [
        "messages",
        "input",
        "output",
        "choices",
        "message",
        "content",
        "role",
        "type",
        "tool_calls",
        "function",
        "item",
        "delta",
        "response",
        "error",
        "usage",
        "tools",
        "name",
        "id",
        "call_id",
        "arguments",
        "text",
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((proptest::sample::select(keys.to_vec()), inner), 0..5).prop_map(|it| Value::Object(
                it.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_that_is_read_makes_us_panic(body in any_json(), kind in 0..6usize) {
        let kinds = ["response.output_item.added", "response.output_item.done", "response.completed",
            "response.output_text.delta", "response.function_call_arguments.done", "other"];
        for dialect in DIALECTS {
            let target = target(dialect);
            let _ = decode_request(&target, &body);
            let _ = decode_answer(&target, &body);
            let frame = contexture_wire::Frame { event: Some(kinds[kind].to_owned()), data: body.to_string() };
            let mut decoder = StreamDecoder::new(&target);
            let _ = decoder.push(&frame);
            let _ = decoder.finish();
            let _ = contexture_wire::classify(dialect, 0, &body);
        }
    }
}
