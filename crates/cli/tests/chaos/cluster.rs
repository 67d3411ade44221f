//! Three instances and their store, and what is done to them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use contexture_pgtest::Postgres;
use tempfile::TempDir;

use crate::dice::Dice;
use crate::runner;

const N_INSTANCES: usize = 3;
/// How long an instance may be silent.
const LEASE: Duration = Duration::from_secs(3);

/// What all instances work on.
pub(crate) enum Store {
    Postgres(Box<Postgres>),
    /// One file, several processes.
    Sqlite,
}

/// What was done to instances and store.
#[derive(Debug, Default)]
struct Done {
    killed: usize,
    paused: usize,
    /// Pauses that were longer than a lease.
    lost: usize,
    crashed: usize,
    stopped: usize,
}

/// Where instances listen; one that is down listens nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Vec<Option<String>>>>);

impl Places {
    /// Returns the address of an instance that should be up.
    pub(crate) fn any(&self, dice: &mut Dice) -> Option<String> {
        let places = self.0.lock().unwrap();
        let up: Vec<&String> = places.iter().flatten().collect();
        up.get(dice.below(up.len() as u64) as usize).map(|it| (*it).clone())
    }

    fn take(&self, idx: usize) -> Option<String> {
        self.0.lock().unwrap()[idx].take()
    }

    fn set(&self, idx: usize, url: Option<String>) {
        self.0.lock().unwrap()[idx] = url;
    }
}

pub(crate) struct Cluster {
    store: Store,
    folder: TempDir,
    instances: Vec<Option<Child>>,
    places: Places,
    done: Done,
}

impl Cluster {
    pub(crate) fn start(model: &str, store: Store) -> Self {
        let folder = TempDir::new().unwrap();
        let url = match &store {
            Store::Postgres(postgres) => postgres.url().to_owned(),
            Store::Sqlite => "sqlite:chaos.db".to_owned(),
        };
        let config = format!(
            "[model]\ndefault = \"mock/m-1\"\n[providers.mock]\ndialect = \"openai\"\nbase_url = \"{model}/v1\"\n\
             [models.\"mock/m-1\"]\ncontext_window = 200000\n\
             [server]\nlease_seconds = {}\nreload_seconds = 0\n[store]\nurl = \"{url}\"\n",
            LEASE.as_secs()
        );
        std::fs::write(folder.path().join("contexture.toml"), config).unwrap();
        std::fs::create_dir(folder.path().join("prompts")).unwrap();
        std::fs::write(folder.path().join("prompts/chat.md"), "You repeat what you are told.\n").unwrap();
        std::fs::create_dir(folder.path().join("flows")).unwrap();
        std::fs::write(folder.path().join("flows/chat.yaml"), runner::CHAT).unwrap();
        std::fs::write(folder.path().join("flows/digest.yaml"), runner::DIGEST).unwrap();
        let places = Places(Arc::new(Mutex::new(vec![None; N_INSTANCES])));
        let instances = (0..N_INSTANCES).map(|_| None).collect();
        let mut cluster = Self { store, folder, instances, places, done: Done::default() };
        cluster.heal();
        cluster
    }

    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// Starts what is down.
    pub(crate) fn heal(&mut self) {
        for idx in 0..N_INSTANCES {
            while self.instances[idx].is_none() {
                self.run(idx);
            }
        }
    }

    fn run(&mut self, idx: usize) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log(idx)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_contexture"));
        command.arg("serve").arg(self.folder.path()).args(["--listen", "127.0.0.1:0", "--json"]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        let started: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        match started["listening"].as_str() {
            Some(url) => {
                self.places.set(idx, Some(url.to_owned()));
                self.instances[idx] = Some(child);
            }
            None => {
                let _ = child.wait();
                sleep(Duration::from_millis(100));
            }
        }
    }

    fn log(&self, idx: usize) -> PathBuf {
        let kept = std::env::var_os("CONTEXTURE_CHAOS_LOGS").map(PathBuf::from);
        kept.unwrap_or_else(|| self.folder.path().to_owned()).join(format!("instance-{idx}.log"))
    }

    /// Waits for a while, and then does something bad.
    pub(crate) fn trouble(&mut self, dice: &mut Dice) {
        sleep(Duration::from_millis(300 + dice.below(1500)));
        match (dice.below(10), &mut self.store) {
            (0..4, _) => self.kill(dice),
            (4..7, _) => self.pause(dice),
            (7, Store::Postgres(postgres)) => {
                self.done.crashed += 1;
                postgres.kill();
                restart(postgres, dice);
            }
            (8.., Store::Postgres(postgres)) => {
                self.done.stopped += 1;
                postgres.stop();
                restart(postgres, dice);
            }
            (7.., Store::Sqlite) => self.pause(dice),
        }
    }

    /// Holds an instance up, half of the time for longer than its leases last: others take over what it does, and then it goes
    /// on where it was.
    fn pause(&mut self, dice: &mut Dice) {
        let idx = dice.below(N_INSTANCES as u64) as usize;
        let Some(child) = &self.instances[idx] else { return };
        self.done.paused += 1;
        let held_up = match dice.below(2) {
            0 => Duration::from_millis(dice.below(2000)),
            _ => {
                self.done.lost += 1;
                LEASE + Duration::from_millis(500 + dice.below(3500))
            }
        };
        signal("-STOP", child);
        let url = self.places.take(idx);
        sleep(held_up);
        signal("-CONT", child);
        self.places.set(idx, url);
    }

    fn kill(&mut self, dice: &mut Dice) {
        let idx = dice.below(N_INSTANCES as u64) as usize;
        let Some(mut child) = self.instances[idx].take() else { return };
        self.done.killed += 1;
        let _ = child.kill();
        let _ = child.wait();
        // Users go on calling it for a while.
        sleep(Duration::from_millis(dice.below(1500)));
        self.places.set(idx, None);
        self.run(idx);
    }

    pub(crate) fn told(&self) -> String {
        let Done { killed, paused, lost, crashed, stopped } = &self.done;
        format!(
            "{killed} instances killed, {paused} paused ({lost} of them longer than a lease), \
             {crashed} crashes and {stopped} restarts of the database"
        )
    }
}

/// Starts the database again; sometimes it is away for longer than a lease.
fn restart(postgres: &mut Postgres, dice: &mut Dice) {
    let away = if dice.below(3) == 0 { 4500 } else { dice.below(800) };
    sleep(Duration::from_millis(away));
    postgres.restart().unwrap();
}

fn signal(name: &str, child: &Child) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "{name} was not sent");
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.instances.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
