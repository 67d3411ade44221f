//! Checks the citations of an answer against the evidence that was sent.
//!
//! In come the answer, the citations that the provider returned, and the evidence of the pass. Out come neutral citations
//! and a report. No model is asked. The checks, in this order:
//!
//! 1. A cited chunk was sent in this pass. One that was only found does not count.
//! 2. A quote is in its chunk: the same words in the same order, apart from spelling (see [`Normal`]). Its place there is
//!    derived again. If other words come close, the report has the true ones.
//! 3. Every number, date, identifier and URL of a cited sentence is in a chunk that the sentence cites.
//! 4. Enough sentences have a citation.
//! 5. Nothing cited was cut away by the budget.
//!
//! A sentence that ends with `[none]` says that the evidence does not tell: it needs no citation. A mark that stands alone,
//! in a paragraph or an item of a list of its own, belongs to the sentence before it.
//!
//! A quotation of fewer than three words that is not in the chunk is taken for emphasis, not for a quote. An ellipsis
//! splits a quote in two. What the provider's own tools found is not evidence of the pass; it is neither checked nor
//! counted.

use std::collections::BTreeMap;
use std::ops::Range;

use contexture_message::{Citation, CitationOrigin, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{KnownEvidence, SentEvidence};
use super::facts::{SourceFacts, facts};
use super::marks::{Mark, marks, quotations};
use super::normal::Normal;
use super::report::{Fault, FaultKind, Report};
use super::sentences::{code, sentences};

/// What is demanded of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroundingRules {
    /// Whether the answer must cite evidence, if there is any.
    pub citations: CitationRule,
    /// Whether citations must quote their chunk.
    pub quotes: QuoteRule,
    /// The share of sentences that must have a citation, from 0 to 1. At least one must, if citations are required.
    pub min_coverage: f64,
}

/// Whether an answer must have citations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CitationRule {
    /// It must, if evidence was sent.
    #[default]
    Required,
    /// It may; those that it has are checked.
    Optional,
}

/// Whether citations must have quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuoteRule {
    /// Each citation must have one.
    Required,
    /// They may; those that there are are checked.
    #[default]
    Optional,
    /// Quotations are not looked at.
    Off,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounded {
    /// The citations of chunks that were sent, in the order of the answer.
    pub citations: Vec<Citation>,
    /// What was checked, and what is wrong.
    pub report: Report,
}

/// Checks an answer. `returned` are the citations of the provider, with spans in `answer`.
///
/// ```
/// use contexture_knowledge::grounding::{GroundingRules, KnownEvidence, SentEvidence, check};
///
/// let refunds = SentEvidence::new("handbook:12", "refunds.md", "Refunds take 30 days.");
/// let known = KnownEvidence { sent: vec![refunds], dropped: Vec::new() };
/// let good = check("They take 30 days [handbook:12].", &[], &known, &GroundingRules::default());
/// assert!(good.report.passed);
/// let bad = check("They take 14 days [handbook:12].", &[], &known, &GroundingRules::default());
/// assert!(bad.report.complaint().unwrap().contains("The number 14 is not in [handbook:12]"));
/// ```
pub fn check(answer: &str, returned: &[Citation], known: &KnownEvidence, rules: &GroundingRules) -> Grounded {
    let mut check = Check::new(answer, known, rules);
    check.provider(returned);
    check.text();
    check.facts();
    check.coverage();
    check.finish()
}

/// The fewest words that make a quotation a quote, if it is not in the chunk.
const QUOTE_WORDS: usize = 3;

struct Check<'a> {
    answer: &'a str,
    known: &'a KnownEvidence,
    rules: &'a GroundingRules,
    marks: Vec<Mark>,
    sentences: Vec<Span>,
    sources: BTreeMap<&'a str, SourceText<'a>>,
    citations: Vec<Citation>,
    faults: Faults,
}

/// The faults of each check.
#[derive(Default)]
struct Faults {
    sent: Vec<Fault>,
    quotes: Vec<Fault>,
    facts: Vec<Fault>,
    coverage: Vec<Fault>,
    cut: Vec<Fault>,
}

/// A source as it is searched.
struct SourceText<'a> {
    evidence: &'a SentEvidence,
    sent: Normal,
    whole: Option<Normal>,
    facts: SourceFacts,
    whole_facts: Option<SourceFacts>,
}

