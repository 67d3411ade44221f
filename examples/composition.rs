//! Typed input, contexts, conditions, tag values, tools and a budget that forces a choice.
//!
//! `cargo run --example composition`
#![allow(clippy::print_stdout)]

use contexture::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Ticket {
    plan: String,
    locale: String,
    question: String,
    #[serde(default)]
    orders: Vec<Order>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    id: String,
    status: String,
}

#[derive(Deserialize, JsonSchema)]
struct Refund {
    order: String,
}

fn support() -> Result<Prompt<Ticket>, BoxError> {
    let refund =
        tool(
            "refund",
            "Refunds an order.",
            |it: Refund| async move { Ok(format!("Refunded {}.", it.order)) },
        );
    let about = Context::text("about", "Founded in a garage in Osaka. ".repeat(60)).priority(10);
    let prompt = Prompt::builder("support")
        .input::<Ticket>()
        .system("You are the support agent of a small shop. Answer only from what you are given.")
        .include(Context::text("refunds", "Refunds take five working days.").priority(80).tool(refund))
        .include(about.shorter("Founded in Osaka."))
        .include_when(|it| it.plan != "free", Context::text("phone", "Offer to call back."))
        .include_when(|it| it.locale == "de", Context::text("german", "Antworte auf Deutsch."))
        .context_with(|it| {
            let order = |it: &Order| json!({"@id": it.id, "#text": it.status});
            json!({"orders": it.orders.iter().map(order).collect::<Vec<_>>()})
        })
        .user_with(|it| it.question.clone())
        .token_budget(120);
    Ok(prompt.build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let ticket = Ticket {
        plan: "free".to_owned(),
        locale: "de".to_owned(),
        question: "Wo ist meine Bestellung?".to_owned(),
        orders: vec![Order { id: "A-7".to_owned(), status: "shipped".to_owned() }],
    };
    let pass = support()?.resolve(ResolveOptions::for_input(&ticket)?.model("openai/gpt-5-mini")).await?;

    for message in &pass.request().messages {
        println!("── {}\n{}\n", message.role.as_str(), message.as_text().unwrap_or_default());
    }
    for part in pass.explain().parts {
        let reason = part.reason.map(|it| format!("({it})")).unwrap_or_default();
        println!("{:>4} {:<9} {:<16} {reason}", part.tokens, part.state, part.source);
    }
    Ok(())
}
