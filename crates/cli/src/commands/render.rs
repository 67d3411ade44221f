//! `render`: renders context entries as tagged text.

use contexture_compose::tags::{TagEntry, TagStyle, aggregate};
use contexture_message::Message;
use serde_json::{Value, json};

use crate::args::RenderArgs;
use crate::error::Failure;
use crate::output::Reply;
use crate::read;

pub(super) fn run(args: &RenderArgs, as_json: bool) -> Result<Reply, Failure> {
    let entries = match read::json_file(&args.file)? {
        Value::Array(entries) => entries,
        one => vec![one],
    };
    let sources: Vec<String> = (0..entries.len()).map(|idx| format!("context[{idx}]")).collect();
    let entries: Vec<TagEntry<'_>> =
        entries.iter().zip(&sources).map(|(value, source)| TagEntry { source, value }).collect();
    let aggregate = aggregate(&entries)?;
    let text = aggregate.tree.render(TagStyle { indent: usize::from(args.indent) });
    let messages: Vec<&Message> = aggregate.messages.iter().map(|(_, message)| message).collect();
    if as_json {
        let tags = aggregate.tree.texts();
        let order: Vec<&str> = tags.iter().map(|(name, _)| *name).collect();
        return Ok(Reply::json(json!({"text": text, "order": order, "messages": messages})));
    }
    let reply = if text.is_empty() { Reply::default() } else { Reply::verbatim(text) };
    Ok(match messages.len() {
        0 => reply,
        1 => reply.note("1 entry is a message and not part of the text; `--json` shows it"),
        n => reply.note(format!("{n} entries are messages and not part of the text; `--json` shows them")),
    })
}
