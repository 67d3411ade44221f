//! Whether the model can read the results of its newest round: each is there, whole or as a preview that names its handle.

use contexture_message::tokens::request_tokens;
use contexture_message::{Encoding, Part, Request, ToolOutput};

/// How a request shows a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Whole,
    Preview,
}

/// Returns how a request shows the result of a call, or what is wrong with it.
pub(crate) fn shown(request: &Request, call_id: &str, whole: &ToolOutput) -> Result<Shown, String> {
    let mut outputs = request.messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        Part::ToolResult(result) if result.call_id == call_id => Some(&result.output),
        _ => None,
    });
    match outputs.next() {
        None => Err(format!("the result of `{call_id}` is missing unread")),
        Some(output) if output == whole => Ok(Shown::Whole),
        Some(output) if names(output, call_id) && !is_offered(request) => {
            Err(format!("`{call_id}` is a preview, and `read_tool_result` is not offered"))
        }
        Some(output) if names(output, call_id) => Ok(Shown::Preview),
        Some(output) => {
            let text: String = text_of(output).chars().take(400).collect();
            Err(format!("`{call_id}` is neither whole nor a preview with its handle: {text}"))
        }
    }
}

/// Whether a preview says under which handle the whole can be read.
pub(crate) fn names(output: &ToolOutput, handle: &str) -> bool {
    let text = text_of(output);
    text.contains("read_tool_result")
        && (text.contains(&format!("\"{handle}\"")) || text.contains(&format!("\\\"{handle}\\\"")))
}

/// Whether the model can read previews.
pub(crate) fn is_offered(request: &Request) -> bool {
    request.tools.iter().any(|it| it.name == "read_tool_result")
}

/// The text of an output, whatever its kind.
pub(crate) fn text_of(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
        other => serde_json::to_string(other).unwrap(),
    }
}

/// Whether a text of the request, of any role, holds these words.
pub(crate) fn says(request: &Request, words: &str) -> bool {
    request
        .messages
        .iter()
        .flat_map(|it| &it.content)
        .any(|it| matches!(it, Part::Text { text, .. } if text.contains(words)))
}

/// What a request costs by the encoding of the exact models.
pub(crate) fn tokens(request: &Request) -> u32 {
    request_tokens(&Encoding::O200kBase, request).0
}

/// A text of exactly so many characters, about three to a token, like no other of another name.
pub(crate) fn page(name: &str, chars: usize) -> String {
    lines(name, chars, |state| {
        format!("{name} has an entry {:08x} that costs {}.\n", state >> 32, (state >> 20) % 9_973)
    })
}

/// The same with less than two characters to a token.
pub(crate) fn dense(name: &str, chars: usize) -> String {
    lines(name, chars, |state| {
        format!("{name}: {state:016x}{:016x}\n", state.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

fn lines(name: &str, chars: usize, line: impl Fn(u64) -> String) -> String {
    let mut text = String::with_capacity(chars + 64);
    let mut state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3));
    while text.len() < chars {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&line(state));
    }
    text.truncate(chars);
    text
}
