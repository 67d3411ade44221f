//! `run`: runs one turn of a prompt and calls the model.

use contexture_agent::{Decision, Ended, Outcome, Remark, RunRequest, Verdict};
use contexture_compose::Prompt;
use contexture_history::TurnStatus;
use contexture_session::{SessionId, SessionStart, Sessions, Thread};
use serde_json::{Value, json};

use crate::args::{Globals, RunArgs};
use crate::error::{Exit, Failure};
use crate::live::{Form, Voice};
use crate::output::Reply;
use crate::read;
use crate::setup::runtime;
use crate::setup::store::{Missing, Place};
use crate::stage::{Stage, existing};
use crate::terminal::Screen;
use crate::turn::{Approver, Ask, Played, play};

pub(super) fn run(args: &RunArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    if args.user.as_deref() == Some("-") && args.talk.input.input.as_deref() == Some("-") {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let stage = Stage::open(Some(&args.prompt), &args.talk, globals)?;
    let user = match args.user.as_deref() {
        Some("-") => Some(read::text("-")?.trim_end().to_owned()),
        text => text.map(str::to_owned),
    };
    if user.is_none() && args.decide.is_empty() && !says_something(&stage.prompt) {
        let failure = Failure::usage(format!(
            "nothing is said to the model: `{}` has no text of the user",
            args.prompt
        ));
        return Err(failure.hint("say it with `--user TEXT`, or with `--user -` on standard input"));
    }
    runtime::block_on(talk(args, &stage, user, globals.json, screen))?
}

async fn talk(
    args: &RunArgs,
    stage: &Stage,
    user: Option<String>,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let id = args.talk.session.as_deref().map(SessionId::parse).transpose()?;
    let place = if id.is_some() { stage.place(&args.talk)? } else { Place::Memory };
    // Checked before the store is created, so that a run that cannot start leaves no trace.
    if id.is_none() {
        stage.check(None)?;
    }
    let sessions = stage.sessions(&place, args.talk.scope.tenant.as_deref(), Missing::Create).await?;
    if place == Place::Memory {
        stage.open_knowledge(&args.talk).await?;
    }
    let thread = thread(stage, &sessions, id.as_ref()).await?;
    let form = match (as_json, args.events) {
        (true, _) => Form::Nothing,
        (false, true) => Form::Events,
        (false, false) => Form::Text,
    };
    let mut voice = Voice::new(form, args.talk.thinking, screen);
    if stage.prompt.definition().output.is_some() {
        voice = voice.until_it_stands();
    }
    let ask = match decision(args) {
        Some(decision) => Ask::Decision(decision),
        None => Ask::Turn(Box::new(RunRequest {
            key: args.key.clone(),
            blocks: args.blocks.iter().map(|it| read::block(it)).collect::<Result<_, _>>()?,
            reminders: args.reminders.clone(),
            refresh: args.refresh,
            ..stage.request(user, id.as_ref())
        })),
    };
    let approver = Approver::of(args.talk.yes, form == Form::Text, Approver::Nobody);
    let played = play(&stage.agent, &stage.prompt, &thread, ask, &mut voice, approver).await;
    let played = played.map_err(|err| {
        voice.end_line();
        stage.failure(err)
    })?;
    voice.finish(&played.outcome);
    Ok(reply(&played, form, id.is_some()))
}

/// Returns the decision about a waiting call, if the arguments give one.
fn decision(args: &RunArgs) -> Option<Decision> {
    let [approval, token] = args.decide.as_slice() else { return None };
    let verdict = match &args.deny {
        None => Verdict::Approve,
        Some(reason) => Verdict::Deny { reason: Some(reason.clone()).filter(|it| !it.is_empty()) },
    };
    Some(Decision { approval: approval.clone(), token: token.clone(), verdict })
}

/// Opens the thread of the session, or one in memory. Writes nothing if the model cannot be called.
async fn thread(stage: &Stage, sessions: &Sessions, id: Option<&SessionId>) -> Result<Thread, Failure> {
    let known = match id {
        Some(id) => existing(sessions, id).await?,
        None => None,
    };
    stage.check(known.as_ref().map(|it| it.main()))?;
    let session = match known {
        Some(session) => session,
        None => sessions.create(SessionStart { id: id.cloned(), label: None }).await?,
    };
    Ok(session.main().clone())
}

/// Whether a prompt has a text for the user turn.
fn says_something(prompt: &Prompt) -> bool {
    let it = prompt.definition();
    it.prompt.is_some() || !it.user.is_empty() || !it.messages.is_empty() || it.user_message.is_some()
}

fn reply(played: &Played, form: Form, is_kept: bool) -> Reply {
    let outcome = &played.outcome;
    let reply = match form {
        Form::Nothing => Reply::json(document(outcome)),
        Form::Text | Form::Events => Reply::default(),
    };
    let exit = match outcome.status {
        TurnStatus::Suspended => Exit::CheckFailed,
        TurnStatus::Completed if played.is_denied => Exit::CheckFailed,
        TurnStatus::Completed | TurnStatus::InFlight => Exit::Done,
        TurnStatus::Failed | TurnStatus::Interrupted => Exit::World,
    };
    let reply = reply.exit(exit);
    if form != Form::Text {
        return reply;
    }
    let reply = outcome.approvals.iter().fold(reply, |reply, it| {
        let call = format!("{} {}", it.tool, it.arguments);
        reply.note(format!(
            "approval is needed: {call}\n  `--yes` approves every call; on a terminal you are asked{}",
            if is_kept {
                format!("; `--decide {} {}` decides later", it.id, it.token)
            } else {
                String::new()
            },
        ))
    });
    match (&outcome.ended, exit) {
        (Ended::Replayed, Exit::World) => {
            reply.note(format!("the turn of this key is {}; use another key", outcome.status.as_str()))
        }
        (Ended::Answered | Ended::Replayed | Ended::Suspended | Ended::ClientTools, _) => reply,
        (ended, _) => reply.note(format!("the run ended early: {}", ended.as_str().replace('_', " "))),
    }
}

fn document(outcome: &Outcome) -> Value {
    let remarks = outcome
        .remarks
        .iter()
        .map(|Remark { source, message }| json!({"source": source, "message": message}));
    let mut document = json!({
        "thread": outcome.thread, "turn": outcome.turn.to_string(), "status": outcome.status,
        "ended": outcome.ended.as_str(), "text": outcome.text(), "usage": outcome.usage, "steps": outcome.steps,
        "remarks": remarks.collect::<Vec<_>>(), "approvals": outcome.approvals,
    });
    if !outcome.citations.is_empty() {
        document["citations"] = json!(outcome.citations);
    }
    if !outcome.reports.is_empty() {
        document["reports"] = json!(outcome.reports);
    }
    if !outcome.compactions.is_empty() {
        document["compactions"] = json!(outcome.compactions);
    }
    if let Some(output) = &outcome.output {
        document["output"] = output.clone();
    }
    if let Some(cost) = outcome.cost {
        document["cost"] = json!(cost);
    }
    document
}
