//! Ports, through which the engine reaches the outside world. Each has an in-memory fake.
//!
//! The engine itself reads no clock, file or environment variable; ports supply what it needs.

mod clock;
mod counters;
mod engine;
mod http;
mod memo;
mod observe;
mod policy;
mod skills;

pub use clock::{Clock, ManualClock, StoppedClock};
pub use counters::{Counters, FixedCounter, ModelCounters};
pub use engine::Engine;
pub use http::{HttpCaller, HttpReply, HttpRequest};
pub use memo::{ContextMemo, InMemoryMemo, MemoKey, Remembering};
pub use observe::{Collected, Diagnostics, EngineEvent, Ignore, Sink};
pub use policy::{AllowAll, DenySources, Policy, PolicyVerdict};
pub use skills::{FixedSkill, FixedSkills, SkillSource, SkillSummary, SkillVersion};
