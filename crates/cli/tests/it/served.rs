//! A model that follows a script, on a real HTTP server, and a project that calls it.

use std::fs;
use std::path::Path;

use contexture_message::{Answer, Part, ToolCall};
use contexture_mockmodel::{MockModel, Received, Reply};
use contexture_wire::Dialect;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{Folder, Run};

const CONFIG: &str = "contexture.toml";

/// A project, the model that it calls, and the server of its tools. Servers stop when it is dropped.
pub(crate) struct Served {
    pub(crate) folder: Folder,
    model: MockModel,
    tools: MockModel,
    _runtime: Runtime,
}

impl Served {
    /// Serves replies of the model, and a project with one prompt, `p`, in the folder.
    pub(crate) fn new(dialect: Dialect, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_tools(dialect, replies, [])
    }

    /// Serves replies of the model and of its tools, too.
    pub(crate) fn with_tools(
        dialect: Dialect,
        replies: impl IntoIterator<Item = Reply>,
        of_tools: impl IntoIterator<Item = Reply>,
    ) -> Self {
        let runtime = Runtime::new().expect("threads can be made");
        let model = runtime.block_on(MockModel::start(replies));
        let tools = runtime.block_on(MockModel::start(of_tools));
        let folder = Folder::new([("prompts/p.md", "You are brief.")]);
        folder.write(CONFIG, &config_of(dialect, model.url()));
        Self { folder, model, tools, _runtime: runtime }
    }

    /// Serves replies of the model, and a shipped example beside the prompt `p`. The example's own configuration is
    /// replaced, except for what follows `more`.
    pub(crate) fn example(name: &str, more: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let served = Self::new(Dialect::Openai, replies);
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        served.copy(&example, "");
        if !more.is_empty() {
            let config = fs::read_to_string(example.join(CONFIG)).expect("the example has a configuration");
            let (_, kept) = config.split_once(more).expect("the configuration has this part");
            let ours = config_of(Dialect::Openai, served.model.url());
            served.folder.write(CONFIG, &format!("{ours}{more}{kept}"));
        }
        served
    }

    fn copy(&self, from: &Path, to: &str) {
        for file in fs::read_dir(from).expect("the folder can be listed") {
            let path = file.expect("it can be listed").path();
            let name = format!("{to}{}", path.file_name().expect("it has a name").to_string_lossy());
            if path.is_dir() {
                self.copy(&path, &format!("{name}/"));
            } else if name != CONFIG {
                self.folder.write(&name, &fs::read_to_string(&path).expect("it can be read"));
            }
        }
    }

    /// Adds a prompt `shop` with a tool that is an HTTP call.
    pub(crate) fn with_shop(self, more: &str) -> Self {
        let url = self.tools.url();
        let text = format!(
            "---\ntools:\n  - name: find_order\n    description: Finds an order.\n    parameters: {{type: object, properties: \
             {{number: {{type: integer}}}}, required: [number]}}\n    http: {{url: \"{url}/orders/{{number}}\"}}\n{more}---\nYou track orders."
        );
        self.folder.write("prompts/shop.md", &text);
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.folder.run(args)
    }

    pub(crate) fn piped(&self, args: &[&str], stdin: &str) -> Run {
        self.folder.run_with(args, stdin, &[])
    }

    /// Returns what the model was asked.
    pub(crate) fn asked(&self) -> Vec<Received> {
        self.model.received()
    }

    /// Returns which addresses of the tools' server were called.
    pub(crate) fn called(&self) -> Vec<String> {
        self.tools.received().into_iter().map(|it| it.path).collect()
    }
}

fn config_of(dialect: Dialect, url: &str) -> String {
    config(&format!("dialect = \"{}\"\nbase_url = \"{url}/v1\"", dialect.as_str()))
}

/// A configuration with one provider, `mock`, and its model as the default.
pub(crate) fn config(provider: &str) -> String {
    format!(
        "[model]\ndefault = \"mock/m-1\"\n[models.\"mock/m-1\"]\ncontext_window = 200000\n[providers.mock]\n{provider}\n"
    )
}

/// The model says something.
pub(crate) fn says(dialect: Dialect, text: &str) -> Reply {
    Reply::answer(dialect, &Answer::text(text)).in_pieces_of(40)
}

/// The model calls `find_order`.
pub(crate) fn calls(dialect: Dialect, number: u32) -> Reply {
    calls_tool(dialect, &format!("c{number}"), "find_order", json!({ "number": number }))
}

/// The model calls a tool.
pub(crate) fn calls_tool(dialect: Dialect, id: &str, name: &str, arguments: Value) -> Reply {
    let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments };
    Reply::answer(dialect, &Answer::parts(vec![Part::ToolCall(call)]))
}

/// The tool answers.
pub(crate) fn order(state: &str) -> Reply {
    Reply::json(200, &json!({ "state": state }))
}

/// What the user said last in a request in OpenAI's dialect.
pub(crate) fn last_message(request: &Received) -> &Value {
    request.body["messages"].as_array().and_then(|it| it.last()).unwrap_or(&Value::Null)
}
