//! Calls of tools outside of any turn: what protects a tool in a turn protects it here too.

use std::time::Duration;

use contexture_agent::{Agent, Before, CancellationToken, Invocation, Middleware, Tool, ToolRequest};
use contexture_compose::{BoxError, BoxFuture};
use contexture_message::ToolDefinition;
use futures::FutureExt;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, echo, script};

/// Marks what it lets through, and denies what asks for it.
struct Porter;

impl Middleware for Porter {
    fn before<'a>(&'a self, call: &'a Invocation) -> BoxFuture<'a, Result<Before, BoxError>> {
        let is_bad = call.call.arguments["bad"] == json!(true);
        async move { Ok(if is_bad { Before::Deny(Some("bad".into())) } else { Before::Run }) }.boxed()
    }

    fn after<'a>(&'a self, call: &'a Invocation, value: Value) -> BoxFuture<'a, Result<Value, BoxError>> {
        async move { Ok(json!([call.call.id, value])) }.boxed()
    }
}

fn tool(name: &str, run: fn() -> Result<Value, BoxError>) -> Tool {
    Tool::new(ToolDefinition::new(name, "A tool."), move |_| async move { run() }).unwrap()
}

fn deep() -> Value {
    (0..100_000).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

fn able() -> Agent {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Sum {
        euros: u32,
    }
    let pay = contexture_agent::tool("pay", "Pays.", |sum: Sum| async move { Ok(sum.euros) });
    let slow = Tool::new(ToolDefinition::new("slow", "Never ends."), |_| std::future::pending()).unwrap();
    let builder = agent(&script([])).tool(echo("wrapped")).wrap(["wrapped"], Porter);
    builder
        .tool(pay.needs_approval_if(|it| it["euros"].as_u64() > Some(100)))
        .executor(slow.timeout(Duration::from_secs(5)))
        .executor(tool("breaks", || Err("no paper".into())))
        .executor(tool("panics", || panic!("a tool's own trouble")))
        .executor(tool("deep", || Ok(deep())))
        .build()
        .unwrap()
}

/// Calls a tool and returns its value, or the code and the words of the error.
async fn called(request: ToolRequest) -> String {
    let stage = Stage::new().await;
    let before = stage.log().await;
    let made = able().call(&stage.thread, request).await;
    assert_eq!(stage.log().await, before, "nothing is written");
    made.map_or_else(|err| format!("{}: {err}", err.code()), |it| it.to_string())
}

async fn plain(tool: &str, arguments: Value) -> String {
    called(ToolRequest { call_id: "id-1".into(), ..ToolRequest::new(tool, arguments) }).await
}

#[tokio::test(start_paused = true)]
async fn a_call_gives_the_raw_value_or_says_why_not() {
    insta::assert_snapshot!(plain("pay", json!({"euros": 5})).await, @"5");
    insta::assert_snapshot!(plain("wrapped", json!({"n": 1})).await, @r#"["id-1",{"n":1}]"#);
    insta::assert_snapshot!(plain("wrapped", json!({"bad": true})).await, @"tool_denied: a call of tool `wrapped` was denied: bad");
    insta::assert_snapshot!(plain("nobody", json!({})).await, @"tool_unknown: the agent has no tool `nobody`");
    insta::assert_snapshot!(plain("recall", json!({})).await, @"tool_unknown: the agent has no tool `recall`");
    insta::assert_snapshot!(plain("pay", json!({"euros": "5"})).await, @r#"tool_arguments_invalid: tool `pay`: the arguments are invalid: /euros: the value is not of type "integer""#);
    insta::assert_snapshot!(plain("pay", deep()).await, @"tool_arguments_invalid: tool `pay`: an argument is nested deeper than 96 levels");
    insta::assert_snapshot!(plain("breaks", json!({})).await, @"tool_failed: tool `breaks`: no paper");
    insta::assert_snapshot!(plain("panics", json!({})).await, @"tool_failed: tool `panics`: it panicked");
    insta::assert_snapshot!(plain("deep", json!({})).await, @"tool_failed: tool `deep`: its output is nested deeper than 96 levels");
    insta::assert_snapshot!(plain("slow", json!({})).await, @"tool_timed_out: tool `slow` gave no result within 5s");
}

#[tokio::test]
async fn what_needs_approval_runs_for_whoever_says_it_was_given() {
    let request = ToolRequest::new("pay", json!({"euros": 500}));
    insta::assert_snapshot!(called(request.clone()).await, @"tool_needs_approval: a call of tool `pay` with these arguments needs approval");
    insta::assert_snapshot!(called(ToolRequest { approved: true, ..request }).await, @"500");
    let agent = able();
    let asks = |arguments: Value| agent.needs_approval("pay", &arguments).map_err(|it| it.code().as_str());
    assert_eq!(asks(json!({"euros": 5})), Ok(false));
    assert_eq!(asks(json!({"euros": 500})), Ok(true));
    assert_eq!(asks(json!({"dollars": 500})), Err("tool_arguments_invalid"));
    assert_eq!(
        agent.needs_approval("nobody", &json!({})).map_err(|it| it.code().as_str()),
        Err("tool_unknown")
    );
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let cancel = CancellationToken::new();
    let request = ToolRequest { cancel: cancel.clone(), ..ToolRequest::new("slow", json!({})) };
    let (made, ()) = futures::join!(called(request), async { cancel.cancel() });
    insta::assert_snapshot!(made, @"cancelled: a call of tool `slow` was cancelled");
}

#[test]
fn tools_are_listed_by_name() {
    assert_eq!(able().tool_names().join(" "), "breaks deep panics pay slow wrapped");
}
