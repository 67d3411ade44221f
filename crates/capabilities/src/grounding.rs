//! The entry `grounding`: numbered evidence, how to cite it, and the check of the citations.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_agent::{CheckOutcome, Checked, Tool, constraint};
use contexture_compose::{
    BoxError, BoxFuture, Call, Constraint, Context, Contribution, Contributor, ConversationUse, Declaration,
    Entry, OnError, Pass, Piece, Placement, Priority, Profile, Scope, Source, Text, Trust,
};
use contexture_knowledge::grounding::{
    CitationRule, GroundingRules, KnownEvidence, QuoteRule, cards as evidence_cards, check,
};
use contexture_message::{Message, Part, Role, counter_for};
use serde_json::{Value, json};

use crate::base::KnowledgeBase;
use crate::cards;
use crate::pieces::{HitForm, pieces};
use crate::query::QueryTemplate;
use crate::retrieval::Inject;
use crate::search::{DEFAULT_TOP_K, Search};
use crate::tools;

/// An entry that grounds answers in evidence. Make it with [`grounding`].
#[derive(Clone)]
pub struct Grounding {
    id: String,
    search: Search,
    inject: Inject,
    rules: GroundingRules,
    priority: Priority,
    on_error: OnError,
}

/// Returns an entry that gives the model numbered evidence of some bases, tells it how to cite, and checks the citations
/// of its answers. An answer that fails is made again with the complaint; the outcome has the citations and a report.
///
/// ```
/// # use std::sync::Arc;
/// # use contexture_compose::{BoxFuture, Prompt, ResolveOptions};
/// # use contexture_knowledge::{Hit, Query, RetrieveError, Retrieved, Retriever};
/// # use contexture_message::Part;
/// # struct Handbook;
/// # impl Retriever for Handbook {
/// #     fn base(&self) -> &str { "handbook" }
/// #     fn retrieve(&self, _: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>> {
/// #         let hit = Hit {
/// #             base: "handbook".into(), chunk: "12".into(), text: "Refunds take 30 days.".into(), score: 0.9,
/// #             shares: Default::default(), document: Default::default(),
/// #         };
/// #         Box::pin(async { Ok(Retrieved { hits: vec![hit], notes: Vec::new() }) })
/// #     }
/// # }
/// # futures::executor::block_on(async {
/// use contexture_capabilities::{KnowledgeBase, grounding};
///
/// let handbook = KnowledgeBase::new(Arc::new(Handbook));
/// let prompt = Prompt::builder("support").include(grounding(vec![handbook])).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("How long do refunds take?")).await?;
/// let user = pass.request().messages.last().unwrap();
/// let Part::Evidence(evidence) = &user.content[1] else { panic!() };
/// assert_eq!(evidence.chunk, "handbook:12");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn grounding(bases: Vec<KnowledgeBase>) -> Grounding {
    let id = bases.iter().map(KnowledgeBase::name).collect::<Vec<_>>().join("+");
    let search = Search {
        bases,
        query: None,
        top_k: DEFAULT_TOP_K,
        min_score: 0.0,
        steps: Vec::new(),
        counter: counter_for(None),
    };
    Grounding {
        id,
        search,
        inject: Inject::Context,
        rules: GroundingRules::default(),
        priority: Priority::DEFAULT,
        on_error: OnError::Skip,
    }
}

impl Grounding {
    /// Sets the id, by default made of the names of the bases.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Sets what to search for; by default the user's text with the last turn.
    #[must_use]
    pub fn query(mut self, query: QueryTemplate) -> Self {
        self.search.query = Some(query);
        self
    }

    /// Sets how much evidence to take at most.
    #[must_use]
    pub fn top_k(mut self, top_k: usize) -> Self {
        self.search.top_k = top_k.min(contexture_session::sources::MAX_HITS);
        self
    }

    /// Leaves out evidence below this score.
    #[must_use]
    pub fn min_score(mut self, min_score: f64) -> Self {
        self.search.min_score = min_score;
        self
    }

    /// Sets how the model gets at the evidence.
    #[must_use]
    pub fn inject(self, inject: Inject) -> Self {
        Self { inject, ..self }
    }

    /// Sets whether answers must cite.
    #[must_use]
    pub fn citations(mut self, citations: CitationRule) -> Self {
        self.rules.citations = citations;
        self
    }

    /// Sets whether citations must quote.
    #[must_use]
    pub fn quotes(mut self, quotes: QuoteRule) -> Self {
        self.rules.quotes = quotes;
        self
    }

    /// Sets the share of sentences that must have a citation, from 0 to 1.
    #[must_use]
    pub fn min_coverage(mut self, share: f64) -> Self {
        self.rules.min_coverage = share;
        self
    }

    /// Sets the priority of the best evidence under a budget; the rest follows below it.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sets what happens to the pass if a base can't be searched; by default the reason is recorded.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns the part that puts evidence into the request, with the instruction and the check.
    pub fn as_context(&self) -> Entry {
        self.clone().inject(Inject::Context).into()
    }

    /// Returns the tools for a caller, for prompts and agents that are composed by hand.
    pub fn as_tools(&self, scope: &Scope) -> Vec<Tool> {
        self.search.bases.iter().flat_map(|it| tools::tools(it, scope)).collect()
    }

    /// Returns the check of citations, for prompts that are composed by hand.
    pub fn as_constraint(&self) -> Constraint {
        let (owner, rules) = (self.owner(), self.rules);
        let must_search = self.inject == Inject::Tool && rules.citations == CitationRule::Required;
        let searches: Vec<String> = match must_search {
            true => self.search.bases.iter().map(tools::search_name).collect(),
            false => Vec::new(),
        };
        constraint(self.owner(), move |answer: Checked| {
            let outcome = match is_unsearched(&answer.pass, &searches) {
                true => unsearched(&searches),
                false => outcome(&answer, &owner, &rules),
            };
            async { outcome }
        })
    }

