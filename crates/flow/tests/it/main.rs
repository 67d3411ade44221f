//! Tests of flows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod blackboard;
mod crowd;
mod damaged;
mod due;
mod faults;
mod forget;
mod fuse;
mod hostile;
mod kills;
mod meddler;
mod migrated;
mod net;
mod nodes;
mod outages;
mod policies;
mod postgres;
mod races;
mod reference;
mod runs;
mod scene;
mod scheduler;
mod sqlite;
mod stops;
mod world;
