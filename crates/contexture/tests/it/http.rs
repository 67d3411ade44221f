//! Calls of tools, against a server on loopback.

use contexture::SystemHttp;
use contexture::agent::{HttpCaller, HttpRequest};
use contexture_mockmodel::{MockModel, Received, Reply};
use serde_json::json;

/// Makes one call of a server that gives this reply; returns what came back as text, and what the server got.
async fn called(reply: Reply, change: impl FnOnce(&mut HttpRequest)) -> (String, Vec<Received>) {
    let server = MockModel::start([reply, Reply::status(200).text("somewhere else")]).await;
    let known = |name: &str| (name == "KEY").then(|| "s3cret-word\n".to_owned());
    let http = SystemHttp::new(Vec::new(), None, known).expect("it can be made");
    let mut request = HttpRequest {
        method: "POST".to_owned(),
        url: format!("{}/orders?q=private", server.url()),
        headers: [("x-plain".to_owned(), "yes".to_owned())].into(),
        secret_headers: [("x-key".to_owned(), "KEY".to_owned())].into(),
        body: Some(json!({"n": 1})),
        max_bytes: 100,
    };
    change(&mut request);
    let shown = match http.call(request).await {
        Ok(reply) => {
            let content_type = reply.content_type.unwrap_or_default();
            format!("{} {content_type} {}", reply.status, String::from_utf8_lossy(&reply.body))
        }
        Err(err) => format!("error: {err}"),
    };
    (shown, server.received())
}

#[tokio::test]
async fn a_call_has_its_headers_and_its_body() {
    let (shown, received) = called(Reply::json(201, &json!([1])), |_| {}).await;
    assert_eq!(shown, "201 application/json [1]");
    let Received { method, path, headers, body, .. } = &received[0];
    assert_eq!((method.as_str(), path.as_str(), body), ("POST", "/orders?q=private", &json!({"n": 1})));
    assert_eq!((&*headers["x-plain"], &*headers["x-key"]), ("yes", "s3cret-word"));
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (shown, received) = called(Reply::status(302).header("location", "/elsewhere"), |_| {}).await;
    assert_eq!((shown.as_str(), received.len()), ("302  ", 1));
}

#[tokio::test]
async fn a_large_answer_is_refused() {
    let (shown, _) = called(Reply::status(200).text("x".repeat(101)), |_| {}).await;
    assert_eq!(shown, "error: the answer is larger than 100 bytes");
    let (shown, _) = called(Reply::status(200).text("x".repeat(100)), |_| {}).await;
    assert_eq!(shown.len(), "200  ".len() + 100);
}

#[tokio::test]
async fn no_error_shows_a_secret_or_an_address() {
    let (shown, _) = called(Reply::no_answer(), |_| {}).await;
    assert!(shown.starts_with("error: "), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains("private"), "{shown}");
    let missing = |request: &mut HttpRequest| _ = request.secret_headers.insert("x".into(), "OTHER".into());
    let (shown, received) = called(Reply::status(200), missing).await;
    assert_eq!(shown, "error: the secret `OTHER` of header `x` is not set");
    assert!(received.is_empty());
    let (shown, _) =
        called(Reply::status(200), |it| _ = it.headers.insert("a".into(), "\n\u{1}b".into())).await;
    assert_eq!(shown, "error: header `a` has characters that can't be sent");
}
