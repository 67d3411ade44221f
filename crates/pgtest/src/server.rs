//! The server itself.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::processes::{signal, working_in};
use crate::watchdog::Watchdog;
use crate::{MISSING, find};

/// The environment variable with the URL of a server that is there for tests.
pub const URL_VARIABLE: &str = "CONTEXTURE_TEST_POSTGRES_URL";

const START_TIME: Duration = Duration::from_secs(60);

/// A running server; it stops when dropped.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    account: Option<Account>,
    port: u16,
    server: Option<Child>,
    folder: PathBuf,
    // Last: the folder is removed after the server has stopped.
    _watchdog: Watchdog,
}

/// Returns the URL of a server for tests: the one in [`URL_VARIABLE`], or one that lives as long as this process.
pub fn shared_url() -> Result<String, String> {
    static SHARED: OnceLock<Result<Postgres, String>> = OnceLock::new();
    if let Some(url) = std::env::var(URL_VARIABLE).ok().filter(|it| !it.is_empty()) {
        return Ok(url);
    }
    SHARED.get_or_init(Postgres::start).as_ref().map(Postgres::url).map_err(Clone::clone)
}

impl Postgres {
    /// Makes a fresh cluster and starts a server on it.
    pub fn start() -> Result<Postgres, String> {
        let programs = find().ok_or(MISSING)?;
        let account = Account::needed()?;
        let folder = new_folder(account)?;
        let watchdog = Watchdog::start(&folder).map_err(|err| format!("the watchdog `sh`: {err}"))?;
        let mut postgres = Postgres { programs, account, port: 0, server: None, folder, _watchdog: watchdog };
        postgres.init_cluster()?;
        postgres.serve_somewhere()?;
        Ok(postgres)
    }

    /// Returns the URL of the database `postgres`, as its superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills the server with all its processes (`kill -9`): what a power cut leaves behind is what stays.
    ///
    /// Its processes are found by their working folder. One that the server started a moment before it died is no
    /// longer its child, and would keep a new server from starting.
    pub fn kill(&mut self) {
        let started = Instant::now();
        loop {
            let pids = working_in(&self.folder);
            if pids.is_empty() || started.elapsed() > START_TIME {
                break;
            }
            signal("KILL", &pids);
            sleep(Duration::from_millis(5));
        }
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }

    /// Stops the server as an administrator would (a fast shutdown): connections are cut, everything is written down.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal("INT", &[server.id()]);
            let _ = server.wait();
        }
    }

    /// Starts the server again at the same address, after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub fn restart(&mut self) -> Result<(), String> {
        self.kill();
        self.serve()
    }

    fn init_cluster(&self) -> Result<(), String> {
        let mut command = self.command("initdb");
        command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        command.arg("--pgdata").arg(self.data());
        let output = command.stdin(Stdio::null()).output().map_err(|err| format!("initdb: {err}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Starts the server on a free port; one that another process took in the meantime is not the last.
    fn serve_somewhere(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        for _ in 0..3 {
            self.port = free_port().map_err(|err| format!("no free port: {err}"))?;
            outcome = self.serve();
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn serve(&mut self) -> Result<(), String> {
        let log = File::create(self.folder.join("log")).map_err(|err| format!("the server's log: {err}"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let port = format!("port={}", self.port);
        let settings =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=400", &port];
        settings.iter().for_each(|it| _ = command.args(["-c", it]));
        // A group of its own: Ctrl-C is for the tests.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.server = Some(command.spawn().map_err(|err| format!("postgres: {err}"))?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let (started, data) = (Instant::now(), self.data());
        while started.elapsed() < START_TIME {
            let server = self.server.as_mut().ok_or("the server was stopped")?;
            if let Ok(Some(status)) = server.try_wait() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("postgres ended with {status}: {log}"));
            }
            if is_ready(&data, server.id()) {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        Err(format!("postgres was not ready within {START_TIME:?}"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // The current folder may be closed to the account.
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if let Some(account) = self.account {
            account.apply(&mut command);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The server says so in the file with its process id, on the eighth line.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines();
    lines.next() == Some(&pid.to_string()) && lines.nth(6).is_some_and(|it| it.trim() == "ready")
}

fn new_folder(account: Option<Account>) -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("contexture-postgres-{}-{count}", std::process::id()));
    fs::create_dir(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    account.map_or(Ok(()), |it| it.own(&folder))?;
    // Working folders of processes are listed without links.
    fs::canonicalize(&folder).map_err(|err| format!("{}: {err}", folder.display()))
}

fn free_port() -> io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|it| it.port())
}
