//! An audit of a memory, without a model: what a person should look at.

use std::collections::BTreeSet;

use contexture_history::Timestamp;
use contexture_history::compaction::{holds, normal};
use contexture_history::{RedactRule, redact};
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::record::{Author, Layer, Record, Status};
use super::space::{MemorySpace, RecordFilter};

const DAY: i64 = 24 * 60 * 60 * 1000;
/// A record that no answer used for so long is listed.
const UNUSED_DAYS: i64 = 30;
/// A fact that is so old is listed as stale.
const STALE_DAYS: i64 = 365;
/// Two records that share so much of their words say the same.
const SAME_WORDS: f64 = 0.8;

/// What is noticed about a record.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Concern {
    /// Another record says the same.
    Duplicate,
    /// A model derived it from what was remembered already.
    MemoryOfMemory,
    /// It looks like it has a secret or personal data.
    Secret,
    /// It is old, or holds no more and nothing took its place.
    Stale,
    /// No answer has used it.
    NeverUsed,
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Finding {
    /// What is noticed.
    pub concern: Concern,
    /// The record.
    pub record: String,
    /// The other record, if it is about two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl MemorySpace {
    /// Looks for records that a person should look at.
    pub async fn audit(&self) -> Result<Vec<Finding>, MemoryError> {
        let filter = RecordFilter { with_past: true, ..RecordFilter::default() };
        let records = self.list(&filter).await?;
        Ok(audit(&records, self.now()))
    }
}

/// Returns what is noticed about records.
pub(crate) fn audit(records: &[Record], now: Timestamp) -> Vec<Finding> {
    let live: Vec<&Record> = records.iter().filter(|it| it.status != Status::Rejected).collect();
    let secrets = redact(RedactRule::all_built_in());
    let mut findings = Vec::new();
    let mut add = |concern, record: &Record, other: Option<&Record>| {
        let other = other.map(|it| it.id.clone());
        findings.push(Finding { concern, record: record.id.clone(), other });
    };
    let words: Vec<(String, BTreeSet<String>)> = live.iter().map(|it| words_of(&it.text)).collect();
    for (idx, record) in live.iter().enumerate() {
        let is_current = record.valid_to.is_none_or(|end| now < end);
        let (text, own) = &words[idx];
        let is_derived = record.author == Author::Model && record.layer != Layer::Digests;
        // Of records of the same moment each may be derived from the other.
        let others = live.iter().zip(&words).enumerate();
        let others = others.filter(|(it, (other, _))| *it != idx && other.created <= record.created);
        for (other_idx, (earlier, (known, other))) in others {
            let both_hold = is_current && earlier.valid_to.is_none_or(|end| now < end);
            let is_duplicate = both_hold && is_same(own, other);
            if is_duplicate && other_idx < idx {
                add(Concern::Duplicate, record, Some(earlier));
            }
            if !is_duplicate && is_derived && other.len() > 3 && text != known && holds(text, known) {
                add(Concern::MemoryOfMemory, record, Some(earlier));
            }
        }
        if secrets.text(&record.text) != record.text {
            add(Concern::Secret, record, None);
        }
        let is_old = |days: i64, since: Timestamp| now.0.saturating_sub(since.0) > days * DAY;
        let is_over = !is_current && record.superseded_by.is_none();
        let is_aged = record.layer == Layer::Facts && is_current && is_old(STALE_DAYS, record.updated);
        if is_over || is_aged {
            add(Concern::Stale, record, None);
        }
        // Rules are read with every request, whether an answer quotes them or not.
        let is_read = matches!(record.layer, Layer::Facts | Layer::Procedures);
        if is_read && is_current && record.uses == 0 && is_old(UNUSED_DAYS, record.created) {
            add(Concern::NeverUsed, record, None);
        }
    }
    findings.sort_by(|one, other| (one.concern, &one.record).cmp(&(other.concern, &other.record)));
    findings
}

fn words_of(text: &str) -> (String, BTreeSet<String>) {
    let text = normal(text);
    let is_mark = |it: char| !it.is_alphanumeric();
    let words = text.split(is_mark).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    (text, words)
}

fn is_same(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let (shared, all) = (one.intersection(other).count(), one.union(other).count());
    // There are few words, so the casts are exact.
    all > 0 && shared as f64 / all as f64 >= SAME_WORDS
}
