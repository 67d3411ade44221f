//! Chaos: three instances on one store, killed, paused and restarted at random under load, the database as well.
//!
//! Whatever was acknowledged is there once, no thread and no run is stuck, no two writers have written, nothing of a writer that
//! was taken over stands behind the takeover, every turn and every node that was told to begin was told to end, and as it says
//! in the log. The seed is printed; `CONTEXTURE_CHAOS_SEED` repeats it (not the timing of the machine), and
//! `CONTEXTURE_CHAOS_SECONDS` makes it longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test says what it does")]

mod caller;
mod check;
mod check_runs;
mod cluster;
mod dice;
mod ears;
mod runner;
mod user;

use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_message::{Answer, Delta};
use contexture_mockmodel::{MockModel, Received, Reply, Responder};
use contexture_pgtest::Postgres;
use contexture_wire::Dialect;
use futures::future::join_all;

use cluster::{Cluster, Store};
use dice::Dice;
use runner::Runner;
use user::User;

const N_SESSIONS: usize = 20;
const N_RUNNERS: usize = 10;

/// Says what it was asked, in pieces that take a while.
struct Echo;

impl Responder for Echo {
    fn reply(&self, request: &Received) -> Reply {
        let last = request.body["messages"].as_array().and_then(|it| it.last());
        let text = user::answer_to(last.and_then(|it| it["content"].as_str()).unwrap_or_default());
        let pieces = text.split_inclusive(' ').map(|it| Delta::Text(it.to_owned()));
        let done = Delta::Done(Box::new(Answer::text(text.as_str())));
        let deltas: Vec<Delta> = pieces.chain([done]).collect();
        Reply::deltas(Dialect::Openai, &deltas).event_by_event().every(Duration::from_millis(15))
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn nothing_acknowledged_is_lost_on_postgres() {
    chaos(Store::Postgres(Box::new(Postgres::start().unwrap())), 60);
}

#[test]
fn nothing_acknowledged_is_lost_on_sqlite() {
    chaos(Store::Sqlite, 15);
}

fn chaos(store: Store, seconds: u64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("CONTEXTURE_CHAOS_SEED", u64::from(now.subsec_nanos()));
    let seconds = number("CONTEXTURE_CHAOS_SECONDS", seconds);
    eprintln!("CONTEXTURE_CHAOS_SEED={seed} CONTEXTURE_CHAOS_SECONDS={seconds}");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let model = runtime.block_on(MockModel::with_responder(Echo));
    let mut cluster = Cluster::start(model.url(), store);
    let places = cluster.places();
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let users: Vec<Arc<User>> =
        (0..N_SESSIONS).map(|idx| Arc::new(User::new(idx, seed, places.clone()))).collect();
    runtime.block_on(async { join_all(users.iter().map(|it| it.begin())).await });
    let talks: Vec<_> = users
        .iter()
        .map(|it| {
            let user = Arc::clone(it);
            runtime.spawn(async move { user.talk_until(deadline).await })
        })
        .collect();
    let runners: Vec<Arc<Runner>> =
        (0..N_RUNNERS).map(|idx| Arc::new(Runner::new(idx, seed, places.clone()))).collect();
    let works = runners.iter().map(|it| {
        let runner = Arc::clone(it);
        runtime.spawn(async move { runner.work_until(deadline).await })
    });
    let works: Vec<_> = works.collect();
    let mut dice = Dice::new(seed);
    while Instant::now() < deadline {
        cluster.trouble(&mut dice);
    }
    cluster.heal();
    runtime.block_on(async {
        for work in talks.into_iter().chain(works) {
            work.await.unwrap();
        }
        let turns = join_all(users.iter().map(|it| it.last_turn()));
        tokio::join!(turns, join_all(runners.iter().map(|it| it.last_step())));
        let sessions = join_all(users.iter().map(|it| check::check(it)));
        let runs = join_all(runners.iter().map(|it| check_runs::check(it)));
        let (sessions, runs) = tokio::join!(sessions, runs);
        let troubles: Vec<String> = sessions.into_iter().chain(runs).flatten().collect();
        let n_turns: usize = users.iter().map(|it| it.n_acknowledged()).sum();
        let n_kept: usize = users.iter().map(|it| it.n_kept()).sum();
        let n_steps: usize = runners.iter().map(|it| it.n_said()).sum();
        let n_notes: usize = users.iter().map(|it| it.notes().len()).sum();
        let told = cluster.told();
        eprintln!(
            "{n_turns} turns, {n_notes} messages and {n_steps} steps of runs acknowledged; {told}; {n_kept} interrupted turns kept a part"
        );
        assert!(troubles.is_empty(), "seed {seed}:\n{}", troubles.join("\n"));
        assert!(n_turns > N_SESSIONS, "hardly anything was done: {n_turns}");
        assert!(n_notes > 0, "no message was appended without a turn");
        assert!(n_steps > N_RUNNERS, "hardly anything was run: {n_steps}");
    });
}
