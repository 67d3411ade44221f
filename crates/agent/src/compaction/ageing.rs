//! Decides which parts of a thread are old: large tool results become previews, and hidden context is left out.
//!
//! Both change earlier bytes, so the provider can't read what follows from its cache. Nothing ages by itself: the
//! planner weighs what an edit saves against what it breaks, and each decision is in the log and in the Explanation.

use contexture_compose::{Edit, EditDecision, Prospect, forced, weigh};
use contexture_history::compaction::{Candidate, Exceeds, ResultLimits, candidates};
use contexture_history::{Body, Item, Seq, TurnNo};
use contexture_message::{TokenCounter, Tokens};
use contexture_session::{NewItem, SessionError, Snapshot, State, Thread};

/// The decisions about ageing.
#[derive(Debug, Default)]
pub(crate) struct Ageing {
    pub(crate) decisions: Vec<EditDecision>,
    /// The item to append, if anything ages.
    pub(crate) record: Option<NewItem>,
}

/// The conditions of the decision.
pub(crate) struct AgeingRules<'a> {
    pub(crate) limits: &'a ResultLimits,
    /// Hidden context older than this many turns may be left out.
    pub(crate) hidden_turns: Option<usize>,
    pub(crate) prospect: &'a Prospect,
    /// The reason, if ageing is forced.
    pub(crate) must: Option<&'a str>,
}

/// Decides which items count as old from now on.
pub(crate) async fn ageing(
    thread: &Thread,
    snapshot: &Snapshot,
    terms: &AgeingRules<'_>,
) -> Result<Ageing, SessionError> {
    let results = results_edit(snapshot, terms.limits, &*thread.counter()).map(|it| terms.decide(&it));
    let may_hide = terms.hidden_turns.is_some_and(|turns| snapshot.turns().len() > turns);
    if !may_hide && results.as_ref().is_none_or(|it| !it.chosen) {
        return Ok(Ageing { decisions: results.into_iter().collect(), record: None });
    }
    let items = thread.view().await?.items;
    let hidden = hidden_edit(&items, snapshot.state(), terms.hidden_turns);
    let hidden = hidden.map(|Hidden { edit, last, is_overdue }| match is_overdue && terms.must.is_none() {
        true => (forced(&edit, "it is more than twice as old as allowed"), last),
        false => (terms.decide(&edit), last),
    });
    let state = snapshot.state();
    let old = results.as_ref().filter(|it| it.chosen).map(|_| old_results(&items, terms.limits));
    let left_out = hidden.as_ref().filter(|(it, _)| it.chosen).map(|(_, seq)| *seq);
    let (old, left_out) = (old.unwrap_or(state.aged_results), left_out.unwrap_or(state.aged_hidden));
    let changes = old > state.aged_results || left_out > state.aged_hidden;
    Ok(Ageing {
        decisions: results.into_iter().chain(hidden.map(|(it, _)| it)).collect(),
        record: changes.then(|| NewItem::aged(old, left_out)),
    })
}

impl AgeingRules<'_> {
    fn decide(&self, edit: &Edit) -> EditDecision {
        match self.must {
            Some(why) => forced(edit, why),
            None => weigh(edit, self.prospect),
        }
    }
}

/// Returns what previews of all but the newest results would save. Only turns that are large enough are examined.
fn results_edit(snapshot: &Snapshot, limits: &ResultLimits, counter: &dyn TokenCounter) -> Option<Edit> {
    let turns = snapshot.turns();
    let total: usize = turns.iter().map(|it| it.n_tool_results()).sum();
    let end = total.checked_sub(limits.keep_recent_tool_results)?;
    let first = snapshot.n_old_results();
    if end <= first {
        return None;
    }
    let (mut saves, mut behind, mut number) = (Tokens(0), Tokens(0), 0);
    for turn in turns {
        let cost = turn.cost().map(|it| it.tokens);
        let range = number..number + turn.n_tool_results();
        if range.end > first && cost.is_none_or(|it| it > limits.max_tokens_per_tool_result) {
            let found = candidates(turn.messages(), limits, counter).into_iter();
            let is_passed = |it: &Candidate| (first..end).contains(&(range.start + it.number));
            let grows_old = |it: &Candidate| is_passed(it) && it.exceeds == Exceeds::Old;
            saves += found.filter(grows_old).map(|it| it.saves()).sum();
        }
        if saves > Tokens(0) {
            behind += cost.unwrap_or(Tokens(0));
        }
        number = range.end;
    }
    let name = "old tool results become previews".to_owned();
    (saves > Tokens(0)).then_some(Edit { name, saves, behind })
}

/// Returns the last position whose results are old if the limits' number of recent results is kept. Results of one
/// message age together.
fn old_results(items: &[Item], limits: &ResultLimits) -> Seq {
    let n_results = |it: &Item| {
        let message = it.body.as_message().filter(|_| it.visibility.history);
        message.map_or(0, |it| it.n_tool_results())
    };
    let mut left: usize = items.iter().map(n_results).sum();
    let mut old = Seq(0);
    for item in items.iter().filter(|it| n_results(it) > 0) {
        left -= n_results(item);
        if left < limits.keep_recent_tool_results {
            break;
        }
        old = item.seq;
    }
    old
}

/// Hidden context that is older than the limit.
struct Hidden {
    edit: Edit,
    /// The last position that is old.
    last: Seq,
    /// Whether some of it is more than twice as old as allowed: the cache may delay a policy, but not forever.
    is_overdue: bool,
}

/// Returns what leaving out old hidden context would save.
fn hidden_edit(items: &[Item], state: &State, turns: Option<usize>) -> Option<Hidden> {
    let is_new = |it: &&Item| it.seq > state.aged_hidden && matches!(it.body, Body::Envelope(_));
    let kept = turns? as u64;
    let oldest_kept = TurnNo((state.turn.0 + 1).saturating_sub(kept));
    let old: Vec<&Item> = items.iter().filter(is_new).filter(|it| it.turn < oldest_kept).collect();
    let (first, last) = (old.first()?.seq, old.last()?.seq);
    let saves = old.iter().map(|it| it.cost.tokens).sum();
    let behind =
        items.iter().filter(|it| it.seq >= first && it.visibility.history).map(|it| it.cost.tokens).sum();
    let name = "old hidden context is left out".to_owned();
    let is_overdue = old.first()?.turn.0 + kept.saturating_mul(2) <= state.turn.0;
    Some(Hidden { edit: Edit { name, saves, behind }, last, is_overdue })
}
