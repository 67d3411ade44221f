//! Runs the stages in order. No other module knows the order.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use contexture_message::{Message, Part, Role};

use crate::cache::{Forecast, Outlook, Sent, forecast};
use crate::define::catch_panic_in;
use crate::evaluated::{Reuse, ReuseExtent};
use crate::lower::Compiled;
use crate::pass::Inner;
use crate::ports::EngineEvent;
use crate::stages::arrange::arrange;
use crate::stages::draft::Draft;
use crate::stages::fit::fit;
use crate::stages::gate::{gate, gate_input};
use crate::stages::gather::{evaluated, gather};
use crate::stages::merge::merge;
use crate::stages::record::record;
use crate::stages::render::render;
use crate::stages::rewrite::{HeldBlocks, rewrite};
use crate::stages::setup::Setup;
use crate::{CacheRules, Engine, Error, InFlightTurn, Pass, Prompt, ResolveOptions, Source, Turn};

impl<In, Out> Prompt<In, Out> {
    /// Returns the message that the prompt's `user_message` makes of the input, see
    /// [`said_by_user`](crate::PromptBuilder::said_by_user). A blank one is none.
    pub async fn said_message(&self, options: &ResolveOptions) -> Result<Option<Message>, Error> {
        let said = said_message(self.compiled(), self.engine(), options).await;
        said.map_err(|err| err.or_at(self.definition().file.as_deref().unwrap_or(self.id())))
    }

    /// Resolves the prompt for an input, without calling a model.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use contexture_compose::{Prompt, ResolveOptions, Text};
    /// use serde_json::json;
    ///
    /// let prompt = Prompt::builder("hello")
    ///     .system("You are brief.")
    ///     .user(Text::template("Greet {{ input.name }}.")?)
    ///     .build()?;
    /// let pass = prompt.resolve(ResolveOptions::new(json!({"name": "Ada"}))).await?;
    /// assert_eq!(pass.request().messages[1].as_text(), Some("Greet Ada."));
    /// assert!(pass.explain().total_tokens.0 > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn resolve(&self, options: ResolveOptions) -> Result<Pass, Error> {
        let hooks = self.hooks();
        match run_said(self.compiled(), self.engine(), options).await {
            Ok(pass) => {
                hooks.prepared(&pass);
                Ok(pass)
            }
            Err(err) => {
                let err = err.or_at(self.definition().file.as_deref().unwrap_or(self.id()));
                hooks.failed(&err);
                Err(err)
            }
        }
    }
}

async fn run_said(prompt: &Compiled, engine: &Engine, mut options: ResolveOptions) -> Result<Pass, Error> {
    // What was settled for the turn, or recorded, is not replaced: a guardrail may have removed it.
    if options.conversation.user.is_none() {
        let turn = options.conversation.turn.take();
        options.conversation.turn = match turn {
            None if !options.conversation.in_flight.iter().any(|it| has_user_text(it)) => {
                let said = said_message(prompt, engine, &options).await?;
                said.map(|it| InFlightTurn::New(Turn::new(IN_FLIGHT, vec![it])))
            }
            Some(InFlightTurn::New(turn)) if !turn.messages().iter().any(|it| has_user_text(it)) => {
                let said = said_message(prompt, engine, &options).await?;
                let messages = turn.messages().to_vec();
                let messages = said.map(|it| with_said(messages, it));
                Some(InFlightTurn::New(messages.map_or(turn.clone(), |it| turn.with_messages(it))))
            }
            turn => turn,
        };
    }
    run(prompt, engine, &options).await
}

/// The id of a turn that no log holds.
const IN_FLIGHT: &str = "in_flight";

/// Puts a text before what the user attached, or at the beginning of the turn.
fn with_said(mut messages: Vec<Arc<Message>>, said: Message) -> Vec<Arc<Message>> {
    match messages.iter_mut().find(|it| it.role == Role::User) {
        Some(first) => {
            let mut content = said.content;
            content.extend(first.content.iter().cloned());
            *first = Arc::new(Message { content, ..(**first).clone() });
        }
        None => messages.insert(0, Arc::new(said)),
    }
    messages
}

/// Whether the message has words of the user. Nothing in a turn that begins is written by the engine.
fn has_user_text(message: &Message) -> bool {
    let is_text = |it: &Part| matches!(it, Part::Text { text, .. } if !text.trim().is_empty());
    message.role == Role::User && message.content.iter().any(is_text)
}

