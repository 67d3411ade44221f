//! The server as people start it: the program in a project's folder, with a model behind it that follows a script.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use contexture_mockmodel::{MockModel, Reply};
use contexture_wire::Dialect;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::Folder;
use crate::served::{config, says};

/// A tool that must be approved, and that nobody answers at the address of.
const SHOP: &str = "---\ntools:\n  - name: find_order\n    description: Finds an order.\n    parameters: {type: object, properties: {number: {type: integer}}, required: [number]}\n    http: {url: \"http://127.0.0.1:9/orders/{number}\"}\n    approval: true\n---\nYou track orders.\n";

/// A flow that waits for somebody before it calls the model.
const TALK: &str = "nodes:\n  ask: {type: user_input}\n  answer: {type: llm_request, prompt: chat}\nedges: [start -> ask, ask.value -> answer.user, answer -> ask]\n";

/// A server that runs. It stops when it is dropped.
pub(crate) struct Serving {
    _folder: Folder,
    pub(crate) url: String,
    child: Child,
    _model: MockModel,
    _runtime: Runtime,
}

impl Serving {
    /// Serves the prompts `chat` and `shop`, and the flow `chat`; the model gives these replies, and says `Very well.` ever after.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_config(replies, "")
    }

    /// The same, with more in the configuration.
    pub(crate) fn with_config(replies: impl IntoIterator<Item = Reply>, more: &str) -> Self {
        let runtime = Runtime::new().expect("threads can be made");
        let usual = std::iter::repeat_with(|| says(Dialect::Openai, "Very well.")).take(5_000);
        let model = runtime.block_on(MockModel::start(replies.into_iter().chain(usual)));
        let provider = format!("dialect = \"openai\"\nbase_url = \"{}/v1\"", model.url());
        let text = format!("{}\n{more}", config(&provider));
        let files = [
            ("prompts/chat.md", "You are brief."),
            ("prompts/shop.md", SHOP),
            ("flows/chat.yaml", TALK),
            ("contexture.toml", &text),
        ];
        Self::in_folder(Folder::new(files), model, runtime)
    }

    fn in_folder(folder: Folder, model: MockModel, runtime: Runtime) -> Self {
        let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0", "--json", "--log", "warn"]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["listening"].as_str().unwrap_or_else(|| panic!("it listens: {line}")).to_owned();
        Self { _folder: folder, url, child, _model: model, _runtime: runtime }
    }

    /// Runs a program to its end, which must be a good one, and returns what it printed.
    pub(crate) fn judged_by(&self, command: &mut Command) -> String {
        let output = command.stdin(Stdio::null()).output().expect("the judge starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}\n{errors}");
        printed
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
