//! The slash commands of a chat.

use contexture_agent::Tool;
use contexture_compose::{Pass, Runner};
use contexture_message::{ErrorCode, Tokens};
use contexture_session::{Session, SessionId, Thread};
use serde_json::json;

use super::context::Filling;
use super::slash::{COMMANDS, Slash};
use super::{Chat, new_name};
use crate::args::{ShowArgs, ViewArg};
use crate::commands::sessions::{archives, list, show};
use crate::commands::{compact, inspect};
use crate::error::Failure;
use crate::output::{self, Reply};
use crate::stage::existing;
use crate::terminal::paint::{BOLD, DIM, one_line, paint};
use crate::terminal::table::{Align, Cell, Table};
use crate::terminal::type_ahead;

const NOTHING: &str = "Nothing was said yet.";

impl Chat {
    /// Runs a command and prints its reply.
    pub(super) async fn command(&mut self, command: Slash, line: &str) -> Result<(), Failure> {
        let reply = self.reply(command).await?;
        match self.as_json {
            true => self.voice.line(&json!({"type": "reply", "command": line, "value": reply.into_value()})),
            false => drop(output::print(self.screen, false, Ok(reply))),
        }
        Ok(())
    }

    async fn reply(&mut self, command: Slash) -> Result<Reply, Failure> {
        match command {
            Slash::Help => Ok(self.help()),
            Slash::Sessions => list::run(&self.sessions, None, self.as_json, self.screen).await,
            Slash::New(id) => {
                let id = id.map_or_else(new_name, |it| Ok(SessionId::parse(it)?))?;
                if existing(&self.sessions, &id).await?.is_some() {
                    let failure =
                        Failure::new(ErrorCode::AlreadyExists, format!("there is a session `{id}` already"));
                    return Err(failure.hint(format!("`/session {id}` continues it")));
                }
                self.go_to(id).await
            }
            Slash::Session(id) => self.go_to(SessionId::parse(id)?).await,
            Slash::History(n_turns) => self.history(n_turns).await,
            Slash::Model(name) => self.model(name).await,
            Slash::Tools => self.tools(),
            Slash::System(text) => {
                self.session().await?.main().set_system_instructions(text.as_deref()).await?;
                let done = if text.is_some() {
                    "The session has further instructions."
                } else {
                    "The session has no further instructions."
                };
                Ok(Reply::styled(done))
            }
            Slash::Context(all) => self.context(all).await,
            Slash::Compact => match self.thread() {
                Some(thread) => {
                    let _quiet = type_ahead::quiet();
                    let report = compact::compacted(&self.stage, &thread, &self.id).await?;
                    Ok(compact::reply(&report, self.as_json))
                }
                None => Ok(Reply::styled(NOTHING)),
            },
            Slash::Undo => match self.thread() {
                Some(thread) => compact::undone(&thread, self.as_json).await,
                None => Ok(Reply::styled(NOTHING)),
            },
            Slash::Archives(number) => match (self.thread(), number) {
                (None, _) => Ok(Reply::styled(NOTHING)),
                (Some(thread), None) => archives::list(&thread, self.as_json, self.screen).await,
                (Some(thread), Some(number)) => {
                    archives::one(&self.sessions, &thread, number, self.as_json, self.screen).await
                }
            },
            Slash::Refresh => match self.thread() {
                Some(thread) => {
                    self.stage.agent.refresh(&thread).await?;
                    Ok(Reply::styled("The next turn evaluates the frozen prefix again."))
                }
                None => Ok(Reply::styled(NOTHING)),
            },
            // The caller handles these: they end the chat or run a turn.
            Slash::Exit | Slash::Retry => Ok(Reply::default()),
        }
    }

    fn help(&self) -> Reply {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
        for (name, takes, does) in COMMANDS {
            let front = format!("/{name} {takes}");
            table.row(vec![Cell::new(front.trim_end()).style(BOLD), Cell::new(does)]);
        }
        let mut lines = table.lines(0, self.screen.width);
        lines.push(paint(DIM, "A line that ends in \\ continues in the next one. Ctrl-C stops an answer."));
        Reply::styled(lines.join("\n"))
    }

