//! A pass: the request, and why it looks the way it does.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use contexture_history::Envelope;
use contexture_history::neutral::neutralise_envelopes;
use contexture_message::{Message, Request, Role, Tokens, Usage};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use crate::cache::{Digests, Forecast, Reconciliation, Sent};
use crate::evaluated::{Evaluated, Reuse, ReuseExtent};
use crate::options::ResolveOptions;
use crate::segment::{Body, FrozenBody, Segment, SharedTool, Slot};
use crate::stages::arrange::Arranged;
use crate::stages::draft::{Extras, envelope_of, reminders_of};
use crate::stages::explain::{Explanation, explain};
use crate::stages::record::record;
use crate::stages::render::Rendered;

/// One resolution of a Prompt: the request, and why it looks the way it does. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pass(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) prompt: String,
    pub(crate) arranged: Arranged,
    pub(crate) rendered: Rendered,
    /// Results that later passes reuse.
    pub(crate) evaluated: Arc<Evaluated>,
    /// The request that this one was compared with.
    pub(crate) before: Option<Arc<Sent>>,
    /// What the next request is compared with; computed on demand.
    pub(crate) sent: OnceLock<Arc<Sent>>,
    pub(crate) fingerprint: OnceLock<String>,
    /// What the provider read from its cache, once it has answered; `None` if it did not report it.
    pub(crate) reconciliation: OnceLock<Option<Reconciliation>>,
}

/// The content of a block in the frozen prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrozenBlock {
    /// The block's name, as written in its tag.
    pub name: Arc<str>,
    /// The rendered body without the tag; empty if the block was empty.
    pub body: Arc<str>,
    /// The hash of the body.
    pub hash: String,
}

impl Pass {
    /// Returns the prompt's id.
    pub fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// Returns the request to send.
    pub fn request(&self) -> &Request {
        &self.0.rendered.request
    }

    /// Returns the text of the composed system message, if there is one.
    pub fn system(&self) -> Option<&str> {
        self.0.arranged.system.as_deref().and_then(Message::as_text)
    }

    /// Returns the text of the last message, if it is a user message.
    pub fn user(&self) -> Option<String> {
        let last = self.request().messages.last().filter(|it| it.role == Role::User)?;
        Some(last.joined_text())
    }

    /// Returns the tool with that name that the request offers, with its runner.
    pub fn tool(&self, name: &str) -> Option<&SharedTool> {
        // Tools are the last Segments, so a long history costs nothing here.
        self.segments().iter().rev().take_while(|it| it.slot == Slot::Tools).find_map(|it| match &it.body {
            Body::Tool(tool) if tool.tool().name == name => Some(tool),
            _ => None,
        })
    }

    /// Returns the metadata that contributors added for the application, by source.
    pub fn metadata(&self) -> &BTreeMap<String, BTreeMap<String, Value>> {
        &self.extras().metadata
    }

    /// Returns the token count of the whole request.
    pub fn total_tokens(&self) -> Tokens {
        self.0.arranged.draft.usage.total
    }

    /// Returns whether that is the provider's own count, not an estimate.
    pub fn is_counted_exactly(&self) -> bool {
        self.0.arranged.draft.usage.exact
    }

    /// Returns what the provider should read from its cache, if it is known what was sent before.
    pub fn forecast(&self) -> Option<&Forecast> {
        self.0.arranged.cache.forecast.as_ref()
    }

    /// Returns whether the request begins with a composed system message.
    pub fn has_system(&self) -> bool {
        self.0.arranged.system.is_some()
    }

    /// Explains why the request looks the way it does. Reads the existing Segments and runs nothing again.
    pub fn explain(&self) -> Explanation {
        let mut explanation = self.explain_as_sent();
        match self.0.reconciliation.get() {
            Some(Some(compared)) => explanation.cache.reconciliation = Some(compared.clone()),
            // The provider reported no usage to compare the forecast with.
            Some(None) => explanation.cache.forecast = None,
            None => {}
        }
        explanation
    }

    /// Returns the explanation as it was before the call, whether or not the provider has answered by now.
    pub fn explain_as_sent(&self) -> Explanation {
        explain(&self.0.arranged, self.request(), self.fingerprint(), &self.digests())
    }

    /// Returns a record of the request, for the forecast of the thread's next pass.
    pub fn sent(&self) -> Arc<Sent> {
        let Inner { arranged, rendered, sent, .. } = &*self.0;
        Arc::clone(sent.get_or_init(|| Arc::new(record(arranged, rendered))))
    }

