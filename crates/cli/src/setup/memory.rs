//! Gives the memories of a project what they need of this program.

use std::sync::Arc;

use contexture::SystemTime;
use contexture::capabilities::memory::MemoryPorts;
use contexture_project::Project;
use contexture_session::{SourceIndex, Store};

/// Lets the memories of a project use a store.
pub(crate) fn provide(project: &Project, store: &Arc<dyn Store>, sources: &Arc<dyn SourceIndex>) {
    let log = Arc::clone(store);
    project.memories().provide(MemoryPorts { index: Arc::clone(sources), log, time: Arc::new(SystemTime) });
}
