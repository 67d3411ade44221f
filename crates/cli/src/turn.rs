//! Runs one turn to its end: prints it, asks for approval of tool calls and handles Ctrl-C.

use std::time::Duration;

use contexture_agent::{
    Agent, AgentError, ApprovalRequest, CancellationToken, Decision, Outcome, Run, RunRequest, Verdict,
};
use contexture_compose::Prompt;
use contexture_session::Thread;
use futures::StreamExt;

use crate::error::Exit;
use crate::live::Voice;
use crate::output;
use crate::terminal::type_ahead;

/// The interval between frames of the progress indicator.
const TICK: Duration = Duration::from_millis(120);

/// Decides about tool calls that need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approver {
    /// Approve every call.
    Always,
    /// Ask the person at the terminal.
    Person,
    /// Deny every call.
    Never,
    /// No one decides: the turn waits.
    Nobody,
}

impl Approver {
    /// Returns `Always` with `yes`; otherwise `Person` if the output is for people and one is at the terminal, else
    /// `otherwise`.
    pub(crate) fn of(yes: bool, for_people: bool, otherwise: Approver) -> Self {
        match yes {
            true => Approver::Always,
            false if for_people && output::can_ask() => Approver::Person,
            false => otherwise,
        }
    }

    fn verdict(self, request: &ApprovalRequest) -> Option<Verdict> {
        let deny = |reason: &str| Some(Verdict::Deny { reason: Some(reason.to_owned()) });
        match self {
            Approver::Always => Some(Verdict::Approve),
            Approver::Never => deny("nobody was there to approve it"),
            Approver::Nobody => None,
            Approver::Person => {
                let question = format!("Run {} {}?", request.tool, request.arguments);
                match output::ask(&question)? {
                    true => Some(Verdict::Approve),
                    false => deny("the user did not allow it"),
                }
            }
        }
    }
}

/// A request to the agent.
pub(crate) enum Ask {
    /// Run a new turn.
    Turn(Box<RunRequest>),
    /// Resume a turn that waits for a decision.
    Decision(Decision),
}

/// The outcome of a turn.
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    /// Whether a tool call was denied.
    pub(crate) is_denied: bool,
}

/// Runs a turn to its end, or until a tool call needs a decision that the approver cannot make.
pub(crate) async fn play(
    agent: &Agent,
    prompt: &Prompt,
    thread: &Thread,
    ask: Ask,
    voice: &mut Voice,
    approver: Approver,
) -> Result<Played, AgentError> {
    let (cancel, run) = match ask {
        Ask::Turn(request) => (request.cancel.clone(), agent.run(prompt, thread, *request)),
        Ask::Decision(decision) => {
            let cancel = CancellationToken::new();
            (cancel.clone(), agent.decide(prompt, thread, decision, cancel))
        }
    };
    let mut outcome = drive(run, voice, &cancel).await?;
    let mut is_denied = false;
    while !outcome.approvals.is_empty() {
        let asked = outcome.approvals.clone();
        let verdicts: Option<Vec<Verdict>> = asked.iter().map(|it| approver.verdict(it)).collect();
        let Some(verdicts) = verdicts else { break };
        let mut remarks = std::mem::take(&mut outcome.remarks);
        for (request, verdict) in asked.into_iter().zip(verdicts) {
            is_denied |= verdict != Verdict::Approve;
            let decision = Decision { approval: request.id, token: request.token, verdict };
            let run = agent.decide(prompt, thread, decision, cancel.clone());
            outcome = drive(run, voice, &cancel).await?;
        }
        remarks.append(&mut outcome.remarks);
        outcome.remarks = remarks;
    }
    Ok(Played { outcome, is_denied })
}

/// Prints events as they happen. Ctrl-C cancels the turn; a second one ends the program.
async fn drive(mut run: Run, voice: &mut Voice, cancel: &CancellationToken) -> Result<Outcome, AgentError> {
    let mut pressed = Box::pin(tokio::signal::ctrl_c());
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            event = run.next() => match event {
                Some(event) => voice.hear(&event),
                None => break,
            },
            _ = ticks.tick() => voice.tick(),
            // If the signal handler cannot be installed, Ctrl-C ends the program by default.
            Ok(()) = &mut pressed => {
                if cancel.is_cancelled() {
                    voice.end_line();
                    type_ahead::restore();
                    std::process::exit(i32::from(Exit::World.code()));
                }
                cancel.cancel();
                pressed = Box::pin(tokio::signal::ctrl_c());
            }
        }
    }
    voice.end_line();
    run.outcome().await
}
