//! Ids and names of tool calls, in the form that providers accept.
//!
//! Providers reject a whole conversation for one id that is too long or one name with a space in it, and models do
//! call tools that were never offered. So ids and names are rewritten before they are sent:
//!
//! 1. An id that does not fit is mapped. The mapping is deterministic, so a call and its result keep matching ids.
//! 2. The name of an offered tool is sent unchanged. Any other name is limited to letters, digits, `_` and `-`, 64 at
//!    most; other characters become `_`, and an empty name becomes `unknown_tool`.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::ToolDefinition;

use crate::digest::digest;
use crate::loss::Losses;

/// The name sent for a tool call without a name.
const NAMELESS: &str = "unknown_tool";

const LONGEST_NAME: usize = 64;

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

fn plain(text: &str) -> String {
    text.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}

/// Returns `id`, mapped to letters, digits, `_` and `-` if it has other characters.
pub(crate) fn plain_id(id: &str) -> String {
    match !id.is_empty() && id.chars().all(is_plain) {
        true => id.to_owned(),
        false => format!("{}_{}", plain(id), digest(id)),
    }
}

/// Returns `id`, mapped to at most `longest` characters if it is longer.
pub(crate) fn short_id(id: &str, longest: usize) -> String {
    if id.chars().nth(longest).is_none() {
        return id.to_owned();
    }
    let digest = digest(id);
    let start: String = id.chars().take(longest.saturating_sub(digest.len() + 1)).collect();
    format!("{start}_{digest}")
}

/// Returns the name to send for the call or result at `at`.
pub(crate) fn name<'a>(
    name: &'a str,
    tools: &[Arc<ToolDefinition>],
    at: &str,
    losses: &mut Losses,
) -> Cow<'a, str> {
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_plain);
    if fits || tools.iter().any(|it| it.name == name) {
        return Cow::Borrowed(name);
    }
    let sent: String = match name {
        "" => NAMELESS.to_owned(),
        name => plain(name).chars().take(LONGEST_NAME).collect(),
    };
    losses.add(format!("{at}.name"), format!("sent as `{sent}`: no such tool is offered"));
    Cow::Owned(sent)
}

#[cfg(test)]
mod tests {
    use super::{name, plain_id, short_id};
    use crate::loss::Losses;
    use contexture_message::ToolDefinition;
    use std::sync::Arc;

    #[test]
    fn ids_that_do_not_fit_are_mapped() {
        assert_eq!(plain_id("call_1-a"), "call_1-a");
        assert_eq!(plain_id("functions.find:0"), "functions_find_0_8be1484c");
        assert_eq!(short_id("call_1", 6), "call_1");
        assert_eq!(short_id("chatcmpl-tool-0123456789abcdef", 20), "chatcmpl-to_66c8243c");
        assert_eq!(short_id(&"ä".repeat(50), 40).chars().count(), 40);
    }

    #[test]
    fn names_of_offered_tools_stay() {
        let tools = [Arc::new(ToolDefinition::new("files.read", ""))];
        let mut losses = Losses::default();
        let mut sent = |it| name(it, &tools, "messages[1].content[0]", &mut losses).into_owned();
        assert_eq!(
            ["files.read", "find", "files.write", "", "a b"].map(&mut sent),
            ["files.read", "find", "files_write", "unknown_tool", "a_b"]
        );
        assert_eq!(sent(&"x".repeat(70)), "x".repeat(64));
        assert_eq!(losses.into_vec().len(), 4);
    }
}
