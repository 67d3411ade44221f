//! The loaded project, with the agent that runs its prompts. A reload replaces it; running requests keep theirs.

use contexture_message::ErrorCode;
use std::sync::Arc;

use contexture_agent::{Agent, AgentBuilder, Watcher};
use contexture_compose::Prompt;
use contexture_flow::Flow;
use contexture_project::{Fault, Project, ProjectError};
use tokio::sync::watch;

use crate::Problem;
use crate::tenant_blocks::TenantBlocks;

/// Makes the agent of a project: its models, tools and keys. It is called again after each reload.
pub type AgentMaker = Arc<dyn Fn(&Project) -> Result<AgentBuilder, String> + Send + Sync>;

/// A loaded project and its agent.
#[derive(Debug)]
pub struct LoadedProject {
    /// The prompts and the configuration.
    pub project: Project,
    /// Runs the prompts.
    pub agent: Agent,
    /// The faults of the current files; of each prompt the last good version is used.
    pub faults: Vec<Fault>,
}

impl LoadedProject {
    /// Loads a project and builds its agent.
    pub(crate) fn load(
        project: Project,
        faults: Vec<Fault>,
        maker: &AgentMaker,
        watcher: impl Watcher + 'static,
        blocks: TenantBlocks,
    ) -> Result<Self, String> {
        let builder = maker(&project)?.watcher(watcher).caller_entries(blocks.besides(&project));
        let agent = builder.build().map_err(|err| err.to_string())?;
        Ok(Self { project, agent, faults })
    }

    /// Returns a prompt by its id; without one the only prompt there is, or the one that is called `chat`.
    pub(crate) fn prompt(&self, id: Option<&str>) -> Result<Prompt, Problem> {
        let mut all = self.project.prompts().map(|(path, _)| path);
        let only = all.next().filter(|_| all.next().is_none());
        match id.or(only) {
            Some(id) => {
                let prompt = self.project.prompt(id).cloned();
                prompt.map_err(|err| unusable(ErrorCode::PromptInvalid, "prompt", id, err))
            }
            None => self.project.prompt("chat").cloned().map_err(|_| {
                let problem = Problem::new(ErrorCode::UnknownPrompt, "the request names no prompt");
                problem.hint("`GET /v1/prompts` lists them")
            }),
        }
    }

    /// Returns a flow by its id.
    pub(crate) fn flow(&self, id: &str) -> Result<Flow, Problem> {
        self.project.flow(id).cloned().map_err(|err| unusable(ErrorCode::FlowInvalid, "flow", id, err))
    }
}

/// Explains why a prompt or a flow can't be used.
fn unusable(invalid: ErrorCode, what: &str, id: &str, err: ProjectError) -> Problem {
    let problem = Problem::from(err);
    let is_missing = matches!(problem.code(), ErrorCode::UnknownPrompt | ErrorCode::UnknownFlow);
    if is_missing && problem.place().is_none() {
        return problem;
    }
    // A fault of a file is not a fault of the request, so the file's own code is not used.
    let detail = format!("{what} `{id}` has a fault: {}", problem.detail());
    let invalid = Problem::new(invalid, detail);
    match problem.place() {
        Some(at) => invalid.at(at),
        None => invalid,
    }
}

/// The project that is in use.
pub(crate) type CurrentProject = watch::Sender<Arc<LoadedProject>>;
