//! Load on a whole server: many concurrent sessions over HTTP, with streams, against a mock model.
//!
//! The server is a separate process ([`instance`]) on an SQLite file; model and clients are in this one. Each session
//! runs its turns one after another and checks the events; every tenth session is also followed by a client that
//! reconnects now and then. The server's own time of a turn is the time from the request to the end of its stream,
//! minus the time that the model took.

mod client;
mod frames;
mod instance;
mod model;
mod others;
mod process;
mod tally;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_mockmodel::MockModel;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use client::{LoadError, SeenEvents, User};
pub use instance::instance;
use model::{Echo, Times};
use process::Process;
use tally::Tally;

use crate::data::StorePlace;
use crate::jobs::store::Scratch;

/// One in this many sessions is followed.
const FOLLOWED: usize = 10;
/// How many requests without a session are made afterwards at least, for comparison, by as many clients.
const MIN_UNKEPT: usize = 200;
/// How many turns are run first, in a separate session, without being measured.
const WARM_UP: usize = 3;

/// The configuration of the load.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The number of concurrent sessions.
    pub sessions: usize,
    /// The number of turns of all sessions together.
    pub turns: usize,
    /// The model's pause between two pieces of its answer.
    pub pause: Duration,
    /// This program, or another build of it, whose command `instance` is the server.
    pub program: PathBuf,
    /// The folder of the store, or the database.
    pub place: StorePlace,
    /// How many other sessions are in the store.
    pub others: usize,
}

/// Runs the load and returns its figures.
pub fn serve(config: &ServeConfig) -> Result<Value, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let times = Times::default();
        let model = MockModel::with_responder(Echo::new(times.clone(), config.pause)).await;
        let scratch = Scratch::new(&config.place.scratch)?;
        write_project(&scratch.0, model.url())?;
        if config.others > 0 {
            others::add_others(&scratch.0, config.place.url.as_deref(), config.others).await?;
        }
        let process = Process::start(&config.program, &scratch.0)?;
        let http = contexture::model::http_client(Vec::new(), None)?;
        let user = User {
            http,
            url: process.url.clone(),
            session: String::new(),
            times,
            tally: Arc::new(Tally::default()),
        };
        warm_up(&user).await.map_err(|err| err as Box<dyn Error>)?;
        let mut report = load(config, &process, &user).await?;
        unkept(config, &user).await.map_err(|err| err as Box<dyn Error>)?;
        report["first_unkept_delta_us"] = json!(at(&user.tally.first_unkept_deltas(), 50));
        match process.stop()? {
            true => Ok(report),
            false => Err("the server did not exit successfully".into()),
        }
    })
}

