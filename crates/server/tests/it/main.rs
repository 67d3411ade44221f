//! The server, over real connections.
#![allow(clippy::unwrap_used, reason = "a test that can't go on says so")]

mod attack;
mod away;
mod blackboards;
mod clients;
mod context;
mod door;
mod flows;
mod forgetting;
mod gate;
mod hostile;
mod knowledge;
mod lost;
mod memories;
mod memory_isolation;
mod neighbours;
mod pairs;
mod passes;
mod puppet;
mod repeated;
mod resuming;
mod scene;
mod sdk;
mod several;
mod streaming;
mod threads;
mod tls;
mod turns;
mod upkeep;
mod waiting;
