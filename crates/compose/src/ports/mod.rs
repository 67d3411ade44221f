//! Ports: how the outside world reaches the engine. Each has an in-memory fake.
//!
//! The engine reads no clock, no file and no environment of its own; what it needs comes in here.

mod clock;
mod counters;
mod engine;
mod memo;
mod observe;
mod policy;
mod skills;

pub use clock::{Clock, ManualClock, StoppedClock};
pub use counters::{Counters, FixedCounter, ModelCounters};
pub use engine::Engine;
pub use memo::{ContextMemo, InMemoryMemo, MemoKey, Remembering};
pub use observe::{Collected, Diagnostics, EngineEvent, Ignore, Sink};
pub use policy::{AllowAll, DenySources, Policy, PolicyVerdict};
pub use skills::{FixedSkills, Skill, SkillSource};
