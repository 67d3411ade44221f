//! Grounding: answers that cite the evidence they rest on, checked without a model.
//!
//! [`check`] holds an answer against the evidence of its pass ([`KnownEvidence`]) and gives neutral citations and a
//! [`Report`], which words the complaint for the model. [`cards`] lists what was cited.
//!
//! Below it: [`marks`] finds citations and quotations in a text, [`sentences`] splits it, [`facts`] finds what can be
//! looked up, [`normal`] compares spellings.

mod cards;
mod check;
mod dates;
mod evidence;
mod facts;
mod marks;
mod normal;
mod report;
mod sentences;

pub use cards::{EvidenceCard, Finding, cards};
pub use check::{CitationRule, Grounded, GroundingRules, QuoteRule, check};
pub use evidence::{KnownEvidence, SentEvidence};
pub use facts::FactKind;
pub use report::{Fault, FaultKind, Report};

#[cfg(test)]
mod tests;
