//! Requests and answers of all kinds.

use std::sync::Arc;

use contexture_message::{
    Answer, Breakpoint, Citation, CitationOrigin, Delta, Effort, Evidence, File, Image, MediaSource, Message,
    Part, RawCitation, Reasoning, Request, Role, Settings, Span, StopReason, Thinking, ToolCall, ToolChoice,
    ToolDefinition, ToolOutput, ToolResult, Usage,
};
use contexture_wire::{Target, encode_request};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Bytes that must never be seen as text: `MARKERMARKER` in base64.
pub(crate) const MARKER: &str = "TUFSS0VSTUFSS0VS";

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Zäß🎈 \\n]{0,12}"
}

/// A text with something in it.
pub(crate) fn words() -> impl Strategy<Value = String> + Clone {
    "[a-zA-Zäß🎈][a-zA-Zäß🎈 \\n]{0,12}"
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word().prop_map(Value::from),
        vec(word(), 0..3).prop_map(Value::from),
        arguments(),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), words().prop_map(|it| json!({"city": it, "days": [1, null]}))]
}

fn source() -> impl Strategy<Value = MediaSource> {
    prop_oneof![
        Just(MediaSource::Data(MARKER.to_owned())),
        Just(MediaSource::Url(format!("data:image/png;base64,{MARKER}"))),
        Just(MediaSource::Url("https://example.org/a.pdf".to_owned())),
        Just(MediaSource::Id("file_1".to_owned())),
    ]
}

fn media_type() -> impl Strategy<Value = Option<String>> {
    let types = ["image/png", "image/tiff", "application/pdf", "text/plain", "text/csv", "application/zip"];
    option::of(proptest::sample::select(types.to_vec()).prop_map(str::to_owned))
}

fn image() -> impl Strategy<Value = Part> {
    (source(), media_type()).prop_map(|(source, media_type)| Part::Image(Image { source, media_type }))
}

fn file() -> impl Strategy<Value = Part> {
    (source(), media_type(), option::of(words()))
        .prop_map(|(source, media_type, name)| Part::File(File { source, media_type, name }))
}

fn span() -> impl Strategy<Value = Option<Span>> {
    option::of((0..9_usize, 0..9_usize).prop_map(|(start, end)| Span { start, end }))
}

/// A citation of any origin; its span may lie outside of the text.
fn citation() -> impl Strategy<Value = Citation> {
    let provider = option::of(proptest::sample::select(&["anthropic", "gemini", "openai"][..]));
    let raw = prop_oneof![
        word()
            .prop_map(|it| json!({"type": "search_result_location", "source": it, "search_result_index": 3})),
        Just(json!({"type": "char_location", "document_index": 1})),
        word().prop_map(|it| json!({"type": "url_citation", "url": it, "start_index": 2})),
        word().prop_map(|it| json!({"web": {"uri": it}})),
        value(),
    ];
    (span(), words(), word(), option::of(word()), provider, raw).prop_map(
        |(answer_span, source, chunk, quote, provider, value)| {
            let origin = if provider.is_some() { CitationOrigin::Provider } else { CitationOrigin::Text };
            let raw = provider.map(|it| RawCitation { provider: it.to_owned(), value });
            Citation { answer_span, source, chunk, quote, source_span: None, origin, raw }
        },
    )
}

fn cited() -> impl Strategy<Value = Part> {
    (word(), vec(citation(), 1..3)).prop_map(|(text, citations)| Part::Text { text, citations })
}

pub(crate) fn evidence() -> impl Strategy<Value = Part> {
    (words(), words(), option::of(word()), vec(word(), 0..3)).prop_map(|(chunk, source, title, text)| {
        // All search results of a request either return citations or none do.
        Part::Evidence(Evidence { chunk, source, title, text, citations: true })
    })
}

fn thinking() -> impl Strategy<Value = Part> {
    let provider = option::of(proptest::sample::select(&["anthropic", "gemini", "openai"][..]));
    (word(), option::of("[A-Za-z0-9+/=]{1,9}"), provider, any::<bool>()).prop_map(
        |(text, signature, provider, redacted)| {
            Part::Thinking(Thinking { text, signature, provider: provider.map(str::to_owned), redacted })
        },
    )
}

fn id() -> impl Strategy<Value = String> {
    "[a-z_.:é-]{0,3}"
}

fn leaf() -> impl Strategy<Value = Part> {
    prop_oneof![word().prop_map(Part::text), cited(), image(), file(), evidence(), thinking()]
}

