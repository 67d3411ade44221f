//! Gives the blackboards of a project what they need of this program.

use std::sync::Arc;

use contexture::capabilities::blackboard::BoardPorts;
use contexture::{SystemNames, SystemTime};
use contexture_project::Project;
use contexture_session::Store;

/// Lets the blackboards of a project use a store.
pub(crate) fn provide(project: &Project, store: &Arc<dyn Store>) {
    let (time, names) = (Arc::new(SystemTime), Arc::new(SystemNames));
    project.boards().provide(BoardPorts { store: Arc::clone(store), time, names });
}
