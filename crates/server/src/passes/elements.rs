//! The elements of a document's long lists, of which each record stores only those that no earlier record has.
//!
//! A list is stored as ranges of elements: `[7, 2, 3]` are three elements of record 7, from its third on, and
//! `[7, 2, 3, 20]` the same of 20 records from record 7 on. A range of the record itself has the number 0. So a
//! conversation that grows by a turn at a time has a list of few ranges, however long it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use contexture_compose::{Part as ExplainedPart, Pass};
use contexture_history::Timestamp;
use contexture_message::{Message, Request, ToolDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The paths of the long lists.
const LISTS: [[&str; 2]; 3] = [["request", "messages"], ["request", "tools"], ["explanation", "parts"]];
/// How long a record may be named by later ones. It is pruned as much later than passes are.
pub(crate) const SHARED_HOURS: u64 = 24;

/// The new elements of a record, as JSON texts.
pub(crate) type Elements = Vec<Value>;

/// The most records that one range names: more than a request has messages.
const MAX_RECORDS: u64 = 100_000;

/// The same range of elements in each of some consecutive records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredRange", try_from = "StoredRange")]
struct Range {
    /// The number of the first record; 0 is the record itself.
    record: u64,
    first: u32,
    n: u32,
    n_records: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredRange {
    OfRecords(u64, u32, u32, u64),
    OfRecord(u64, u32, u32),
}

impl From<Range> for StoredRange {
    fn from(Range { record, first, n, n_records }: Range) -> Self {
        match n_records {
            1 => StoredRange::OfRecord(record, first, n),
            _ => StoredRange::OfRecords(record, first, n, n_records),
        }
    }
}

impl TryFrom<StoredRange> for Range {
    type Error = &'static str;

    fn try_from(stored: StoredRange) -> Result<Self, Self::Error> {
        let (record, first, n, n_records) = match stored {
            StoredRange::OfRecord(record, first, n) => (record, first, n, 1),
            StoredRange::OfRecords(record, first, n, n_records) => (record, first, n, n_records),
        };
        let is_valid = n_records <= MAX_RECORDS
            && first.checked_add(n).is_some()
            && record.checked_add(n_records).is_some();
        if is_valid { Ok(Self { record, first, n, n_records }) } else { Err("a range is out of bounds") }
    }
}

impl Range {
    fn records(self) -> std::ops::Range<u64> {
        self.record..self.record + self.n_records
    }

    fn elements(self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.n) as usize
    }

    /// Takes in the range that follows, if it is the same of the next record.
    fn extended_by(&mut self, next: Range) -> bool {
        let is_next = self.record > 0
            && next == Range { record: self.record + self.n_records, n_records: 1, ..*self }
            && self.n_records < MAX_RECORDS;
        self.n_records += u64::from(is_next);
        is_next
    }
}

/// The request and the Explanation of a pass, its long lists apart.
#[derive(Debug)]
pub(crate) struct PassContent {
    /// Both without their long lists.
    rest: Value,
    messages: Vec<Arc<Message>>,
    tools: Vec<Arc<ToolDefinition>>,
    parts: Vec<ExplainedPart>,
}

impl PassContent {
    pub(crate) fn of(pass: &Pass) -> Self {
        let Request { model, messages, tools, tool_choice, output, settings, breakpoints } = pass.request();
        let rest = Request {
            model: model.clone(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: tool_choice.clone(),
            output: output.clone(),
            settings: settings.clone(),
            breakpoints: breakpoints.clone(),
        };
        let mut explanation = pass.explain_as_sent();
        let parts = std::mem::take(&mut explanation.parts);
        let rest = json!({"request": rest, "explanation": explanation});
        Self { rest, messages: messages.clone(), tools: tools.clone(), parts }
    }
}

/// How many passes of a session an element may be left out of before it is forgotten: threads that take turns, or
/// prompts with different tools, have more than one list to come back to.
const KEPT_PASSES: u64 = 16;

/// What earlier records of a session have, by the hash of each element: those that one of its last passes has too.
#[derive(Debug, Default)]
pub(crate) struct KnownElements {
    places: HashMap<u128, Place>,
    n_passes: u64,
    // The lists of the last pass: most of the next one's elements are the same. Their texts are kept by the thread, or
    // not at all.
    messages: Hashed<Weak<Message>>,
    tools: Hashed<Weak<ToolDefinition>>,
    parts: Hashed<ExplainedPart>,
}

/// A list with the hash of each element.
type Hashed<T> = Vec<(T, u128)>;

#[derive(Clone, Copy, Debug)]
struct Place {
    record: u64,
    idx: u32,
    at: Timestamp,
    /// The last pass that has it.
    used: u64,
}

impl KnownElements {
    /// Returns a pass as a document whose long lists are ranges, the elements that are new, and their hashes.
    pub(crate) fn split(&mut self, content: PassContent, now: Timestamp) -> (Value, Elements, Vec<u128>) {
        let PassContent { rest: mut document, messages, tools, parts } = content;
        let messages = hashed(&self.messages, messages, is_same);
        let tools = hashed(&self.tools, tools, is_same);
        self.parts = hashed(&self.parts, parts, ExplainedPart::eq);
        self.n_passes += 1;
        let oldest = now.0.saturating_sub(i64::try_from(SHARED_HOURS).unwrap_or(i64::MAX) * 3_600_000);
        let (elements, hashes, by_hash) = Default::default();
        let (places, pass) = (&mut self.places, self.n_passes);
        let mut new = NewElements { places, pass, oldest, elements, hashes, by_hash };
        let lists = [new.ranges(&messages), new.ranges(&tools), new.ranges(&self.parts)];
        for (list, ranges) in LISTS.into_iter().zip(lists) {
            if let Some(elements) = list_mut(&mut document, list) {
                *elements = ranges;
            }
        }
        let NewElements { elements, hashes, .. } = new;
        (self.messages, self.tools) = (weak(&messages), weak(&tools));
        (document, elements, hashes)
    }

    /// Notes that a record has elements with these hashes, in this order.
    pub(crate) fn add(&mut self, record: u64, hashes: Vec<u128>, at: Timestamp) {
        let used = self.n_passes;
        self.places.extend((0..).zip(hashes).map(|(idx, hash)| (hash, Place { record, idx, at, used })));
        if used.is_multiple_of(KEPT_PASSES) {
            self.places.retain(|_, it| it.used + KEPT_PASSES > used);
        }
    }
}

/// The elements that no earlier record has.
struct NewElements<'a> {
    places: &'a mut HashMap<u128, Place>,
    /// The pass that has them.
    pass: u64,
    /// Older records may be pruned soon.
    oldest: i64,
    elements: Elements,
    hashes: Vec<u128>,
    by_hash: BTreeMap<u128, u32>,
}

impl NewElements<'_> {
    /// Returns a list as ranges, and takes what is new in it.
    fn ranges<T: Serialize>(&mut self, list: &Hashed<T>) -> Vec<Value> {
        let mut ranges: Vec<Range> = Vec::new();
        for (element, hash) in list {
            let (record, idx) = match self.places.get_mut(hash).filter(|it| it.at.0 > self.oldest) {
                Some(known) => {
                    known.used = self.pass;
                    (known.record, known.idx)
                }
                None => (0, self.idx(*hash, element)),
            };
            match ranges.last_mut() {
                Some(it) if it.record == record && it.first + it.n == idx => it.n += 1,
                _ => ranges.push(Range { record, first: idx, n: 1, n_records: 1 }),
            }
        }
        ranges.dedup_by(|next, before| before.extended_by(*next));
        ranges.into_iter().filter_map(|it| serde_json::to_value(it).ok()).collect()
    }

    fn idx<T: Serialize>(&mut self, hash: u128, element: &T) -> u32 {
        *self.by_hash.entry(hash).or_insert_with(|| {
            self.elements.push(json!(element));
            self.hashes.push(hash);
            u32::try_from(self.hashes.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// Returns the numbers of the records that a document names.
pub(crate) fn records_named(document: &mut Value) -> BTreeSet<u64> {
    let mut named = BTreeSet::new();
    for list in LISTS {
        let ranges = list_mut(document, list).into_iter().flatten();
        named.extend(ranges.filter_map(|it| Range::deserialize(&*it).ok()).flat_map(Range::records));
    }
    named.remove(&0);
    named
}

/// Whether a document names an element of another record.
pub(crate) fn is_named(document: &mut Value, record: u64, idx: usize) -> bool {
    LISTS.into_iter().any(|list| {
        let ranges = list_mut(document, list).into_iter().flatten();
        let mut ranges = ranges.filter_map(|it| Range::deserialize(&*it).ok());
        ranges.any(|it| it.records().contains(&record) && it.elements().contains(&idx))
    })
}

/// Puts the elements back into a document. `records` has those of every record that it names, and its own under 0.
/// Returns the number of the first record that is missing.
pub(crate) fn join(document: &mut Value, records: &BTreeMap<u64, Elements>) -> Result<(), u64> {
    for list in LISTS {
        let Some(elements) = list_mut(document, list) else { continue };
        let mut whole = Vec::new();
        for range in elements.drain(..) {
            let range = Range::deserialize(&range).map_err(|_| 0_u64)?;
            for record in range.records() {
                let found = records.get(&record).and_then(|it| it.get(range.elements())).ok_or(record)?;
                whole.extend_from_slice(found);
            }
        }
        *elements = whole;
    }
    Ok(())
}

fn list_mut<'a>(document: &'a mut Value, [outer, inner]: [&str; 2]) -> Option<&'a mut Vec<Value>> {
    document.get_mut(outer)?.get_mut(inner)?.as_array_mut()
}

/// How far ahead an element is looked for in the list before: a window moves by a few turns at most.
const MAX_SKIPPED: usize = 64;

/// Returns a list with the hashes of its elements. One that the list `before` has too, in the same order, is not hashed
/// again.
fn hashed<K, T: Serialize>(before: &Hashed<K>, list: Vec<T>, is_same: impl Fn(&K, &T) -> bool) -> Hashed<T> {
    let mut next = 0;
    let mut hash_of = |element: &T| {
        let ahead = before.iter().skip(next).take(MAX_SKIPPED);
        let known = (next..).zip(ahead).find(|(_, (it, _))| is_same(it, element));
        next = known.map_or(next, |(idx, _)| idx + 1);
        known.map_or_else(|| hash(element), |(_, (_, hash))| *hash)
    };
    list.into_iter().map(|it| (hash_of(&it), it)).map(|(hash, it)| (it, hash)).collect()
}

fn is_same<T>(before: &Weak<T>, element: &Arc<T>) -> bool {
    std::ptr::eq(before.as_ptr(), Arc::as_ptr(element))
}

fn weak<T>(list: &Hashed<Arc<T>>) -> Hashed<Weak<T>> {
    list.iter().map(|(it, hash)| (Arc::downgrade(it), *hash)).collect()
}

/// Returns the beginning of the hash of an element's JSON: enough to tell the elements of a session apart.
fn hash<T: Serialize>(element: &T) -> u128 {
    // Plain data: its maps have names as keys.
    let digest = Sha256::digest(serde_json::to_vec(element).unwrap_or_default());
    digest.iter().take(16).fold(0, |hash, byte| hash << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use contexture_compose::Part as ExplainedPart;
    use contexture_history::Timestamp;
    use contexture_message::{Message, ToolDefinition};
    use proptest::prelude::{any, proptest};
    use serde_json::{Value, json};

    use super::{KnownElements, PassContent, join, records_named};

    fn part(no: &u8) -> ExplainedPart {
        let part = json!({
            "source": format!("history:t{no}"), "slot": "history", "tokens": no, "priority": 0.5, "state": "kept",
            "volatility": "conversation",
        });
        serde_json::from_value(part).unwrap()
    }

    /// A conversation of messages that say numbers.
    fn content(said: &[u8]) -> PassContent {
        let message = |it: &u8| Arc::new(Message::user(format!("say {}", it % 16)));
        PassContent {
            rest: json!({
                "request": {"model": "m", "messages": [], "tools": []},
                "explanation": {"parts": [], "rest": 1.5},
            }),
            messages: said.iter().map(message).collect(),
            tools: ["a", "a", "b"].map(|it| Arc::new(ToolDefinition::new(it, "Does it."))).to_vec(),
            parts: said.iter().map(part).collect(),
        }
    }

    /// Returns the document that a pass is, whole.
    fn whole(content: &PassContent) -> Value {
        let mut whole = content.rest.clone();
        whole["request"]["messages"] = json!(content.messages);
        whole["request"]["tools"] = json!(content.tools);
        whole["explanation"]["parts"] = json!(content.parts);
        whole
    }

    proptest! {
        #[test]
        fn documents_are_the_same_bytes_after_they_were_stored(
            conversations in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 1..6),
        ) {
            let (mut known, mut records) = (KnownElements::default(), BTreeMap::new());
            for (number, said) in (1..).zip(conversations) {
                let whole = whole(&content(&said));
                let (stored, elements, hashes) = known.split(content(&said), Timestamp(0));
                known.add(number, hashes, Timestamp(0));
                records.insert(number, elements.clone());
                let mut read: Value = serde_json::from_str(&stored.to_string()).unwrap();
                let mut needed: BTreeMap<_, _> =
                    records_named(&mut read).into_iter().map(|it| (it, records[&it].clone())).collect();
                needed.insert(0, elements);
                join(&mut read, &needed).unwrap();
                assert_eq!(read.to_string(), whole.to_string());
            }
        }
    }

    #[test]
    fn what_a_window_has_left_is_forgotten() {
        let mut known = KnownElements::default();
        for number in 1..=200_u8 {
            let said: Vec<u8> = (number..number.saturating_add(20)).collect();
            let (_, elements, hashes) = known.split(content(&said), Timestamp(0));
            assert!(number == 1 || elements.len() <= 2, "{number}: {}", elements.len());
            known.add(number.into(), hashes, Timestamp(0));
        }
        // The window, and what has left it in the last passes; of each a part, and sixteen messages that come again.
        assert!(known.places.len() <= 20 + 2 * 16 + 16 + 2, "{}", known.places.len());
    }

    #[test]
    fn threads_that_take_turns_do_not_repeat_themselves() {
        let mut known = KnownElements::default();
        let (a, b): (Vec<u8>, Vec<u8>) = ((0..20).collect(), (100..120).collect());
        for number in 1..=100_u64 {
            let said = if number % 10 == 0 { &b } else { &a };
            let (_, elements, hashes) = known.split(content(said), Timestamp(0));
            known.add(number, hashes, Timestamp(0));
            assert_eq!(elements.is_empty(), number != 1 && number != 10, "{number}");
        }
    }

    #[test]
    fn a_conversation_that_grows_adds_what_is_new() {
        let mut known = KnownElements::default();
        let grown = |n: u8| PassContent {
            tools: Vec::new(),
            parts: Vec::new(),
            ..content(&(0..n).collect::<Vec<_>>())
        };
        let (_, first, hashes) = known.split(grown(12), Timestamp(0));
        known.add(7, hashes, Timestamp(0));
        let (mut next, second, _) = known.split(grown(14), Timestamp(1));
        assert_eq!((first.len(), second.len()), (12, 2));
        assert_eq!(next["request"]["messages"].to_string(), "[[7,0,12],[0,0,2]]");
        for (number, n) in [(8, 14), (9, 16), (10, 18)] {
            let (_, _, hashes) = known.split(grown(n), Timestamp(1));
            known.add(number, hashes, Timestamp(1));
        }
        let (long, ..) = known.split(grown(18), Timestamp(1));
        assert_eq!(long["request"]["messages"].to_string(), "[[7,0,12],[8,0,2,2],[7,0,2]]");
        let (_, later, _) = known.split(grown(14), Timestamp(25 * 3_600_000));
        assert_eq!(later.len(), 14, "what may be pruned is not named");
        assert_eq!(join(&mut next, &BTreeMap::new()), Err(7));
    }
}