fn output() -> impl Strategy<Value = ToolOutput> {
    prop_oneof![
        word().prop_map(ToolOutput::Text),
        value().prop_map(ToolOutput::Json),
        option::of(word()).prop_map(|reason| ToolOutput::ExecutionDenied { reason }),
        word().prop_map(ToolOutput::ErrorText),
        value().prop_map(ToolOutput::ErrorJson),
        vec(leaf(), 0..4).prop_map(ToolOutput::Content),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => leaf(),
        1 => (id(), words(), value()).prop_map(|(id, name, arguments)| Part::ToolCall(ToolCall { id, name, arguments })),
        1 => (id(), word(), output())
            .prop_map(|(call_id, name, output)| Part::ToolResult(ToolResult { call_id, name, output })),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    proptest::sample::select(&[Role::System, Role::User, Role::Assistant, Role::Tool][..])
}

fn breakpoint() -> impl Strategy<Value = Breakpoint> {
    prop_oneof![
        Just(Breakpoint::Tools),
        (0..6_usize).prop_map(|message| Breakpoint::Message { message }),
        (0..6_usize, 0..20_usize).prop_map(|(message, byte)| Breakpoint::Text { message, byte }),
    ]
}

fn reasoning() -> impl Strategy<Value = Reasoning> {
    prop_oneof![any::<u32>().prop_map(Reasoning::Budget), Just(Reasoning::Effort(Effort::High))]
}

fn settings() -> impl Strategy<Value = Settings> {
    let numbers = (option::of(any::<u32>()), option::of(any::<u32>()), option::of(any::<i64>()));
    (numbers, option::of(0..40_u32), vec(word(), 0..3), option::of(reasoning())).prop_map(
        |((max_tokens, top_k, seed), tenths, stop, reasoning)| Settings {
            temperature: tenths.map(|it| serde_json::Number::from_f64(f64::from(it) / 10.0).expect("finite")),
            max_tokens,
            top_p: tenths.map(Into::into),
            top_k,
            stop,
            seed,
            reasoning,
            provider: Map::new(),
        },
    )
}

fn tool() -> impl Strategy<Value = Arc<ToolDefinition>> {
    (words(), word(), value()).prop_map(|(name, description, schema)| {
        Arc::new(ToolDefinition::new(name, description).parameters(schema))
    })
}

fn choice() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        words().prop_map(ToolChoice::Tool)
    ]
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    (role(), vec(part(), 0..4)).prop_map(|(role, parts)| Arc::new(Message::parts(role, parts)))
}

/// Any request at all, sensible or not.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let rest = (option::of(choice()), option::of(value()), settings(), vec(breakpoint(), 0..7));
    (vec(message(), 0..6), vec(tool(), 0..3), rest).prop_map(
        |(messages, tools, (tool_choice, output, settings, breakpoints))| Request {
            model: None,
            messages,
            tools,
            tool_choice,
            output: output.map(Arc::new),
            settings,
            breakpoints,
        },
    )
}

fn exchange(assistant: Vec<Part>, outputs: Vec<ToolOutput>, turn: usize) -> Vec<Message> {
    let id = |index: usize| format!("call_{turn}_{index}");
    let mut assistant = assistant;
    let mut results = Vec::new();
    for (index, output) in outputs.into_iter().enumerate() {
        let arguments = json!({"index": index});
        assistant.push(Part::ToolCall(ToolCall { id: id(index), name: "find".to_owned(), arguments }));
        results.push(Part::ToolResult(ToolResult { call_id: id(index), name: "find".to_owned(), output }));
    }
    let results = (!results.is_empty()).then(|| Message::parts(Role::Tool, results));
    [Message::parts(Role::Assistant, assistant)].into_iter().chain(results).collect()
}

/// A conversation in which every call has its result directly behind it.
pub(crate) fn paired() -> impl Strategy<Value = Request> {
    let turn = (words(), vec(leaf(), 0..3), vec(output(), 0..4));
    vec(turn, 1..4).prop_map(|turns| {
        let mut messages = vec![Message::system("Be brief.")];
        for (index, (question, assistant, outputs)) in turns.into_iter().enumerate() {
            messages.push(Message::user(question));
            messages.extend(exchange(assistant, outputs, index));
        }
        Request { messages: messages.into_iter().map(Arc::new).collect(), ..Request::default() }
    })
}

