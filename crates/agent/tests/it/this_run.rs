//! What a run brings for itself: tools of the agent by name, and instructions. Both outlast a suspension.

use contexture_agent::{Agent, CancellationToken, Decision, Outcome, RunRequest, Verdict};
use contexture_compose::{Prompt, PromptBuilder};
use contexture_message::{Request, Role, ToolDefinition};
use contexture_model::Scripted;
use serde_json::json;

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script};

fn able(model: &Scripted) -> Agent {
    let builder = agent(model).tool(echo("common")).executor(echo("special"));
    builder.executor(echo("risky").needs_approval()).build().unwrap()
}

fn with_tools(names: &[&str]) -> RunRequest {
    hi().tools(names.iter().map(|it| (*it).to_owned()).collect())
}

/// The tools of a request: name and description.
fn offered(request: &Request) -> String {
    request.tools.iter().map(|it| format!("{}: {}", it.name, it.description)).collect::<Vec<_>>().join("\n")
}

fn system(request: &Request) -> String {
    let texts = request.messages.iter().filter(|it| it.role == Role::System).flat_map(|it| &it.content);
    texts.map(|it| serde_json::to_string(it).unwrap()).collect::<Vec<_>>().join(" ")
}

async fn run(stage: &Stage, agent: &Agent, prompt: &Prompt, request: RunRequest) -> Result<Outcome, String> {
    let outcome = agent.run(prompt, &stage.thread, request).outcome().await;
    outcome.map_err(|err| format!("{}: {err}", err.code()))
}

#[tokio::test]
async fn a_run_offers_tools_by_name() {
    let (stage, model) =
        (Stage::new().await, script([calls([("a", "special", json!({"n": 1}))]), says("ok")]));
    let outcome = run(&stage, &able(&model), &prompt(), with_tools(&["special", "common", "special"])).await;
    assert_eq!(outcome.unwrap().text(), "ok");
    insta::assert_snapshot!(offered(&model.requests()[0]), @r"
    common: Gives back what it gets.
    special: Gives back what it gets.
    ");
    assert!(stage.log().await.contains("a->{\"type\":\"json\",\"value\":{\"n\":1}}"));
}

#[tokio::test]
async fn the_next_run_offers_them_no_more() {
    let (stage, model) = (Stage::new().await, script([says("one"), says("two")]));
    let agent = able(&model);
    run(&stage, &agent, &prompt(), with_tools(&["special"])).await.unwrap();
    run(&stage, &agent, &prompt(), hi()).await.unwrap();
    insta::assert_snapshot!(offered(&model.requests()[1]), @"common: Gives back what it gets.");
}

#[tokio::test]
async fn what_the_prompt_declares_stands() {
    let (stage, model) = (Stage::new().await, script([says("ok")]));
    let builder: PromptBuilder = Prompt::builder("p").model("test/model");
    let prompt = builder.tool(ToolDefinition::new("special", "As the prompt has it.")).build().unwrap();
    run(&stage, &able(&model), &prompt, with_tools(&["special"])).await.unwrap();
    insta::assert_snapshot!(offered(&model.requests()[0]), @r"
    common: Gives back what it gets.
    special: As the prompt has it.
    ");
}

#[tokio::test]
async fn an_unknown_tool_is_refused_before_anything_happens() {
    let (stage, model) = (Stage::new().await, script([says("never")]));
    let before = stage.log().await;
    let refused = run(&stage, &able(&model), &prompt(), with_tools(&["special", "nobody"])).await;
    insta::assert_snapshot!(refused.unwrap_err(), @"tool_unknown: the agent has no tool `nobody`");
    assert_eq!((stage.log().await, model.requests().len()), (before, 0));
}

#[tokio::test]
async fn a_tool_of_the_client_can_not_have_its_name() {
    let (stage, model) = (Stage::new().await, script([says("never")]));
    let client_tools = vec![ToolDefinition::new("special", "Of the client.")];
    let request = with_tools(&["special"]).client_tools(client_tools);
    let refused = run(&stage, &able(&model), &prompt(), request).await.unwrap_err();
    assert!(refused.starts_with("tool_collision"), "{refused}");
}

#[tokio::test]
async fn instructions_stand_in_the_place_of_those_of_the_thread() {
    let (stage, model) = (Stage::new().await, script(["one", "two", "three"].map(says)));
    stage.thread.set_system_instructions(Some("Speak French.")).await.unwrap();
    let agent = able(&model);
    for instructions in [Some("Speak Greek."), Some(""), None] {
        let request = instructions.map_or_else(hi, |it| hi().instructions(it));
        run(&stage, &agent, &prompt(), request).await.unwrap();
    }
    let seen = model.requests().iter().map(|it| system(it)).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(seen, @r#"
    {"type":"text","text":"Be brief.\n\nSpeak Greek."}
    {"type":"text","text":"Be brief."}
    {"type":"text","text":"Be brief.\n\nSpeak French."}
    "#);
    // The engine's hidden note of what was sent has them, and nothing else of the thread.
    let visible = stage.log().await.lines().filter(|it| !it.contains("contexture.sent")).collect::<String>();
    assert!(!visible.contains("Greek"), "{visible}");
    assert_eq!(stage.thread.get().instructions(), Some("Speak French."));
}

#[tokio::test]
async fn a_decided_turn_goes_on_with_the_same_tools_and_instructions() {
    let model = script([
        calls([("b", "risky", json!({}))]),
        calls([("c", "special", json!({"n": 2}))]),
        says("done"),
    ]);
    let stage = Stage::new().await;
    let request = with_tools(&["risky", "special"]).instructions("Speak Greek.");
    let outcome = run(&stage, &able(&model), &prompt(), request).await.unwrap();
    let (approval, token) = (outcome.approvals[0].id.clone(), outcome.approvals[0].token.clone());
    let decide = async |agent: Agent| {
        let (approval, token) = (approval.clone(), token.clone());
        let decision = Decision { approval, token, verdict: Verdict::Approve };
        let elsewhere = stage.elsewhere().await;
        agent.decide(&prompt(), &elsewhere, decision, CancellationToken::new()).outcome().await
    };
    // An agent that has not got the tools can't go on, and changes nothing.
    let before = stage.log().await;
    let refused = decide(agent(&model).build().unwrap()).await.unwrap_err();
    assert_eq!((refused.code().as_str(), stage.log().await), ("tool_unknown", before));

    assert_eq!(decide(able(&model)).await.unwrap().text(), "done");
    let requests = model.requests();
    assert!(requests.iter().all(|it| offered(it) == offered(&requests[0]) && system(it).contains("Greek")));
    let results = requests[2].messages.iter().filter(|it| it.role == Role::Tool).count();
    assert_eq!((requests.len(), results), (3, 2));
}
