//! What is nested deeper than a log can hold is an error that the model reads, not the end of its turn.

use contexture_agent::{Ended, Tool};
use contexture_message::{ToolDefinition, ToolOutput};
use serde_json::{Value, json};

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script};

/// A list in a list, so many levels deep with the number in it.
fn deep(levels: usize) -> Value {
    (1..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

/// Runs one call of a tool and returns its result as it is on record.
async fn result(tool: Tool, arguments: Value) -> String {
    let stage = Stage::new().await;
    let model = script([calls([("a", tool.name(), arguments)]), says("ok")]);
    let agent = agent(&model).tool(tool).build().unwrap();
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let log = stage.log().await;
    let shown = log.lines().find(|it| it.starts_with("t1 tool:")).unwrap_or("t1 tool: none");
    let shown = if shown.len() > 200 && !shown.contains("error") { "long" } else { shown };
    format!("{shown} {:?}", outcome.ended)
}

fn gives(levels: usize) -> Tool {
    Tool::new(ToolDefinition::new("gives", "Gives."), move |_| async move { Ok(deep(levels)) }).unwrap()
}

#[tokio::test]
async fn a_deep_result_is_an_error() {
    assert_eq!(result(gives(96), json!({})).await, "long Answered");
    let refused = "t1 tool: a->{\"type\":\"error-json\",\"value\":{\"error\":\"the output of tool `gives` is nested deeper \
                   than 96 levels\"}} Answered";
    for levels in [97, 200, 100_000] {
        assert_eq!(result(gives(levels), json!({})).await, refused);
    }
    let mapped = gives(1).to_model_output(|_| ToolOutput::Json(deep(97)));
    assert_eq!(result(mapped, json!({})).await, refused);
}

#[tokio::test]
async fn deep_arguments_are_refused() {
    for levels in [96, 97, 99, 120] {
        let arguments = || json!({"a": deep(levels - 1)});
        let ran = result(echo("echo"), arguments()).await;
        assert_eq!(ran.contains("nested too deep"), levels > 96, "{levels}: {ran}");
        let asked = result(echo("echo").needs_approval(), arguments()).await;
        assert_eq!(asked.ends_with(&format!("{:?}", Ended::Suspended)), levels <= 96, "{levels}: {asked}");
    }
}
