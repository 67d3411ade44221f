//! Metrics: requests, turns, flow runs, model calls, tokens and their sources, caches, compactions.
//!
//! Labels have few values, and none of them comes from a client: routes by their pattern, sources and nodes by their
//! kind, models by their provider.

mod registry;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{Called, Calling, Event, Watcher};
use contexture_compose::{Fate, Segment, Slot};

use crate::lock::lock;

pub(crate) use registry::Meter;
use registry::{Registry, gauge};

macro_rules! meters {
    ($($id:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $id: Meter = Meter { name: concat!("contexture_", $name), help: $help, labels: &[$($label),*] };)*
    };
}

meters! {
    HTTP "http_requests_total" ["method", "route", "status"] "Requests that were answered.";
    HTTP_TIME "http_request_duration_seconds" ["route"] "Time until the head of the answer.";
    TURNS "turns_total" ["status"] "Turns that came to an end, or wait.";
    TURN_TIME "turn_duration_seconds" ["status"] "How long turns took.";
    FLOW_STARTS "flow_runs_started_total" [] "Runs of flows that were put on record.";
    FLOW_ENDS "flow_runs_ended_total" ["status"] "Runs of flows that came to an end.";
    FLOW_NODES "flow_nodes_total" ["kind", "outcome"] "Nodes of flows that came to an end.";
    NODE_TIME "flow_node_duration_seconds" ["kind"] "How long attempts of nodes of flows took, without what they waited for.";
    CALLS "model_calls_total" ["provider", "outcome"] "Model calls, by why they ended.";
    CALL_TIME "model_call_duration_seconds" ["provider"] "How long model calls took.";
    TOKENS "tokens_total" ["kind"] "Tokens as providers report them.";
    SOURCES "prompt_tokens_total" ["source"] "Tokens of requests to models, by the kind of who contributed them.";
    FORECAST "cache_read_forecast_tokens_total" [] "What providers' caches should have read.";
    CACHE_READ "cache_read_tokens_total" [] "What providers' caches did read, where there was a forecast.";
    CACHE_BREAKS "cache_breaks_total" [] "Calls whose cache read clearly less than was foretold.";
    COMPACTIONS "compactions_total" ["strategy", "made"] "Compactions, by how the range was chosen and what came of it.";
    DROPS "drops_total" ["reason"] "What was left out of requests to models.";
    REFUSED "requests_refused_total" ["code"] "Requests that the gate refused.";
    STORE_ERRORS "store_errors_total" [] "Requests that failed because of the store.";
    RUNNING "turns_running" [] "Turns that run now.";
    DRIVEN "flow_runs_driven" [] "Runs of flows that are driven now.";
    STUCK "flow_runs_stuck" [] "Runs of flows that could not be driven here in the last minute, such as damaged ones.";
    QUEUE "scribe_queue_depth" [] "What waits to be written.";
    STREAMS "sse_connections" [] "Streams of events that are open.";
}

/// The metrics of a server. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    registry: Mutex<Registry>,
    /// Each stream that is open has a copy.
    streams: Arc<()>,
}

/// A stream that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    _counted: Arc<()>,
}

impl Metrics {
    /// Counts something that happened.
    pub(crate) fn count(&self, meter: Meter, labels: &[&str]) {
        lock(&self.0.registry).add(meter, labels, 1);
    }

    /// Records how long something took.
    pub(crate) fn time(&self, meter: Meter, labels: &[&str], took: Duration) {
        lock(&self.0.registry).time(meter, labels, took.as_secs_f64());
    }

    /// Counts a request that failed.
    pub(crate) fn failed(&self, code: &str) {
        match code {
            "unauthorized" | "rate_limited" => self.count(REFUSED, &[code]),
            "store_unavailable" | "store_damaged" => self.count(STORE_ERRORS, &[]),
            _ => {}
        }
    }

    /// A stream of events is opened.
    pub(crate) fn stream(&self) -> OpenStream {
        OpenStream { _counted: Arc::clone(&self.0.streams) }
    }

    /// Something happened during a turn.
    pub(crate) fn observe_event(&self, event: &Event) {
        if let Event::ContextCompactionEnd(report) | Event::Compaction(report) = event {
            let made = if report.accepted { "summary" } else { "none" };
            self.count(COMPACTIONS, &[report.strategy.as_str(), made]);
        }
    }

    /// Writes it down as Prometheus reads it.
    pub(crate) fn text(&self, now: &[(Meter, usize)]) -> String {
        let mut text = String::new();
        lock(&self.0.registry).write(&mut text);
        now.iter().for_each(|(meter, n)| gauge(&mut text, *meter, *n as u64));
        gauge(&mut text, STREAMS, Arc::strong_count(&self.0.streams) as u64 - 1);
        text
    }
}

