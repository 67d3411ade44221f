//! `chat`: a conversation in the terminal or through a pipe, kept in the store.
//!
//! Each line is a turn. On a terminal, lines can be edited and are saved to a history. In a pipe, only the answers go
//! to standard output, so a chat can be scripted. A failed turn is reported, and the chat continues.

mod commands;
mod complete;
mod context;
pub(super) mod lines;
mod names;
mod slash;

use std::cmp::Reverse;

use contexture::SystemSecrets;
use contexture_agent::{Outcome, Secrets};
use contexture_message::{ErrorCode, Role};
use contexture_session::{Session, SessionId, SessionStart, Sessions, Snapshot, list_all};
use serde_json::json;

use self::context::LastTurn;
use self::lines::{Lines, Typed};
use crate::args::{ChatArgs, Globals};
use crate::error::{Exit, Failure};
use crate::live::{Form, Voice};
use crate::output::{self, Reply};
use crate::setup::runtime;
use crate::setup::store::Missing;
use crate::stage::{Stage, existing};
use crate::terminal::Screen;
use crate::terminal::type_ahead;
use crate::turn::{Approver, Ask, play};

/// A running chat.
struct Chat {
    stage: Stage,
    sessions: Sessions,
    id: SessionId,
    /// Created with the first turn, so that a chat without turns stores nothing.
    session: Option<Session>,
    voice: Voice,
    approver: Approver,
    screen: Screen,
    as_json: bool,
    /// The last user message.
    said: Option<String>,
    /// What the model last saw, and its cost.
    last: Option<LastTurn>,
}

pub(super) fn run(args: &ChatArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    if args.talk.input.input.as_deref() == Some("-") {
        return Err(
            Failure::usage("`--input -`: standard input is what is said").hint("write `--input @FILE`")
        );
    }
    let stage = Stage::open(args.prompt.as_deref(), &args.talk, globals)?;
    let place = stage.place(&args.talk)?;
    let mut lines = Lines::open(Stage::folder(&place))?.with_commands();
    runtime::block_on(async {
        let sessions = stage.sessions(&place, args.talk.scope.tenant.as_deref(), Missing::Create).await?;
        let id = match (&args.talk.session, args.last) {
            (Some(id), _) => SessionId::parse(id.as_str())?,
            (None, true) => newest(&sessions).await?,
            (None, false) => new_name()?,
        };
        let form = if globals.json { Form::Events } else { Form::Text };
        let mut chat = Chat {
            session: existing(&sessions, &id).await?,
            voice: Voice::new(form, args.talk.thinking, screen).for_a_person(),
            approver: Approver::of(args.talk.yes, form == Form::Text, Approver::Never),
            as_json: globals.json,
            said: None,
            last: None,
            stage,
            sessions,
            id,
            screen,
        };
        chat.stage.check(chat.session.as_ref().map(Session::main))?;
        chat.greet(lines.is_terminal());
        chat.converse(&mut lines).await
    })?
}

async fn newest(sessions: &Sessions) -> Result<SessionId, Failure> {
    let mut all = list_all(sessions).await?;
    all.sort_by_key(|it| Reverse(it.updated));
    let newest = all.into_iter().next().map(|it| it.session);
    newest.ok_or_else(|| {
        Failure::new(ErrorCode::NotFound, "there is no session to continue")
            .hint("without `--last` a new one begins")
    })
}

fn new_name() -> Result<SessionId, Failure> {
    Ok(SessionId::parse(names::name(&SystemSecrets.next()))?)
}

/// Returns the last user message of a session.
fn last_said(thread: &Snapshot) -> Option<String> {
    let messages = thread.turns().iter().flat_map(|it| it.messages());
    let of_user = messages.filter(|it| it.role == Role::User);
    of_user.filter_map(|it| it.as_text()).next_back().map(str::to_owned)
}

impl Chat {
    /// Prints the session, and on a terminal how to get help.
    fn greet(&self, for_people: bool) {
        let model = self.stage.model_of(self.session.as_ref().map(Session::main)).unwrap_or_default();
        let help = if for_people { "; /help lists commands, Ctrl-D leaves" } else { "" };
        let begun = if self.session.is_some() { "continues" } else { "begins" };
        output::aside(&format!("session {} {begun} with {model}{help}", self.id));
    }

    async fn converse(&mut self, lines: &mut Lines) -> Result<Reply, Failure> {
        let mut exit = Exit::Done;
        loop {
            let line = match lines.read()? {
                Typed::Line(line) => line,
                Typed::Nothing => continue,
                Typed::End => break,
            };
            if line.trim().is_empty() {
                continue;
            }
            let done = match line.strip_prefix('/') {
                Some(_) => match slash::parse(&line) {
                    Ok(slash::Slash::Exit) => break,
                    Ok(slash::Slash::Retry) => self.retry().await,
                    Ok(command) => self.command(command, &line).await,
                    Err(failure) => Err(failure),
                },
                None => self.turn(line.trim_start().to_owned()).await,
            };
            if let Err(failure) = done {
                exit = failure.exit();
                self.tell(&failure);
            }
        }
        // A person has already seen the failure; a script needs the exit code.
        Ok(Reply::default().exit(if lines.is_terminal() { Exit::Done } else { exit }))
    }

    async fn retry(&mut self) -> Result<(), Failure> {
        let before = self.session.as_ref().and_then(|it| last_said(&it.main().get()));
        match self.said.clone().or(before) {
            Some(said) => self.turn(said).await,
            None => Err(Failure::usage("nothing was said yet that could be said again")),
        }
    }

    /// Runs one turn.
    async fn turn(&mut self, said: String) -> Result<(), Failure> {
        self.stage.check(self.session.as_ref().map(Session::main))?;
        let thread = self.session().await?.main().clone();
        let request = self.stage.request(Some(said.clone()), Some(&self.id));
        self.said = Some(said);
        let Stage { agent, prompt, .. } = &self.stage;
        let quiet = type_ahead::quiet();
        let played =
            play(agent, prompt, &thread, Ask::Turn(Box::new(request)), &mut self.voice, self.approver).await;
        drop(quiet);
        let played = match played {
            Ok(played) => played,
            // The user stopped the answer, so this is not an error.
            Err(err) if err.is_cancelled() => {
                self.voice.end_line();
                output::aside("stopped; what was said is kept");
                return Ok(());
            }
            Err(err) => return Err(self.stage.failure(err)),
        };
        self.voice.finish(&played.outcome);
        let Outcome { passes, usage, steps, .. } = played.outcome;
        let last = passes.into_iter().next_back().map(|pass| LastTurn { pass, usage, steps });
        self.last = last.or_else(|| self.last.take());
        Ok(())
    }

    /// Returns the session, and creates it if it does not exist.
    async fn session(&mut self) -> Result<&Session, Failure> {
        if self.session.is_none() {
            let start = SessionStart { id: Some(self.id.clone()), label: None };
            self.session = Some(self.sessions.create(start).await?);
        }
        self.session.as_ref().ok_or_else(|| Failure::new(ErrorCode::NotFound, "there is no session"))
    }

    fn tell(&mut self, failure: &Failure) {
        self.voice.end_line();
        match self.as_json {
            true => self.voice.line(&json!({"type": "failure", "error": failure.to_json()["error"]})),
            false => output::fail(failure),
        }
    }
}
