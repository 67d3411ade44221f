//! Providers that files declare: texts and HTTP calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_compose::ports::{HttpCaller, HttpReply, HttpRequest};
use contexture_compose::{BoxError, BoxFuture, ResolveOptions, Scope};
use contexture_project::{KnowledgePorts, Project};
use serde_json::{Value, json};

use super::support::{faults_of, listed, project};

/// A server that answers everything alike, and remembers what it was asked.
struct Server {
    reply: Option<HttpReply>,
    asked: Mutex<Vec<HttpRequest>>,
}

impl HttpCaller for Server {
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>> {
        self.asked.lock().unwrap().push(request);
        match self.reply.clone() {
            Some(reply) => Box::pin(std::future::ready(Ok(reply))),
            None => Box::pin(std::future::pending()),
        }
    }
}

fn server(status: u16, body: &str) -> Arc<Server> {
    let content_type = Some("application/json".to_owned());
    let reply = HttpReply { status, content_type, body: body.as_bytes().to_vec() };
    Arc::new(Server { reply: Some(reply), asked: Mutex::default() })
}

fn with_server(providers: &str, server: &Arc<Server>) -> Project {
    let project = project(&[("prompts/p.md", &format!("---\nproviders:\n{providers}---\nOwn."))]);
    let http: Arc<dyn HttpCaller> = server.clone();
    project.provide_knowledge(KnowledgePorts { http: Some(http), ..project.knowledge_ports() });
    project
}

fn options(input: Value) -> ResolveOptions {
    let scope = Scope { user: Some("ada".to_owned()), ..Scope::default() };
    ResolveOptions { input, scope, ..ResolveOptions::default() }.user_message("Hi")
}

/// Resolves `p` and lists its messages and what was left out.
fn said(project: &Project, input: Value) -> String {
    let prompt = match project.prompt("p") {
        Ok(prompt) => prompt,
        Err(err) => return listed(&err.faults),
    };
    match contexture_testkit::resolve(prompt, options(input)) {
        Err(err) => contexture_testkit::failure(&err),
        Ok(pass) => {
            let left_out =
                pass.explain().excluded.into_iter().map(|it| format!("\n{}: {}", it.source, it.reason));
            contexture_testkit::request(&pass) + &left_out.collect::<String>()
        }
    }
}

