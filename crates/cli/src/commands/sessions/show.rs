//! `sessions show`: shows the log of a session in one of its views.

use std::collections::HashSet;
use std::sync::Arc;

use anstyle::Style;
use contexture_history::{
    Archived, Body, Change, Envelope, EnvelopeTag, Item, Limit, Seq, Summary, SystemEvent, Turn, TurnNo,
    TurnStatus, turns, window,
};
use contexture_message::{ErrorCode, Message, Part, Role, Tokens, ToolOutput};
use contexture_session::{
    Head, LogKind, NewestTurns, SessionId, SessionKey, Sessions, Span, Store, StoreError, ThreadId,
    ThreadInfo, ThreadKey,
};

use super::{session_id, spanned};
use crate::args::{ShowArgs, ViewArg};
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::Screen;
use crate::terminal::paint::{
    BOLD, CYAN, DIM, GREEN, MAGENTA, PLAIN, RED, YELLOW, behind, cut, one_line, paint, visible,
};

/// The width of the name column.
const NAMES: usize = 14;

pub(in crate::commands) async fn run(
    sessions: &Sessions,
    args: &ShowArgs,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let session = session_id(&args.id)?;
    let of_session = SessionKey { tenant: sessions.tenant().clone(), session };
    let threads = sessions.store().threads(of_session.clone()).await?;
    let thread = thread(&threads, &of_session.session, args.thread.as_deref())?;
    let key = ThreadKey { tenant: of_session.tenant, thread };
    let head = Head::read(&**sessions.store(), &key).await?;
    let head = head.ok_or_else(|| StoreError::no_thread(&key.thread))?;
    let limit = match (args.limit, args.tokens) {
        (Some(count), _) if args.view == ViewArg::History => {
            Some(Limit::Turns(count.min(sessions.history_window())))
        }
        (Some(count), _) => Some(Limit::Turns(count)),
        (None, Some(tokens)) => Some(Limit::Tokens(Tokens(tokens))),
        // The model reads at most the history window.
        (None, None) if args.view == ViewArg::History => Some(Limit::Turns(sessions.history_window())),
        (None, None) => None,
    };
    let mut read = sessions.store().read(key.clone(), span(args.view, limit, &head)).await?;
    if args.view == ViewArg::History {
        let records = records(sessions.store(), &key, &head).await?;
        read = contexture_history::view(read, &records, head.state.aged_hidden);
    }
    let shown = viewed(args.view, limit, &read);
    if as_json {
        return Ok(Reply::json(shown.iter().map(|it| it.document(head.info.thread.as_str())).collect()));
    }
    let reply = Reply::styled(page(&head, &read, &shown, screen));
    let isolated: Vec<String> = threads
        .iter()
        .filter(|it| it.kind == LogKind::Isolated)
        .map(|it| format!("{}{}", it.thread, labelled(it)))
        .collect();
    Ok(match args.thread.is_none() && !isolated.is_empty() {
        true => reply.note(format!("isolated threads, for `--thread`: {}", isolated.join(", "))),
        false => reply,
    })
}

/// Finds a thread by its full name, or by its name without the session prefix.
pub(super) fn thread(
    threads: &[ThreadInfo],
    session: &SessionId,
    name: Option<&str>,
) -> Result<ThreadId, Failure> {
    if threads.is_empty() {
        return Err(StoreError::NotFound { what: "session", id: session.to_string() }.into());
    }
    let Some(name) = name else { return Ok(session.main()) };
    let whole = format!("{session}/{name}");
    let found = threads.iter().find(|it| it.thread.as_str() == name || it.thread.as_str() == whole);
    found.map(|it| it.thread.clone()).ok_or_else(|| {
        let names: Vec<String> =
            threads.iter().map(|it| format!("`{}`{}", it.thread, labelled(it))).collect();
        let failure =
            Failure::new(ErrorCode::NotFound, format!("session `{session}` has no thread `{name}`"));
        failure.hint(format!("it has {}", names.join(", ")))
    })
}

