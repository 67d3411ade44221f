//! Runs the contributors, all at once. The only stage that waits for anything.
//!
//! In comes the list of who takes part, out come their contributions in the same order, whatever finished
//! first. A contributor may have a deadline; its failure ends the pass, or leaves it out with a reason,
//! as its `on_error` says. Entries that a contributor returns are lowered, gated and gathered in its place.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, join_all, select, try_join};
use xxhash_rust::xxh3::xxh3_128;

use crate::engine::{Engine, Setup};
use crate::gate::{Gated, Step, gate_reentered};
use crate::lower::{Node, lower_reentered};
use crate::own::{Own, own_texts};
use crate::ports::{Event, MemoKey};
use crate::{BoxError, Call, Contribution, Error, ErrorKind, OnError, Priority, Source};

/// What everyone contributed, in resolved order.
pub(crate) struct Gathered {
    pub(crate) call: Call,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) own: Own,
    pub(crate) timings: Vec<Timing>,
    pub(crate) warnings: Vec<String>,
}

/// What came of one position.
pub(crate) enum Outcome {
    /// A contribution.
    Contributed { node: Arc<Node>, contribution: Arc<Contribution> },
    /// Nothing, for this reason.
    Excluded { source: Source, priority: Priority, reason: String },
}

/// How long a contributor took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Who.
    pub source: Source,
    /// How long.
    pub took: Duration,
}

/// Runs all contributors of a pass, and the prompt's own functions beside them.
pub(crate) async fn gather(gated: Gated, setup: &Setup<'_>) -> Result<Gathered, Error> {
    let Gated { call, steps } = gated;
    let gathering = Gathering { prompt_id: setup.prompt.id(), engine: setup.engine, call: &call };
    let warnings = gathering.clock_warnings(&steps);
    let (own, mut done) = try_join(own_texts(setup, &call), gathering.steps(steps, 0)).await?;
    let outcomes = done.iter_mut().flat_map(|it| std::mem::take(&mut it.outcomes)).collect();
    let timings = done.into_iter().flat_map(|it| it.timings).collect();
    Ok(Gathered { outcomes, own, timings, warnings, call })
}

struct Gathering<'a> {
    prompt_id: &'a str,
    engine: &'a Engine,
    call: &'a Call,
}

/// One position and everything that was re-entered there.
#[derive(Default)]
struct Done {
    outcomes: Vec<Outcome>,
    timings: Vec<Timing>,
}

impl<'a> Gathering<'a> {
    fn steps(&'a self, steps: Vec<Step>, depth: usize) -> BoxFuture<'a, Result<Vec<Done>, Error>> {
        async move {
            let all = join_all(steps.into_iter().map(|it| self.step(it, depth))).await;
            // The first error in resolved order, so that the same input gives the same error.
            all.into_iter().collect()
        }
        .boxed()
    }

    async fn step(&'a self, step: Step, depth: usize) -> Result<Done, Error> {
        let node = match step {
            Step::Excluded { source, priority, reason } => {
                let outcomes = vec![Outcome::Excluded { source, priority, reason }];
                return Ok(Done { outcomes, timings: Vec::new() });
            }
            Step::Active(node) => node,
        };
        let started = self.engine.clock.now();
        let result = self.within_deadline(&node).await;
        let took = self.engine.clock.now().saturating_sub(started);
        let source = node.source.clone();
        self.engine.sink.record(Event::Contributed { source: source.clone(), took, ok: result.is_ok() });
        let timings = vec![Timing { source: source.clone(), took }];
        match result {
            Ok(contribution) => self.reenter(node, contribution, timings, depth).await,
            Err(err) if node.profile.on_error == OnError::Skip => {
                let (priority, reason) = (node.profile.priority, format!("skipped: {err}"));
                let outcomes = vec![Outcome::Excluded { source, priority, reason }];
                Ok(Done { outcomes, timings })
            }
            Err(err) => Err(err),
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
        let Some(ttl) = node.profile.remember else {
            return node.contributor.contribute(self.call.clone()).await.map(Arc::new).map_err(failed);
        };
        let (owner, call) = (Arc::clone(node), self.call.clone());
        let make = async move { owner.contributor.contribute(call).await.map(Arc::new).map_err(Arc::new) };
        let now = self.engine.clock.now();
        let outcome = self.engine.memo.remember(self.memo_key(node), now, ttl, make.boxed()).await;
        outcome.map_err(|err| failed(shared_error(&err)))
    }

    fn memo_key(&self, node: &Node) -> MemoKey {
        let Call { input, scope, config, .. } = self.call;
        // Serialising plain JSON can't fail; an empty key would only mean a missed chance to remember.
        let read = serde_json::to_vec(&(input.value(), &**scope, &**config)).unwrap_or_default();
        MemoKey { owner: format!("{}/{}", self.prompt_id, node.source), input: xxh3_128(&read) }
    }

    async fn reenter(
        &'a self,
        node: Arc<Node>,
        contribution: Arc<Contribution>,
        timings: Vec<Timing>,
        depth: usize,
    ) -> Result<Done, Error> {
        let entries = contribution.entries.clone();
        let source = node.source.clone();
        let mut done = Done { outcomes: vec![Outcome::Contributed { node, contribution }], timings };
        if entries.is_empty() {
            return Ok(done);
        }
        let items = lower_reentered(&entries, &source, depth + 1)?;
        let steps = gate_reentered(&items, self.call)?;
        for again in self.steps(steps, depth + 1).await? {
            done.outcomes.extend(again.outcomes);
            done.timings.extend(again.timings);
        }
        Ok(done)
    }

    fn clock_warnings(&self, steps: &[Step]) -> Vec<String> {
        let has_deadline = |step: &Step| match step {
            Step::Active(node) if node.profile.deadline.is_some() => Some(node.source.clone()),
            Step::Active(_) | Step::Excluded { .. } => None,
        };
        let waiting = steps.iter().filter(|_| !self.engine.clock.runs()).filter_map(has_deadline);
        waiting.map(|it| format!("{it} has a deadline, but the engine has no clock to keep it")).collect()
    }
}

/// A failure that several callers share is told to each of them in its own words.
fn shared_error(err: &BoxError) -> BoxError {
    match err.downcast_ref::<contexture_template::Error>() {
        Some(fault) => Box::new(fault.clone()),
        None => err.to_string().into(),
    }
}
