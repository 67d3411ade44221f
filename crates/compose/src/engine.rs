//! Runs the stages in order. No other module knows the order.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::arrange::arrange;
use crate::fit::fit;
use crate::gate::{Step, gate};
use crate::gather::{Known, gather, known};
use crate::lower::{lower_inline, lower_providers};
use crate::merge::{Draft, merge};
use crate::pass::Inner;
use crate::render::render;
use crate::rewrite::rewrite;
use crate::said::SaidBlocks;
use crate::setup::Setup;
use crate::{Error, Pass, Prompt, ResolveOptions, Sent, Source};

impl<In, Out> Prompt<In, Out> {
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
        let hooks = &self.definition().hooks;
        match run(&self.untyped(), &options).await {
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

async fn run(prompt: &Prompt, options: &ResolveOptions) -> Result<Pass, Error> {
    let setup = Setup::new(prompt, options);
    let Fitted { mut draft, mut known, said } = fitted(prompt, &setup, &BTreeSet::new(), None).await?;
    let dropped = said.dropped(&draft);
    if said.besides(&dropped) != said.besides(&BTreeSet::new()) {
        // Dropped turns took their conversation blocks with them, so this turn repeats those blocks.
        Fitted { draft, known, .. } = fitted(prompt, &setup, &dropped, Some(&known)).await?;
    }
    let mut arranged = arrange(draft, &setup);
    let rendered = render(&arranged);
    let sent = OnceLock::new();
    if options.cache.previous.is_some() {
        let now = sent.get_or_init(|| Arc::new(Sent::of(&arranged, &rendered)));
        arranged.cache.forecast = setup.forecast(now, arranged.rules);
    }
    setup.report(&arranged.draft);
    let prompt = prompt.id().to_owned();
    let (fingerprint, reconciliation) = (OnceLock::new(), OnceLock::new());
    Ok(Pass(Arc::new(Inner { prompt, arranged, rendered, known, sent, fingerprint, reconciliation })))
}

/// A draft that fits, and the results it was made from.
struct Fitted {
    draft: Draft,
    known: Known,
    said: SaidBlocks,
}

/// Runs the stages up to `fit`. Conversation blocks that are only in `left_out` turns are rendered again.
async fn fitted(
    prompt: &Prompt,
    setup: &Setup<'_>,
    left_out: &BTreeSet<Source>,
    before: Option<&Known>,
) -> Result<Fitted, Error> {
    let options = setup.options;
    let conversation = &options.conversation;
    let own_transforms = &prompt.definition().transforms;
    let rewritten = rewrite(conversation, own_transforms, &options.additions.transforms)?
        .previewed(conversation, &*setup.counter);
    let said = SaidBlocks::of(setup, &rewritten);
    let mut gated = gate(&prompt.compiled, &setup.call().with_said(said.besides(left_out)))?;
    let inline = lower_inline(&options.additions.blocks, |name| prompt.compiled.place_of(name))?;
    gated.steps.extend(inline.into_iter().map(Step::Active));
    if conversation.has_envelope() {
        gated.steps.iter_mut().for_each(Step::enclose);
    }
    let providers = lower_providers(&options.additions.providers, |source| prompt.compiled.place(source))?;
    gated.steps.extend(providers.into_iter().map(Step::Active));
    let gathered = gather(gated, setup, &rewritten, before).await?; // The only stage that waits for anything.
    let known = known(&gathered);
    let draft = fit(merge(gathered, setup, rewritten)?, setup)?;
    Ok(Fitted { draft, known, said })
}