    /// Compares the forecast, if there is one, with what the provider reported after the call. The first report is
    /// kept and included in later explanations; further ones are ignored. If the provider reports nothing, later
    /// explanations contain no forecast.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use contexture_compose::{Prompt, ResolveOptions};
    /// use contexture_message::Usage;
    ///
    /// let prompt = Prompt::builder("p").system("Be brief.").build()?;
    /// let first = prompt.resolve(ResolveOptions::default()).await?;
    /// let pass = prompt.resolve(ResolveOptions::default().previous(&first)).await?;
    /// let compared = pass.reconcile(Usage { cache_read_tokens: Some(3), ..Usage::default() });
    /// assert_eq!(compared.as_ref().map(|it| it.broken), Some(false));
    /// assert_eq!(pass.explain().cache.reconciliation, compared);
    /// # Ok::<(), contexture_compose::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn reconcile(&self, usage: Usage) -> Option<Reconciliation> {
        let forecast = self.0.arranged.cache.forecast.as_ref()?;
        let reported = usage.cache_read_tokens.map(|it| Tokens(u32::try_from(it).unwrap_or(u32::MAX)));
        self.0.reconciliation.get_or_init(|| reported.map(|it| forecast.reconcile(it))).clone()
    }

    /// Returns all Segments in order, including those that are not sent.
    pub fn segments(&self) -> &[Segment] {
        &self.0.arranged.draft.segments
    }

    /// Returns the content of the blocks in the frozen prefix, in order, so that the thread can keep it. Passed in as
    /// [`CacheState::frozen`](crate::CacheState::frozen), it gives the same bytes in every later pass.
    pub fn frozen_blocks(&self) -> Vec<FrozenBlock> {
        let bodies = self.segments().iter().filter_map(|it| it.frozen.as_ref());
        let block = |FrozenBody { name, body }: &FrozenBody| FrozenBlock {
            name: Arc::clone(name),
            body: Arc::clone(body),
            hash: format!("{:032x}", xxh3_128(body.as_bytes())),
        };
        bodies.map(block).collect()
    }

    /// Returns this pass's `<system-context>` envelope, if it has one. If stored with the
    /// turn's items, it replays the same bytes, see [`InFlightTurn::Recorded`](crate::InFlightTurn::Recorded).
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use contexture_compose::{Prompt, ResolveOptions};
    ///
    /// let prompt = Prompt::builder("p").build()?;
    /// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi").block("page", "7")).await?;
    /// assert_eq!(pass.envelope().unwrap().text, "<page>\n7\n</page>");
    /// # Ok::<(), contexture_compose::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn envelope(&self) -> Option<Envelope> {
        let envelope = envelope_of(&self.0.arranged.draft)?;
        Some(Envelope { text: neutralise_envelopes(&envelope.text).into_owned(), ..envelope })
    }

    /// Returns this pass's `<system-reminders>` envelope, if contributors made one. It is stored like
    /// [`envelope`](Self::envelope), after it.
    pub fn reminders(&self) -> Option<Envelope> {
        let envelope = reminders_of(&self.0.arranged.draft)?;
        Some(Envelope { text: neutralise_envelopes(&envelope.text).into_owned(), ..envelope })
    }

    /// Returns what contributors added besides text and tools.
    pub fn extras(&self) -> &Extras {
        &self.0.arranged.draft.extras
    }

    /// Returns the hash of the request: equal requests have equal fingerprints.
    pub fn fingerprint(&self) -> &str {
        self.0.fingerprint.get_or_init(|| {
            let Request { model, messages, tools, tool_choice, output, settings, breakpoints } =
                self.request();
            let rest = (model, tools, tool_choice, output, settings, breakpoints);
            // Plain data with string keys always serializes.
            let mut bytes = serde_json::to_vec(&rest).unwrap_or_default();
            let digests = self.digests();
            messages.iter().for_each(|it| bytes.extend(digests.of(it).to_le_bytes()));
            format!("{:032x}", xxh3_128(&bytes))
        })
    }

    /// Returns the digests of the request's messages.
    fn digests(&self) -> Arc<Digests> {
        let sent = self.sent();
        let before = self.0.before.as_ref().and_then(|it| it.digests.get());
        let digests = || Arc::new(Digests::new(&self.request().messages, before.map(|it| &**it)));
        Arc::clone(sent.digests.get_or_init(digests))
    }
}

impl Reuse {
    /// Reuses what does not change with the turn from the previous step of the same turn.
    pub fn previous_step(pass: &Pass) -> Self {
        Self { results: Arc::clone(&pass.0.evaluated), extent: ReuseExtent::Step }
    }

    /// Reuses everything from the same call, resolved before more of its turn was recorded: nothing is evaluated a
    /// second time, except the frozen prefix.
    pub fn same_call(pass: &Pass) -> Self {
        Self { results: Arc::clone(&pass.0.evaluated), extent: ReuseExtent::Call }
    }
}

impl ResolveOptions {
    /// Keeps the frozen prefix of an earlier pass.
    #[must_use]
    pub fn frozen_by(mut self, pass: &Pass) -> Self {
        self.cache.frozen.extend(pass.frozen_blocks().into_iter().map(|it| (it.name.to_string(), it.body)));
        self
    }

    /// Sets the previous pass of the thread, for the cache forecast.
    #[must_use]
    pub fn previous(mut self, pass: &Pass) -> Self {
        self.cache.previous = Some(pass.sent());
        self
    }
}
