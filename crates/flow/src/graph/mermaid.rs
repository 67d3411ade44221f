//! A flow as a Mermaid flowchart.

use std::fmt::Write as _;

use super::picture::{Family, picture};
use crate::FlowDefinition;

/// Draws a flow as a Mermaid flowchart, which many viewers of Markdown show as a picture.
///
/// ```
/// use contexture_flow::{Flow, LlmConfig, NodeKind, UserInputConfig, graph};
///
/// let flow = Flow::builder("chat")
///     .node("ask", NodeKind::UserInput(UserInputConfig::default()))
///     .node("answer", NodeKind::LlmRequest(LlmConfig { prompt: "chat".into(), ..LlmConfig::default() }))
///     .edge("start -> ask")
///     .edge("ask.value -> answer.user")
///     .edge("answer -> ask");
/// assert_eq!(
///     graph::mermaid(flow.definition()),
///     r#"flowchart TD
///     n0(["start"])
///     n1[/"ask<br/>user_input"/]
///     n2["answer<br/>llm_request: chat"]
///     n0 --> n1
///     n1 -->|"value → user"| n2
///     n2 --> n1
/// "#,
/// );
/// ```
pub fn mermaid(flow: &FlowDefinition) -> String {
    let picture = picture(flow);
    let mut out = "flowchart TD\n".to_owned();
    for (idx, node) in picture.boxes.iter().enumerate() {
        let (open, close) = brackets(node.family);
        let about = Some(&node.about).filter(|it| **it != node.name);
        let about = about.map(|it| format!("<br/>{}", escaped(it))).unwrap_or_default();
        let _ = writeln!(out, "    n{idx}{open}\"{}{about}\"{close}", escaped(&node.name));
    }
    for arrow in &picture.arrows {
        let line = if arrow.is_portal { "-.->" } else { "-->" };
        let label = arrow.label.as_ref().map(|it| format!("|\"{}\"|", escaped(it))).unwrap_or_default();
        let _ = writeln!(out, "    n{} {line}{label} n{}", arrow.from, arrow.to);
    }
    out
}

fn brackets(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::Start => ("([", "])"),
        Family::Model => ("[", "]"),
        Family::Person => ("[/", "/]"),
        Family::Thread => ("(", ")"),
        Family::Tool => ("[\\", "\\]"),
        Family::Choice => ("{", "}"),
        Family::Fork => ("{{", "}}"),
        Family::Store => ("[(", ")]"),
        Family::Portal => ("((", "))"),
        Family::Flow => ("[[", "]]"),
        Family::Data => (">", "]"),
    }
}

/// Writes what means something to Mermaid, to HTML or to Markdown as a number.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '#' | '<' | '>' | '&' | '`' | '\\' | ';' | '*' | '[' | ']' | '{' | '}' | '|' | '%' => {
                let _ = write!(out, "#{};", u32::from(char));
            }
            _ => out.push(char),
        }
    }
    out
}
