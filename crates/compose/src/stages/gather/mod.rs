//! Runs the contributors concurrently. The only stage that awaits anything.
//!
//! Turns the list of included entries into their contributions, in the same order regardless of which finishes first.
//! A contributor may have a deadline. Its failure ends the pass or excludes it with a reason, depending on its
//! `on_error`. Entries that a contributor returns are lowered, gated and gathered in its place.

mod own;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contexture_history::window;
use contexture_message::Part;
use futures_util::future::{BoxFuture, Either, FutureExt, join_all, select, try_join};
use xxhash_rust::xxh3::xxh3_128;

use self::own::{known_user_text, own_texts, settled_user};
use super::gate::{Gated, Reentry, Step, gate_reentered};
use super::rewrite::Rewritten;
use super::setup::Setup;
use crate::define::catch_panic_in;
use crate::evaluated::{Evaluated, OwnTexts, Reuse, Timing};
use crate::lower::{Node, frozen_block, frozen_messages};
use crate::ports::{EngineEvent, MemoKey};
use crate::segment::{Reason, is_engines, is_of_the_user};
use crate::{
    BoxError, Call, Contribution, ConversationUse, Engine, Error, ErrorKind, OnError, Priority, Source, Turn,
    TurnStatus,
};

/// All contributions, in resolved order.
pub(crate) struct Gathered {
    pub(crate) call: Call,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) own: OwnTexts,
    pub(crate) timings: Vec<Timing>,
    pub(crate) warnings: Vec<String>,
}

/// The result for one position.
pub(crate) enum Outcome {
    /// The entry made a contribution.
    Contributed { node: Arc<Node>, contribution: Arc<Contribution> },
    /// The entry was excluded for this reason.
    Excluded { source: Source, priority: Priority, reason: Reason },
}

/// Runs all contributors of a pass, and concurrently the prompt's own functions.
pub(crate) async fn gather(
    gated: Gated,
    setup: &Setup<'_>,
    rewritten: &Rewritten<'_>,
    reuse: Option<&Reuse>,
) -> Result<Gathered, Error> {
    let Gated { call, steps } = gated;
    let active = steps.iter().filter_map(Step::identity).collect::<Vec<_>>();
    let conversation = OnceLock::new();
    let gathering = Gathering {
        setup,
        rewritten,
        conversation: &conversation,
        prompt_id: &setup.prompt.definition.id,
        engine: setup.engine,
        reuse,
        active: &active,
        frozen: &setup.options.cache.frozen,
        refresh: setup.options.cache.refresh,
        call: &call,
    };
    let mut warnings = gathering.clock_warnings(&steps);
    warnings.extend(setup.prompt.input.undeclared(&setup.options.input));
    let (own, done) = try_join(own(setup, reuse, &call), gathering.steps(steps, 0)).await?;
    let (mut outcomes, mut timings) = (Vec::with_capacity(done.len()), Vec::new());
    done.iter().for_each(|it| it.collect_warnings(&mut warnings));
    done.into_iter().for_each(|it| it.flatten(&mut outcomes, &mut timings));
    Ok(Gathered { outcomes, own, timings, warnings, call })
}

/// Returns the results that other passes can reuse.
pub(crate) fn evaluated(gathered: &Gathered) -> Evaluated {
    let kept = gathered.outcomes.iter().filter_map(|it| match it {
        Outcome::Contributed { node, contribution } if node.stability.literal().is_none() => {
            Some((node.identity, (Arc::clone(node), Arc::clone(contribution))))
        }
        Outcome::Contributed { .. } | Outcome::Excluded { .. } => None,
    });
    Evaluated { contributions: kept.collect(), own: gathered.own.clone() }
}

/// Resolves the prompt's own texts, or reuses those of the same call: only the user slot may have changed since.
async fn own(setup: &Setup<'_>, reuse: Option<&Reuse>, call: &Call) -> Result<OwnTexts, Error> {
    match reuse.and_then(Reuse::own_texts) {
        Some(known) => {
            let user = settled_user(setup).unwrap_or_else(|| known.user.clone());
            Ok(OwnTexts { user, ..known.clone() })
        }
        None => own_texts(setup, call).await,
    }
}

struct Gathering<'a> {
    setup: &'a Setup<'a>,
    prompt_id: &'a str,
    engine: &'a Engine,
    /// Results of an earlier pass.
    reuse: Option<&'a Reuse>,
    /// The included entries of the prompt's own tree.
    active: &'a [usize],
    /// The bodies of the thread's frozen prefix, by block name.
    frozen: &'a BTreeMap<String, Arc<str>>,
    /// Whether to evaluate the frozen prefix again, even if its contributions are still cached.
    refresh: bool,
    call: &'a Call,
    rewritten: &'a Rewritten<'a>,
    /// The conversation that context providers see; built when the first of them runs.
    conversation: &'a OnceLock<Arc<[Turn]>>,
}

