//! `window`: shows which turns of a transcript fit a limit.

use contexture_history::Limit;
use contexture_message::{CounterProfile, Tokens, counter_for};
use serde::Serialize;

use super::resolve::counted;
use crate::args::{FormatArg, WindowArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::read;
use crate::terminal::paint::{BOLD, DIM, GREEN, YELLOW, one_line, paint};
use crate::transcript::{Format, Json, Transcript, Windowed, reason};

/// Further repairs are only counted.
const MAX_SHOWN: usize = 5;

pub(super) fn run(args: &WindowArgs, as_json: bool) -> Result<Reply, Failure> {
    let text = read::text(&args.file)?;
    let format = match args.format {
        FormatArg::Auto => None,
        FormatArg::Neutral => Some(Format::Neutral),
        FormatArg::Openai => Some(Format::Openai),
        FormatArg::Anthropic => Some(Format::Anthropic),
    };
    let transcript = Transcript::read(&text, read::name(&args.file), format)?;
    let limit = match (args.turns, args.tokens) {
        (Some(turns), _) => Some(Limit::Turns(turns)),
        (None, Some(tokens)) => Some(Limit::Tokens(Tokens(tokens))),
        (None, None) => None,
    };
    let counter = counter_for(args.model.as_deref().or(transcript.model()));
    let windowed = transcript.window(limit, &*counter);
    let profile = counter.profile();
    if as_json {
        let document = document(&windowed, &profile);
        return Ok(Reply::document(serde_json::to_string_pretty(&document).expect("all keys are texts")));
    }
    let reply = match windowed.text.is_empty() {
        true => Reply::default(),
        false => Reply::verbatim(windowed.text.as_str()),
    };
    let notes = summary(&windowed, transcript.format(), &profile);
    Ok(notes.into_iter().fold(reply, Reply::styled_note))
}

/// The output of `--json`.
#[derive(Serialize)]
struct Document<'w> {
    turns: &'w [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'w Json<'w>>,
    messages: &'w [Json<'w>],
    dropped: Vec<Dropped<'w>>,
    repairs: Vec<Repaired<'w>>,
    tokens: Tokens,
    counter: Counter<'w>,
}

#[derive(Serialize)]
struct Dropped<'w> {
    turn: &'w str,
    reason: &'w str,
}

#[derive(Serialize)]
struct Repaired<'w> {
    turn: &'w str,
    call_id: &'w str,
    name: &'w str,
    what: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct Counter<'w> {
    name: &'w str,
    exact: bool,
}

fn document<'w>(windowed: &'w Windowed<'w>, profile: &'w CounterProfile) -> Document<'w> {
    let dropped = windowed.dropped.iter().map(|(turn, reason)| Dropped { turn, reason });
    let repairs = windowed.repairs.iter().map(|(turn, repair)| Repaired {
        turn,
        call_id: &repair.call_id,
        name: &repair.name,
        what: repair.what.as_str(),
        reason: reason(repair),
    });
    Document {
        turns: &windowed.turns,
        system: windowed.system.as_ref(),
        messages: &windowed.messages,
        dropped: dropped.collect(),
        repairs: repairs.collect(),
        tokens: windowed.tokens,
        counter: Counter { name: &profile.name, exact: profile.exact },
    }
}

/// Returns a summary for people: what is kept, what is dropped and why, and what was repaired.
fn summary(windowed: &Windowed<'_>, format: Format, profile: &CounterProfile) -> Vec<String> {
    let Windowed { turns, messages, dropped, repairs, tokens, .. } = windowed;
    let kept = format!("{} kept", counted(turns.len(), "turn"));
    let about = if profile.exact { "" } else { "about " };
    let facts = format!(
        ", {}, {about}{tokens} tokens by {}, read as {}",
        counted(messages.len(), "message"),
        profile.name,
        format.name()
    );
    let mut lines = vec![format!("{}{}", paint(GREEN, &kept), paint(DIM, &facts))];
    for alike in dropped.chunk_by(|(_, one), (_, other)| one == other) {
        let names = match alike {
            [(one, _)] => one_line(one),
            [(first, _), (second, _)] => format!("{}, {}", one_line(first), one_line(second)),
            [(first, _), .., (last, _)] => format!("{} to {}", one_line(first), one_line(last)),
            [] => continue,
        };
        let count = format!("{} dropped", counted(alike.len(), "turn"));
        let reason = one_line(&alike[0].1);
        lines.push(format!("{} {}: {reason}", paint(YELLOW, &count), paint(BOLD, &format!("({names})"))));
    }
    for (turn, repair) in repairs.iter().take(MAX_SHOWN) {
        let front =
            format!("{} {}", paint(YELLOW, "repaired"), paint(BOLD, &format!("({})", one_line(turn))));
        lines.push(format!("{front}: {}", one_line(&reason(repair))));
    }
    if let Some(more) = repairs.len().checked_sub(MAX_SHOWN).filter(|it| *it > 0) {
        lines.push(paint(DIM, &format!("{} more; `--json` lists them", counted(more, "repair"))));
    }
    lines
}
