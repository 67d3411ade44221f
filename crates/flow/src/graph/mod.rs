//! Pictures of flows.
