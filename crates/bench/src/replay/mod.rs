//! A long conversation, replayed on simulated provider caches: how much of the input is read from them, and what it costs.
//!
//! The conversation, the instructions, the tools and the clock are the same for all ([`Scene`]). What differs is who builds
//! the requests: Contexture's agent (`ours.rs`), or one of three strategies that people write by hand (`naive.rs`). Each
//! request is encoded by `contexture_wire` and judged by the simulation on the bytes that would be sent (`provider.rs`).
//! No clock of the machine and no network is used: the same conversation gives the same numbers.

mod clock;
mod naive;
mod ours;
mod provider;
mod report;
mod scene;

use std::error::Error;

pub use clock::ReplayClock;
pub use provider::{Provider, SimulatedProvider, Tally};
pub use report::{Report, Row};
pub use scene::{Round, Scene, SceneTurn};

use contexture_message::Tokens;

/// Who builds the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The agent of this library.
    Contexture,
    /// The time and the user's current view are in the system prompt; a summary at the limit.
    VolatileSystem,
    /// The newest whole turns that fit.
    SlidingWindow,
    /// Everything until the limit, then a summary and the last turn.
    Summarise,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 4] =
        [Strategy::Contexture, Strategy::VolatileSystem, Strategy::SlidingWindow, Strategy::Summarise];

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Contexture => "contexture",
            Strategy::VolatileSystem => "volatile-system",
            Strategy::SlidingWindow => "sliding-window",
            Strategy::Summarise => "summarise",
        }
    }
}

/// The configuration of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The maximum size of a request, including instructions and tools.
    pub window: Tokens,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self { window: Tokens(128_000) }
    }
}

/// Replays a scene with all strategies on all providers.
pub fn replay(scene: &Scene, config: &ReplayConfig) -> Result<Report, Box<dyn Error>> {
    let mut rows = Vec::new();
    for provider in Provider::ALL {
        for strategy in Strategy::ALL {
            let tally = replay_one(scene, config, provider, strategy)?;
            rows.push(Row { provider, strategy, tally });
        }
    }
    Ok(Report { n_turns: scene.turns.len(), window: config.window, rows })
}

/// Replays a scene with one strategy on one provider.
pub fn replay_one(
    scene: &Scene,
    config: &ReplayConfig,
    provider: Provider,
    strategy: Strategy,
) -> Result<Tally, Box<dyn Error>> {
    match strategy {
        Strategy::Contexture => ours::replay(scene, config, provider),
        naive => naive::replay(scene, config, provider, naive),
    }
}
