//! Ids and names of tool calls, as providers take them.
//!
//! In comes what a model or an application said, out comes what may be sent. A provider refuses a whole conversation for
//! one id that is too long or one name with a blank in it, and models do call tools that nobody offered. The rules:
//!
//! 1. An id that does not fit is mapped; the same id gives the same one, so that a call and its result stay together.
//! 2. The name of an offered tool is sent as it is. Any other name has letters, digits, `_` and `-`, 64 at most; what is
//!    something else becomes `_`, and no name at all `unknown_tool`.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::ToolDefinition;

use crate::digest::digest;
use crate::loss::Losses;

/// What a tool is called whose name nobody knows.
const NAMELESS: &str = "unknown_tool";

const LONGEST_NAME: usize = 64;

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

fn plain(text: &str) -> String {
    text.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}

/// Returns an id of letters, digits, `_` and `-`.
pub(crate) fn plain_id(id: &str) -> String {
    match !id.is_empty() && id.chars().all(is_plain) {
        true => id.to_owned(),
        false => format!("{}_{}", plain(id), digest(id)),
    }
}

/// Returns an id of at most `longest` letters.
pub(crate) fn short_id(id: &str, longest: usize) -> String {
    if id.chars().nth(longest).is_none() {
        return id.to_owned();
    }
    let digest = digest(id);
    let start: String = id.chars().take(longest.saturating_sub(digest.len() + 1)).collect();
    format!("{start}_{digest}")
}

/// Returns the name under which a call, or the result of one, at `at` is sent.
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
