//! Tools: arguments, outputs, failures, time-outs, middleware, size.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{
    AgentError, Before, Checked, Invocation, Middleware, Next, Tool, constraint, tool, tool_middleware,
};
use contexture_compose::{
    BoxError, BoxFuture, Context, Contribution, Definition, Prompt, PromptBuilder, Runner, SharedTool,
    ToolMiddleware, contributor,
};
use contexture_message::{Image, MediaSource, Part, Role, ToolDefinition, ToolOutput};
use contexture_model::Scripted;
use futures::FutureExt;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, calls, echo, hi, output_text, prompt, says, script, told};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    name: String,
    #[serde(default)]
    days: u8,
}

fn weather() -> Tool {
    tool("weather", "Tells the weather.", |city: City| async move {
        match city.name.as_str() {
            "Nowhere" => Err("no such place".into()),
            "Hell" => panic!("too hot"),
            "Slow" => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(json!("late"))
            }
            name => Ok(json!(format!("{name}: rain for {} days", city.days))),
        }
    })
}

/// Calls a tool with these arguments and returns what the model sees of it.
async fn seen(tools: Vec<Tool>, name: &str, arguments: Value) -> String {
    let model = script([calls([("a", name, arguments)]), says("ok")]);
    let stage = Stage::new().await;
    let builder = tools.into_iter().fold(agent(&model), |it, tool| it.tool(tool));
    builder.build().unwrap().run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    result(&model)
}

fn result(model: &Scripted) -> String {
    let request = &model.requests()[1];
    let message = request.messages.iter().find(|it| it.role == Role::Tool).unwrap();
    let Part::ToolResult(result) = &message.content[0] else { panic!("a result") };
    output_text(&result.output)
}

