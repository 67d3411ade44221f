//! What a thread has learned about a model: how its token counts differ from ours, and which sizes it refuses.
//!
//! Reported usage is authoritative. The ratio of reported to counted tokens corrects every limit; a refused request
//! caps the ones that follow. Both are kept in the thread, so that other processes know them too.

use std::collections::BTreeMap;

use contexture_compose::ModelLimits;
use contexture_message::Tokens;
use contexture_message::tokens::Correction;
use contexture_session::{NewItem, Snapshot};
use contexture_wire::ModelFacts;
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.window";

/// In smaller requests, the framing around messages outweighs the counter's error.
const LEAST_OBSERVED: Tokens = Tokens(500);

/// What a thread has learned about one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Learned {
    correction: Correction,
    /// The largest request that was answered, by our count.
    answered: Tokens,
    /// The cap set by refused requests, by our count.
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<Tokens>,
    /// Whether the last refusal named the limit.
    is_named: bool,
    /// The latest request that was answered: our count and the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<(Tokens, Tokens)>,
}

impl Learned {
    /// Returns what a thread has learned about a model.
    pub(crate) fn of(thread: &Snapshot, model: &str) -> Self {
        known(thread).get(model).copied().unwrap_or_default()
    }

    /// Learns from the reported size of an answered request.
    pub(crate) fn answered(&mut self, counted: Tokens, reported: u64, is_exact: bool) {
        let reported = Tokens(u32::try_from(reported).unwrap_or(u32::MAX));
        self.answered = self.answered.max(counted);
        self.newest = (reported > Tokens(0)).then_some((counted, reported));
        if counted >= LEAST_OBSERVED {
            self.correction.observe(counted, reported);
        }
        if is_exact {
            self.correction = self.correction.at_least_one();
        }
    }

    /// Learns from a refused request. If the refusal names no figures, the cap is the largest smaller request that was
    /// answered, or else half of this one.
    pub(crate) fn refused(&mut self, counted: Tokens, refusal: &str) {
        let least = Tokens(counted.0 / 2);
        let named = named_share(refusal).map(|share| Tokens((f64::from(counted.0) * share) as u32));
        let answered = Some(self.answered).filter(|it| *it < counted);
        let most = named.or(answered).unwrap_or(least).max(least).min(Tokens(counted.0 / 100 * 97));
        self.most = Some(self.most.map_or(most, |it| it.min(most)));
        self.is_named = named.is_some();
    }

    /// Returns the cap set by refused requests, by our count.
    pub(crate) fn most(&self) -> Option<Tokens> {
        self.most
    }

    /// Whether the limits are stricter than the model's window without the provider having named them.
    pub(crate) fn is_guess(&self) -> bool {
        let is_stricter =
            self.most.is_some() || self.correction.millionths > Correction::default().millionths;
        is_stricter && !self.is_named
    }

    /// Returns the limits of the model.
    pub(crate) fn limits(&self, facts: ModelFacts) -> ModelLimits {
        let (facts, window_assumed) = facts.with_window();
        ModelLimits {
            context_window: facts.context_window,
            output_reserve: facts.reserve(),
            window_assumed,
            correction: self.correction,
            most: self.most,
        }
    }

    /// Predicts what the provider will report for a request, based on its latest report.
    pub(crate) fn projected(&self, counted: Tokens) -> Tokens {
        let corrected = self.correction.apply(counted);
        let from_newest = self.newest.map(|(before, reported)| {
            let more = self.correction.apply(counted.saturating_sub(before));
            let less = self.correction.apply(before.saturating_sub(counted));
            (reported + more).saturating_sub(less)
        });
        from_newest.map_or(corrected, |it| it.max(corrected))
    }

    /// Returns the record of it, if it differs enough from what the thread has.
    pub(crate) fn record(&self, thread: &Snapshot, model: &str, usable: Option<Tokens>) -> Option<NewItem> {
        let mut known = known(thread);
        let before = known.get(model).copied().unwrap_or_default();
        let moved = self.correction.millionths.abs_diff(before.correction.millionths);
        let is_full = |it: &Learned| {
            let reported = it.newest.map(|(_, reported)| u64::from(reported.0));
            reported.zip(usable).is_some_and(|(it, usable)| it * 100 >= u64::from(usable.0) * 80)
        };
        let matters = moved > 20_000 || self.most != before.most || is_full(self) != is_full(&before);
        matters.then(|| {
            known.insert(model.to_owned(), *self);
            NewItem::note(KEY, Some(json!(known)))
        })
    }
}

fn known(thread: &Snapshot) -> BTreeMap<String, Learned> {
    thread.note(KEY).and_then(|it| BTreeMap::deserialize(&**it).ok()).unwrap_or_default()
}

/// Returns the share of a refused request that fits, if the refusal names both figures: "9000 tokens > 8192 maximum".
fn named_share(refusal: &str) -> Option<f64> {
    let digits = refusal.split(|it: char| !(it.is_ascii_digit() || it == ','));
    let figures = digits.filter_map(|it| it.replace(',', "").parse::<u32>().ok()).filter(|it| *it >= 256);
    let figures: Vec<u32> = figures.collect();
    let asked = figures.iter().max()?;
    let most = figures.iter().filter(|it| *it < asked).max()?;
    Some(f64::from(*most) / f64::from(*asked))
}

#[cfg(test)]
mod tests {
    use contexture_message::Tokens;

    use super::{Learned, named_share};

    #[test]
    fn refusals_name_what_fits() {
        let share = |text: &str| named_share(text).map(|it| (it * 100.0) as u32);
        assert_eq!(share("prompt is too long: 10000 tokens > 8000 maximum"), Some(80));
        assert_eq!(share("maximum context length is 8,192 tokens, you sent 16,384"), Some(50));
        assert_eq!(share("prompt is too long"), None);
        assert_eq!(share("error 413"), None);
    }

    #[test]
    fn a_refusal_leaves_what_was_answered_before_or_half() {
        let mut learned = Learned::default();
        learned.refused(Tokens(10_000), "too long");
        assert_eq!(learned.most, Some(Tokens(5_000)));
        let mut learned = Learned { answered: Tokens(8_000), ..Learned::default() };
        learned.refused(Tokens(10_000), "too long");
        assert_eq!(learned.most, Some(Tokens(8_000)));
        learned.refused(Tokens(10_000), "too long: 10000 tokens > 6000 maximum");
        assert_eq!(learned.most, Some(Tokens(6_000)));
    }

    #[test]
    fn what_was_reported_is_projected() {
        let mut learned = Learned::default();
        assert_eq!(learned.projected(Tokens(2_000)), Tokens(2_000));
        learned.answered(Tokens(2_000), 7_600, true);
        assert_eq!(learned.projected(Tokens(2_100)), Tokens(7_800));
        assert_eq!(learned.projected(Tokens(1_000)), Tokens(5_600));
    }
}
