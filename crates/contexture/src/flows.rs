//! Runs the flows of a project with the machine's time and generated names.

use std::sync::Arc;

use contexture_agent::Agent;
use contexture_capabilities::blackboard::{BoardError, BoardOwner};
use contexture_compose::{BoxFuture, Prompt, Scope};
use contexture_flow::{Flow, Library, NodeError, Nodes, Runtime, RuntimeConfig, RuntimeParts};
use contexture_project::Project;
use contexture_session::{Documents, Sessions};
use serde_json::Value;

use crate::sessions::{SystemNames, SystemTime};

/// The prompts and flows of a project, and the agent that runs them.
#[derive(Debug)]
pub struct ProjectLibrary {
    /// The project with the prompts and flows.
    pub project: Arc<Project>,
    /// The agent that runs the project's prompts and tools.
    pub agent: Agent,
}

impl Library for ProjectLibrary {
    fn agent(&self) -> Agent {
        self.agent.clone()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.project.prompt(id).cloned().map_err(|err| err.to_string())
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.project.flow(id).ok().cloned()
    }

    fn nodes(&self) -> Nodes {
        self.project.flow_parts().nodes.clone()
    }

    fn blackboard(&self, id: String, scope: Scope) -> BoxFuture<'_, Result<Value, NodeError>> {
        let boards = self.project.boards().clone();
        Box::pin(async move {
            let failed = |err: BoardError| NodeError::new(err.code(), err.to_string());
            let board = BoardOwner::of(&scope).and_then(|it| boards.find(&id, &it)).map_err(failed)?;
            Ok(board.read().await.map_err(failed)?.value().clone())
        })
    }
}

/// Returns a runtime for flows that uses the machine's time and generated names. `documents` is the store of the
/// sessions.
///
/// ```
/// use std::sync::Arc;
/// use contexture::flow::{RunStart, RunStatus, RuntimeConfig};
/// use contexture::agent::{AgentConfig, CancellationToken};
/// use contexture::prelude::*;
/// use contexture::session::{MemoryStore, SessionConfig};
/// use contexture::project::InMemory;
/// use contexture::{ProjectLibrary, SystemTime, flow_runtime, session_ports};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let files = [
///     ("prompts/poet.md", "You write poems."),
///     ("flows/poem.yaml", "
/// inputs: {topic: string}
/// nodes:
///   write: {type: llm_request, prompt: poet}
///   check: {type: user_input, message: 'Is it good?', value: boolean}
/// edges:
///   - start.topic -> write.user
///   - write -> check
/// outputs: {poem: write.text, good: check.value}
/// "),
/// ];
/// let project = Arc::new(Project::from_files(Arc::new(InMemory::new(files)))?);
/// let model = Scripted::answering(["Roses are red."]);
/// let config = AgentConfig { model: Some("test/poet".to_owned()), ..AgentConfig::default() };
/// let agent = contexture::agent(model).config(config).build()?;
///
/// let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
/// let sessions = Sessions::new(store.clone(), session_ports(None), SessionConfig::default());
/// let library = ProjectLibrary { project: Arc::clone(&project), agent };
/// let runtime = flow_runtime(library, sessions, store, RuntimeConfig::default());
///
/// let start = RunStart { input: serde_json::json!({"topic": "roses"}), ..RunStart::default() };
/// let run = runtime.start(project.flow("poem")?, start).await?;
/// let info = runtime.drive(&run, CancellationToken::new()).await?;
/// assert_eq!((info.status, info.waits[0].asked.message.as_str()), (RunStatus::Waiting, "Is it good?"));
///
/// // Perhaps a day later, in another process:
/// runtime.answer(&run, &info.waits[0].id, true.into()).await?;
/// let info = runtime.drive(&run, CancellationToken::new()).await?;
/// assert_eq!((info.status, &info.outputs["poem"]), (RunStatus::Completed, &"Roses are red.".into()));
/// # Ok(())
/// # }
/// ```
pub fn flow_runtime(
    library: impl Library,
    sessions: Sessions,
    documents: Arc<dyn Documents>,
    config: RuntimeConfig,
) -> Runtime {
    Runtime::new(RuntimeParts {
        sessions,
        documents,
        time: Arc::new(SystemTime),
        names: Arc::new(SystemNames),
        library: Arc::new(library),
        config,
    })
}
