//! Typed input, contexts, conditions, tag values, tools and a budget that forces a choice.
//!
//! `cargo run --example composition`
#![allow(clippy::print_stdout)]

use contexture::prelude::{Context, Prompt, ResolveOptions, TagValue, Text, Tool, matching, when};
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

fn support() -> Result<Prompt, contexture::compose::Error> {
    let refunds = Context::text("refunds", "Refunds take five working days.").priority(80).tool(
        Tool::new("refund", "Refunds an order").parameters(json!({
            "type": "object",
            "properties": {"order": {"type": "string"}},
            "required": ["order"],
        })),
    );
    let history_of_the_firm = Context::text("about", "Founded in a garage in Osaka. ".repeat(60))
        .priority(10)
        .shorter("Founded in Osaka.");
    let orders = TagValue::of(|ticket: &Ticket| {
        let order = |it: &Order| json!({"@id": it.id, "#text": it.status});
        json!({"orders": ticket.orders.iter().map(order).collect::<Vec<_>>()})
    });
    Prompt::builder("support")
        .input::<Ticket>()
        .system("You are the support agent of a small shop. Answer only from what you are given.")
        .include(refunds)
        .include(history_of_the_firm)
        .include(when(|it: &Ticket| it.plan != "free", Context::text("phone", "Offer to call back.")))
        .include(
            matching(|it: &Ticket| it.locale.clone())
                .case("de", Context::text("german", "Antworte auf Deutsch."))
                .default_case(Context::text("english", "Answer in English.")),
        )
        .context(orders)
        .user(Text::of(|it: &Ticket| it.question.clone()))
        .token_budget(120)
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
