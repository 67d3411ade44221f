//! What a replay found: a line of JSON, and a table for people.

use std::fmt;

use contexture_message::Tokens;
use serde_json::{Value, json};

use super::{Provider, Strategy, Tally};

/// What a replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How many turns the conversation has.
    pub n_turns: usize,
    /// The most that a request might have.
    pub window: Tokens,
    /// One row for each strategy on each provider.
    pub rows: Vec<Row>,
}

/// One strategy on one provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The provider.
    pub provider: Provider,
    /// Who built the requests.
    pub strategy: Strategy,
    /// What was asked.
    pub tally: Tally,
}

impl Report {
    /// Returns all of it as JSON.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|it| it.to_json()).collect();
        json!({"job": "cache", "n": self.n_turns, "window": self.window.0, "rows": rows})
    }
}

impl Row {
    fn to_json(self) -> Value {
        let Tally { calls, usage, cost, largest, too_large } = self.tally;
        json!({
            "provider": self.provider.dialect().as_str(),
            "model": self.provider.model(),
            "strategy": self.strategy.name(),
            "share": rounded(self.tally.share(), 1e4),
            "cost_usd": rounded(cost, 1e4),
            "calls": calls,
            "input_tokens": usage.input_tokens,
            "cache_read_tokens": usage.cache_read_tokens.unwrap_or_default(),
            "cache_write_tokens": usage.cache_write_tokens.unwrap_or_default(),
            "output_tokens": usage.output_tokens,
            "largest_input": largest,
            "too_large": too_large,
        })
    }
}

fn rounded(number: f64, places: f64) -> f64 {
    (number * places).round() / places
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} turns, at most {} tokens a request", self.n_turns, self.window)?;
        writeln!(
            f,
            "{:<18}{:<17}{:>8}{:>10}{:>7}{:>14}{:>14}{:>12}{:>10}{:>11}",
            "provider",
            "strategy",
            "share",
            "cost $",
            "calls",
            "input",
            "read",
            "written",
            "largest",
            "too large"
        )?;
        for Row { provider, strategy, tally } in &self.rows {
            writeln!(
                f,
                "{:<18}{:<17}{:>6.1} %{:>10.3}{:>7}{:>14}{:>14}{:>12}{:>10}{:>11}",
                provider.dialect().as_str(),
                strategy.name(),
                tally.share() * 100.0,
                tally.cost,
                tally.calls,
                tally.usage.input_tokens,
                tally.usage.cache_read_tokens.unwrap_or_default(),
                tally.usage.cache_write_tokens.unwrap_or_default(),
                tally.largest,
                tally.too_large,
            )?;
        }
        Ok(())
    }
}
