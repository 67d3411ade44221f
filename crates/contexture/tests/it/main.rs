//! What the machine gives to agents.

mod http;
