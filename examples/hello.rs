//! The smallest program: a prompt, an input, the request and its explanation.
//!
//! `cargo run --example hello`
#![allow(clippy::print_stdout)]

use contexture::prelude::{Prompt, ResolveOptions, Text};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = Prompt::builder("hello")
        .system("You greet people, briefly.")
        .user(Text::template("Greet {{ input.name }}.")?)
        .build()?;
    let pass = prompt.resolve(ResolveOptions::new(serde_json::json!({"name": "Ada"}))).await?;

    println!("{}", serde_json::to_string_pretty(pass.request())?);
    for part in pass.explain().parts {
        println!("{:>4} tokens  {:<8} {}", part.tokens, part.state, part.source);
    }
    Ok(())
}
