//! A conversation that survives: begin a turn, append, complete; open it again and see what the model would see.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use contexture::SystemTime;
use contexture::history::Limit;
use contexture::message::counter_for;
use contexture::prelude::*;
use contexture::session::{Begun, SessionId, TurnConfig};
use contexture::store_sqlite::{SqliteConfig, SqliteStore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = std::env::temp_dir().join(format!("contexture-example-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("sessions.db");

    talk(&path, "request-1", "Where is my order?", "It ships today.").await?;
    // The client did not get the answer and asks again: the same turn, not a second one.
    talk(&path, "request-1", "Where is my order?", "This is never said.").await?;
    talk(&path, "request-2", "Can I still change the address?", "Until noon.").await?;

    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Opens the store as a new process would, and runs one turn.
async fn talk(path: &std::path::Path, key: &str, question: &str, answer: &str) -> Result<(), BoxError> {
    let store = SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime)))?;
    let session = contexture::sessions(store).open_or_create(&SessionId::parse("customer-17")?).await?;

    let items = vec![Message::user(question).into()];
    let config = TurnConfig { key: Some(key.to_owned()), items, ..TurnConfig::default() };
    match session.main().begin(config).await? {
        Begun::Running(turn) | Begun::Resumed(turn) => {
            turn.complete(vec![Message::assistant(answer).into()]).await?;
        }
        Begun::Replayed(first) => println!("{key} was {} as {}", first.status.as_str(), first.turn),
    }

    let snapshot = session.main().get();
    let window = snapshot.history(Some(Limit::Turns(10)), &*counter_for(None));
    println!("the model sees {} turns, {} tokens", window.kept().count(), window.tokens());

    // The same turns as the history of a pass: their tokens were counted when they were appended.
    let prompt = Prompt::builder("support").system("You answer questions about orders.").build()?;
    let turns = window.kept().cloned().collect();
    let pass = prompt.resolve(ResolveOptions::default().history(turns)).await?;
    for message in &pass.request().messages {
        println!("  {}: {}", message.role.as_str(), message.as_text().unwrap_or("…"));
    }
    Ok(())
}