impl<'a> SourceText<'a> {
    fn new(evidence: &'a SentEvidence) -> Self {
        let facts_of = |text: &str| SourceFacts::new(&format!("{}\n{text}", evidence.source));
        Self {
            sent: Normal::new(&evidence.text),
            whole: evidence.whole.as_deref().map(Normal::new),
            facts: facts_of(&evidence.text),
            whole_facts: evidence.whole.as_deref().map(facts_of),
            evidence,
        }
    }
}

/// The outcome of looking for a quote.
enum Quote {
    At(Span),
    Cut,
    Missing(Option<String>),
}

impl<'a> Check<'a> {
    fn new(answer: &'a str, known: &'a KnownEvidence, rules: &'a GroundingRules) -> Self {
        let is_known = |id: &str| known.find(id).is_some() || known.dropped.iter().any(|it| it == id);
        let code = code(answer);
        let marks = marks(answer, &code, &is_known);
        let sentences = with_lone_marks(answer, sentences(answer, &code, &marks), &marks);
        let mut sources = BTreeMap::new();
        for evidence in &known.sent {
            sources.entry(evidence.chunk.as_str()).or_insert_with(|| SourceText::new(evidence));
        }
        let (citations, faults) = (Vec::new(), Faults::default());
        Self { answer, known, rules, marks, sentences, sources, citations, faults }
    }

    /// Checks the citations that the provider returned.
    fn provider(&mut self, returned: &[Citation]) {
        for citation in returned.iter().filter(|it| it.origin == CitationOrigin::Provider) {
            let at = citation.answer_span.map(|it| it.within(self.answer));
            let Some(source) = self.sources.get(citation.chunk.as_str()) else {
                self.citations.push(Citation { answer_span: at, ..citation.clone() });
                continue;
            };
            let found = citation.quote.as_deref().map(|it| look_up(source, it));
            let source_span = match &found {
                Some(Quote::At(span)) => Some(*span),
                Some(Quote::Cut | Quote::Missing(_)) | None => None,
            };
            let cited = Citation {
                answer_span: at,
                source: source.evidence.source.clone(),
                source_span,
                ..citation.clone()
            };
            self.citations.push(cited);
            let quote = citation.quote.clone().unwrap_or_default();
            self.quote_fault(at.unwrap_or(Span { start: 0, end: 0 }), &citation.chunk, &quote, found);
        }
    }

    fn quote_fault(&mut self, at: Span, chunk: &str, quote: &str, found: Option<Quote>) {
        let (chunk, quote) = (chunk.to_owned(), quote.to_owned());
        match found {
            Some(Quote::At(_)) => {}
            Some(Quote::Cut) => {
                self.faults.cut.push(Fault { at, kind: FaultKind::QuoteCut { chunk, quote } })
            }
            Some(Quote::Missing(nearest)) => {
                let kind = FaultKind::QuoteNotFound { chunk, quote, nearest };
                self.faults.quotes.push(Fault { at, kind });
            }
            None if self.rules.quotes == QuoteRule::Required => {
                self.faults.quotes.push(Fault { at, kind: FaultKind::QuoteMissing { chunk } });
            }
            None => {}
        }
    }

    /// Checks the marks in the text, with the quotations beside them.
    fn text(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        for group in self.groups(&marks) {
            let mut beside = self.quoted_before(&marks, group.start);
            beside.extend(self.quoted_behind(&marks, group.end));
            self.group(&marks[group], beside);
        }
        self.marks = marks;
    }