impl Watcher for Metrics {
    /// Adds up what a pass sends, by kind of source, and what it drops, by reason.
    fn calling(&self, call: &Calling<'_>) {
        let (mut sources, mut drops) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
        for segment in call.pass.segments() {
            match &segment.fate {
                Fate::Kept | Fate::Shortened { .. } => {
                    *sources.entry(kind_of(segment)).or_default() += u64::from(segment.tokens.0);
                }
                Fate::Dropped { reason } => *drops.entry(reason_of(reason)).or_default() += 1,
                Fate::Excluded { .. } | Fate::Empty => {}
            }
        }
        let mut registry = lock(&self.0.registry);
        sources.iter().for_each(|(kind, tokens)| registry.add(SOURCES, &[kind], *tokens));
        drops.iter().for_each(|(reason, n)| registry.add(DROPS, &[reason], *n));
    }

    fn called(&self, call: &Calling<'_>, result: &Called) {
        let model = call.pass.request().model.clone().unwrap_or_default();
        let provider = model.split('/').next().unwrap_or_default();
        let outcome = match &result.end {
            Ok(stop) => stop_name(stop),
            Err(code) => code.clone(),
        };
        let mut registry = lock(&self.0.registry);
        registry.add(CALLS, &[provider, &outcome], 1);
        registry.time(CALL_TIME, &[provider], result.took.as_secs_f64());
        let usage = result.usage;
        let kinds = [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens.unwrap_or_default()),
            ("cache_write", usage.cache_write_tokens.unwrap_or_default()),
            ("reasoning", usage.reasoning_tokens),
        ];
        kinds.iter().for_each(|(kind, n)| registry.add(TOKENS, &[kind], *n));
        if let Some(reconciled) = &result.reconciled {
            registry.add(FORECAST, &[], u64::from(reconciled.expected.0));
            registry.add(CACHE_READ, &[], u64::from(reconciled.reported.0));
            registry.add(CACHE_BREAKS, &[], u64::from(reconciled.broken));
        }
    }
}

/// Returns the name of why a model stopped.
fn stop_name(stop: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(stop).unwrap_or_default();
    value.as_str().unwrap_or("other").to_owned()
}

/// Returns the kind of a Segment's source; tools are a kind of their own.
fn kind_of(segment: &Segment) -> &str {
    match segment.source.kind() {
        _ if segment.slot == Slot::Tools => "tools",
        "" => "other",
        kind => kind,
    }
}

/// Returns the kind of a reason, whose text holds numbers.
fn reason_of(reason: &str) -> &'static str {
    match reason {
        it if it.starts_with("did not fit") => "budget",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contexture_compose::{Body, Segment, Slot, Source};

    use super::{DRIVEN, HTTP, Metrics, NODE_TIME, QUEUE, RUNNING, STUCK, TURNS, kind_of, reason_of};

    #[test]
    fn sources_and_reasons_have_few_kinds() {
        let kind = |source, slot| kind_of(&Segment::new(source, slot, Body::Nothing)).to_owned();
        assert_eq!(kind(Source::Context("brand".into()), Slot::System), "context");
        assert_eq!(kind(Source::Noted("context[2]".into()), Slot::System), "context");
        assert_eq!(kind(Source::History("t7".into()), Slot::History), "history");
        assert_eq!(kind(Source::Prompt, Slot::Tools), "tools");
        assert_eq!(reason_of("did not fit the token budget: 3 tokens over, priority 50"), "budget");
    }

    #[test]
    fn what_was_measured_is_written_down() {
        let metrics = Metrics::default();
        metrics.count(HTTP, &["GET", "/v1/prompts", "200"]);
        metrics.count(TURNS, &["completed"]);
        metrics.time(NODE_TIME, &["llm_request"], Duration::from_secs(2));
        let open = metrics.stream();
        let text = metrics.text(&[(RUNNING, 1), (DRIVEN, 3), (STUCK, 4), (QUEUE, 2)]);
        for line in [
            r#"contexture_http_requests_total{method="GET",route="/v1/prompts",status="200"} 1"#,
            r#"contexture_turns_total{status="completed"} 1"#,
            r#"contexture_flow_node_duration_seconds_sum{kind="llm_request"} 2"#,
            "contexture_turns_running 1",
            "contexture_flow_runs_driven 3",
            "contexture_flow_runs_stuck 4",
            "contexture_scribe_queue_depth 2",
            "contexture_sse_connections 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        drop(open);
        assert!(metrics.text(&[]).contains("contexture_sse_connections 0"));
    }
}
