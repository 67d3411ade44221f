//! Passes as text, small enough to check by eye.

use std::fmt::Write;

use contexture_compose::{Error, Pass};

/// Shows what is sent: each message under its role, then the names of the tools.
pub fn request(pass: &Pass) -> String {
    let mut out = String::new();
    for message in &pass.request().messages {
        let content = match message.as_text() {
            Some(text) => text.to_owned(),
            None => serde_json::to_string(&message.content).unwrap_or_default(),
        };
        let _ = writeln!(out, "[{}]\n{content}", message.role.as_str());
    }
    if !pass.request().tools.is_empty() {
        let names: Vec<&str> = pass.request().tools.iter().map(|it| it.name.as_str()).collect();
        let _ = writeln!(out, "tools: {}", names.join(", "));
    }
    out.trim_end().to_owned()
}

/// Shows the outcome of every part: source, slot, tokens, state and reason.
pub fn budget(pass: &Pass) -> String {
    let explanation = pass.explain();
    let mut out = String::new();
    for part in &explanation.parts {
        let reason = part.reason.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        let _ = writeln!(out, "{} {} {} {}{reason}", part.source, part.slot, part.tokens, part.state);
    }
    let _ = write!(out, "system {}, total {}", explanation.budget.used, explanation.total_tokens);
    out
}

/// Shows an error with its code, origin and message.
pub fn failure(err: &Error) -> String {
    let at = err.at().map(|it| format!(" at {it}")).unwrap_or_default();
    format!("{}{at}: {err}", err.code())
}