/// Returns the label of a thread in parentheses, to be printed after its name. Threads of a flow have labels.
fn labelled(thread: &ThreadInfo) -> String {
    thread.label.as_deref().map(|it| format!(" ({})", one_line(it))).unwrap_or_default()
}

/// Returns the span of the log that a view needs.
fn span(view: ViewArg, limit: Option<Limit>, head: &Head) -> Span {
    // What fits into a number of tokens is known only after reading everything.
    let count = match limit {
        Some(Limit::Turns(count)) => count,
        Some(Limit::Tokens(_)) | None => usize::MAX,
    };
    match view {
        ViewArg::Client => Span::NewestItems { count, client: true },
        ViewArg::All => Span::NewestItems { count, client: false },
        ViewArg::History => Span::NewestTurns(NewestTurns {
            turns: count,
            after: head.state.history_after,
            open: head.state.open.map(|it| it.turn),
        }),
    }
}

/// Reads the records of the active archives.
async fn records(store: &Arc<dyn Store>, key: &ThreadKey, head: &Head) -> Result<Vec<Item>, Failure> {
    let mut records = Vec::with_capacity(head.state.archives.len());
    for Archived { record, .. } in &head.state.archives {
        let span = Span::After { seq: Seq(record.0.saturating_sub(1)), max: 1 };
        records.extend(store.read(key.clone(), span).await?);
    }
    Ok(records)
}

/// Returns the items of a view.
fn viewed(view: ViewArg, limit: Option<Limit>, items: &[Item]) -> Vec<&Item> {
    match view {
        ViewArg::Client => contexture_history::client(items, limit),
        ViewArg::All => contexture_history::all(items, limit),
        ViewArg::History => {
            let turns = turns(items);
            let window = window(&turns, limit, &*contexture::session_ports(None).counter);
            let kept: HashSet<&str> = window.kept().map(|it| &**it.id()).collect();
            let is_kept = |it: &&Item| {
                let of_archive = summary_of(it).is_some_and(|it| kept.contains(name_of(it).as_str()));
                it.visibility.history && (of_archive || kept.contains(it.turn.to_string().as_str()))
            };
            items.iter().filter(is_kept).collect()
        }
    }
}

/// Returns the summary of an item, if it belongs to an archive.
fn summary_of(item: &Item) -> Option<&Summary> {
    match &item.body {
        Body::Summary(summary) if summary.number > 0 => Some(summary),
        _ => None,
    }
}

fn name_of(summary: &Summary) -> String {
    format!("a{}", summary.number)
}

/// Formats items under the headings of their turns. `read` has all known items of the turns.
pub(super) fn page(head: &Head, read: &[Item], shown: &[&Item], screen: Screen) -> String {
    let info = &head.info;
    let facts = format!("{} turns, {} items, {}", info.turns, info.items, info.updated.to_seconds());
    let label = info.label.as_deref().map(|it| format!("  {}", one_line(it))).unwrap_or_default();
    let title = format!("{}{label}", paint(BOLD, &one_line(info.thread.as_str())));
    let mut all = vec![format!("{title}\n{}", paint(DIM, &facts))];
    all.extend(blocks(head, read, shown, screen));
    all.join("\n\n")
}

/// Returns a block of lines for each turn.
pub(super) fn blocks(head: &Head, read: &[Item], shown: &[&Item], screen: Screen) -> Vec<String> {
    let mut blocks = Vec::new();
    let known = turns(read);
    for of_turn in shown.chunk_by(|one, other| one.turn == other.turn) {
        let Some(first) = of_turn.first() else { continue };
        let heading = match (summary_of(first), of_turn.len()) {
            (Some(summary), 1) => summary_heading(summary, first),
            _ => heading(head, first, &known, read),
        };
        let mut lines = vec![heading];
        lines.extend(of_turn.iter().flat_map(|it| item_lines(it, screen)));
        blocks.push(lines.join("\n"));
    }
    if shown.is_empty() {
        blocks.push("Nothing is there to see.".to_owned());
    }
    blocks
}

