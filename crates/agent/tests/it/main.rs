//! Tests of the agent loop.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod approval;
mod bytes;
mod checks;
mod client_tools;
mod compacting;
mod depth;
mod direct;
mod enclosed;
mod endings;
mod forecast;
mod forged;
mod frozen;
mod going_on;
mod grounded;
mod halting;
mod http;
mod long;
mod loops;
mod own_tools;
mod pairs;
mod panics;
mod past_the_window;
mod points;
mod prepended;
mod preview;
mod reactive;
mod readable;
mod scene;
mod scratch;
mod served;
mod slot;
mod stability;
mod stage;
mod this_run;
mod told;
mod tools;
mod unasked;
mod valid;
mod whole;
mod windows;
