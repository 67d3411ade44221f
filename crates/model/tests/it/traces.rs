//! What traces show, and what they must not.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Once;

use contexture_message::{Answer, Usage};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{ClientConfig, Model};
use contexture_wire::Dialect;
use futures::StreamExt;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::{call, client_with, config, good, hear, provider};

const PROMPT: &str = "the prompt nobody may read";

thread_local! {
    /// What this thread's spans and events said, a line for each field. A test has its thread for itself.
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps everything that any span or event says, at every level. For all tests of the process: a subscriber for one
/// test alone may miss what another one has met before.
#[derive(Debug)]
struct Lines;

impl Lines {
    fn begin() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Lines)).unwrap();
        });
    }

    fn add(kind: &str, record: impl FnOnce(&mut dyn Visit)) {
        struct Visitor(Vec<String>);
        impl Visit for Visitor {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                self.0.push(format!("{}={value:?}", field.name()));
            }
        }
        let mut visitor = Visitor(Vec::new());
        record(&mut visitor);
        let lines = visitor.0.into_iter().map(|it| format!("{kind} {it}"));
        LINES.with_borrow_mut(|it| it.extend(lines));
    }

    fn take() -> String {
        LINES.take().join("\n")
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        Lines::add(attributes.metadata().name(), |it| attributes.record(it));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        Lines::add("chat", |it| values.record(it));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        Lines::add(event.metadata().level().as_str(), |it| event.record(it));
    }
}

async fn traced(dialect: Dialect, replies: Vec<Reply>, config: ClientConfig) -> String {
    Lines::begin();
    let server = MockModel::start(replies).await;
    hear(&client_with(provider(dialect, &server), config), call(PROMPT)).await;
    Lines::take()
}

fn answer() -> Answer {
    Answer {
        usage: Usage { input_tokens: 20, cache_read_tokens: Some(16), output_tokens: 9, ..Usage::default() },
        ..Answer::text("the answer nobody may read")
    }
}

#[tokio::test]
async fn a_span_records_the_model_and_its_usage() {
    let reply = Reply::events(include_str!("streams/anthropic-tools.sse"));
    let lines = traced(Dialect::Anthropic, vec![reply], config()).await;
    for line in [
        "otel.name=\"chat model-1\"",
        "otel.kind=\"client\"",
        "gen_ai.operation.name=\"chat\"",
        "gen_ai.provider.name=\"mock\"",
        "gen_ai.request.model=\"model-1\"",
        "gen_ai.response.id=\"msg_7\"",
        "gen_ai.response.model=\"claude-x\"",
        "gen_ai.response.finish_reasons=\"[\\\"tool_call\\\"]\"",
        "gen_ai.usage.input_tokens=20",
        "gen_ai.usage.output_tokens=9",
        "gen_ai.usage.cache_read.input_tokens=16",
        "server.address=\"127.0.0.1\"",
    ] {
        assert!(
            lines.lines().any(|it| it.strip_prefix("chat ") == Some(line)),
            "{line} is missing in:\n{lines}"
        );
    }
    assert!(!lines.contains("error.type"), "{lines}");
}

#[tokio::test]
async fn no_trace_shows_what_is_said_or_a_key() {
    for dialect in Dialect::ALL {
        let echo = json!({"error": {"message": format!("sk-secret-key said: {PROMPT}"), "type": PROMPT}});
        let answered = Reply::answer(dialect, &answer());
        let replies = vec![Reply::json(500, &echo), Reply::json(429, &echo), answered.clone()];
        let failed = vec![Reply::json(400, &echo)];
        let half = answered.body().len() / 2;
        let cut = vec![answered.in_pieces_of(30).then_cut(half)];
        for replies in [replies, failed, cut] {
            let lines = traced(dialect, replies, config()).await;
            assert!(lines.contains("gen_ai.operation.name"), "{lines}");
            assert!(!lines.contains("nobody may read"), "{lines}");
            assert!(!lines.contains("sk-secret-key"), "{lines}");
        }
    }
}

#[tokio::test]
async fn what_is_said_shows_if_it_may() {
    for dialect in Dialect::ALL {
        let config = ClientConfig { record_content: true, ..config() };
        let lines = traced(dialect, vec![Reply::answer(dialect, &answer())], config).await;
        assert!(lines.contains("gen_ai.input.messages") && lines.contains(PROMPT), "{lines}");
        assert!(lines.contains("gen_ai.output.messages"), "{lines}");
        assert!(lines.contains("the answer nobody may read"), "{lines}");
        assert!(!lines.contains("sk-secret-key"), "{lines}");
    }
}

#[tokio::test]
async fn retries_are_events_and_errors_have_a_type() {
    let replies = vec![Reply::status(503), Reply::status(401)];
    let lines = traced(Dialect::Openai, replies, config()).await;
    for line in ["WARN status=503", "WARN attempt=1", "chat error.type=\"model_auth\""] {
        assert!(lines.lines().any(|it| it == line), "{line} is missing in:\n{lines}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_says_so() {
    Lines::begin();
    let place = good(Dialect::Openai).place_after("answer");
    let server = MockModel::start([good(Dialect::Openai).in_pieces_of(20).then_silence(place)]).await;
    let client = client_with(provider(Dialect::Openai, &server), config());
    let mut deltas = client.stream(call(PROMPT));
    assert!(deltas.next().await.unwrap().is_ok());
    drop(deltas);
    let lines = Lines::take();
    assert!(lines.contains("chat error.type=\"cancelled\""), "{lines}");
}