#[tokio::test(start_paused = true)]
async fn every_call_gets_an_output_that_the_model_can_read() {
    let seen = |name: &'static str, arguments: Value| seen(vec![weather()], name, arguments);
    insta::assert_snapshot!(seen("weather", json!({"name": "Rome", "days": 2})).await, @r#"{"type":"text","value":"Rome: rain for 2 days"}"#);
    insta::assert_snapshot!(seen("weather", json!({"name": "Nowhere"})).await, @r#"{"type":"error-json","value":{"error":"no such place"}}"#);
    insta::assert_snapshot!(seen("weather", json!({"name": "Hell"})).await, @r#"{"type":"error-json","value":{"error":"tool `weather` panicked"}}"#);
    insta::assert_snapshot!(seen("weather", json!({"name": "Slow"})).await, @r#"{"type":"error-json","value":{"error":"tool `weather` gave no result within 60s"}}"#);
    insta::assert_snapshot!(seen("weather", json!({"days": "many"})).await, @r#"{"type":"error-json","value":{"error":"the arguments are invalid: \"name\" is a required property; /days: the value is not of type \"integer\""}}"#);
    insta::assert_snapshot!(seen("weather", json!("{\"name\": ")).await, @r#"{"type":"error-json","value":{"error":"the arguments are not JSON: {\"name\": "}}"#);
    insta::assert_snapshot!(seen("whether", json!({})).await, @r#"{"type":"error-json","value":{"error":"there is no tool `whether`; there are: weather"}}"#);
}

#[tokio::test]
async fn a_tool_that_nothing_can_run_is_refused_before_the_model_is_called() {
    let model = script([says("ok")]);
    let stage = Stage::new().await;
    let prompt =
        Prompt::builder("p").model("test/m").tool(ToolDefinition::new("far", "Elsewhere.")).build().unwrap();
    let refused =
        agent(&model).build().unwrap().run(&prompt, &stage.thread, hi()).outcome().await.unwrap_err();
    insta::assert_snapshot!(refused, @"nothing can run the tool `far` that the prompt offers: give it with its function, or as the agent's executor");
    assert_eq!((model.requests().len(), stage.thread.get().turn()), (0, contexture_history::TurnNo(0)));
}

#[tokio::test]
async fn a_runner_that_is_no_tool_can_run_nothing() {
    let model = script([says("ok")]);
    let stage = Stage::new().await;
    let odd = SharedTool::new(ToolDefinition::new("odd", "Odd.")).run_by(Runner::new("no tool"));
    let prompt = Prompt::builder("p").model("test/m").tool(odd).build().unwrap();
    let agent = agent(&model).build().unwrap();
    let refused = agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap_err();
    assert!(matches!(refused, AgentError::NoExecutor { tool } if tool == "odd"));
    assert_eq!((model.requests().len(), stage.thread.get().turn()), (0, contexture_history::TurnNo(0)));
}

#[tokio::test]
async fn tools_and_checks_come_with_what_runs_them() {
    let model = script([
        calls([("a", "own", json!({})), ("b", "entry", json!({})), ("c", "made", json!({}))]),
        says("Loud!"),
        says("ok"),
    ]);
    let stage = Stage::new().await;
    let made = contributor("c", |_| async { Ok(Contribution::default().and_tool(echo("made"))) });
    let quiet = constraint("quiet", |it: Checked| async move {
        if it.text.contains('!') { Err("Be quiet.".to_owned()) } else { Ok(()) }
    });
    let prompt = Prompt::builder("p")
        .model("test/m")
        .tool(echo("own"))
        .include(Context::text("e", "E.").tool(echo("entry")))
        .include(made)
        .constraint(quiet)
        .tool_middleware(tool_middleware("deny", ["entry"], Denies))
        .build()
        .unwrap();
    let outcome = agent(&model).build().unwrap().run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "ok");
    let log = stage.log().await;
    let results: Vec<&str> = log.lines().filter(|it| it.contains("->")).collect();
    insta::assert_snapshot!(results.join("\n"), @r#"t1 tool: a->{"type":"json","value":{}} b->{"type":"execution-denied","value":{"reason":"not today"}} c->{"type":"json","value":{}}"#);
}

struct Denies;

impl Middleware for Denies {
    fn before<'a>(&'a self, _call: &'a Invocation) -> BoxFuture<'a, Result<Before, BoxError>> {
        async { Ok(Before::Deny(Some("not today".to_owned()))) }.boxed()
    }
}

#[tokio::test]
async fn the_same_tool_of_two_owners_is_no_collision() {
    let model = script([says("ok")]);
    let stage = Stage::new().await;
    let shared: SharedTool = echo("look").into();
    let entry = |id: &str| Context::text(id, "E.").tool(shared.clone());
    let build = |other: SharedTool| {
        Prompt::builder("p").model("test/m").include(entry("a")).include(entry("b")).tool(other).build()
    };
    let prompt = build(shared.clone()).unwrap();
    let outcome = agent(&model).build().unwrap().run(&prompt, &stage.thread, hi()).outcome().await;
    assert_eq!(outcome.unwrap().text(), "ok");
    assert_eq!(build(echo("look").into()).unwrap_err().code(), "tool_collision");
}

#[tokio::test]
async fn a_tool_that_was_not_offered_is_not_run() {
    let model = script([calls([("a", "hidden", json!({}))]), says("ok")]);
    let stage = Stage::new().await;
    let agent = agent(&model).executor(echo("hidden")).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert!(result(&model).contains("there is no tool `hidden`"));
}

#[tokio::test]
async fn the_model_output_is_the_tools_to_decide() {
    let photo = echo("photo").to_model_output(|value| {
        let image = Image { source: MediaSource::Data("aGk=".into()), media_type: Some("image/png".into()) };
        ToolOutput::Content(vec![Part::text(value["of"].as_str().unwrap_or_default()), Part::Image(image)])
    });
    let seen = seen(vec![photo], "photo", json!({"of": "a cat"})).await;
    insta::assert_snapshot!(seen, @r#"{"type":"content","value":[{"type":"text","text":"a cat"},{"type":"image","media_type":"image/png","data":"aGk="}]}"#);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_round_run_together_unless_a_tool_wants_to_be_alone() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let slow = |name: &str| {
        let log = Arc::clone(&log);
        Tool::new(ToolDefinition::new(name, "Waits."), move |it: Invocation| {
            let log = Arc::clone(&log);
            async move {
                log.lock().unwrap().push(format!("+{}", it.call.id));
                tokio::time::sleep(Duration::from_secs(1)).await;
                log.lock().unwrap().push(format!("-{}", it.call.id));
                Ok(Value::Null)
            }
        })
        .unwrap()
    };
    let round = [("a", "x", json!({})), ("b", "x", json!({})), ("c", "y", json!({})), ("d", "x", json!({}))];
    let model = script([calls(round), says("ok")]);
    let stage = Stage::new().await;
    let agent = agent(&model).tool(slow("x")).tool(slow("y").alone()).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(log.lock().unwrap().join(" "), "+a +b -a -b +c -c +d -d");
}

#[tokio::test]
async fn the_application_gets_the_raw_value_where_the_model_sees_less() {
    for (bytes, is_told) in [(100, false), (100_000, true)] {
        let stage = Stage::new().await;
        let tool = Tool::new(ToolDefinition::new("text", "Gives text."), move |_| async move {
            Ok(json!("x".repeat(bytes)))
        });
        let model = script([calls([("a", "text", json!({}))]), says("ok")]);
        let agent = agent(&model).tool(tool.unwrap()).build().unwrap();
        let (events, _) = told(agent.run(&prompt(), &stage.thread, hi())).await;
        assert_eq!(events.contains("\"raw\":\"xxx"), is_told, "{bytes}");
    }
}

#[tokio::test]
async fn a_huge_result_is_kept_whole_and_shown_as_a_preview() {
    let huge = Tool::new(ToolDefinition::new("huge", "Gives 50 MB."), |_| async {
        Ok(json!("x".repeat(50_000_000)))
    });
    let model = script([calls([("a", "huge", json!({}))]), says("ok")]);
    let stage = Stage::new().await;
    let agent = agent(&model).tool(huge.unwrap()).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert!(result(&model).len() < 10_000);
    let items = stage.thread.all(None).await.unwrap();
    let whole = items.iter().find_map(|it| match &it.body {
        contexture_history::Body::Application(it) if it.kind == "contexture.tool_output" => Some(&it.value),
        _ => None,
    });
    assert_eq!(whole.unwrap()["text"].as_str().unwrap().len(), 50_000_000);
}

/// Writes down what passes, and changes it.
struct Noted(&'static str, Arc<Mutex<Vec<String>>>);

impl Noted {
    fn note(&self, what: &str) {
        self.1.lock().unwrap().push(format!("{} {what}", self.0));
    }
}

impl Middleware for Noted {
    fn before<'a>(&'a self, call: &'a Invocation) -> BoxFuture<'a, Result<Before, BoxError>> {
        self.note("before");
        let mut arguments = call.call.arguments.clone();
        arguments[self.0] = json!(true);
        async { Ok(Before::RunWith(arguments)) }.boxed()
    }

    fn around<'a>(&'a self, call: Invocation, next: Next<'a>) -> BoxFuture<'a, Result<Value, BoxError>> {
        self.note("around");
        next.run(call)
    }

    fn after<'a>(&'a self, _: &'a Invocation, value: Value) -> BoxFuture<'a, Result<Value, BoxError>> {
        self.note("after");
        async { Ok(value) }.boxed()
    }

    fn on_error<'a>(&'a self, _: &'a Invocation, err: BoxError) -> BoxFuture<'a, Result<Value, BoxError>> {
        self.note(&format!("error {err}"));
        async move { Ok(json!(format!("mended: {err}"))) }.boxed()
    }
}

#[tokio::test]
async fn middleware_gives_arguments_that_fit() {
    let stage = Stage::new().await;
    let strict = ToolDefinition::new("strict", "Takes nothing else.")
        .parameters(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    let tool = Tool::new(strict, |_| async { Ok(json!("it ran")) }).unwrap();
    let model = script([calls([("a", "strict", json!({}))]), says("ok")]);
    let agent = agent(&model).tool(tool).wrap(["*"], Noted("more", Arc::default())).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert!(result(&model).contains("the arguments are invalid"), "{}", result(&model));
}

#[tokio::test]
async fn middleware_nests_by_pattern() {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let model = script([calls([("a", "echo", json!({}))]), says("ok")]);
    let stage = Stage::new().await;
    let noted = |name| Noted(name, Arc::clone(&notes));
    let agent = agent(&model)
        .tool(echo("echo"))
        .wrap(["ec*"], noted("outer"))
        .wrap(["other"], noted("never"))
        .wrap(Vec::<String>::new(), noted("inner"));
    agent.build().unwrap().run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let order = "outer before, outer around, inner before, inner around, inner after, outer after";
    assert_eq!(notes.lock().unwrap().join(", "), order);
    assert_eq!(result(&model), r#"{"type":"json","value":{"outer":true,"inner":true}}"#);
}

#[tokio::test]
async fn middleware_can_mend_a_failure() {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let model = script([calls([("a", "weather", json!({"name": "Nowhere"}))]), says("ok")]);
    let stage = Stage::new().await;
    let agent = agent(&model).tool(weather()).wrap(["weather"], Noted("it", notes));
    agent.build().unwrap().run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(result(&model), r#"{"type":"text","value":"mended: no such place"}"#);
}

/// Runs a call under a middleware that the prompt spells out.
async fn under(middleware: Value) -> Result<String, String> {
    let middleware: ToolMiddleware = serde_json::from_value(middleware).unwrap();
    let definition = Definition {
        id: "p".into(),
        model: Some("test/m".into()),
        tool_middleware: vec![middleware],
        ..Definition::default()
    };
    let prompt = PromptBuilder::from(definition).build().unwrap();
    let model = script([calls([("a", "weather", json!({"name": "Slow"}))]), says("ok")]);
    let stage = Stage::new().await;
    let agent = agent(&model).tool(weather()).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, hi()).outcome().await;
    outcome.map(|_| result(&model)).map_err(|err| err.to_string())
}

#[tokio::test(start_paused = true)]
async fn prompts_can_spell_out_middleware() {
    insta::assert_snapshot!(under(json!({"id": "d", "kind": "deny", "reason": "not today"})).await.unwrap(), @r#"{"type":"execution-denied","value":{"reason":"not today"}}"#);
    insta::assert_snapshot!(under(json!({"id": "t", "kind": "timeout", "seconds": 1.5})).await.unwrap(), @r#"{"type":"error-json","value":{"error":"tool `weather` gave no result within 1.5s"}}"#);
    insta::assert_snapshot!(under(json!({"id": "x", "kind": "magic"})).await.unwrap_err(), @"tool_middleware:x: unknown variant `magic`, expected one of `approval`, `deny`, `timeout`");
    insta::assert_snapshot!(under(json!({"id": "nobody"})).await.unwrap_err(), @"tool_middleware:nobody: missing field `kind`");
}

#[test]
fn tools_with_bad_names_or_schemas_are_refused() {
    let refused =
        |tool: ToolDefinition| Tool::new(tool, |_| async { Ok(Value::Null) }).unwrap_err().to_string();
    insta::assert_snapshot!(refused(ToolDefinition::new("a b", "")), @"tool `a b`: a name has letters, digits, `_` and `-` only");
    insta::assert_snapshot!(refused(ToolDefinition::new("", "")), @"tool ``: a tool needs a name");
    assert!(
        refused(ToolDefinition::new("t", "").parameters(json!({"type": 7}))).contains("invalid JSON Schema")
    );
    let twice = agent(&script([])).tool(echo("e")).tool(echo("e")).build().unwrap_err();
    assert_eq!(twice.to_string(), "tool `e`: there is another tool of this name");
}
