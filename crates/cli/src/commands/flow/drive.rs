//! `flow run`, `flow resume`, `flow cancel`: drives a run as far as possible and shows its progress.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_agent::CancellationToken;
use contexture_flow::{RunError, RunEvent, RunId, RunInfo, RunStart, RunStatus, Runtime};
use contexture_session::SessionId;
use futures::{FutureExt, StreamExt};
use serde_json::{Map, Value, json};

use super::setup::DriveSetup;
use super::speakers::{Shown, Speakers};
use super::waits::{Respondent, value};
use crate::args::{DriveArgs, FlowCancelArgs, FlowResumeArgs, FlowRunArgs, Globals};
use crate::error::{Exit, Failure};
use crate::live::{Form, Voice};
use crate::output::{self, Reply};
use crate::pass;
use crate::setup::runtime::block_on;
use crate::setup::store::Missing;
use crate::terminal::Screen;

pub(super) fn run(args: &FlowRunArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let work = async {
        let mut setup = DriveSetup::open(&args.drive.store, Missing::Create, globals).await?;
        let flow = setup.project.flow(&args.flow)?;
        let each = flow.inputs().iter().map(|(name, of)| (name.clone(), of.to_schema()));
        let schema = json!({"type": "object", "properties": each.collect::<Map<String, Value>>()});
        let start = RunStart {
            session: args.session.as_deref().map(SessionId::parse).transpose()?,
            input: pass::input_of(&args.input, &schema)?,
            key: args.key.clone(),
            user: None,
        };
        let run = setup.runtime.start(flow, start).await?;
        driven(&mut setup, &run, 0, &args.drive, globals.json, screen).await
    };
    block_on(work)?
}

pub(super) fn resume(args: &FlowResumeArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let work = async {
        let mut setup = DriveSetup::open(&args.drive.store, Missing::Refuse, globals).await?;
        let run = RunId::parse(&args.run)?;
        let info = setup.runtime.info(&run).await?;
        if info.status.is_over() && !args.answers.is_empty() {
            return Err(RunError::Over { run: run.to_string(), status: info.status }.into());
        }
        let last = setup.runtime.last_number(&run).await?;
        for answer in &args.answers {
            let (wait, text) = answer.split_once('=').ok_or_else(|| {
                Failure::usage(format!("`--answer {answer}` has no `=`")).hint("write `--answer WAIT=VALUE`")
            })?;
            let asked = info.waits.iter().find(|it| it.id == wait);
            let value = match asked {
                Some(asked) => value(asked, text).map_err(|why| {
                    Failure::new(ErrorCode::AnswerInvalid, format!("the answer to `{wait}`: {why}"))
                })?,
                // `answer` reports why there is no such wait.
                None => Value::String(text.to_owned()),
            };
            setup.runtime.answer(&run, wait, value).await?;
        }
        free(&setup, &run).await?;
        driven(&mut setup, &run, last, &args.drive, globals.json, screen).await
    };
    block_on(work)?
}

pub(super) fn cancel(args: &FlowCancelArgs, globals: &Globals) -> Result<Reply, Failure> {
    let work = async {
        let setup = DriveSetup::open(&args.store, Missing::Refuse, globals).await?;
        let run = RunId::parse(&args.run)?;
        let before = setup.runtime.cancel(&run).await?;
        let info = match setup.runtime.drive(&run, CancellationToken::new()).await {
            // The process that drives the run will see the cancellation.
            Err(RunError::Driven { .. }) => setup.runtime.info(&run).await?,
            info => info?,
        };
        Ok(match globals.json {
            true => Reply::json(json!(info)),
            false if before.is_over() => Reply::styled(format!("It was over before: {}.", before.as_str())),
            false if info.status.is_over() => Reply::styled(format!("The run is {}.", info.status.as_str())),
            false => Reply::styled("It is being cancelled by the process that drives it."),
        })
    };
    block_on(work)?
}

