//! `sessions event`: appends a system event to a thread.

use contexture_history::SystemEvent;
use contexture_session::{NewItem, Policy, Sessions};
use serde_json::{Value, json};

use super::open_thread;
use crate::args::EventArgs;
use crate::error::Failure;
use crate::output::Reply;
use crate::read;
use crate::terminal::paint::{GREEN, one_line, paint};

pub(super) async fn run(sessions: &Sessions, args: &EventArgs, as_json: bool) -> Result<Reply, Failure> {
    let text = if args.text == "-" { read::text("-")? } else { args.text.clone() };
    let data: Option<Value> = match &args.data {
        Some(json) => Some(
            serde_json::from_str(json)
                .map_err(|err| Failure::usage(format!("`--data` is not JSON: {err}")))?,
        ),
        None => None,
    };
    let event = SystemEvent::from_outside(args.name.as_str(), text, data)
        .map_err(|err| Failure::usage(err.to_string()).at(format!("--{}", err.field())))?;
    let policy = if args.no_wait { Policy::Reject } else { Policy::Queue };
    let thread = open_thread(sessions, &args.id, args.thread.as_deref()).await?.with_policy(policy);
    let is_written = match &args.key {
        Some(key) => thread.add_items_once(key, vec![NewItem::from(event)]).await?,
        None => thread.add(vec![NewItem::from(event)]).await.map(|_| true)?,
    };
    let end = thread.get().state().end;
    if as_json {
        return Ok(Reply::json(json!({"thread": thread.id(), "end": end, "appended": is_written})));
    }
    let name = one_line(thread.id().as_str());
    Ok(Reply::styled(match is_written {
        true => format!("{} to {name} at {end}", paint(GREEN, "appended")),
        false => format!("{name} has it already"),
    }))
}
