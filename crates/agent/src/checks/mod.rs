//! Checks of what goes in and what comes out: guardrails and constraints.
//!
//! Prompts and contexts carry definitions; what runs is either a function that the agent knows by the definition's id,
//! or the rules that the definition spells out itself (see [`rules`]).

mod constraint;
mod guardrail;
mod rules;

pub use constraint::{Checked, ConstraintCheck, ConstraintFailure, check_constraint, constraint};
pub(crate) use constraint::{Constraints, constraints};
pub(crate) use guardrail::{Guarded, guard};
pub use guardrail::{GuardrailCheck, GuardrailVerdict, check_guardrail, guardrail};