/// The result of one position and of all entries that were re-entered there.
struct StepResult {
    outcome: Outcome,
    timing: Option<Timing>,
    reentered: Vec<StepResult>,
    warning: Option<String>,
}

impl StepResult {
    fn new(outcome: Outcome, timing: Option<Timing>) -> Self {
        Self { outcome, timing, reentered: Vec::new(), warning: None }
    }

    /// The recursion is bounded by the maximum nesting depth of entries.
    fn collect_warnings(&self, warnings: &mut Vec<String>) {
        warnings.extend(self.warning.clone());
        self.reentered.iter().for_each(|it| it.collect_warnings(warnings));
    }

    /// The recursion is bounded by the maximum nesting depth of entries.
    fn flatten(self, outcomes: &mut Vec<Outcome>, timings: &mut Vec<Timing>) {
        outcomes.push(self.outcome);
        timings.extend(self.timing);
        self.reentered.into_iter().for_each(|it| it.flatten(outcomes, timings));
    }
}

impl Gathering<'_> {
    fn steps(&self, steps: Vec<Step>, depth: usize) -> BoxFuture<'_, Result<Vec<StepResult>, Error>> {
        async move {
            let (mut done, mut waiting) = (Vec::with_capacity(steps.len()), Vec::new());
            for step in steps {
                match self.at_once(step) {
                    Ok(ready) => done.push(Some(Ok(ready))),
                    Err(node) => {
                        let place = done.len();
                        waiting.push(async move { (place, self.node(node, depth).await) });
                        done.push(None);
                    }
                }
            }
            for (place, result) in join_all(waiting).await {
                done[place] = Some(result);
            }
            // Returns the first error in resolved order, so that the same input gives the same error.
            done.into_iter().flatten().collect()
        }
        .boxed()
    }

    /// Returns the result if it is available immediately (an exclusion, a frozen body, or a contribution that is the
    /// same in every pass), or else the node to run.
    fn at_once(&self, step: Step) -> Result<StepResult, Arc<Node>> {
        let outcome = match step {
            Step::Excluded { source, priority, reason } => Outcome::Excluded { source, priority, reason },
            Step::Active(node) => {
                let known = self.frozen_body(&node).or_else(|| node.stability.literal().cloned());
                let Some(contribution) = known else { return Err(node) };
                let (source, took) = (node.source.clone(), Duration::ZERO);
                self.engine.sink.record(EngineEvent::Contributed { source, took, ok: true });
                Outcome::Contributed { node, contribution }
            }
        };
        Ok(StepResult::new(outcome, None))
    }

    /// Returns the contribution that the thread keeps, which is not evaluated again.
    fn frozen_body(&self, node: &Node) -> Option<Arc<Contribution>> {
        let name = node.stability.frozen_name()?;
        let body = self.frozen.get(&**name)?;
        let kept = match node.is_provider {
            true => frozen_messages(body)?,
            false => frozen_block(name, body),
        };
        Some(Arc::new(kept))
    }

    async fn node(&self, node: Arc<Node>, depth: usize) -> Result<StepResult, Error> {
        let started = self.engine.clock.now();
        let result = self.within_deadline(&node).await;
        let took = self.engine.clock.now().saturating_sub(started);
        let source = node.source.clone();
        self.engine.sink.record(EngineEvent::Contributed {
            source: source.clone(),
            took,
            ok: result.is_ok(),
        });
        let timing = Some(Timing { source: source.clone(), family: node.family.clone(), took });
        let result = match result {
            Ok(contribution) => self.reenter(&node, &contribution, depth).await.map(|it| (contribution, it)),
            Err(err) => Err(err),
        };
        match result {
            Ok((contribution, reentered)) => {
                let outcome = Outcome::Contributed { node, contribution };
                Ok(StepResult { reentered, ..StepResult::new(outcome, timing) })
            }
            Err(err) => {
                let warning = match node.profile.on_error {
                    OnError::Fail => return Err(err),
                    OnError::Skip => None,
                    OnError::Warn => Some(format!("{source} is left out: {err}")),
                };
                let (priority, reason) = (node.profile.priority, format!("skipped: {err}").into());
                let outcome = Outcome::Excluded { source, priority, reason };
                Ok(StepResult { warning, ..StepResult::new(outcome, timing) })
            }
        }
    }

    async fn within_deadline(&self, node: &Arc<Node>) -> Result<Arc<Contribution>, Error> {
        let work = self.contribution(node);
        let Some(deadline) = node.profile.deadline else { return work.await };
        match select(std::pin::pin!(work), self.engine.clock.sleep(deadline)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(ErrorKind::Deadline { owner: node.source.clone(), deadline }.into()),
        }
    }

    async fn contribution(&self, node: &Arc<Node>) -> Result<Arc<Contribution>, Error> {
        let failed = |err| Error::of_function(&node.source, "the contributor", err);
        if let Some(known) = self.reuse.and_then(|it| it.contribution(node)) {
            return Ok(known);
        }
        let is_refreshed = self.refresh && node.stability.frozen_name().is_some();
        let Some(ttl) = node.profile.remember.filter(|_| !is_refreshed) else {
            let call = self.call_of(node);
            return catch_panic_in(|| node.contributor.contribute(call)).await.map(Arc::new).map_err(failed);
        };
        let (owner, call) = (Arc::clone(node), self.call_of(node));
        let make = async move {
            catch_panic_in(|| owner.contributor.contribute(call)).await.map(Arc::new).map_err(Arc::new)
        };
        let now = self.engine.clock.now();
        let outcome = self.engine.memo.remember(self.memo_key(node), now, ttl, make.boxed()).await;
        outcome.map_err(|err| failed(shared_error(&err)))
    }

    fn call_of(&self, node: &Node) -> Call {
        let reads_words = node.conversation == ConversationUse::AtTurnStart;
        if !node.is_provider && !reads_words {
            return self.call.clone();
        }
        let conversation = self.conversation.get_or_init(|| self.rewritten.conversation());
        let call = self.call.with_conversation(Arc::clone(conversation));
        if !reads_words {
            return call;
        }
        let said = conversation.last().filter(|it| it.status() == TurnStatus::InFlight).map(said_in);
        let own = || known_user_text(self.setup, self.call);
        let call = call.with_user_text(said.filter(|it| !it.trim().is_empty()).unwrap_or_else(own).into());
        call.with_frozen(self.frozen.clone()).with_turns_outside(self.turns_outside(conversation))
    }

    /// Returns the turns that the prompt's history limit leaves out.
    fn turns_outside(&self, conversation: &[Turn]) -> BTreeSet<Arc<str>> {
        let Some(limit) = self.setup.prompt.definition.history.limit else { return BTreeSet::new() };
        let window = window(conversation, Some(limit), &*self.setup.counter);
        window.dropped().map(|(turn, _)| Arc::clone(turn.id())).collect()
    }

    fn memo_key(&self, node: &Node) -> MemoKey {
        let Call { input, scope, config, .. } = self.call;
        // The key leaves out the time of the request, which would make every key unique. The contribution's own time
        // to live limits its age.
        let who = (&scope.session, &scope.tenant, &scope.user);
        // Plain JSON always serializes; an empty key would only cost a cache hit.
        let read = serde_json::to_vec(&(input.value(), who, &scope.cap, &**config)).unwrap_or_default();
        let owner = format!("{}/{}/{:x}", self.prompt_id, node.place, node.stamp);
        MemoKey { owner, input: xxh3_128(&read) }
    }

    async fn reenter(
        &self,
        node: &Node,
        contribution: &Contribution,
        depth: usize,
    ) -> Result<Vec<StepResult>, Error> {
        if contribution.entries.is_empty() {
            return Ok(Vec::new());
        }
        let active = self.active.iter().copied().collect();
        let owner = Reentry { prompt: self.prompt_id, owner: &node.source, depth: depth + 1 };
        let Gated { call, steps } = gate_reentered(&contribution.entries, &owner, self.call, active)?;
        Gathering { call: &call, ..*self }.steps(steps, depth + 1).await
    }

    fn clock_warnings(&self, steps: &[Step]) -> Vec<String> {
        let needs = |step: &Step| match step {
            Step::Active(node) if node.profile.deadline.is_some() => {
                Some((node.source.clone(), "has a deadline"))
            }
            Step::Active(node) if node.profile.remember.is_some() => {
                Some((node.source.clone(), "is remembered for a time"))
            }
            Step::Active(_) | Step::Excluded { .. } => None,
        };
        let waiting = steps.iter().filter(|_| !self.engine.clock.runs()).filter_map(needs);
        waiting.map(|(it, what)| format!("{it} {what}, but the engine has no clock to keep it")).collect()
    }
}

/// Returns what the user says in a turn.
fn said_in(turn: &Turn) -> String {
    let parts = turn.messages().iter().filter(|it| is_of_the_user(it)).flat_map(|it| &it.content);
    let texts = parts.filter(|it| !is_engines(it)).filter_map(|it| match it {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Copies an error that several callers share, so that each gets its own.
fn shared_error(err: &BoxError) -> BoxError {
    match err.downcast_ref::<contexture_template::Error>() {
        Some(fault) => Box::new(fault.clone()),
        None => err.to_string().into(),
    }
}
