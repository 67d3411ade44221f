//! A model that follows a script, on a real HTTP server, and a project that calls it.

use contexture_message::{Answer, Part, ToolCall};
use contexture_mockmodel::{MockModel, Received, Reply};
use contexture_wire::Dialect;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{Folder, Run};

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
        let (name, url) = (dialect.as_str(), model.url());
        folder.write("contexture.toml", &config(&format!("dialect = \"{name}\"\nbase_url = \"{url}/v1\"")));
        Self { folder, model, tools, _runtime: runtime }
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
    let arguments = json!({ "number": number });
    let call = ToolCall { id: format!("c{number}"), name: "find_order".to_owned(), arguments };
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
