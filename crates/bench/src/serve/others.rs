//! Sessions that are in the store already, so that the load shows what a large store costs.

use std::error::Error;
use std::path::Path;

use contexture::message::Message;
use contexture::session::{SessionConfig, SessionStart, Sessions};
use contexture::session_ports;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::instance::open_store;

/// How many sessions are written at once: they share disk syncs.
const AT_ONCE: usize = 256;

/// Puts so many sessions with a question and an answer into the store.
pub(super) async fn add_others(folder: &Path, url: Option<&str>, count: usize) -> Result<(), Box<dyn Error>> {
    let (store, ..) = open_store(folder, url).await?;
    let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
    let each = stream::iter(0..count).map(|idx| {
        let sessions = &sessions;
        async move {
            let session = sessions.create(SessionStart::default()).await?;
            let said =
                [Message::user(format!("question {idx}")), Message::assistant(format!("answer {idx}"))];
            session.main().add_messages(said.to_vec()).await.map(drop)
        }
    });
    Ok(each.buffer_unordered(AT_ONCE).try_collect::<()>().await?)
}