    fn owner(&self) -> String {
        format!("grounding:{}", self.id)
    }

    /// Returns the instruction how to cite.
    fn instruction(&self) -> String {
        let citations = match self.rules.citations {
            CitationRule::Required => include_str!("templates/cite_required.txt"),
            CitationRule::Optional => include_str!("templates/cite_optional.txt"),
        };
        let quotes = match self.rules.quotes {
            QuoteRule::Required => include_str!("templates/quote_required.txt"),
            QuoteRule::Optional => include_str!("templates/quote_optional.txt"),
            QuoteRule::Off => "",
        };
        let search = if self.inject.has_tools() { include_str!("templates/search_first.txt") } else { "" };
        [search, citations, quotes]
            .iter()
            .map(|it| it.trim())
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    async fn contribution(&self, call: Call) -> Result<Contribution, BoxError> {
        let mut contribution = Contribution::default().and_constraint(self.as_constraint());
        if self.inject.has_tools() {
            contribution.tools = self.search.bases.iter().flat_map(|it| it.tools(&call.scope)).collect();
        }
        // A recorded turn has its evidence; nothing of what a search finds now would be sent.
        if call.has_envelope() {
            return Ok(contribution);
        }
        let owner = self.owner();
        if self.inject.has_context() {
            let found = self.search.run(&call).await?;
            if let Some(failure) = found.failures.first().filter(|_| self.on_error == OnError::Fail) {
                return Err(failure.clone().into());
            }
            contribution.pieces = pieces(&owner, found, HitForm::Evidence, self.priority);
        } else {
            let detail = Some(Arc::new(json!({"query": call.user_text()})));
            let source = Some(Source::Noted(Arc::from(owner.as_str())));
            contribution.pieces.push(Piece { detail, source, ..Piece::new("") });
        }
        // A hit that is left out is no reason to leave out its card.
        let shown = contribution.pieces.iter().filter(|it| it.excluded.is_none());
        let found: BTreeSet<String> =
            shown.filter_map(|it| Some(it.evidence.as_ref()?.chunk.clone())).collect();
        contribution.pieces.extend(cards::pieces(&call, &self.search.bases, &found).await);
        Ok(contribution)
    }
}

/// Whether none of these tools was called in the turn, though the answer must rest on what they find. Evidence of
/// earlier turns can be cited without another search.
fn is_unsearched(pass: &Pass, searches: &[String]) -> bool {
    let messages = &pass.request().messages;
    let was_called = messages.iter().flat_map(|it| &it.content).any(|it| match it {
        Part::ToolCall(call) => searches.contains(&call.name),
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Thinking(_)
        | Part::ToolResult(_)
        | Part::Evidence(_) => false,
    });
    !searches.is_empty() && !was_called
}

fn unsearched(searches: &[String]) -> CheckOutcome {
    let names = searches.join("`, `");
    let feedback = include_str!("templates/search_missing.txt").trim_end().replacen("{tools}", &names, 1);
    CheckOutcome { feedback: Some(feedback), ..CheckOutcome::default() }
}

/// Checks an answer. The report has the evidence cards: it is recorded with the turn, where no summary reaches it.
fn outcome(answer: &Checked, owner: &str, rules: &GroundingRules) -> CheckOutcome {
    let known = KnownEvidence::of(&answer.pass);
    let grounded = check(&answer.text, &answer.message.citations(), &known, rules);
    let cards = evidence_cards(&grounded, &known, &query_of(&answer.pass, owner));
    let mut report = json!(grounded.report);
    report["cards"] = json!(cards);
    CheckOutcome {
        feedback: grounded.report.complaint(),
        citations: grounded.citations,
        report: Some(report),
    }
}

/// Returns what an entry searched for in a pass.
fn query_of(pass: &Pass, owner: &str) -> String {
    let own = pass.segments().iter().filter(|it| it.source.to_string() == owner);
    let query = own.filter_map(|it| it.detail.as_ref()?.get("query").and_then(Value::as_str)).next();
    let asked =
        || pass.request().messages.iter().rev().find(|it| it.role == Role::User).map(|it| visible_text(it));
    query.map(str::to_owned).or_else(asked).unwrap_or_default()
}

/// Returns what a user wrote, without the hidden context behind it.
fn visible_text(message: &Message) -> String {
    let first = message.content.iter().find_map(|it| match it {
        Part::Text { text, .. } => Some(text.clone()),
        _ => None,
    });
    first.unwrap_or_default()
}

/// An entry under its id in the prompt.
struct Node {
    id: String,
    grounding: Grounding,
    instruction: Entry,
}

impl Contributor for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(self.grounding.contribution(call))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let (placement, trust) = (Placement::User, Trust::External);
        let profile = Profile { priority: self.grounding.priority, placement, trust, ..Profile::default() };
        Declaration {
            profile,
            entries: vec![self.instruction.clone()],
            family: Some("grounding".to_owned()),
            conversation: ConversationUse::AtTurnStart,
            ..Declaration::default()
        }
    }
}

impl From<Grounding> for Entry {
    fn from(grounding: Grounding) -> Self {
        let id = grounding.owner();
        let instruction = Context::text(id.clone(), Text::literal(grounding.instruction())).pinned().into();
        Entry::Contributor(Arc::new(Node { id, grounding, instruction }))
    }
}