    /// Returns the marks that directly follow each other in one sentence. They share what is quoted before them.
    fn groups(&self, marks: &[Mark]) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (idx, mark) in marks.iter().enumerate() {
            let gap = |last: &Mark| self.answer.get(last.span.end..mark.span.start).unwrap_or_default();
            let follows = |last: &Mark| {
                gap(last).trim().is_empty()
                    && self.sentence_at(last.span.start) == self.sentence_at(mark.span.start)
            };
            match groups.last_mut() {
                Some(group) if follows(&marks[idx - 1]) => group.end = idx + 1,
                _ => groups.push(idx..idx + 1),
            }
        }
        groups
    }

    fn group(&mut self, marks: &[Mark], beside: Vec<Span>) {
        let mut chunks: Vec<(Span, &str)> = Vec::new();
        let mut n_quotes = 0;
        for (mark, entry) in marks.iter().flat_map(|mark| mark.entries.iter().map(move |it| (mark, it))) {
            if !self.is_sent(mark.span, &entry.id) {
                continue;
            }
            chunks.push((mark.span, &entry.id));
            if let Some(quote) = entry.quote.filter(|_| self.rules.quotes != QuoteRule::Off) {
                n_quotes += 1;
                self.quotes(quote, &[(mark.span, &entry.id)], true);
            }
        }
        if self.rules.quotes != QuoteRule::Off {
            for quote in beside {
                n_quotes += usize::from(self.quotes(quote, &chunks, false));
            }
        }
        for (at, chunk) in chunks {
            let is_it = |it: &Citation| it.chunk == chunk && it.answer_span == Some(at);
            if !self.citations.iter().rev().any(is_it) {
                self.cite(at, chunk, None);
                self.quote_fault(at, chunk, "", (n_quotes > 0).then_some(Quote::At(at)));
            }
        }
    }

    /// Whether a chunk was sent; a fault is noted if it was not.
    fn is_sent(&mut self, at: Span, chunk: &str) -> bool {
        if self.sources.contains_key(chunk) {
            return true;
        }
        let chunk = chunk.to_owned();
        let kind = match self.known.dropped.contains(&chunk) {
            true => FaultKind::DroppedChunk { chunk },
            false => FaultKind::UnknownChunk { chunk },
        };
        self.faults.sent.push(Fault { at, kind });
        false
    }

    /// Returns the quotations between a mark and the mark before it, in the same sentence.
    fn quoted_before(&self, marks: &[Mark], idx: usize) -> Vec<Span> {
        let mark = marks[idx].span;
        let Some(sentence) = self.sentence_at(mark.start) else { return Vec::new() };
        let before = idx.checked_sub(1).map_or(0, |it| marks[it].span.end);
        let start = before.max(sentence.start);
        quotations(self.answer, start..mark.start.max(start))
    }

    /// Returns the quotations behind the last mark of a sentence, as in `[handbook:12] says "within 30 days"`.
    fn quoted_behind(&self, marks: &[Mark], end: usize) -> Vec<Span> {
        let Some(last) = end.checked_sub(1).and_then(|it| marks.get(it)) else { return Vec::new() };
        let Some(sentence) = self.sentence_at(last.span.start) else { return Vec::new() };
        let is_last = marks.get(end).is_none_or(|it| it.span.start >= sentence.end);
        match is_last {
            true => quotations(self.answer, last.span.end.min(sentence.end)..sentence.end),
            false => Vec::new(),
        }
    }

    fn sentence_at(&self, at: usize) -> Option<Span> {
        let behind = self.sentences.partition_point(|it| it.start <= at);
        self.sentences.get(behind.checked_sub(1)?).copied().filter(|it| at < it.end)
    }

    /// Checks a quote, in pieces if it has an ellipsis. One of the chunks must have it. Returns whether it is a quote.
    fn quotes(&mut self, quote: Span, chunks: &[(Span, &str)], is_sure: bool) -> bool {
        let text = quote.of(self.answer).unwrap_or_default();
        let n_words = text.split_whitespace().count();
        let mut is_quote = false;
        for piece in pieces(text) {
            let look_up = |(at, chunk): &(Span, &'_ str)| {
                Some(((*at, (*chunk).to_owned()), look_up(self.sources.get(chunk)?, piece)))
            };
            let looked: Vec<((Span, String), Quote)> = chunks.iter().filter_map(look_up).collect();
            let found = looked.iter().find_map(|(cited, it)| match it {
                Quote::At(span) => Some((cited.clone(), *span)),
                Quote::Cut | Quote::Missing(_) => None,
            });
            if let Some(((at, chunk), span)) = found {
                is_quote = true;
                self.cite(at, &chunk, Some((piece, span)));
                continue;
            }
            let is_emphasis = !is_sure && n_words < QUOTE_WORDS;
            // Of several chunks, the one that comes closest is named.
            let best = looked.into_iter().min_by_key(|(_, it)| match it {
                Quote::At(_) | Quote::Cut => 0,
                Quote::Missing(Some(_)) => 1,
                Quote::Missing(None) => 2,
            });
            if let Some(((at, chunk), looked)) = best.filter(|_| !is_emphasis) {
                is_quote = true;
                self.cite(at, &chunk, None);
                self.quote_fault(quote, &chunk, piece, Some(looked));
            }
        }
        is_quote
    }

    fn cite(&mut self, at: Span, chunk: &str, quote: Option<(&str, Span)>) {
        let source = self.sources.get(chunk).map(|it| it.evidence.source.clone()).unwrap_or_default();
        let citation = Citation {
            answer_span: Some(at),
            quote: quote.map(|(it, _)| it.to_owned()),
            source_span: quote.map(|(_, it)| it),
            ..Citation::new(source, chunk, CitationOrigin::Text)
        };
        let is_near = |it: &&Citation| it.answer_span.is_some_and(|it| it.start >= at.start);
        if !self.citations.iter().rev().take_while(is_near).any(|it| *it == citation) {
            self.citations.push(citation);
        }
    }

    /// Checks the facts of each sentence that cites chunks.
    fn facts(&mut self) {
        for sentence in self.sentences.clone() {
            let chunks = self.chunks_of(sentence);
            let sources: Vec<&SourceText<'_>> =
                chunks.iter().filter_map(|it| self.sources.get(it.as_str())).collect();
            if sources.is_empty() {
                continue;
            }
            let text = without_marks(self.answer, sentence, &self.marks);
            let mut faults = Vec::new();
            for fact in facts(&text) {
                if sources.iter().any(|it| it.facts.has(&fact)) {
                    continue;
                }
                let at = fact.span.after(sentence.start);
                let words = at.of(self.answer).unwrap_or_default().to_owned();
                let is_cut = sources.iter().filter_map(|it| it.whole_facts.as_ref()).any(|it| it.has(&fact));
                faults.push((at, is_cut, fact.kind(), words));
            }
            for (at, is_cut, fact, text) in faults {
                let chunks = chunks.clone();
                match is_cut {
                    true => {
                        self.faults.cut.push(Fault { at, kind: FaultKind::FactCut { fact, text, chunks } })
                    }
                    false => {
                        self.faults
                            .facts
                            .push(Fault { at, kind: FaultKind::FactNotFound { fact, text, chunks } });
                    }
                }
            }
        }
    }

    /// Returns the chunks that a sentence cites and that were sent.
    fn chunks_of(&self, sentence: Span) -> Vec<String> {
        let mut chunks: Vec<String> = Vec::new();
        for citation in &self.citations {
            let touches = citation.answer_span.is_some_and(|it| overlaps(it, sentence));
            let is_new = !chunks.contains(&citation.chunk);
            if touches && is_new && self.sources.contains_key(citation.chunk.as_str()) {
                chunks.push(citation.chunk.clone());
            }
        }
        chunks
    }

    /// Checks that enough sentences have a citation.
    fn coverage(&mut self) {
        let is_required = self.rules.citations == CitationRule::Required && !self.known.sent.is_empty();
        let (cited, sentences) = (self.n_cited(), self.sentences.len());
        let share = self.rules.min_coverage.clamp(0.0, 1.0);
        // A share of a number of sentences is never negative and far below the limit of the type.
        let needed = ((share * sentences as f64).ceil() as usize).max(usize::from(is_required));
        let is_short = cited < needed && (is_required || self.rules.min_coverage > 0.0);
        if is_short && !self.known.sent.is_empty() {
            let at = Span { start: 0, end: self.answer.len() };
            self.faults.coverage.push(Fault { at, kind: FaultKind::TooFewCitations { needed } });
        }
    }

    fn n_cited(&self) -> usize {
        let is_cited = |it: &Span| !self.chunks_of(*it).is_empty() || says_none(self.answer, *it);
        self.sentences.iter().filter(|it| is_cited(it)).count()
    }

    fn finish(mut self) -> Grounded {
        let (sentences, cited) = (self.sentences.len(), self.n_cited());
        self.citations.sort_by_key(|it| it.answer_span.map_or(0, |it| it.start));
        let Faults { sent, quotes, facts, coverage, cut } = self.faults;
        let faults: Vec<Fault> = [sent, quotes, facts, coverage, cut].concat();
        let coverage = if sentences == 0 { 0.0 } else { cited as f64 / sentences as f64 };
        let report = Report { passed: faults.is_empty(), sentences, cited, coverage, faults };
        Grounded { citations: self.citations, report }
    }
}