/// Returns the message that the prompt's `user_message` makes of the input, unless it is blank.
async fn said_message(
    prompt: &Compiled,
    engine: &Engine,
    options: &ResolveOptions,
) -> Result<Option<Message>, Error> {
    let Some(text) = &prompt.definition.user_message else { return Ok(None) };
    let call = gate_input(prompt, &Setup::new(prompt, engine, options).call())?;
    let failed = |err| Error::of_function(&Source::User, "`user_message`", err);
    let text =
        catch_panic_in(|| async { text.evaluate(&call).wait_original().await }).await.map_err(failed)?;
    Ok(Some(Message::user(text)).filter(|it| !it.is_blank()))
}

async fn run(prompt: &Compiled, engine: &Engine, options: &ResolveOptions) -> Result<Pass, Error> {
    let setup = Setup::new(prompt, engine, options);
    let Fitted { mut draft, mut reuse, held } =
        fitted(&setup, &BTreeSet::new(), options.reuse.as_ref()).await?;
    let dropped = held.dropped(&draft.segments);
    if held.besides(&dropped) != held.besides(&BTreeSet::new()) {
        // Dropped turns took their conversation blocks with them, so this turn repeats those blocks.
        Fitted { draft, reuse, .. } = fitted(&setup, &dropped, Some(&reuse)).await?;
    }
    let mut arranged = arrange(draft, &setup);
    let rendered = render(&arranged);
    let sent = OnceLock::new();
    if let Some(before) = &options.cache.previous {
        let now = sent.get_or_init(|| Arc::new(record(&arranged, &rendered)));
        arranged.cache.forecast = cache_forecast(&setup, before, now, arranged.rules);
    }
    report(&setup, &arranged.draft);
    let prompt = prompt.definition.id.clone();
    let (fingerprint, reconciliation, evaluated) = (OnceLock::new(), OnceLock::new(), reuse.results);
    let before = options.cache.previous.clone();
    Ok(Pass(Arc::new(Inner {
        prompt,
        arranged,
        rendered,
        evaluated,
        before,
        sent,
        fingerprint,
        reconciliation,
    })))
}

/// A draft that fits, and the results it was made from.
struct Fitted {
    draft: Draft,
    reuse: Reuse,
    held: HeldBlocks,
}

/// Runs the stages up to `fit`. Conversation blocks that are only in `left_out` turns are rendered again.
async fn fitted(
    setup: &Setup<'_>,
    left_out: &BTreeSet<Arc<str>>,
    reuse: Option<&Reuse>,
) -> Result<Fitted, Error> {
    let Setup { prompt, options, .. } = setup;
    let conversation = &options.conversation;
    let rewritten = rewrite(conversation, &prompt.definition.transforms, &options.additions.transforms)?
        .previewed(conversation, &*setup.counter);
    let held = HeldBlocks::of(setup, &rewritten);
    let gated = gate(prompt, options, &setup.call().with_held_blocks(held.besides(left_out)))?;
    let gathered = gather(gated, setup, &rewritten, reuse).await?; // The only stage that waits for anything.
    let reuse = Reuse { results: Arc::new(evaluated(&gathered)), extent: ReuseExtent::Call };
    let draft = fit(merge(gathered, setup, rewritten)?, setup)?;
    Ok(Fitted { draft, reuse, held })
}

/// Returns what the provider should read from its cache. A provider that did not report what it read before will not
/// report it now.
fn cache_forecast(setup: &Setup<'_>, before: &Sent, now: &Sent, rules: CacheRules) -> Option<Forecast> {
    let (idle, price) = (setup.options.cache.idle, setup.options.target.price);
    let outlook = Outlook { rules, idle, price, counter: &*setup.counter };
    let is_silent = before.is_unreported && before.model == now.model;
    (!is_silent).then(|| forecast(before, now, &outlook))
}

fn report(setup: &Setup<'_>, draft: &Draft) {
    let (prompt, total_tokens) = (&setup.prompt.definition.id, draft.usage.total.0);
    setup.engine.sink.record(EngineEvent::Resolved { prompt: prompt.clone(), total_tokens });
    draft.warnings.iter().for_each(|it| setup.engine.diagnostics.warn(prompt, it));
}
