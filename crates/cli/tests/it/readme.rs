//! The README as a new user reads it: its blocks run from top to bottom, in one shell and a fresh folder.
//!
//! What builds or installs the program (`cargo …`) has happened; the model is one that follows a script. A file that a
//! block shows with its path in the first line is written. `chat` and `flow run` are given what a person would type.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use contexture_mockmodel::{MockModel, Received};
use contexture_wire::Dialect;
use tokio::runtime::Runtime;

use crate::Folder;
use crate::served::says;

/// What a person types into `chat`, and into the flow.
const TYPED: &str = "hi there";

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the languages and texts of the blocks.
fn blocks() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("README.md")).expect("it is there");
    let pieces = text.split("\n```").skip(1).step_by(2);
    let block = |it: &str| it.split_once('\n').map(|(language, text)| (language.to_owned(), text.to_owned()));
    pieces.filter_map(block).collect()
}

/// Returns a line as the shell is given it.
fn line(line: &str, address: &str) -> String {
    let command = line.split(" #").next().unwrap_or_default().trim_end();
    let command = command.replace("localhost:4747", address);
    let repository = repository();
    match command.split_whitespace().take(3).collect::<Vec<_>>()[..] {
        ["cargo", "run", "--release"] => {
            let (_, arguments) = command.split_once(" -- ").expect("it has arguments");
            format!("(cd \"{}\" && contexture {arguments})", repository.display())
        }
        // Building, installing and the model are what this test begins with.
        ["cargo", "xtask", "test" | "model"] | ["cargo", "install", _] => String::new(),
        ["cargo", ..] => panic!("nobody knows what to do with `{command}`"),
        ["contexture", "chat", ..] => format!("printf '{TYPED}\\n' | {command}"),
        // It waits for the next question then, which is no success to a shell.
        ["contexture", "flow", "run"] => format!("printf '{TYPED}\\n' | {command} || test $? -eq 1"),
        ["contexture", "serve", ..] => {
            format!(
                "{command} --listen {address} &\nuntil curl -sf http://{address}/healthz; do sleep 0.1; done"
            )
        }
        _ => command,
    }
}

fn script(address: &str) -> String {
    let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    for (language, text) in blocks() {
        let path = text.lines().next().and_then(|it| it.strip_prefix("# ")).filter(|it| it.contains('/'));
        match (language.as_str(), path) {
            ("sh", _) => text.lines().for_each(|it| script.push_str(&format!("{}\n", line(it, address)))),
            ("yaml" | "toml" | "md", Some(path)) => {
                let folder = Path::new(path).parent().expect("it is in a folder").display();
                let _ = writeln!(script, "mkdir -p {folder}\ncat > {path} <<'END'\n{text}\nEND");
            }
            _ => {}
        }
    }
    script
}

/// The texts that the user says in a request, in order.
fn said(request: &Received) -> Vec<String> {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let of_user = messages.iter().filter(|it| it["role"] == "user");
    of_user.map(|it| it["content"].as_str().map_or(it["content"].to_string(), str::to_owned)).collect()
}

#[test]
fn the_blocks_of_the_readme_work_from_top_to_bottom() {
    let runtime = Runtime::new().expect("threads can be made");
    let model =
        runtime.block_on(MockModel::start((0..20).map(|it| says(Dialect::Openai, &format!("Answer {it}.")))));
    let socket = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = socket.local_addr().expect("it is bound").to_string();
    drop(socket);
    let folder = Folder::new([]);
    let script = script(&address);
    let program = Path::new(env!("CARGO_BIN_EXE_contexture")).parent().expect("it is in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(folder.path()).env_clear().env("PATH", path);
    command
        .env("HOME", folder.path())
        .env("CONTEXTURE_PROVIDERS_LOCAL_BASE_URL", format!("{}/v1", model.url()));
    let output = command.stdin(Stdio::null()).output().expect("there is a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    // What the user says is sent once, and nothing beside it.
    let each: Vec<Vec<String>> = model.received().iter().map(said).collect();
    let last: Vec<&str> = each.iter().filter_map(|it| it.last().map(String::as_str)).collect();
    assert_eq!(last, [TYPED, TYPED, "Where is my order?", "hi", TYPED], "{each:#?}");
    assert_eq!(each.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 1, 1], "{each:#?}");
}
