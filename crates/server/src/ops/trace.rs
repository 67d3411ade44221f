//! Takes over the trace that a client is in: `traceparent` of W3C Trace Context.

use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes a span a child of the client's, if the request names one.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let parent = headers.get("traceparent").and_then(|it| it.to_str().ok()).and_then(parent);
    if let Some(parent) = parent {
        // Without an exporter there is nothing to set.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

/// Parses `00-TRACE-SPAN-FLAGS`; later versions may append fields.
fn parent(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let mut hex = |digits: usize| {
        let part = parts.next()?;
        let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        (part.len() == digits && part.bytes().all(is_hex)).then_some(part)
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    Some(SpanContext::new(trace, span, flags, true, TraceState::default())).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use super::parent;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn read(text: &str) -> String {
        parent(text)
            .map_or("none".to_owned(), |it| format!("{} {} {}", it.trace_id(), it.span_id(), it.is_sampled()))
    }

    #[test]
    fn a_trace_is_taken_over_where_it_is_well_formed() {
        let span = "b7ad6b7169203331";
        assert_eq!(read(&format!("00-{TRACE}-{span}-01")), format!("{TRACE} {span} true"));
        assert_eq!(read(&format!("00-{TRACE}-{span}-00")), format!("{TRACE} {span} false"));
        assert_eq!(read(&format!("cc-{TRACE}-{span}-01-what-comes")), format!("{TRACE} {span} true"));
        for wrong in [
            "",
            "00",
            &format!("00-{TRACE}-{span}-01-more"),
            &format!("ff-{TRACE}-{span}-01"),
            &format!("00-{}-{span}-01", "0".repeat(32)),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-{}-{span}-01", TRACE.to_uppercase()),
            &format!("00-{TRACE}-{span}-1"),
        ] {
            assert_eq!(read(wrong), "none", "{wrong}");
        }
    }
}
