//! HTTP tools: the call they make, and what they make of what comes back.

use std::collections::BTreeMap;

use contexture_agent::{HttpReply, HttpTool};
use serde_json::{Value, json};

fn http(spec: Value) -> HttpTool {
    serde_json::from_value(spec).unwrap()
}

fn request(spec: Value, arguments: Value) -> String {
    match http(spec).request(&arguments) {
        Ok(it) => {
            format!("{} {}{}", it.method, it.url, it.body.map(|it| format!(" {it}")).unwrap_or_default())
        }
        Err(err) => format!("error: {err}"),
    }
}

#[test]
fn arguments_go_into_the_address_the_query_or_the_body() {
    let order = |method: &str| json!({"method": method, "url": "https://shop.test/orders/{id}"});
    let arguments = json!({"id": "a/b ?", "page": 2, "q": "ä&b"});
    insta::assert_snapshot!(request(order("GET"), arguments.clone()), @"GET https://shop.test/orders/a%2Fb%20%3F?page=2&q=%C3%A4%26b");
    insta::assert_snapshot!(request(order("POST"), arguments), @r#"POST https://shop.test/orders/a%2Fb%20%3F {"page":2,"q":"ä&b"}"#);
    insta::assert_snapshot!(request(order("GET"), json!({"id": ".."})), @"error: argument `id` can't be part of an address: `..`");
    insta::assert_snapshot!(request(order("GET"), json!({})), @"error: argument `id` can't be part of an address: ``");
}

fn checked(spec: Value) -> String {
    let parameters = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    http(spec).check(&parameters).map_or_else(|err| err.to_string(), |()| "fine".to_owned())
}

#[test]
fn declarations_are_checked() {
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/{id}"})), @"fine");
    insta::assert_snapshot!(checked(json!({"url": "https://{id}.test/x"})), @"arguments can stand behind the host, not in it");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/{name}"})), @"the address reads `name`, which the tool's parameters do not declare");
    insta::assert_snapshot!(checked(json!({"url": "ftp://shop.test/"})), @"`ftp://shop.test/` does not begin with http:// or https://");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/{id"})), @"`https://shop.test/{id` has a `{` without its `}`");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/", "method": "BREW"})), @"`BREW` is no method: GET, POST, PUT, PATCH, DELETE or HEAD");
}

fn value(spec: Value, status: u16, content_type: &str, body: &str) -> String {
    let reply = HttpReply { status, content_type: Some(content_type.to_owned()), body: body.into() };
    http(spec).value(&reply).map_or_else(|err| format!("error: {err}"), |it| it.to_string())
}

#[test]
fn what_comes_back_is_json_or_text() {
    let plain = json!({"url": "https://a.test/"});
    let picked = json!({"url": "https://a.test/", "result": "/data/0"});
    insta::assert_snapshot!(value(plain.clone(), 200, "application/json", "{\"a\":1}"), @r#"{"a":1}"#);
    insta::assert_snapshot!(value(plain.clone(), 200, "text/html", "<p>"), @r#""<p>""#);
    insta::assert_snapshot!(value(plain.clone(), 404, "text/plain", "gone"), @"error: status 404: gone");
    insta::assert_snapshot!(value(picked.clone(), 200, "application/json", "{\"data\":[7]}"), @"7");
    insta::assert_snapshot!(value(picked, 200, "application/json", "{}"), @"error: the answer has nothing at `/data/0`");
    assert!(value(plain, 200, "application/json", "{").starts_with("error: the answer is not JSON"));
}

#[test]
fn secrets_are_names_only() {
    let spec = json!({"url": "https://a.test/", "header_env": {"authorization": "TOKEN"}});
    let request = http(spec).request(&json!({})).unwrap();
    assert_eq!(request.secret_headers, BTreeMap::from([("authorization".to_owned(), "TOKEN".to_owned())]));
}
