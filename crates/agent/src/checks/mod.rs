//! Checks of input and output: guardrails and constraints.
//!
//! Prompts and contexts carry definitions. A definition runs a function registered with the agent under its id, or its
//! own inline rules (see [`rules`]).

mod constraint;
mod guardrail;
mod rules;

pub use constraint::{Checked, ConstraintCheck, ConstraintFailure, check_constraint, constraint};
pub(crate) use constraint::{Constraints, Findings, constraints};
pub(crate) use guardrail::{Guarded, guard};
pub use guardrail::{GuardrailCheck, GuardrailVerdict, check_guardrail, guardrail};
