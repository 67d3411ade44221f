//! What a memory adds to resolving a pass: auto recall over many records, and the core block.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use contexture::SystemTime;
use contexture::capabilities::memory::{
    ArchivalMode, CaptureMode, CaptureOptions, Layer, Memories, MemoryPolicy, MemoryPorts, Namespace,
    NewRecord, memory,
};
use contexture::compose::{Prompt, ResolveOptions, Scope};
use contexture_session::Tenant;
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::executor::block_on;
use serde_json::{Value, json};

use super::quality::Scratch;
use super::speed::times;
use super::words::Writer;

const QUERIES: usize = 300;
const WORDS: usize = 15;

/// Adds `n` facts and some rules, and resolves passes with and without a memory. Returns one line of JSON.
pub fn recall(n: usize, scratch: &Path) -> Result<Value, Box<dyn Error>> {
    let place = Scratch::new(scratch)?;
    let store =
        Arc::new(SqliteStore::open(place.file("recall.db"), SqliteConfig::new(Arc::new(SystemTime)))?);
    let ports = MemoryPorts { index: store.clone(), log: store, time: Arc::new(SystemTime) };
    let memories = Memories::new(ports);
    let space = memories.space(&Tenant::default(), Namespace::of_user("ada"))?;
    let mut writer = Writer::new(11);
    let lines = (0..n).map(|_| json!({"kind": "new", "text": writer.text(WORDS)}).to_string() + "\n");
    let lines: String = lines.collect();
    block_on(space.import(&lines, "bench"))?;
    for no in 0..20 {
        block_on(space.add(NewRecord::new(Layer::Rules, format!("Always do {no}: {}", writer.text(WORDS)))))?;
    }
    let capture = CaptureOptions { mode: CaptureMode::Off, ..CaptureOptions::default() };
    let auto = MemoryPolicy { archival_mode: ArchivalMode::Auto, ..MemoryPolicy::default() };
    let entry = memory(memories).capture(capture);
    let plain = Prompt::builder("plain").system("You help.").build()?;
    let core = Prompt::builder("core").system("You help.").include(entry.clone()).build()?;
    let recalling = Prompt::builder("recall").system("You help.").include(entry.policy(auto)).build()?;
    let queries: Vec<String> = (0..QUERIES).map(|_| writer.query()).collect();
    let measured = |prompt: &Prompt, is_frozen: bool| {
        let scope = Scope { user: Some("ada".to_owned()), ..Scope::default() };
        let options = |query: &str| ResolveOptions {
            scope: scope.clone(),
            ..ResolveOptions::default().user_message(query)
        };
        let first = block_on(prompt.resolve(options("Hello")))?;
        // After the first turn of a thread, the core block is frozen and not read again.
        times(&queries, |query| {
            let options = if is_frozen { options(query).frozen_by(&first) } else { options(query) };
            Ok(block_on(prompt.resolve(options))?.request().messages.len())
        })
    };
    let (plain, core, recalling, unfrozen) = (
        measured(&plain, true)?,
        measured(&core, true)?,
        measured(&recalling, true)?,
        measured(&core, false)?,
    );
    let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
    Ok(json!({
        "job": "recall",
        "n": n,
        "plain_median_ms": ms(plain.0),
        "core_median_ms": ms(core.0),
        "core_first_turn_median_ms": ms(unfrozen.0),
        "auto_recall_median_ms": ms(recalling.0),
        "auto_recall_p95_ms": ms(recalling.1),
    }))
}
