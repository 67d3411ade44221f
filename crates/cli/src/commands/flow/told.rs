//! Passes on what is told of the runs that this process drives, with the words of their models.

use contexture::ProjectLibrary;
use contexture_agent::Agent;
use contexture_compose::{BoxFuture, Prompt, Scope};
use contexture_flow::{EventContext, Flow, Library, NodeError, Nodes, RunEvent};
use futures::channel::mpsc::UnboundedSender;
use serde_json::Value;

/// An event, with its number if it is on record.
pub(super) type Told = (Option<u64>, RunEvent);

/// The library of a project that passes on what is told.
#[derive(Debug)]
pub(super) struct TellingLibrary {
    pub(super) library: ProjectLibrary,
    pub(super) sender: UnboundedSender<Told>,
}

impl Library for TellingLibrary {
    fn agent(&self) -> Agent {
        self.library.agent()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.library.prompt(id)
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.library.flow(id)
    }

    fn nodes(&self) -> Nodes {
        self.library.nodes()
    }

    fn blackboard(&self, id: String, scope: Scope) -> BoxFuture<'_, Result<Value, NodeError>> {
        self.library.blackboard(id, scope)
    }

    fn on_event(&self, about: EventContext<'_>, event: &RunEvent) {
        // A command that shows nothing does not listen.
        let _ = self.sender.unbounded_send((about.number, event.clone()));
    }
}
