//! Commands between instances: stop a turn that runs on another one.
//!
//! All instances share one stream and read it from one position each, however many turns they run; an instance that
//! reads a command for a turn of its own stops that turn. Commands from before an instance started do not concern it:
//! its turns are younger.

use std::time::Duration;

use contexture_session::records::{NewRecord, StreamKey, Writes};
use contexture_session::{StoreError, Tenant, ThreadId, ThreadKey};
use serde::{Deserialize, Serialize};

use super::pause;
use crate::{App, Problem};

/// The kind of the stream.
pub(crate) const CONTROL: &str = "control";
/// How many commands are read per page.
const PAGE: usize = 256;
/// How long it waits where the store can't be asked.
const PAUSE: Duration = Duration::from_millis(300);

/// The command to stop a turn.
#[derive(Debug, Serialize, Deserialize)]
struct CancelTurn {
    tenant: String,
    thread: ThreadId,
    turn: String,
}

fn stream() -> StreamKey {
    StreamKey::of_tenant(&Tenant::default(), CONTROL)
}

/// Asks the instance that runs a turn to stop it.
pub(crate) async fn cancel(app: &App, thread: &ThreadKey, turn: &str) -> Result<(), Problem> {
    let command = CancelTurn {
        tenant: thread.tenant.to_string(),
        thread: thread.thread.clone(),
        turn: turn.to_owned(),
    };
    let data = serde_json::to_string(&command).unwrap_or_default();
    let records = vec![NewRecord { stream: stream(), at: app.0.time.now(), data }];
    app.0.records.write(Writes { records, ..Writes::default() }).await?;
    Ok(())
}

/// Carries out commands of other instances until the server stops.
pub(crate) async fn handle_commands(app: &App) {
    let mut after = None;
    loop {
        let done = tokio::select! {
            done = handle_next(app, &mut after) => done,
            () = app.0.stop.cancelled() => return,
        };
        if let Err(err) = done {
            tracing::warn!(error = %err, "cannot read commands of other instances");
            if !pause(app, PAUSE).await {
                return;
            }
        }
    }
}

/// Waits for commands and carries them out; `after` is the number of the last one that was read.
async fn handle_next(app: &App, after: &mut Option<u64>) -> Result<(), StoreError> {
    let last = match *after {
        Some(last) => last,
        None => *after.insert(app.0.records.extent(stream()).await?.last),
    };
    app.0.records.grown(stream(), last).await?;
    for record in app.0.records.read(stream(), last, PAGE).await? {
        *after = Some(record.number);
        let Ok(command) = serde_json::from_str::<CancelTurn>(&record.data) else { continue };
        if let Ok(tenant) = Tenant::parse(command.tenant) {
            app.0.running_turns.cancel(&ThreadKey { tenant, thread: command.thread }, &command.turn);
        }
    }
    Ok(())
}