/// Returns the heading of a summary that replaces turns.
fn summary_heading(summary: &Summary, item: &Item) -> String {
    let when = paint(DIM, &item.at.to_seconds());
    format!("{}  in the place of {}  {when}", paint(BOLD, &name_of(summary)), spanned(summary.turns))
}

fn heading(head: &Head, first: &Item, known: &[Turn], read: &[Item]) -> String {
    let name = first.turn.to_string();
    let when = paint(DIM, &first.at.to_seconds());
    if first.turn == TurnNo(0) {
        return format!("{}  before the first turn  {when}", paint(BOLD, &name));
    }
    let open = head.state.open.filter(|it| it.turn == first.turn).map(|it| it.status);
    let status = known.iter().find(|it| **it.id() == *name).map_or(TurnStatus::Completed, Turn::status);
    let status = open.unwrap_or(status);
    let style = match status {
        TurnStatus::Completed => GREEN,
        TurnStatus::InFlight | TurnStatus::Suspended | TurnStatus::Interrupted => YELLOW,
        TurnStatus::Failed => RED,
    };
    let reason = read.iter().rev().filter(|it| it.turn == first.turn).find_map(|it| match &it.body {
        Body::Change(Change::TurnEnded { reason, .. }) => Some(reason.as_deref()),
        _ => None,
    });
    let reason = reason.flatten().filter(|_| open.is_none()).map(|it| format!(": {}", one_line(it)));
    let status = format!("{}{}", status.as_str().replace('_', " "), reason.unwrap_or_default());
    format!("{}  {}  {when}", paint(BOLD, &name), paint(style, &status))
}

fn item_lines(item: &Item, screen: Screen) -> Vec<String> {
    let mark = match (item.visibility.client, item.visibility.history) {
        (true, _) => "",
        (false, true) => "(hidden) ",
        // Changes are visible to neither; their text makes that clear without a mark.
        (false, false) => "",
    };
    let line = |name: &str, style: Style, text: &str| {
        let front = format!("  {}{}", paint(style, name), " ".repeat(NAMES.saturating_sub(name.len() + 2)));
        let text = visible(text).replace('\t', " ");
        let mut lines = Vec::new();
        for (idx, text) in format!("{mark}{text}").lines().enumerate() {
            let front = if idx == 0 { front.clone() } else { " ".repeat(NAMES) };
            lines.extend(behind(&front, NAMES, text, screen.width));
        }
        lines
    };
    match &item.body {
        Body::Message(message) => {
            let name = message.role.as_str();
            let style = role_style(message);
            message.content.iter().flat_map(|it| line(name, style, &said(it, screen))).collect()
        }
        Body::SystemEvent(SystemEvent { name, text, .. }) => {
            line("event", MAGENTA, &format!("{name}: {text}"))
        }
        Body::Envelope(Envelope { tag, text, evidence }) => {
            let name = match tag {
                EnvelopeTag::SystemContext => "context",
                EnvelopeTag::SystemReminders => "reminders",
            };
            let found = evidence.iter().flat_map(|it| line("evidence", MAGENTA, &it.labelled_text()));
            let text = Some(text).filter(|it| !it.is_empty()).map(|it| line(name, MAGENTA, it));
            found.chain(text.into_iter().flatten()).collect()
        }
        Body::Summary(it) => line("summary", MAGENTA, &summary(it)),
        Body::Application(app) => {
            line("application", PLAIN, &short(&format!("{}: {}", app.kind, app.value), screen))
        }
        Body::Change(it) => line("change", DIM, &change(it, screen)),
    }
}

fn role_style(message: &Message) -> Style {
    match message.role {
        Role::User => BOLD,
        Role::Assistant => GREEN,
        Role::Tool => CYAN,
        Role::System => DIM,
    }
}

