//! The pages of `docs/server`: their commands are run as printed, and what they print is what the page shows.
//!
//! A page is one shell session, after the project and the server of the quick start. Ports are replaced by free ones, and
//! the model by one that follows a script. In what a page shows, `…` stands for anything.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use contexture_message::{Answer, Part, ToolCall};
use contexture_mockmodel::{MockModel, Reply};
use contexture_wire::Dialect;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Folder;
use crate::served::{calls, says};

const PAGES: [&str; 8] =
    ["quick-start", "sessions", "streaming", "approval", "compaction", "flows", "multi-instance", "openai"];

/// Parts the output of blocks.
const MARK: &str = "@@@ block ";

/// What the model says on a page, in order.
fn replies(page: &str) -> Vec<Reply> {
    let say = |text: &str| says(Dialect::Openai, text);
    match page {
        "quick-start" => vec![say("Hello Ada, I am your assistant."), say("Your name is Ada.")],
        "sessions" => vec![say("It is on its way."), say("You are welcome."), say("No.")],
        "approval" => {
            let look = ToolCall { id: "c1".to_owned(), name: "look".to_owned(), arguments: json!({}) };
            let look = Reply::answer(Dialect::Openai, &Answer::parts(vec![Part::ToolCall(look)]));
            vec![calls(Dialect::Openai, 7), say("Order 7 is shipped."), look, say("A cat.")]
        }
        "flows" => vec![say("Dear Ada, thank you for the parcel.")],
        "openai" => vec![say("Hello there."), say("Hello Ada."), say("Ada.")],
        _ => (0..5).map(|_| say("Very well.")).collect(),
    }
}

/// A block of a page: its language and its text.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/server/{page}.md"));
    let text = fs::read_to_string(path).expect("the page is there");
    let pieces = text.split("\n```").skip(1).step_by(2);
    let block = |it: &str| {
        let (language, text) = it.split_once('\n').expect("a block has a first line");
        Block { language: language.trim().to_owned(), text: text.to_owned() }
    };
    pieces.map(block).collect()
}

fn is_serve(block: &Block) -> bool {
    block.language == "sh" && block.text.starts_with("contexture serve") && !block.text.contains("--print")
}

/// Returns the blocks of a page, behind those that the quick start begins with.
fn session(page: &str) -> Vec<Block> {
    let own = blocks(page);
    let needs_server = !own.iter().any(is_serve);
    let start = blocks("quick-start");
    let served = start.iter().position(is_serve).expect("it serves");
    let n_before = match page {
        "quick-start" => 0,
        _ if needs_server => served + 1,
        _ => served,
    };
    start.into_iter().take(n_before).chain(own).collect()
}

/// Returns what a shell is given: the blocks, with a mark before each.
fn script(blocks: &[Block], ports: &[(String, String)]) -> String {
    let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    for (idx, block) in blocks.iter().enumerate().filter(|(_, it)| it.language == "sh") {
        let _ = writeln!(script, "echo; echo '{MARK}{idx}'");
        let text = ports.iter().fold(block.text.clone(), |text, (from, to)| text.replace(from, to));
        if is_serve(block) {
            let default = ports.iter().find(|it| it.0 == "127.0.0.1:4747").map_or("", |it| it.1.as_str());
            let command = text.trim();
            let place = command.split_once("--listen ").map_or(default, |it| it.1);
            let listen =
                if command.contains("--listen") { String::new() } else { format!(" --listen {place}") };
            let _ = writeln!(script, "{command}{listen} > /dev/null &");
            let _ = writeln!(script, "until curl -sf http://{place}/healthz > /dev/null; do sleep 0.1; done");
        } else {
            script.push_str(&text);
            script.push('\n');
        }
    }
    script
}

/// Runs a script and returns what its blocks printed, by their numbers.
fn printed(folder: &Path, script: &str) -> Vec<(usize, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_contexture"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("it is in a folder").display());
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder).env_clear().env("PATH", path).env("HOME", folder);
    let output = command.stdin(Stdio::null()).output().expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let block = |it: &str| {
        let (number, text) = it.split_once('\n').unwrap_or((it, ""));
        (number.trim().parse().expect("marks are numbered"), text.trim().to_owned())
    };
    text.split(MARK).skip(1).map(block).collect()
}

/// Compares JSON; the text `…` stands for any value.
fn is_same(shown: &Value, printed: &Value) -> bool {
    match (shown, printed) {
        (Value::String(it), _) if it == "…" => true,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            // The name of a request is nobody's to foretell.
            let names = |it: &serde_json::Map<String, Value>| {
                it.keys().filter(|it| *it != "request_id").cloned().collect::<std::collections::BTreeSet<_>>()
            };
            names(a) == names(b) && a.iter().all(|(key, value)| is_same(value, &b[key]))
        }
        _ => shown == printed,
    }
}

/// Compares texts; `…` stands for anything.
fn is_like(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    shown.split('…').enumerate().all(|(idx, piece)| {
        let piece = piece.trim_matches('\n');
        let found = rest.find(piece).filter(|at| idx > 0 || *at == 0);
        found.inspect(|at| rest = &rest[at + piece.len()..]).is_some()
    })
}

fn free_address() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    socket.local_addr().expect("it is bound").to_string()
}

fn check(page: &str) {
    let runtime = Runtime::new().expect("threads can be made");
    let model = runtime.block_on(MockModel::start(replies(page)));
    let mut ports: Vec<(String, String)> =
        ["4747", "4748"].map(|it| (format!("127.0.0.1:{it}"), free_address())).into();
    ports.push(("http://127.0.0.1:8171".to_owned(), model.url().to_owned()));
    let files = free_address();
    let (_, port) = files.rsplit_once(':').expect("an address has a port");
    ports.push(("4750".to_owned(), port.to_owned()));
    let folder = Folder::new([]);
    let blocks = session(page);
    for (idx, printed) in printed(folder.path(), &script(&blocks, &ports)) {
        let Some(next) = blocks.get(idx + 1) else { continue };
        // Of several answers the last is shown.
        let last = printed.lines().last().unwrap_or_default();
        match next.language.as_str() {
            "json" => {
                let shown: Value =
                    serde_json::from_str(&next.text).unwrap_or_else(|err| panic!("{page}: {err}"));
                let json = last_json(&printed).unwrap_or_else(|| panic!("{page}: {last}"));
                assert!(is_same(&shown, &json), "{page}, behind {}\n{json:#}", blocks[idx].text);
            }
            "text" => assert!(is_like(next.text.trim(), &printed), "{page}: {printed}"),
            _ => {}
        }
    }
}

/// Returns the last of the documents that stand one behind the other.
fn last_json(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok).last()
}

#[test]
fn the_pages_of_the_server_work_as_printed() {
    PAGES.iter().for_each(|it| check(it));
}