/// Waits until no other process drives the run: a killed process holds it until its lease expires.
async fn free(setup: &DriveSetup, run: &RunId) -> Result<(), Failure> {
    let patience = Duration::from_secs(setup.project.config().server.lease_seconds.saturating_add(2));
    let end = Instant::now() + patience;
    let mut has_told = false;
    while setup.runtime.is_driven(run).await? && Instant::now() < end {
        if !has_told {
            let seconds = patience.as_secs();
            output::aside(&format!("another process had the run; it is free in at most {seconds} s"));
            has_told = true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Drives a run, answers its waits as long as there are answers, and reports the outcome.
async fn driven(
    setup: &mut DriveSetup,
    run: &RunId,
    mut after: u64,
    args: &DriveArgs,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let form = match (as_json, args.events) {
        (_, true) => Form::Events,
        (true, false) => Form::Nothing,
        (false, false) => Form::Text,
    };
    let mut voice = Narrator {
        form,
        voice: Voice::new(form, args.thinking, screen),
        speakers: Speakers::default(),
        begun: BTreeMap::new(),
    };
    let mut respondent = Respondent::new(form == Form::Text && !args.detach, args.yes)?;
    loop {
        let info = stretch(setup, run, &mut after, &mut voice).await?;
        voice.voice.end_line();
        let mut is_answered = false;
        for wait in &info.waits {
            let Some(value) = respondent.answer(wait)? else { break };
            setup.runtime.answer(run, &wait.id, value).await?;
            is_answered = true;
        }
        if !is_answered {
            return Ok(reply(&info, form));
        }
    }
}

/// Drives a run as far as possible and shows its events. Ctrl-C stops driving, without cancelling the run.
async fn stretch(
    setup: &mut DriveSetup,
    run: &RunId,
    after: &mut u64,
    narrator: &mut Narrator,
) -> Result<RunInfo, Failure> {
    let DriveSetup { runtime, told, .. } = setup;
    // The answers, and what others have done.
    show_recorded(runtime, run, after, narrator).await?;
    let stop = CancellationToken::new();
    let mut drive = Box::pin(runtime.drive(run, stop.clone()));
    let info = loop {
        tokio::select! {
            // Show pending events before the outcome.
            biased;
            Some((number, event)) = told.next() => narrator.hear(&event, number, after),
            info = &mut drive => break info?,
            Ok(()) = tokio::signal::ctrl_c() => stop.cancel(),
        }
    };
    while let Some(Some((number, event))) = told.next().now_or_never() {
        narrator.hear(&event, number, after);
    }
    show_recorded(runtime, run, after, narrator).await?;
    Ok(info)
}

/// Shows what is on record of a run after a number.
async fn show_recorded(
    runtime: &Runtime,
    run: &RunId,
    after: &mut u64,
    narrator: &mut Narrator,
) -> Result<(), Failure> {
    for (number, event) in runtime.events(run, *after, usize::MAX >> 1).await? {
        narrator.hear(&event, Some(number), after);
    }
    Ok(())
}

/// Prints the events of a run.
struct Narrator {
    form: Form,
    voice: Voice,
    speakers: Speakers,
    /// The start times of nodes that are still running.
    begun: BTreeMap<Arc<str>, Instant>,
}

impl Narrator {
    /// Shows an event, unless it was shown before.
    fn hear(&mut self, event: &RunEvent, number: Option<u64>, after: &mut u64) {
        match number {
            Some(number) if number <= *after => {}
            _ => self.show(event, number),
        }
        *after = number.map_or(*after, |it| it.max(*after));
    }

    fn show(&mut self, event: &RunEvent, number: Option<u64>) {
        if self.form == Form::Events {
            let mut document = json!(event);
            if let Some(number) = number {
                document["id"] = json!(number);
            }
            self.voice.line(&document);
        }
        if self.form == Form::Text {
            self.tell(event);
        }
    }

    fn tell(&mut self, event: &RunEvent) {
        match event {
            RunEvent::NodeEvent { node, event, .. } => {
                let shown = self.speakers.hear(node, event);
                self.print(shown);
            }
            RunEvent::NodeStart { node, .. } => {
                self.begun.insert(Arc::clone(node), Instant::now());
                self.speakers.begin(node);
                self.voice.aside(&format!("· {node}"), false);
            }
            RunEvent::NodeRetry { node, attempt, error, .. } => {
                self.voice.aside(&format!("· {node}: {error}; attempt {attempt}"), true);
            }
            RunEvent::NodeEnd { node, error, .. } => {
                self.voice.end_line();
                let took = self.begun.remove(node).map(|it| it.elapsed()).unwrap_or_default();
                let shown = self.speakers.end(node, took);
                self.print(shown);
                if let Some(error) = error {
                    self.voice.aside(&format!("· {node}: {error}"), true);
                }
            }
            RunEvent::NodeTurn { .. } => {}
            RunEvent::RunResume {} => self.voice.aside("· continues where it was left", false),
            _ => self.voice.end_line(),
        }
    }

    fn print(&mut self, shown: Vec<Shown>) {
        for it in shown {
            match it {
                Shown::Speaker(node) => self.voice.aside(&format!("· {node} says"), false),
                Shown::Event(event) => self.voice.hear(&event),
                Shown::Spent(node, spent) => {
                    let line = format!(
                        "· {node}: {:.1} s, {} tokens in, {} out",
                        spent.took.as_secs_f64(),
                        spent.input,
                        spent.output
                    );
                    self.voice.aside(&line, false);
                }
            }
        }
    }
}

fn reply(info: &RunInfo, form: Form) -> Reply {
    let exit = match info.status {
        RunStatus::Completed => Exit::Done,
        RunStatus::Waiting | RunStatus::Running => Exit::CheckFailed,
        RunStatus::Failed | RunStatus::Cancelled => Exit::World,
    };
    let reply = match form {
        Form::Nothing => Reply::json(json!(info)),
        Form::Events => Reply::default(),
        Form::Text if info.status == RunStatus::Completed && !info.outputs.is_empty() => {
            Reply::json(json!(info.outputs))
        }
        Form::Text => Reply::default(),
    };
    let reply = reply.exit(exit);
    if form != Form::Text {
        return reply;
    }
    let run = &info.run;
    match info.status {
        RunStatus::Completed => reply,
        RunStatus::Failed => {
            let why =
                info.error.as_ref().map(|it| format!("{} ({})", it.message, it.code)).unwrap_or_default();
            reply.note(format!(
                "run {run} failed at node `{}`: {why}",
                info.node.as_deref().unwrap_or_default()
            ))
        }
        RunStatus::Cancelled => reply.note(format!("run {run} was cancelled")),
        RunStatus::Running => {
            reply.note(format!("run {run} is left; `contexture flow resume {run}` continues it"))
        }
        RunStatus::Waiting => info.waits.iter().fold(reply, |reply, wait| {
            reply.note(format!(
                "run {run} waits: {}\n  `contexture flow resume {run} --answer {}=VALUE` answers",
                wait.asked.message.trim(),
                wait.id
            ))
        }),
    }
}