    async fn go_to(&mut self, id: SessionId) -> Result<Reply, Failure> {
        self.session = existing(&self.sessions, &id).await?;
        self.id = id;
        (self.said, self.last) = (None, None);
        let begun = if self.session.is_some() { "continues" } else { "begins" };
        Ok(Reply::styled(format!("Session {} {begun}.", one_line(self.id.as_str()))))
    }

    async fn history(&mut self, n_turns: usize) -> Result<Reply, Failure> {
        if self.session.is_none() {
            return Ok(Reply::styled(NOTHING));
        }
        let id = self.id.to_string();
        let args = ShowArgs { id, view: ViewArg::History, limit: Some(n_turns), tokens: None, thread: None };
        show::run(&self.sessions, &args, self.as_json, self.screen).await
    }

    /// Shows the model, or chooses one for the session, which overrides the model from the arguments.
    async fn model(&mut self, name: Option<String>) -> Result<Reply, Failure> {
        if let Some(name) = name {
            self.stage.models.check(Some(&name))?;
            if let Some((provider, model)) = name.split_once('/') {
                self.session().await?.main().set_provider_model(provider, model).await?;
                self.stage.model = None;
            }
        }
        let model = self.stage.model_of(self.session.as_ref().map(Session::main)).unwrap_or_default();
        Ok(Reply::styled(format!("The model is {}.", one_line(&model))))
    }

    fn tools(&self) -> Result<Reply, Failure> {
        let named = self.stage.project.tools();
        let declared = self.stage.prompt.definition().tools.iter();
        let seen = self
            .last
            .iter()
            .flat_map(|it| it.pass.request().tools.iter().filter_map(|tool| it.pass.tool(&tool.name)));
        let mut all: Vec<_> = declared.chain(seen).collect();
        all.sort_by_key(|it| &it.tool().name);
        all.dedup_by_key(|it| &it.tool().name);
        if all.is_empty() {
            return Ok(Reply::styled("The model has no tools."));
        }
        let mut table =
            Table::new(&[("tool", Align::Left), ("runs", Align::Left), ("what it does", Align::Left)]);
        for shared in all {
            let tool = shared.tool();
            let carried = shared.runner().and_then(Runner::get::<Tool>).map(Tool::may_need_approval);
            let by_name = || named.iter().find(|it| it.tool.name == tool.name).map(|it| it.approval);
            let runs = match carried.or_else(by_name) {
                Some(true) => "after approval",
                Some(false) => "at once",
                None => "not here",
            };
            table.row(vec![
                Cell::new(&tool.name).style(BOLD),
                Cell::new(runs).style(DIM),
                Cell::new(&tool.description),
            ]);
        }
        Ok(Reply::styled(table.lines(0, self.screen.width).join("\n")))
    }

    /// Returns the main thread, if the session exists.
    fn thread(&self) -> Option<Thread> {
        self.session.as_ref().map(|it| it.main().clone())
    }

    async fn context(&self, all: bool) -> Result<Reply, Failure> {
        let thread = self.thread();
        let last = self.last.as_ref();
        let pass = self.stage.preview(thread.as_ref(), &self.id).await?;
        let explanation = pass.explain();
        let model = pass.request().model.as_deref();
        if all {
            return Ok(match self.as_json {
                true => Reply::json(json!(explanation)),
                false => Reply::styled(inspect::page(pass.prompt(), model, &explanation, self.screen)),
            });
        }
        let items = match &thread {
            Some(thread) => thread.view().await?.items,
            None => Vec::new(),
        };
        let newest = thread.map_or_else(String::new, |it| it.get().turn().to_string());
        let filling = Filling { explanation, model, usable: self.usable(&pass), items: &items, newest, last };
        Ok(match self.as_json {
            true => Reply::json(filling.document()),
            false => Reply::styled(filling.page(self.screen)),
        })
    }

    /// Returns the token limit of a request without the answer, if known.
    fn usable(&self, pass: &Pass) -> Option<Tokens> {
        let request = pass.request();
        let facts = self.stage.project.catalogue().facts(request.model.as_deref().unwrap_or_default());
        let (facts, _) = facts.with_window();
        let reserve = request.settings.output_tokens(facts.reserve().map(|it| it.0)).unwrap_or(0);
        facts.context_window.map(|it| it.saturating_sub(Tokens(reserve))).filter(|it| it.0 > 0)
    }
}
