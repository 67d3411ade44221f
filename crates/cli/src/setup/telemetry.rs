//! Log lines on standard error and spans to a collector (OTLP over HTTP), configured by `[telemetry]` of
//! contexture.toml.
//!
//! Without configuration no spans are sent, and only a server logs. Spans are sent in the background, and the rest
//! when the program ends. An unreachable collector causes a warning and nothing else.

use contexture_message::ErrorCode;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contexture_model::{Proxy, http_client};
use contexture_project::{LogFormat, TelemetryConfig};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Metadata;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::error::Failure;
use crate::output;
use crate::setup::models;

/// The time limit for a collector.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps telemetry running until it is dropped.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    spans: Option<SdkTracerProvider>,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(spans) = &self.spans {
            // Failed exports were already warned about where they happened.
            let _ = spans.shutdown_with_timeout(PATIENCE);
        }
    }
}

/// The default log output, used if the configuration sets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usual {
    /// No log lines: the command prints what matters.
    Nothing,
    /// One line for each request, with its cost; spans get no separate lines.
    Requests,
}

/// Starts the configured logging and tracing.
pub(crate) fn start(
    config: &TelemetryConfig,
    usual: Usual,
    proxies: Vec<Proxy>,
) -> Result<Telemetry, Failure> {
    let (usual_log, span_lines) = match usual {
        Usual::Nothing => ("off", FmtSpan::CLOSE),
        Usual::Requests => ("info", FmtSpan::NONE),
    };
    let log = match config.log.as_deref().unwrap_or(usual_log) {
        "" | "off" => None,
        filter => Some(filter.parse::<EnvFilter>().map_err(|err| {
            let failure = Failure::new(
                ErrorCode::FileInvalid,
                format!("`telemetry.log`: invalid filter `{filter}`: {err}"),
            );
            failure.hint("write a level such as `info`, or `contexture_model=debug`")
        })?),
    };
    let endpoint = config.otlp_endpoint.clone().or_else(|| models::variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let spans = endpoint.as_deref().map(|it| exporter(it, proxies)).transpose()?;
    if log.is_none() && spans.is_none() {
        return Ok(Telemetry::default());
    }
    let log = log.map(|it| {
        // The cost and outcome of a call are known only when its span closes.
        let layer = tracing_subscriber::fmt::layer().with_span_events(span_lines).with_writer(io::stderr);
        match config.log_format {
            LogFormat::Text => layer.with_ansi(io::stderr().is_terminal()).with_filter(it).boxed(),
            LogFormat::Json => layer.json().flatten_event(true).with_filter(it).boxed(),
        }
    });
    let ours = FilterFn::new(|it: &Metadata<'_>| it.target().starts_with("contexture"));
    let layer = spans.as_ref().map(|it| {
        tracing_opentelemetry::layer()
            .with_tracer(it.tracer("contexture"))
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    });
    let subscriber = tracing_subscriber::registry().with(log).with(layer);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|err| Failure::new(ErrorCode::RuntimeFailed, format!("nothing can be logged: {err}")))?;
    Ok(Telemetry { spans })
}

fn exporter(endpoint: &str, proxies: Vec<Proxy>) -> Result<SdkTracerProvider, Failure> {
    let wrong = |err: String| {
        let failure = Failure::new(ErrorCode::FileInvalid, format!("`telemetry.otlp_endpoint`: {err}"));
        failure.hint("write the address of a collector, such as `http://127.0.0.1:4318`")
    };
    if !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
        return Err(wrong(format!("`{endpoint}` does not begin with http:// or https://")));
    }
    let sender = Sender { proxies, has_warned: AtomicBool::new(false) };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(sender)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(PATIENCE)
        .build()
        .map_err(|err| wrong(err.to_string()))?;
    let resource = Resource::builder_empty().with_service_name("contexture").build();
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

/// Sends spans from the thread that collects them.
#[derive(Debug)]
struct Sender {
    proxies: Vec<Proxy>,
    has_warned: AtomicBool,
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        if let Err(err) = &sent
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            output::warn(&format!("cannot send spans: {err}"));
        }
        sent
    }
}

impl Sender {
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The collecting thread has no async runtime, and that of the program may already be shut down.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (head, body) = request.into_parts();
            let client = http_client(self.proxies.clone(), None)?;
            let call = client.post(head.uri.to_string()).headers(head.headers).timeout(PATIENCE).body(body);
            let answer = call.send().await.map_err(|err| err.without_url())?;
            let status = answer.status();
            if !status.is_success() {
                return Err(format!("the collector answers with status {}", status.as_u16()).into());
            }
            Ok(Response::builder().status(status).body(answer.bytes().await?)?)
        })
    }
}
