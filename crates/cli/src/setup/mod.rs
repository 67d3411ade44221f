//! What a command works with: the project and its configuration, models, the store, the runtime, telemetry.

pub(crate) mod blackboards;
pub(crate) mod dotenv;
pub(crate) mod knowledge;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod proxies;
pub(crate) mod root;
pub(crate) mod runtime;
pub(crate) mod store;
pub(crate) mod telemetry;
