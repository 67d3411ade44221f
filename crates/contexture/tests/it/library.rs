//! The examples that a prompt library's documentation begins with, written with the prelude alone.

use contexture::compose::ports::{DenySources, Engine, FixedCounter, ManualClock};
use contexture::message::{Answer, ToolCall, counter_for};
use contexture::model::Step;
use contexture::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Review {
    language: String,
    diff: String,
    strict: Option<bool>,
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
struct Findings {
    findings: Vec<String>,
    approve: bool,
}

fn review() -> Review {
    Review { language: "Rust".into(), diff: "+ let x = 1;".into(), strict: None }
}

/// What a model is sent, as text.
async fn sent<In: Serialize, Out>(prompt: &Prompt<In, Out>, input: &In) -> String {
    let pass = prompt.resolve(ResolveOptions::for_input(input).unwrap()).await.unwrap();
    let messages = pass.request().messages.iter();
    let lines = messages.map(|it| format!("{}: {}", it.role.as_str(), it.as_text().unwrap_or_default()));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_prompt_has_typed_input_and_output() -> Result<(), BoxError> {
    let prompt = Prompt::builder("review")
        .input::<Review>()
        .output::<Findings>()
        .model("openai/gpt-5-mini")
        .system_with(|it| format!("You review {} code.", it.language))
        .user_with(|it| it.diff.clone())
        .build()?;
    let model = Scripted::answering([r#"{"findings": ["unused variable"], "approve": false}"#]);
    let answer = prompt.generate(&model, &review()).await?;
    assert_eq!(answer, Findings { findings: vec!["unused variable".into()], approve: false });
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Repository {
    repository: String,
}

#[tokio::test]
async fn an_injectable_has_its_own_input() -> Result<(), BoxError> {
    let guide = injectable("style-guide", |call| async move {
        let it = call.input.get::<Repository>()?;
        Ok(Contribution::text(format!("Follow the style guide of {}.", it.repository)))
    })
    .input::<Repository>()
    .family("guides");
    let prompt = Prompt::builder("review").system("You review code.").include(guide).build()?;
    insta::assert_snapshot!(sent(&prompt, &json!({"repository": "acme/shop"})).await, @"
    system: You review code.

    Follow the style guide of acme/shop.
    ");
    // The prompt's input has the key because the injectable declares it.
    let missing = prompt.resolve(ResolveOptions::new(json!({}))).await.unwrap_err();
    assert_eq!(missing.code(), "input_invalid");
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Lookup {
    symbol: String,
}

#[tokio::test]
async fn a_gated_contributor_brings_nested_entries_and_a_tool_that_runs() -> Result<(), BoxError> {
    let lookup = tool("lookup", "Finds the definition of a symbol.", |it: Lookup| async move {
        Ok(format!("{} is defined in src/lib.rs", it.symbol))
    });
    let code = contributor("code", move |_| {
        let lookup = lookup.clone();
        async move { Ok(Contribution::text("Look symbols up before you judge.").and_tool(lookup)) }
    })
    .input::<Review>()
    .when(|it| it.language == "Rust")
    .include(Context::text("edition", "The code is of edition 2024."));
    let prompt = Prompt::builder("review")
        .input::<Review>()
        .model("openai/gpt-5-mini")
        .include(code)
        .user_with(|it| it.diff.clone())
        .build()?;
    insta::assert_snapshot!(sent(&prompt, &review()).await, @"
    system: The code is of edition 2024.

    Look symbols up before you judge.
    user: + let x = 1;
    ");
    let python = Review { language: "Python".into(), ..review() };
    insta::assert_snapshot!(sent(&prompt, &python).await, @"user: + let x = 1;");

    let call = Part::ToolCall(ToolCall {
        id: "c1".into(),
        name: "lookup".into(),
        arguments: json!({"symbol": "x"}),
    });
    let model = Scripted::new([Step::Answer(Answer::parts(vec![call])), Step::Answer(Answer::text("Fine."))]);
    assert_eq!(prompt.generate(&model, &review()).await?, "Fine.");
    let result = serde_json::to_string(model.requests()[1].messages.last().unwrap())?;
    assert!(result.contains("x is defined in src/lib.rs"), "{result}");
    Ok(())
}

#[tokio::test]
async fn input_may_be_conditional() -> Result<(), BoxError> {
    let prompt = Prompt::builder("review")
        .input::<Review>()
        .system("You review code.")
        .include_when(|it| it.strict == Some(true), Context::text("strict", "Accept nothing unclear."))
        .include_match(
            |it| it.language.clone(),
            |cases| cases.case("Rust", Context::text("rust", "Mind the borrow checker.")),
        )
        .user_with(|it| it.diff.clone())
        .build()?;
    insta::assert_snapshot!(sent(&prompt, &Review { strict: Some(true), ..review() }).await, @"
    system: You review code.

    Accept nothing unclear.

    Mind the borrow checker.
    user: + let x = 1;
    ");
    insta::assert_snapshot!(sent(&prompt, &Review { language: "Go".into(), ..review() }).await, @"
    system: You review code.
    user: + let x = 1;
    ");
    Ok(())
}

#[tokio::test]
async fn a_prompt_adapts_to_a_model() -> Result<(), BoxError> {
    let prompt = Prompt::builder("review")
        .system("You review code.")
        .user("Begin.")
        .adapt("anthropic", Adaptation::new().append_system("Think first."))
        .adapt("openai/gpt-5-mini", Adaptation::new().settings(Settings::new().temperature(0.2)))
        .build()?;
    let pass = async |model: &str| prompt.resolve(ResolveOptions::default().model(model)).await;
    let claude = pass("anthropic/claude-sonnet-4-5").await?;
    assert_eq!(claude.system(), Some("You review code.\n\nThink first."));
    let gpt = pass("openai/gpt-5-mini").await?;
    let temperature = gpt.request().settings.temperature.as_ref().and_then(|it| it.as_f64());
    assert_eq!((gpt.system(), temperature), (Some("You review code."), Some(0.2)));
    Ok(())
}

#[tokio::test]
async fn messages_are_a_function() -> Result<(), BoxError> {
    let prompt = Prompt::builder("review")
        .input::<Review>()
        .messages(|it| {
            [
                Message::system("You review code."),
                Message::user("+ let y = 2;"),
                Message::assistant("Unused variable."),
                Message::user(&it.diff),
            ]
        })
        .build()?;
    insta::assert_snapshot!(sent(&prompt, &review()).await, @"
    system: You review code.
    user: + let y = 2;
    assistant: Unused variable.
    user: + let x = 1;
    ");
    Ok(())
}

#[tokio::test]
async fn ports_have_fakes() -> Result<(), BoxError> {
    let engine = Engine {
        clock: Arc::new(ManualClock::default()),
        counters: Arc::new(FixedCounter(counter_for(Some("gpt-5")))),
        policy: Arc::new(DenySources(vec!["context:secret".into()])),
        ..Engine::default()
    };
    let prompt = Prompt::builder("review")
        .system("You review code.")
        .include(Context::text("secret", "The key is 42."))
        .build()?;
    let pass = prompt.resolve(ResolveOptions::default().engine(&engine)).await?;
    assert_eq!(pass.system(), Some("You review code."));
    assert_eq!(pass.explain().excluded[0].source, "context:secret");
    Ok(())
}

prompt_tree! {
    struct Reviews {
        code: Prompt<Review, Findings>,
        text: Prompt,
    }
}

#[tokio::test]
async fn a_tree_keeps_the_types_of_its_prompts() -> Result<(), BoxError> {
    let reviews = Reviews {
        code: Prompt::builder("review-code").input::<Review>().output::<Findings>().build()?,
        text: Prompt::builder("review-text").system("You review prose.").build()?,
    };
    let names: Vec<String> = Prompts::of_tree(&reviews)?.iter().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(names, ["code", "text"]);
    let model = Scripted::answering([r#"{"findings": [], "approve": true}"#]);
    assert!(reviews.code.generate(&model, &review()).await.is_err(), "no model is named");
    Ok(())
}