/// What stands behind a sentence that says that the evidence does not tell.
const NONE: &str = "[none]";

fn says_none(answer: &str, sentence: Span) -> bool {
    sentence.of(answer).is_some_and(|it| it.to_lowercase().contains(NONE))
}

/// Adds sentences that are nothing but marks to the sentence before them.
fn with_lone_marks(answer: &str, sentences: Vec<Span>, marks: &[Mark]) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for sentence in sentences {
        let has_words =
            without_marks(answer, sentence, marks).replace(NONE, "").contains(char::is_alphanumeric);
        match joined.last_mut() {
            Some(last) if !has_words => last.end = sentence.end,
            _ => joined.push(sentence),
        }
    }
    joined
}

fn overlaps(a: Span, b: Span) -> bool {
    a.start < b.end.max(b.start + 1) && b.start < a.end.max(a.start + 1)
}

/// Returns a sentence with spaces in place of its marks, so that their ids are not taken for facts.
fn without_marks(answer: &str, sentence: Span, marks: &[Mark]) -> String {
    let mut text = sentence.of(answer).unwrap_or_default().to_owned();
    for mark in marks.iter().filter(|it| overlaps(it.span, sentence)) {
        let start = mark.span.start.max(sentence.start) - sentence.start;
        let end = (mark.span.end.min(sentence.end) - sentence.start).max(start);
        text.replace_range(start..end, &" ".repeat(end - start));
    }
    text
}