/// What the dialects have in common: a conversation that each of them can carry without a loss. Thinking is handed in,
/// because each provider has its own.
pub(crate) fn plain(
    thinking: impl Strategy<Value = Vec<Part>> + Clone,
    outputs: impl Strategy<Value = ToolOutput> + Clone,
) -> impl Strategy<Value = Request> {
    let media = prop_oneof![
        words().prop_map(Part::text),
        Just(Part::Image(Image {
            source: MediaSource::Data(MARKER.to_owned()),
            media_type: Some("image/png".to_owned())
        })),
        Just(Part::File(File {
            source: MediaSource::Data(MARKER.to_owned()),
            media_type: Some("application/pdf".to_owned()),
            name: None,
        })),
    ];
    let turn = (vec(media, 1..3), thinking, words(), vec(outputs, 0..3));
    let tool = (words(), Just(json!({"type": "object", "properties": {"a": {"type": "string"}}})));
    let settings = (option::of(2000..3000_u32), option::of(1024..1900_u32), vec(words(), 0..3));
    let output = option::of(Just(Arc::new(json!({"type": "object", "additionalProperties": false}))));
    (option::of(words()), vec(turn, 1..4), option::of(tool), settings, output).prop_map(
        |(system, turns, tool, (max_tokens, budget, stop), output)| {
            let mut messages: Vec<Message> = system.into_iter().map(Message::system).collect();
            for (index, (question, mut said, text, outputs)) in turns.into_iter().enumerate() {
                messages.push(Message::parts(Role::User, question));
                said.push(Part::text(text));
                let calls = !outputs.is_empty();
                messages.extend(exchange(said, outputs, index));
                if calls {
                    messages.push(Message::assistant("Done."));
                }
            }
            let tools =
                tool.map(|(name, schema)| Arc::new(ToolDefinition::new(name, "Finds.").parameters(schema)));
            Request {
                model: None,
                messages: messages.into_iter().map(Arc::new).collect(),
                tool_choice: tools.as_ref().map(|_| ToolChoice::Auto),
                tools: tools.into_iter().collect(),
                output,
                settings: Settings {
                    max_tokens: max_tokens.or(Some(4096)),
                    reasoning: budget.map(Reasoning::Budget),
                    stop,
                    ..Settings::default()
                },
                breakpoints: Vec::new(),
            }
        },
    )
}

/// A whole answer with the pieces in which it arrives, as a decoder gives them: an empty piece announces thinking.
pub(crate) fn streamed(
    thinking: impl Strategy<Value = Vec<Part>>,
    ids: &'static str,
) -> impl Strategy<Value = Answer> {
    let usage = (0..99_u64, 0..99_u64, 0..99_u64, 0..99_u64);
    (thinking, option::of(words()), vec(arguments(), 0..3), usage).prop_map(
        move |(mut parts, text, calls, (plain, read, output, reasoning))| {
            parts.extend(text.map(Part::text));
            for (index, arguments) in calls.into_iter().enumerate() {
                let id = format!("{ids}_{index}");
                parts.push(Part::ToolCall(ToolCall { id, name: "find".to_owned(), arguments }));
            }
            let mut answer = Answer::parts(parts);
            if answer.stop == StopReason::End && output % 3 == 0 {
                answer.stop = StopReason::MaxTokens;
            }
            answer.usage = Usage {
                input_tokens: plain + read,
                cache_read_tokens: Some(read),
                cache_write_tokens: None,
                output_tokens: output + reasoning,
                reasoning_tokens: reasoning,
            };
            answer
        },
    )
}

/// Returns the pieces in which an answer arrives.
pub(crate) fn deltas(answer: &Answer) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut n_calls = 0;
    for part in &answer.message.content {
        match part {
            Part::Text { text, .. } => {
                let half = text.floor_char_boundary(text.len() / 2);
                deltas.extend([Delta::Text(text[..half].to_owned()), Delta::Text(text[half..].to_owned())]);
            }
            Part::Thinking(it) if it.redacted => {}
            Part::Thinking(it) => {
                deltas.extend([Delta::Thinking(String::new()), Delta::Thinking(it.text.clone())]);
                if it.text.is_empty() {
                    deltas.pop();
                }
            }
            Part::ToolCall(call) => {
                let index = n_calls;
                n_calls += 1;
                deltas.push(Delta::Call { index, id: call.id.clone(), name: call.name.clone() });
                deltas.push(Delta::Arguments { index, json: call.arguments.to_string() });
            }
            Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {}
        }
    }
    deltas.push(Delta::Done(Box::new(answer.clone())));
    deltas
}

/// Checks that a request that goes on leaves what was sent before alone, up to the last turn.
pub(crate) fn goes_on(target: &Target, request: &Request, list: &str) -> bool {
    let turn = |it: &&usize| request.messages[**it].role == Role::User;
    let Some(start) = (1..request.messages.len()).collect::<Vec<_>>().iter().rev().find(turn).copied() else {
        return true;
    };
    let before = Request { messages: request.messages[..start].to_vec(), ..request.clone() };
    let (before, after) = (encode_request(target, &before).body, encode_request(target, request).body);
    let (before, after) = (before[list].as_array().expect("a list"), after[list].as_array().expect("a list"));
    let stable = before.len().saturating_sub(1);
    after.len() >= stable && before[..stable] == after[..stable]
}
