//! Decides what is shortened and summarised when a conversation outgrows its model. Decisions only; nothing is
//! executed.
//!
//! ```text
//! messages ──▶ candidates ──▶ shorten                                   every call, view only
//! items ──▶ Layout ──▶ Plan ──▶ facts ──▶ summary_prompt ──▶ a model ──▶ judge ──▶ commit
//!                                 └────────▶ extract ───────────────────▶ judge
//! ```
//!
//! * [`rounds`](mod@rounds): an assistant message with its results, the unit that is never split.
//! * [`results`]: large tool results become previews with a handle.
//! * `shrink` and `cut`: what else can be shortened, and how, if a request does not fit.
//! * [`layout`]: which range becomes a summary, or why none does.
//! * [`plan`]: the contents of such a decision, and when it is due.
//! * [`facts`](mod@facts): what a summary of that range must not lose.
//! * [`prompt`]: the prompt for the summarising model.
//! * [`verdict`]: whether its summary is accepted.
//! * [`extract`](mod@extract): a summary made without a model.
//!
//! Nothing here calls a model, stores anything or reads a clock. Equal input gives equal output.

mod artifacts;
mod cues;
mod cut;
pub mod extract;
pub mod facts;
pub mod layout;
mod phrases;
pub mod plan;
pub mod prompt;
pub mod results;
pub mod rounds;
mod shrink;
mod turn_results;
pub mod verdict;

pub use crate::item::Strategy;
pub use cut::{Caps, SHORTEST_PREVIEW, message_handle};
pub use extract::{ExtractLimits, Unextractable, extract};
pub use facts::{FactLimits, Instruction, facts, instructions, quoted_facts};
pub use layout::Layout;
pub use phrases::{holds, normal};
pub use plan::{Attempt, Nothing, Plan, PlanLimits, Trigger, due, unless_repeated};
pub use prompt::{SummaryPrompt, summary_prompt};
pub use results::{Candidate, Exceeds, Frontier, ResultLimits, Shortened, candidates, shorten};
pub use rounds::{Round, rounds};
pub use shrink::{Shrinkable, ShrinkableKind, lowered, shrinkable};
pub use turn_results::{
    PreviewedTurns, ShortenedResult, bounded_results, preview_turns, shorten_turns, shown_costs,
};
pub use verdict::{Flaw, SummaryVerdict, VerdictRules, judge};
