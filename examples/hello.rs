//! A prompt, a model, an answer: OpenAI with `OPENAI_API_KEY`, a script without.
#![allow(clippy::print_stdout)]
use contexture::{prelude::*, serde_json::json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model: std::sync::Arc<dyn Model> = match std::env::var("OPENAI_API_KEY") {
        Ok(key) => std::sync::Arc::new(Client::openai(key)?),
        Err(_) => std::sync::Arc::new(Scripted::answering(["Hello, Ada!"])),
    };
    let greet = Text::template("Greet {{ input.name }}.")?;
    let prompt = Prompt::builder("hello").model("openai/gpt-5-mini").user(greet).build()?;
    println!("{}", prompt.generate(&model, &json!({"name": "Ada"})).await?);
    Ok(())
}
