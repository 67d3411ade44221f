//! Tests of flows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod crowd;
mod damaged;
mod due;
mod faults;
mod forget;
mod fuse;
mod hostile;
mod kills;
mod meddler;
mod net;
mod nodes;
mod outages;
mod policies;
mod races;
mod reference;
mod runs;
mod scene;
mod scheduler;
mod stops;
mod stores;
mod world;