/// Formats a part as text; calls and results take one line.
fn said(part: &Part, screen: Screen) -> String {
    match part {
        Part::Text { text, .. } => text.clone(),
        Part::Image(image) => format!("[image {}]", image.media_type.as_deref().unwrap_or("of unknown type")),
        Part::File(file) => {
            let name = file.name.as_deref().or(file.media_type.as_deref()).unwrap_or("without a name");
            format!("[file {name}]")
        }
        Part::Evidence(evidence) => short(&format!("[evidence] {}", evidence.labelled_text()), screen),
        Part::Thinking(thinking) => short(&format!("[thinking] {}", thinking.text), screen),
        Part::ToolCall(call) => {
            short(&format!("[call {}] {} {}", call.id, call.name, call.arguments), screen)
        }
        Part::ToolResult(result) => {
            short(&format!("[result {}] {}", result.call_id, outcome(&result.output, screen)), screen)
        }
    }
}

fn outcome(output: &ToolOutput, screen: Screen) -> String {
    match output {
        ToolOutput::Text(text) => text.clone(),
        ToolOutput::Json(value) => value.to_string(),
        ToolOutput::ErrorText(text) => format!("error: {text}"),
        ToolOutput::ErrorJson(value) => format!("error: {value}"),
        ToolOutput::ExecutionDenied { reason } => {
            format!("denied: {}", reason.as_deref().unwrap_or("no reason is given"))
        }
        ToolOutput::Content(parts) => parts.iter().map(|it| said(it, screen)).collect::<Vec<_>>().join(" "),
    }
}

/// Cuts a text to one line.
fn short(text: &str, screen: Screen) -> String {
    cut(&one_line(text), screen.width.saturating_sub(NAMES + "(hidden) ".len()))
}

fn summary(summary: &Summary) -> String {
    let Summary { text, first, last, number, turns, replaces, left_out, .. } = summary;
    let mut front = match number {
        0 => format!("of items {first} to {last}"),
        _ => format!("{} of {} (items {first} to {last})", name_of(summary), spanned(*turns)),
    };
    if !replaces.is_empty() {
        let names: Vec<String> = replaces.iter().map(Archived::name).collect();
        front.push_str(&format!(", in the place of {}", names.join(", ")));
    }
    match left_out {
        Some(reason) => format!("{front}, left out: {reason}"),
        None => format!("{front}: {text}"),
    }
}

fn change(change: &Change, screen: Screen) -> String {
    match change {
        Change::TurnBegan { key: Some(key), .. } => format!("the turn began, for the key {key}"),
        Change::TurnBegan { key: None, .. } => "the turn began".to_owned(),
        Change::TurnResumed => "the turn goes on".to_owned(),
        Change::TurnEnded { status, reason, .. } => {
            let status = status.as_str();
            reason
                .as_ref()
                .map_or_else(|| format!("the turn is {status}"), |it| format!("the turn is {status}: {it}"))
        }
        Change::HistoryReset => "the history starts anew".to_owned(),
        Change::Instructions { text: Some(text) } => format!("instructions: {text}"),
        Change::Instructions { text: None } => "the instructions are taken away".to_owned(),
        Change::Model { provider, model } => format!("the model is {provider}/{model}"),
        Change::ArchiveUndone { number, restores } => {
            let names: Vec<String> = restores.iter().map(Archived::name).collect();
            let back = if names.is_empty() { "" } else { "; what it replaced holds again: " };
            format!("archive a{number} is undone{back}{}", names.join(", "))
        }
        Change::Aged { results, hidden } => match (results.0, hidden.0) {
            (_, 0) => format!("tool results up to item {results} are old, large ones become previews"),
            (0, _) => format!("hidden context up to item {hidden} is left out"),
            _ => format!(
                "tool results up to item {results} are old, hidden context up to item {hidden} is left out"
            ),
        },
        Change::Noted { key, value: Some(value) } => short(&format!("noted under {key}: {value}"), screen),
        Change::Noted { key, value: None } => format!("the note {key} is taken away"),
    }
}
