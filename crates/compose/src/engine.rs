//! The one place that knows the order of the stages.

use std::sync::{Arc, OnceLock};

use crate::arrange::arrange;
use crate::fit::fit;
use crate::gate::{Step, gate};
use crate::gather::{gather, known};
use crate::lower::{lower_inline, lower_providers};
use crate::merge::merge;
use crate::pass::Inner;
use crate::render::render;
use crate::rewrite::rewrite;
use crate::setup::Setup;
use crate::{Error, Pass, Prompt, ResolveOptions, Sent};

impl Prompt {
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
        match run(self, &options).await {
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
    let rewritten = rewrite(prompt, options)?.previewed(options, &*setup.counter);
    let mut gated = gate(&prompt.0, &setup.call())?;
    let inline = lower_inline(&options.blocks, |name| prompt.0.place_of(name))?;
    gated.steps.extend(inline.into_iter().map(Step::Active));
    if options.enclosed {
        gated.steps.iter_mut().for_each(Step::enclose);
    }
    let providers = lower_providers(&options.providers, |source| prompt.0.place(source))?;
    gated.steps.extend(providers.into_iter().map(Step::Active));
    let gathered = gather(gated, &setup, &rewritten).await?; // The only stage that waits for anything.
    let known = known(&gathered);
    let draft = merge(gathered, &setup, rewritten)?;
    let fitted = fit(draft, &setup)?;
    let mut arranged = arrange(fitted, &setup);
    let rendered = render(&arranged);
    let sent = OnceLock::new();
    if options.previous.is_some() {
        let now = sent.get_or_init(|| Arc::new(Sent::of(&arranged, &rendered)));
        arranged.cache.forecast = setup.forecast(now, arranged.rules);
    }
    setup.report(&arranged.draft);
    let prompt = prompt.id().to_owned();
    let (fingerprint, reconciliation) = (OnceLock::new(), OnceLock::new());
    Ok(Pass(Arc::new(Inner { prompt, arranged, rendered, known, sent, fingerprint, reconciliation })))
}
