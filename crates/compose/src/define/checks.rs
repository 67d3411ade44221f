//! Checks and middleware, carried as definitions and merged; running them is the agent's job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Runner;

/// A check of the model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Its name in feedback and reports.
    pub id: String,
    /// What a failing check means.
    #[serde(default)]
    pub mode: ConstraintMode,
    /// Everything else that whoever runs it needs to know.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// What runs it, if its owner brought that along.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// What a failing constraint means.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintMode {
    /// The answer is made again.
    #[default]
    Assert,
    /// The answer stands, with a remark.
    Suggest,
}

/// A check of what goes in or comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guardrail {
    /// Its name in reports.
    pub id: String,
    /// Which side it watches.
    #[serde(default)]
    pub on: GuardrailSide,
    /// Everything else that whoever runs it needs to know.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// What runs it, if its owner brought that along.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// Which side a guardrail watches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardrailSide {
    /// What the user says.
    Input,
    /// What the model says.
    #[default]
    Output,
}

/// Something that wraps tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolMiddleware {
    /// Its name in reports.
    pub id: String,
    /// The tools it wraps: names, or patterns with `*`. Empty means all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Everything else that whoever runs it needs to know.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// What runs it, if its owner brought that along.
    #[serde(skip)]
    pub runner: Option<Runner>,
}

/// When the loop of model calls ends; the conditions are OR-ed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCondition {
    /// After so many steps.
    MaxSteps(u32),
    /// When this tool was called.
    ToolCalled(String),
    /// When so many tokens were used.
    MaxTokens(u64),
    /// When so much money was spent, in the catalogue's currency.
    MaxCost(f64),
}
