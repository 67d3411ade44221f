//! HTTP tools: the call they make, and what they make of what comes back.

use std::collections::BTreeMap;

use contexture_agent::{HttpReply, HttpTool};
use serde_json::{Value, json};

fn http(spec: Value) -> HttpTool {
    serde_json::from_value(spec).unwrap()
}

fn request(spec: Value, arguments: Value) -> String {
    let parameters = json!({"properties": {"id": {}, "b": {}, "page": {}, "q": {"properties": {"x": {}}}}});
    made(spec, &parameters, &arguments)
}

fn made(spec: Value, parameters: &Value, arguments: &Value) -> String {
    match http(spec).request(parameters, arguments) {
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
    insta::assert_snapshot!(request(order("GET"), json!({"id": ".."})), @"error: the arguments make a step of `.` or `..` in the address: `https://shop.test/orders/..`");
    insta::assert_snapshot!(request(order("GET"), json!({})), @"error: argument `id` is empty, and the address needs it");
}

#[test]
fn only_declared_arguments_are_sent() {
    let get = json!({"url": "https://shop.test/orders?tenant=7"});
    let post = json!({"url": "https://shop.test/orders?tenant=7", "method": "POST"});
    let arguments = json!({"page": 1, "tenant": 8, "admin": true, "q": {"x": 1, "y": 2}});
    insta::assert_snapshot!(request(get.clone(), arguments.clone()), @"GET https://shop.test/orders?tenant=7&page=1&q=%7B%22x%22%3A1%7D");
    insta::assert_snapshot!(request(post, arguments.clone()), @r#"POST https://shop.test/orders?tenant=7 {"page":1,"q":{"x":1}}"#);
    // Where anything may be sent, nothing is said twice all the same.
    let any = json!({"additionalProperties": true});
    let arguments = json!({"tenant": 8, "TENANT": 9, "a b": 1, "z": 2});
    let url = json!({"url": "https://shop.test/orders?ten%61nt=7&a+b=3"});
    insta::assert_snapshot!(made(url, &any, &arguments), @"GET https://shop.test/orders?ten%61nt=7&a+b=3&z=2");
    insta::assert_snapshot!(made(get, &json!({"type": "object"}), &arguments), @"GET https://shop.test/orders?tenant=7");
}

#[test]
fn no_argument_leaves_its_place() {
    let address = |url: &str, value: &str| request(json!({"url": url}), json!({"id": value, "b": "."}));
    for value in
        ["@evil.test", "\\evil", "//evil.test", "#x", "?x=1", "%2e%2e", "a\r\nb: c", "ⅿ。test", "a/../b"]
    {
        let made = address("https://shop.test/a/{id}/{b}c", value);
        let path = made.strip_prefix("GET https://shop.test/a/").unwrap_or_else(|| panic!("{made}"));
        assert_eq!(
            path.split_once("/.c").map(|(id, rest)| (id.contains(['/', '#', '?', '@', '\\']), rest)),
            Some((false, ""))
        );
    }
    for url in
        ["https://shop.test/{id}{b}/admin", "https://shop.test/.{b}/{id}", "https://shop.test/{b}?q={id}"]
    {
        assert!(address(url, ".").starts_with("error: the arguments make a step of `.` or `..`"), "{url}");
    }
    assert_eq!(address("https://shop.test/?q={id}&r={b}", ".."), "GET https://shop.test/?q=..&r=.");
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
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/?id=7"})), @"the query of the address says `id`, and so would the argument");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/?id={id}"})), @"fine");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/?id=7", "method": "POST"})), @"fine");
    insta::assert_snapshot!(checked(json!({"url": "ftp://shop.test/"})), @"`ftp://shop.test/` does not begin with http:// or https://");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/x#{id}"})), @"`https://shop.test/x#{id}` has a `#`, or a `.` or `..` as a step of its path");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/a/../{id}"})), @"`https://shop.test/a/../{id}` has a `#`, or a `.` or `..` as a step of its path");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/", "result": "data"})), @"`data` is no JSON Pointer: it begins with `/`");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/", "headers": {"x": "a\r\nb: c"}})), @"header `x` can't be sent: it has characters that no header has");
    insta::assert_snapshot!(checked(json!({"url": "https://shop.test/", "headers": {"x y": "a"}})), @"header `x y` can't be sent: it has characters that no header has");
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
    insta::assert_snapshot!(value(plain.clone(), 302, "text/html", "elsewhere"), @"error: status 302: elsewhere");
    insta::assert_snapshot!(value(plain.clone(), 204, "application/json", ""), @r#""""#);
    insta::assert_snapshot!(value(picked.clone(), 200, "text/plain", "{\"data\":[7]}"), @"7");
    assert!(value(picked.clone(), 200, "text/html", "<p>").starts_with("error: the answer is not JSON"));
    insta::assert_snapshot!(value(picked.clone(), 200, "application/json", "{\"data\":[7]}"), @"7");
    insta::assert_snapshot!(value(picked, 200, "application/json", "{}"), @"error: the answer has nothing at `/data/0`");
    assert!(value(plain, 200, "application/json", "{").starts_with("error: the answer is not JSON"));
}

#[test]
fn secrets_are_names_only() {
    let spec = json!({"url": "https://a.test/", "header_env": {"authorization": "TOKEN"}});
    let request = http(spec).request(&json!({}), &json!({})).unwrap();
    assert_eq!(request.secret_headers, BTreeMap::from([("authorization".to_owned(), "TOKEN".to_owned())]));
}
