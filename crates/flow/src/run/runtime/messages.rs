//! Messages to a run from outside: answers and cancellation. Any process appends one to the run's log, which
//! then needs a driver.

use contexture_history::TurnNo;
use contexture_session::{Append, Guard, KeyedTurn};
use serde_json::Value;

use super::Runtime;
use crate::port::weight::check_size;
use crate::run::record::StoredRun;
use crate::run::record::log::{Entry, RunLog, answer as answer_event};
use crate::{RunError, RunId, RunStatus, Wait};

impl Runtime {
    /// Answers a wait, once. The run continues when it is driven; a current driver is notified.
    pub async fn answer(&self, run: &RunId, wait: &str, value: Value) -> Result<(), RunError> {
        let log = &self.log(run);
        loop {
            let stored = log.load().await?;
            let open = stored.waits.iter().find(|it| it.id == wait);
            let (Some(open), Some(event)) = (open, answer_event(wait.to_owned(), value.clone())) else {
                return Err(not_open(log, &stored, wait).await?);
            };
            let checked = check_size(&value).and_then(|()| open.check(&value));
            checked.map_err(|why| RunError::AnswerInvalid { wait: wait.to_owned(), why })?;
            let keyed = KeyedTurn { turn: TurnNo(0), began: stored.end.plus(1) };
            let draft = log.draft(stored.end, [Entry::Event(event)], Guard::Call);
            let append = Append { keys: vec![(answer_key(wait), keyed)], ..draft };
            if log.append(append).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Requests cancellation of a run, and returns its status before. The run ends when it is driven; a current driver
    /// is notified.
    pub async fn cancel(&self, run: &RunId) -> Result<RunStatus, RunError> {
        let log = self.log(run);
        loop {
            let stored = log.load().await?;
            let status = stored.status();
            if status.is_over() || stored.record.state.cancelled {
                return Ok(status);
            }
            if log.append(log.draft(stored.end, [Entry::Cancel], Guard::Call)).await?.is_some() {
                return Ok(status);
            }
        }
    }
}

/// Names the answer to a wait among the keys of a run's log.
fn answer_key(wait: &str) -> String {
    format!("answer/{wait}")
}

/// Explains why a wait can't be answered: it already was, or it never existed.
async fn not_open(log: &RunLog, stored: &StoredRun, wait: &str) -> Result<RunError, RunError> {
    let (run, status) = (log.run.to_string(), stored.record.status);
    if status.is_over() {
        return Ok(RunError::Over { run, status });
    }
    let was_answered = match Wait::place_of(wait) {
        Some(_) => log.store.turn_with_key(log.key.clone(), answer_key(wait)).await?.is_some(),
        // A store may not even take it as a key.
        None => false,
    };
    let wait = wait.to_owned();
    Ok(if was_answered { RunError::Answered { run, wait } } else { RunError::NoSuchWait { run, wait } })
}