fn write_project(folder: &Path, model: &str) -> std::io::Result<()> {
    let config = format!(
        "[model]\ndefault = \"mock/m-1\"\n[providers.mock]\ndialect = \"openai\"\nbase_url = \"{model}/v1\"\n\
         [models.\"mock/m-1\"]\ncontext_window = 200000\n[server]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(folder.join("contexture.toml"), config)?;
    fs::create_dir_all(folder.join("prompts"))?;
    fs::write(folder.join("prompts/chat.md"), "You repeat what you are told.\n")
}

async fn warm_up(user: &User) -> Result<(), LoadError> {
    let user = User { session: "warm".to_owned(), tally: Arc::default(), ..user.clone() };
    user.begin().await?;
    user.talk(WARM_UP, &SeenEvents::new(false)).await
}

/// Makes requests without a session, by as many clients at once.
async fn unkept(config: &ServeConfig, user: &User) -> Result<(), LoadError> {
    let n_clients = config.sessions.max(1);
    let n_each = MIN_UNKEPT.div_ceil(n_clients);
    let clients = (0..n_clients).map(|it| User { session: format!("s{it}"), ..user.clone() });
    let asked = clients.map(|it| async move { it.ask_unkept(n_each).await });
    futures::future::try_join_all(asked).await.map(drop)
}

/// Runs all sessions and returns the measurements.
async fn load(config: &ServeConfig, process: &Process, user: &User) -> Result<Value, Box<dyn Error>> {
    let n_sessions = config.sessions.max(1);
    let n_each = config.turns.div_ceil(n_sessions).max(1);
    let n_turns = n_each * n_sessions;
    let (cpu_before, written_before) = (process.cpu_ms(), process.written_kb());
    let began = Instant::now();
    let mut sessions = JoinSet::new();
    for idx in 0..n_sessions {
        let user = User { session: format!("s{idx}"), ..user.clone() };
        sessions.spawn(session(user, n_each, idx % FOLLOWED == 0));
    }
    let mut memory = Memory::default();
    let mut errors = Vec::new();
    let mut clock = tokio::time::interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            done = sessions.join_next() => match done {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(err))) => errors.push(err.to_string()),
                Some(Err(err)) => errors.push(err.to_string()),
                None => break,
            },
            _ = clock.tick() => memory.look(process, user.tally.n_turns(), n_turns),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu = process.cpu_ms().zip(cpu_before).map(|(after, before)| (after - before) / n_turns as f64);
    let each = |(after, before): (f64, f64)| rounded((after - before) / n_turns as f64);
    let written = process.written_kb().zip(written_before).map(each);
    let mut report = figures(&user.tally, seconds);
    report["n"] = config.sessions.into();
    report["errors"] = errors.len().into();
    report["first_errors"] = errors.iter().take(5).cloned().collect();
    report["rss_mb"] = json!(process.peak_rss_mb());
    report["rss_mb_by_tenth"] = json!(memory.means());
    report["written_kb_per_turn"] = json!(written);
    report["server_cpu_ms_per_turn"] = json!(cpu.map(rounded));
    Ok(report)
}

async fn session(user: User, n_turns: usize, is_followed: bool) -> Result<(), LoadError> {
    user.begin().await?;
    let seen = SeenEvents::new(is_followed);
    let follow = async {
        match is_followed {
            true => user.follow(n_turns, &seen).await,
            false => Ok(()),
        }
    };
    futures::future::try_join(user.talk(n_turns, &seen), follow).await?;
    match seen.is_even() {
        true => Ok(()),
        false => Err(format!("{}: the followed events differ", user.session).into()),
    }
}

/// The server's memory during each tenth of the turns: sums of looks, and their number. A single look tells little, since
/// memory that was given back is returned to the system now and then.
#[derive(Debug, Default)]
struct Memory([(f64, u32); 10]);

impl Memory {
    fn look(&mut self, process: &Process, done: usize, all: usize) {
        let tenth = self.0.get_mut(done * 10 / all.max(1));
        if let (Some((sum, n_looks)), Some(rss)) = (tenth, process.rss_mb()) {
            *sum += rss;
            *n_looks += 1;
        }
    }

    fn means(&self) -> Vec<f64> {
        self.0
            .iter()
            .map(|(sum, n_looks)| (sum / f64::from((*n_looks).max(1)) * 10.0).round() / 10.0)
            .collect()
    }
}

fn figures(tally: &Tally, seconds: f64) -> Value {
    let (whole, own) = tally.sorted();
    json!({
        "name": "contexture",
        "job": "serve",
        "turns": tally.n_turns(),
        "seconds": rounded(seconds),
        "turns_per_s": rounded(tally.n_turns() as f64 / seconds),
        "requests_per_s": rounded(tally.n_requests() as f64 / seconds),
        "first_delta_us": at(&tally.first_deltas(), 50),
        "median_us": at(&own, 50),
        "p99_us": at(&own, 99),
        "turn_median_us": at(&whole, 50),
        "turn_p99_us": at(&whole, 99),
    })
}

fn at(sorted: &[u32], percent: usize) -> Option<u32> {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied()
}

fn rounded(it: f64) -> f64 {
    (it * 100.0).round() / 100.0
}