/// Splits a quote at ellipses.
fn pieces(quote: &str) -> impl Iterator<Item = &str> {
    let pieces = quote.split("[…]").flat_map(|it| it.split("[...]")).flat_map(|it| it.split('…'));
    let is_edge = |it: char| it.is_whitespace() || it == ',';
    pieces.flat_map(|it| it.split("...")).map(move |it| it.trim_matches(is_edge)).filter(|it| !it.is_empty())
}

/// Looks for a quote in a source. Punctuation at its end may be the answer's own.
fn look_up(source: &SourceText<'_>, quote: &str) -> Quote {
    let bare = quote.trim_end_matches(['.', ',', ';', ':', '!', '?', '。', '，']);
    let forms = [quote, bare].map(Normal::new);
    let find = |text: &Normal| forms.iter().find_map(|it| text.find(it));
    if let Some(span) = find(&source.sent) {
        return Quote::At(span);
    }
    match source.whole.as_ref().and_then(find) {
        Some(_) => Quote::Cut,
        None => Quote::Missing(nearest(source, &forms[0])),
    }
}

/// The share of words that must agree in a near miss, in percent.
const NEAR: usize = 60;

/// Returns the words of a source that come closest to a quote.
fn nearest(source: &SourceText<'_>, quote: &Normal) -> Option<String> {
    let wanted: Vec<String> = quote.words().into_iter().map(|(it, _)| it).collect();
    let words = source.sent.words();
    let length = wanted.len().min(words.len());
    if length == 0 {
        return None;
    }
    let mut missing: BTreeMap<&str, isize> = BTreeMap::new();
    wanted.iter().for_each(|it| *missing.entry(it).or_default() += 1);
    let mut n_same = 0_usize;
    let mut best: Option<(usize, Range<usize>)> = None;
    for end in 0..words.len() {
        if let Some(count) = missing.get_mut(words[end].0.as_str()) {
            n_same += usize::from(*count > 0);
            *count -= 1;
        }
        if let Some(gone) = end.checked_sub(length)
            && let Some(count) = missing.get_mut(words[gone].0.as_str())
        {
            n_same -= usize::from(*count >= 0);
            *count += 1;
        }
        if end + 1 >= length && best.as_ref().is_none_or(|(most, _)| n_same > *most) {
            best = Some((n_same, end + 1 - length..end + 1));
        }
    }
    let (n_same, range) = best.filter(|(n_same, _)| n_same * 100 >= wanted.len() * NEAR && *n_same > 0)?;
    let span =
        Span { start: words.get(range.start)?.1.start, end: words.get(range.end.checked_sub(1)?)?.1.end };
    span.of(&source.evidence.text).map(str::to_owned).filter(|_| n_same > 0)
}
