//! What sessions need from the machine: the time of day and generated names.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_message::counter_for;
use contexture_session::{MemoryStore, Names, Ports, SessionConfig, Sessions, Store, Time};

/// The machine's time of day; sleeps on the current tokio runtime, whose timers must be enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTime;

impl Time for SystemTime {
    fn now(&self) -> Timestamp {
        // Before 1970 the time is 0: a clock that wrong cannot order anything anyway.
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Generates names that sort by creation time (UUID version 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn next(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

/// Returns the ports for sessions, with the counter of a model (or an exact one for OpenAI's newer models).
///
/// ```
/// use std::sync::Arc;
/// use contexture::history::Limit;
/// use contexture::prelude::*;
/// use contexture::session::{Begun, MemoryStore, SessionConfig, SessionStart, TurnConfig};
/// use contexture::{SystemTime, session_ports};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
/// let sessions = Sessions::new(store, session_ports(Some("openai/gpt-5-mini")), SessionConfig::default());
/// let session = sessions.create(SessionStart::default()).await?;
///
/// let items = vec![Message::user("Where is my order?").into()];
/// let config = TurnConfig { key: Some("request-1".into()), items, ..TurnConfig::default() };
/// if let Begun::Running(turn) = session.main().begin(config).await? {
///     turn.complete(vec![Message::assistant("On its way.").into()]).await?; // Durable when it returns.
/// }
/// let history = session.main().history(Some(Limit::Turns(10))).await?;
/// assert_eq!(history[0].messages().len(), 2);
/// # Ok(())
/// # }
/// ```
pub fn session_ports(model: Option<&str>) -> Ports {
    Ports { time: Arc::new(SystemTime), names: Arc::new(SystemNames), counter: counter_for(model) }
}

/// Returns sessions on a store, with the machine's time and generated names.
///
/// ```
/// use contexture::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let sessions = contexture::sessions_in_memory(); // Or `contexture::sessions(SqliteStore::open(…)?)`.
/// let session = sessions.create(Default::default()).await?;
/// # Ok(())
/// # }
/// ```
pub fn sessions(store: impl Store + 'static) -> Sessions {
    Sessions::new(Arc::new(store), session_ports(None), SessionConfig::default())
}

/// Returns sessions in memory, which last as long as the process.
pub fn sessions_in_memory() -> Sessions {
    sessions(MemoryStore::new(Arc::new(SystemTime)))
}