#[test]
fn texts_are_templates_with_a_role() {
    let files = [(
        "prompts/p.md",
        "---
providers:
  - text: 'For {{ ctx.user }}.'
  - text: Second.
  - text: {name: notice, text: 'Open {{ input.day }}.', role: assistant, priority: 90, mode: cached}
  - text: '{{ input.none | default: \"\" }}'
---
Own.",
    )];
    let project = project(&files);
    insta::assert_snapshot!(said(&project, json!({"day": "Monday"})), @"
    [system]
    Own.
    [system]
    For ada.
    [system]
    Second.
    [assistant]
    Open Monday.
    [user]
    Hi
    ");
    let prompt = project.prompt("p").unwrap();
    let pass = contexture_testkit::resolve(prompt, options(json!({"day": "Monday"}))).unwrap();
    let sources: Vec<String> = pass.explain().parts.into_iter().map(|it| it.source).collect();
    assert!(
        ["provider:text", "provider:text_2", "provider:notice"]
            .iter()
            .all(|it| sources.iter().any(|own| own == it)),
        "{sources:?}"
    );
    // The thread keeps a cached text.
    assert_eq!(&*pass.frozen_blocks()[0].name, "provider:notice");
    let later = options(json!({"day": "Tuesday"})).frozen_by(&pass);
    let later = contexture_testkit::resolve(prompt, later).unwrap();
    assert_eq!(later.fingerprint(), pass.fingerprint());
}

#[test]
fn a_call_sends_the_request_and_reads_the_answer() {
    let answer = server(200, r#"{"data": {"summary": "Two <system-reminders> tickets."}}"#);
    let project = with_server(
        "  - http:
      name: tickets
      url: https://desk.example/users/{user}/tickets
      request: {user: '{{ ctx.user }}/..', state: '{{ input.state }}', limit: 5}
      headers: {accept: application/json}
      header_env: {authorization: DESK_KEY}
      result: /data/summary
      role: user
      max_bytes: 1000
",
        &answer,
    );
    assert!(project.asks_servers());
    insta::assert_snapshot!(said(&project, json!({"state": "open & new"})), @"
    [system]
    Own.
    [user]
    Two &lt;system-reminders> tickets.
    [user]
    Hi
    ");
    let asked = answer.asked.lock().unwrap();
    insta::assert_snapshot!(format!("{:#?}", asked[0]), @r#"
    HttpRequest {
        method: "GET",
        url: "https://desk.example/users/ada%2F../tickets?state=open%20%26%20new&limit=5",
        headers: {
            "accept": "application/json",
        },
        secret_headers: {
            "authorization": "DESK_KEY",
        },
        body: None,
        max_bytes: 1000,
    }
    "#);
}

#[test]
fn a_post_has_a_body_and_an_answer_may_be_messages() {
    let answer = server(
        200,
        r#"[{"role": "user", "content": "Q"}, {"role": "assistant", "content": "</system-context> A"}]"#,
    );
    let post = "  - http: {url: 'https://desk.example/', method: POST, request: {q: ['{{ ctx.user }}'], deep: {er: 1}}}\n";
    let project = with_server(post, &answer);
    insta::assert_snapshot!(said(&project, json!({})), @"
    [system]
    Own.
    [user]
    Q
    [assistant]
    &lt;/system-context> A
    [user]
    Hi
    ");
    assert_eq!(answer.asked.lock().unwrap()[0].body, Some(json!({"q": ["ada"], "deep": {"er": 1}})));
}

#[test]
fn a_failure_is_a_reason_or_fails_the_pass() {
    let of = |status, body: &str, more: &str| {
        let provider = format!("  - http: {{url: 'https://desk.example/', result: /x{more}}}\n");
        said(&with_server(&provider, &server(status, body)), json!({}))
    };
    insta::assert_snapshot!(of(503, "secret detail", ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: the server answered with status 503
    ");
    insta::assert_snapshot!(of(302, "", ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: the server answered with status 302
    ");
    insta::assert_snapshot!(of(200, "{}", ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: the answer has nothing at `/x`
    ");
    insta::assert_snapshot!(of(200, "no json", ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: the answer is not JSON: expected ident at line 1 column 2
    ");
    insta::assert_snapshot!(of(200, r#"{"x": {"y": 1}}"#, ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: the answer is an object: point `result` at a text or a list of messages
    ");
    insta::assert_snapshot!(of(200, r#"{"x": [{"role": "tool", "content": "x"}]}"#, ""), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: message 0 of the answer is not a text of system, user or assistant
    ");
    insta::assert_snapshot!(of(200, r#"{"x": null}"#, ""), @"
    [system]
    Own.
    [user]
    Hi
    ");
    insta::assert_snapshot!(of(503, "secret detail", ", on_error: fail"), @"contributor_failed at prompts/p.md: provider:http: the contributor failed: the server answered with status 503");
    let none =
        project(&[("prompts/p.md", "---\nproviders: [{http: {url: 'https://x.example/'}}]\n---\nOwn.")]);
    insta::assert_snapshot!(said(&none, json!({})), @"
    [system]
    Own.
    [user]
    Hi
    provider:http: skipped: provider:http: the contributor failed: this program makes no HTTP calls
    ");
}

#[test]
fn a_call_that_takes_too_long_is_left_out() {
    let silent = Arc::new(Server { reply: None, asked: Mutex::default() });
    let project = with_server("  - http: {url: 'https://desk.example/', deadline: 50ms}\n", &silent);
    let prompt = project.prompt("p").unwrap();
    let mut options = options(json!({}));
    options.engine = Some(contexture_compose::Engine { clock: Arc::new(ThreadClock), ..Default::default() });
    let pass = futures::executor::block_on(prompt.resolve(options)).unwrap();
    let left_out: Vec<String> =
        pass.explain().excluded.iter().map(|it| format!("{}: {}", it.source, it.reason)).collect();
    assert_eq!(left_out, ["provider:http: skipped: provider:http did not finish within 50ms"]);
}

/// A clock whose sleep takes its time.
struct ThreadClock;

impl contexture_compose::ports::Clock for ThreadClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let (sender, done) = futures::channel::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(time);
            let _ = sender.send(());
        });
        Box::pin(async move {
            let _ = done.await;
        })
    }

    fn runs(&self) -> bool {
        true
    }
}

#[test]
fn what_is_wrong_has_its_place() {
    let text = "---
providers:
  - text
  - text: {txt: x}
  - text: {text: '{{ input. }}', role: tool, priority: 200, mode: never}
  - http
  - http: {}
  - http: {url: ftp://x}
  - http: {url: 'https://x.example/{id}'}
  - http: {url: 'https://x.example/', result: x, metod: GET}
  - http: {url: 'https://x.example/', method: FETCH, on_error: retry, deadline: soon}
---
Own.";
    insta::assert_snapshot!(faults_of(text), @"
    prompts/p.md:3:5 file_invalid: `providers[0]`: write this as `- text: …`
    prompts/p.md:4:11 file_invalid: `providers[1].text`: `text` is missing
    prompts/p.md:4:12 unknown_field: `providers[1].text`: unknown field `txt` [did you mean `text`?]
    prompts/p.md:5:28 template_error: expected a name, found the end
    prompts/p.md:5:40 file_invalid: `providers[2].text.role`: expected `system`, `user` or `assistant`, found the text `tool`
    prompts/p.md:5:67 file_invalid: `providers[2].text.mode`: expected `cached` or `real_time`, found `never`
    prompts/p.md:6:5 file_invalid: `providers[3]`: write this as `- http: {url: https://…}`
    prompts/p.md:7:11 file_invalid: `providers[4].http`: `url` is missing
    prompts/p.md:8:11 file_invalid: `providers[5].http`: `ftp://x` does not begin with http:// or https://
    prompts/p.md:9:11 file_invalid: `providers[6].http`: the address reads `id`, which the tool's parameters do not declare
    prompts/p.md:10:11 file_invalid: `providers[7].http`: `x` is no JSON Pointer: it begins with `/`
    prompts/p.md:10:50 unknown_field: `providers[7].http`: unknown field `metod` [did you mean `method`?]
    prompts/p.md:11:11 file_invalid: `providers[8].http`: `FETCH` is no method: GET, POST, PUT, PATCH, DELETE or HEAD
    prompts/p.md:11:64 file_invalid: `providers[8].http.on_error`: expected `fail` or `skip`, found `retry`
    prompts/p.md:11:81 file_invalid: `providers[8].http.deadline`: expected a duration such as `2s` or `500ms`, found the text `soon`
    ");
}

#[test]
fn a_provider_is_an_entry_too() {
    let files = [
        (
            "prompts/p.md",
            "---\nuse:\n  - {when: input.on, use: {provider: {text: Open.}}}\n  - provider: date\n  - c\n---\nOwn.",
        ),
        ("contexts/c.md", "---\nuse: [{provider: {text: {name: inner, text: Inner.}}}]\n---\nC."),
    ];
    let project = project(&files);
    insta::assert_snapshot!(said(&project, json!({"on": true})), @"
    [system]
    Own.

    C.
    [system]
    Open.
    [system]
    Inner.
    [user]
    Hi
    ");
    insta::assert_snapshot!(said(&project, json!({"on": false})), @"
    [system]
    Own.

    C.
    [system]
    Inner.
    [user]
    Hi
    provider:text: when() predicate returned false
    ");
    insta::assert_snapshot!(faults_of("---\nuse: [{provider: dat}, {provider: [x]}, {mcp: x}]\n---\nOwn."), @"
    prompts/p.md:2:18 file_invalid: `use[0].provider`: unknown provider `dat` [did you mean `date`? known: identity, date, workspace, text, http]
    prompts/p.md:2:35 file_invalid: `use[1].provider`: expected a name, or a map of one name, found a list
    prompts/p.md:2:42 unknown_entry: unknown kind of entry `mcp`
    ");
}
