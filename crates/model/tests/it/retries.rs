//! What is tried again, and what is not.

use std::time::{Duration, Instant};

use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{ClientConfig, ModelErrorKind, Retries, Timeouts};
use contexture_wire::Dialect;
use serde_json::json;

use crate::{answered, answered_by, call, client_with, config, good, hear, provider};

fn refused(dialect: Dialect, status: u16, kind: &str, message: &str) -> Reply {
    let body = match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => {
            json!({"error": {"message": message, "type": kind, "code": kind}})
        }
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Dialect::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
    };
    Reply::json(status, &body)
}

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    for dialect in Dialect::ALL {
        let limited = refused(dialect, 429, "rate_limit_error", "slow down").header("retry-after", "0.05");
        let started = Instant::now();
        let (heard, n_requests) = answered(dialect, [limited.clone(), limited, good(dialect)]).await;
        assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 3), "{dialect:?}");
        assert!(
            started.elapsed() >= Duration::from_millis(100),
            "{dialect:?}: waited {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn a_long_wait_is_the_caller_s_to_make() {
    let limited =
        refused(Dialect::Openai, 429, "rate_limit_exceeded", "slow down").header("retry-after", "3600");
    let (heard, n_requests) = answered(Dialect::Openai, [limited, good(Dialect::Openai)]).await;
    assert_eq!(n_requests, 1);
    assert_eq!(heard.error().kind(), ModelErrorKind::RateLimited);
    assert_eq!(heard.error().retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(heard.error().status(), Some(429));
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again() {
    for dialect in Dialect::ALL {
        for status in [500, 502, 503, 529] {
            let broken = Reply::status(status).text("<html>bad gateway</html>");
            let (heard, n_requests) = answered(dialect, [broken, good(dialect)]).await;
            assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 2), "{dialect:?} {status}");
        }
    }
}

#[tokio::test]
async fn three_retries_and_no_more() {
    let broken = (0..9).map(|_| refused(Dialect::Anthropic, 529, "overloaded_error", "Overloaded"));
    let (heard, n_requests) = answered(Dialect::Anthropic, broken).await;
    assert_eq!(n_requests, 4);
    assert_eq!(heard.error().kind(), ModelErrorKind::Overloaded);
    assert_eq!(heard.error().model(), Some("mock/model-1"));
}

#[tokio::test]
async fn what_is_wrong_with_the_request_is_not_tried_again() {
    let cases = [
        (400, "invalid_request_error", "temperature must be a number", ModelErrorKind::Invalid),
        (401, "invalid_api_key", "wrong key", ModelErrorKind::Auth),
        (403, "permission_error", "not yours", ModelErrorKind::Auth),
        (404, "model_not_found", "no such model", ModelErrorKind::NotFound),
    ];
    for dialect in Dialect::ALL {
        for (status, kind, message, expected) in cases {
            let (heard, n_requests) = answered(dialect, [refused(dialect, status, kind, message)]).await;
            assert_eq!((heard.error().kind(), n_requests), (expected, 1), "{dialect:?} {status}");
            assert!(heard.error().to_string().contains(message), "{dialect:?}: {}", heard.error());
        }
    }
}

#[tokio::test]
async fn a_url_that_is_not_an_api_is_named_in_the_error() {
    for body in ["404 page not found", r#"{"detail": "Not Found"}"#, "<html>nothing here</html>", ""] {
        let page = Reply::status(404).text(body);
        let (heard, n_requests) = answered(Dialect::Openai, [page]).await;
        assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Address, 1), "{body}");
        assert!(heard.error().to_string().contains("/chat/completions`"), "{}", heard.error());
    }
    let unknown = Reply::json(404, &json!({"error": "model `x` not found"}));
    assert_eq!(answered(Dialect::Openai, [unknown]).await.0.error().kind(), ModelErrorKind::NotFound);
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_said_to_be() {
    let openai =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
    let cases = [
        (Dialect::Openai, "context_length_exceeded", openai),
        (Dialect::OpenaiResponses, "context_length_exceeded", openai),
        (Dialect::Anthropic, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        (
            Dialect::Gemini,
            "INVALID_ARGUMENT",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        ),
    ];
    for (dialect, kind, message) in cases {
        let (heard, n_requests) = answered(dialect, [refused(dialect, 400, kind, message)]).await;
        assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::PromptTooLong, 1), "{dialect:?}");
    }
}

#[tokio::test]
async fn missing_credit_is_not_retried() {
    let broke = refused(Dialect::Openai, 429, "insufficient_quota", "you exceeded your current quota");
    let (heard, n_requests) = answered(Dialect::Openai, [broke]).await;
    assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn a_connection_that_is_cut_before_the_first_piece_is_made_again() {
    for dialect in Dialect::ALL {
        let cut = good(dialect).then_cut(10);
        let replies = [Reply::no_answer(), cut, good(dialect).then_cut(0), good(dialect)];
        let (heard, n_requests) = answered(dialect, replies).await;
        assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 4), "{dialect:?}");
    }
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_error_like_any_other() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let replies = [Reply::events(overloaded), good(Dialect::Anthropic)];
    let (heard, n_requests) = answered(Dialect::Anthropic, replies).await;
    assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 2));
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error_like_any_other() {
    let body = json!({"error": {"message": "upstream is busy", "code": 502}});
    let replies = [Reply::json(200, &body), good(Dialect::Openai)];
    let (heard, n_requests) = answered(Dialect::Openai, replies).await;
    assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 2));
}

#[tokio::test]
async fn a_call_without_much_time_does_not_wait() {
    let limited =
        refused(Dialect::Openai, 429, "rate_limit_exceeded", "slow down").header("retry-after", "30");
    let timeouts = Timeouts { total: Some(Duration::from_secs(5)), ..Timeouts::default() };
    let (heard, n_requests) =
        answered_by(Dialect::Openai, [limited], ClientConfig { timeouts, ..config() }).await;
    assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn retries_can_be_disabled() {
    let server = MockModel::start([Reply::status(500), good(Dialect::Openai)]).await;
    let retries = Retries { max: 0, ..Retries::default() };
    let client = client_with(provider(Dialect::Openai, &server), ClientConfig { retries, ..config() });
    assert!(hear(&client, call("hello")).await.end.is_err());
    assert_eq!(hear(&client, call("hello")).await.text(), "The answer is 42.");
}
