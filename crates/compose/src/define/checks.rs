//! Definitions of checks and middleware. Compose carries and merges them; the agent runs them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::segment::Runner;

/// A check of the model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Identifies the check in feedback and reports.
    pub id: String,
    /// What happens when the check fails.
    #[serde(default)]
    pub mode: ConstraintMode,
    /// Further fields for the code that runs it.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// The code that runs it, if its owner supplied any.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// What happens when a constraint fails.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintMode {
    /// The model has to answer again.
    #[default]
    Assert,
    /// The answer stands, with a remark.
    Suggest,
}

/// A check of the model's input or output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guardrail {
    /// Identifies the guardrail in reports.
    pub id: String,
    /// Whether it checks the input or the output.
    #[serde(default)]
    pub on: GuardrailSide,
    /// Further fields for the code that runs it.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// The code that runs it, if its owner supplied any.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// Whether a guardrail checks the input or the output.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardrailSide {
    /// The user's messages.
    Input,
    /// The model's answers.
    #[default]
    Output,
}

/// Middleware that wraps tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolMiddleware {
    /// Identifies the middleware in reports.
    pub id: String,
    /// The tools it wraps: names, or patterns with `*`. An empty list means all tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Further fields for the code that runs it.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// The code that runs it, if its owner supplied any.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// When the loop of model calls ends. Several conditions are combined with OR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCondition {
    /// After this many steps.
    MaxSteps(u32),
    /// Once this tool has been called.
    ToolCalled(String),
    /// Once this many tokens have been used.
    MaxTokens(u64),
    /// Once this much money has been spent, in the catalogue's currency.
    MaxCost(f64),
}
