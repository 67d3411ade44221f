//! Three instances and their database, and what is done to them.

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

    fn set(&self, idx: usize, url: Option<String>) {
        self.0.lock().unwrap()[idx] = url;
    }
}

pub(crate) struct Cluster {
    postgres: Postgres,
    folder: TempDir,
    instances: Vec<Option<Child>>,
    places: Places,
    n_killed: usize,
    n_crashed: usize,
    n_stopped: usize,
}

impl Cluster {
    pub(crate) fn start(model: &str) -> Self {
        let postgres = Postgres::start().unwrap();
        let folder = TempDir::new().unwrap();
        let config = format!(
            "[model]\ndefault = \"mock/m-1\"\n[providers.mock]\ndialect = \"openai\"\nbase_url = \"{model}/v1\"\n\
             [models.\"mock/m-1\"]\ncontext_window = 200000\n\
             [server]\nlease_seconds = 3\nreload_seconds = 0\n[store]\nurl = \"{}\"\n",
            postgres.url()
        );
        std::fs::write(folder.path().join("contexture.toml"), config).unwrap();
        std::fs::create_dir(folder.path().join("prompts")).unwrap();
        std::fs::write(folder.path().join("prompts/chat.md"), "You repeat what you are told.\n").unwrap();
        std::fs::create_dir(folder.path().join("flows")).unwrap();
        std::fs::write(folder.path().join("flows/chat.yaml"), runner::CHAT).unwrap();
        std::fs::write(folder.path().join("flows/digest.yaml"), runner::DIGEST).unwrap();
        let places = Places(Arc::new(Mutex::new(vec![None; N_INSTANCES])));
        let instances = (0..N_INSTANCES).map(|_| None).collect();
        let (n_killed, n_crashed, n_stopped) = (0, 0, 0);
        let mut cluster = Self { postgres, folder, instances, places, n_killed, n_crashed, n_stopped };
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
        match dice.below(10) {
            0..6 => self.kill(dice),
            6..8 => {
                self.n_crashed += 1;
                self.postgres.kill();
                self.restart(dice);
            }
            _ => {
                self.n_stopped += 1;
                self.postgres.stop();
                self.restart(dice);
            }
        }
    }

    fn kill(&mut self, dice: &mut Dice) {
        let idx = dice.below(N_INSTANCES as u64) as usize;
        let Some(mut child) = self.instances[idx].take() else { return };
        self.n_killed += 1;
        let _ = child.kill();
        let _ = child.wait();
        // Users go on calling it for a while.
        sleep(Duration::from_millis(dice.below(1500)));
        self.places.set(idx, None);
        self.run(idx);
    }

    /// Starts the database again; sometimes it is away for longer than a lease.
    fn restart(&mut self, dice: &mut Dice) {
        let away = if dice.below(3) == 0 { 4500 } else { dice.below(800) };
        sleep(Duration::from_millis(away));
        self.postgres.restart().unwrap();
    }

    pub(crate) fn told(&self) -> String {
        let (killed, crashed, stopped) = (self.n_killed, self.n_crashed, self.n_stopped);
        format!("{killed} instances killed, {crashed} crashes and {stopped} restarts of the database")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.instances.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
