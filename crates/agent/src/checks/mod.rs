//! Checks of input and output: guardrails, structured output and constraints.
//!
//! Prompts and contexts carry definitions. A definition runs a function registered with the agent under its id, or its
//! own inline rules (see [`rules`]). The [`judge`] applies the output schema and the constraints to final answers.

mod constraint;
mod guardrail;
mod judge;
mod output;
mod rules;

pub use constraint::{CheckOutcome, Checked, ConstraintCheck, check_constraint, constraint};
pub(crate) use guardrail::{Guarded, guard};
pub use guardrail::{GuardrailCheck, GuardrailVerdict, check_guardrail, guardrail};
pub(crate) use judge::{Judge, Judged, Judgement};
pub(crate) use output::{faults, json};
