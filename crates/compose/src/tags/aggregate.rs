//! Aggregates the values of the context slot into one tree, and collects the messages that pass through.
//!
//! Entries are read in order and their keys in author order. The first error stops it. [`tags`](super) describes the
//! rules; the ones that are easy to miss are also noted here, where they are implemented.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use contexture_message::{Message, Role};
use indexmap::{Equivalent, IndexMap};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};

use super::error::{NameFault, TagError, TagPlace, TagShape};
use super::escape::escape_attribute;
use super::flat::{flat, is_deeper_than};
use super::names::{kebab, shown, tag_name};
use super::render::TagStyle;
use super::tree::{MAX_TAG_DEPTH, NodeIdx, ROOT, TagTree};
use contexture_history::neutral::neutral_message;

/// The maximum depth of a message; parsed JSON is never deeper.
const MAX_MESSAGE_DEPTH: usize = 128;

/// One entry of the context slot with its source.
#[derive(Clone, Copy, Debug)]
pub struct TagEntry<'a> {
    /// The source of the entry for errors, such as `context:brand`.
    pub source: &'a str,
    /// The contributed value.
    pub value: &'a Value,
}

/// The result of aggregating a list of entries.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The tags of all entries.
    pub tree: TagTree,
    /// The texts and messages among the entries in order, each with the index of its entry.
    pub messages: Vec<(usize, Message)>,
}

/// Aggregates `entries` in order.
///
/// ```
/// use contexture_compose::tags::{TagEntry, TagStyle, aggregate};
/// use serde_json::json;
///
/// let brand = json!({"userPreferences": "short answers"});
/// let locale = json!(["Be kind.", {"user_preferences": "in Dutch"}]);
/// let aggregate = aggregate(&[
///     TagEntry { source: "context:brand", value: &brand },
///     TagEntry { source: "context:locale", value: &locale },
/// ])?;
///
/// assert_eq!(
///     aggregate.tree.render(TagStyle::default()),
///     "<user-preferences>\nshort answers\nin Dutch\n</user-preferences>",
/// );
/// assert_eq!(aggregate.messages[0].1.as_text(), Some("Be kind."));
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub fn aggregate(entries: &[TagEntry<'_>]) -> Result<Aggregate, TagError> {
    let mut merge = Merge::new(entries);
    merge.tree.reserve(entries.iter().map(|it| text_len(it.value)).sum());
    for (idx, entry) in entries.iter().enumerate() {
        merge.entry = idx;
        merge.top(entry.value)?;
    }
    Ok(Aggregate { tree: merge.tree, messages: merge.messages })
}

/// Returns the tagged text of `entries`, without those that are text or messages.
///
/// The sources in errors are `context[0]`, `context[1]` and so on.
///
/// ```
/// use contexture_compose::tags::render_tagged_context;
/// use serde_json::json;
///
/// let text = render_tagged_context(&[json!({"documents": null, "memory": "m"}), json!({"documents": "d"})])?;
/// assert_eq!(text, "<documents>\nd\n</documents>\n<memory>\nm\n</memory>");
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub fn render_tagged_context(entries: &[Value]) -> Result<String, TagError> {
    let sources: Vec<String> = (0..entries.len()).map(|idx| format!("context[{idx}]")).collect();
    let entries: Vec<TagEntry<'_>> =
        entries.iter().zip(&sources).map(|(value, source)| TagEntry { source, value }).collect();
    Ok(aggregate(&entries)?.tree.render(TagStyle::default()))
}

/// The tree while it is built, and the state needed for that.
struct Merge<'a> {
    entries: &'a [TagEntry<'a>],
    /// The index of the entry that is being read.
    entry: usize,
    tree: TagTree,
    messages: Vec<(usize, Message)>,
    /// The shape of each node, and the entry that determined it.
    shapes: Vec<Option<(TagShape, usize)>>,
    // One map for all tags: thousands of names under one tag stay fast, and a leaf needs no map.
    tags: IndexMap<Key, NodeIdx>,
    attributes: IndexMap<Key, usize>,
    item: Arc<str>,
}

/// A name under a node.
#[derive(Eq, Hash, PartialEq)]
struct Key(NodeIdx, Arc<str>);

/// A name under a node, borrowed.
#[derive(Hash)]
struct KeyRef<'a>(NodeIdx, &'a str);

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

impl<'a> Merge<'a> {
    fn new(entries: &'a [TagEntry<'a>]) -> Self {
        Self {
            entries,
            entry: 0,
            tree: TagTree::new(),
            messages: Vec::new(),
            shapes: vec![Some((TagShape::Nested, 0))],
            tags: IndexMap::new(),
            attributes: IndexMap::new(),
            item: Arc::from("item"),
        }
    }

    /// Reads a whole entry.
    fn top(&mut self, value: &Value) -> Result<(), TagError> {
        for value in flat(value) {
            match value {
                Value::Null | Value::Bool(false) => {}
                Value::Bool(true) => return Err(TagError::EntryInvalid { place: self.place(ROOT, "") }),
                Value::Object(map) if map.contains_key("role") => {
                    let message = self.message(map)?;
                    self.pass_through(message);
                }
                Value::Object(map) => self.object(ROOT, map)?,
                scalar => {
                    let text = scalar_text(scalar);
                    if !text.is_empty() {
                        self.pass_through(Message::system(text));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the keys of an object into `node`. The caller recurses at most [`MAX_TAG_DEPTH`] times.
    fn object(&mut self, node: NodeIdx, map: &Map<String, Value>) -> Result<(), TagError> {
        let nested = map.keys().any(|key| !is_own(key));
        if nested {
            self.commit(node, TagShape::Nested)?;
        }
        for (key, value) in map {
            if !is_own(key) {
                self.tag(node, key, value)?;
            } else if node == ROOT {
                let key = shown(key);
                let (fault, place) = (NameFault::NoTag, self.place(node, &key));
                return Err(TagError::NameInvalid { key, fault, place });
            } else if let Some(name) = key.strip_prefix('@') {
                self.attribute(node, key, name, value)?;
            } else {
                self.own_text(node, value, nested)?;
            }
        }
        Ok(())
    }

    /// Reads the value of `key` into the tag with that name.
    fn tag(&mut self, parent: NodeIdx, key: &str, value: &Value) -> Result<(), TagError> {
        let name = tag_name(key, |name| self.place(parent, name))?;
        match value {
            Value::Null => {
                self.child(parent, &name)?;
            }
            Value::Object(map) => {
                let node = self.child(parent, &name)?;
                self.refuse_role(node, map)?;
                self.object(node, map)?;
            }
            // An empty text does not even reserve the position; `null` and an empty list do.
            Value::Array(items) if items.is_empty() => {
                self.child(parent, &name)?;
            }
            _ => {
                for value in flat(value) {
                    match value {
                        Value::Null => {
                            self.child(parent, &name)?;
                        }
                        Value::Object(map) => {
                            let node = self.child(parent, &name)?;
                            self.refuse_role(node, map)?;
                            self.commit(node, TagShape::Nested)?;
                            // Items are never looked up, because a record is not merged with another.
                            let item = self.add_node(node, &Arc::clone(&self.item))?;
                            self.object(item, map)?;
                        }
                        scalar => {
                            let text = scalar_text(scalar);
                            if !text.is_empty() {
                                let node = self.child(parent, &name)?;
                                self.commit(node, TagShape::Text)?;
                                self.tree.add_line(node, self.entry, &text);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads `#text`. Next to nested tags it does not change the shape.
    fn own_text(&mut self, node: NodeIdx, value: &Value, nested: bool) -> Result<(), TagError> {
        for value in flat(value) {
            if let Value::Object(_) = value {
                return Err(TagError::NotText { found: "an object", place: self.place(node, "#text") });
            }
            let text = scalar_text(value);
            if !text.is_empty() {
                if !nested {
                    self.commit(node, TagShape::Text)?;
                }
                self.tree.add_line(node, self.entry, &text);
            }
        }
        Ok(())
    }

    fn attribute(&mut self, node: NodeIdx, key: &str, name: &str, value: &Value) -> Result<(), TagError> {
        let name = match kebab(name) {
            Ok(name) => name,
            Err(fault) => {
                let key = shown(key);
                return Err(TagError::NameInvalid { place: self.place(node, &key), key, fault });
            }
        };
        let found = match value {
            Value::Null => return Ok(()),
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
            Value::Bool(_) | Value::Number(_) | Value::String(_) => "",
        };
        if !found.is_empty() {
            return Err(TagError::NotText { found, place: self.place(node, &format!("@{name}")) });
        }

        let value = scalar_text(value);
        let Some(&idx) = self.attributes.get(&KeyRef(node, &name)) else {
            let idx = self.tree.add_attribute(node, self.entry, &name, &value);
            self.attributes.insert(Key(node, Arc::from(name)), idx);
            return Ok(());
        };
        let attribute = &self.tree.attributes[idx];
        if self.tree.text(&attribute.value) != escape_attribute(&value) {
            return Err(TagError::AttributeMismatch {
                path: self.place(node, &format!("@{name}")).path,
                first_source: self.source(attribute.entries[0]),
                second_source: self.source(self.entry),
            });
        }
        if attribute.entries.last() != Some(&self.entry) {
            self.tree.attributes[idx].entries.push(self.entry);
        }
        Ok(())
    }

    /// Returns the tag `name` under `parent`, adding it at the end if it is new.
    fn child(&mut self, parent: NodeIdx, name: &str) -> Result<NodeIdx, TagError> {
        if let Some(&node) = self.tags.get(&KeyRef(parent, name)) {
            return Ok(node);
        }
        let name = Arc::from(name);
        let node = self.add_node(parent, &name)?;
        self.tags.insert(Key(parent, name), node);
        Ok(node)
    }

    fn add_node(&mut self, parent: NodeIdx, name: &Arc<str>) -> Result<NodeIdx, TagError> {
        if self.tree.node(parent).depth >= MAX_TAG_DEPTH {
            return Err(TagError::DepthExceeded { limit: MAX_TAG_DEPTH, place: self.place(parent, name) });
        }
        self.shapes.push(None);
        Ok(self.tree.add_node(parent, Arc::clone(name)))
    }

    /// Sets whether `node` holds text or nested tags; fails if it already holds the other.
    fn commit(&mut self, node: NodeIdx, shape: TagShape) -> Result<(), TagError> {
        match self.shapes[node.0] {
            Some((first, _)) if first == shape => Ok(()),
            Some((first, entry)) => Err(TagError::ShapeMismatch {
                path: self.tree.path(node),
                first,
                first_source: self.source(entry),
                second: shape,
                second_source: self.source(self.entry),
            }),
            None => {
                self.shapes[node.0] = Some((shape, self.entry));
                Ok(())
            }
        }
    }

    /// Rejects an object under a tag that has a `role`: as a tag the name is reserved, and a message cannot be inside
    /// a tag.
    fn refuse_role(&self, node: NodeIdx, map: &Map<String, Value>) -> Result<(), TagError> {
        if !map.contains_key("role") {
            return Ok(());
        }
        Err(match no_message(map) {
            Some(reason) => TagError::RoleAmbiguous { reason, place: self.place(node, "") },
            None => TagError::MessageInTag { place: self.place(node, "") },
        })
    }

    /// Reads an entry that has a `role` as a message. Keys that messages have elsewhere, such as `name`, are
    /// rejected, because only one provider would receive them.
    fn message(&self, map: &Map<String, Value>) -> Result<Message, TagError> {
        let place = || self.place(ROOT, "");
        if let Some(reason) = no_message(map) {
            return Err(TagError::RoleAmbiguous { reason, place: place() });
        }
        let fields = map.iter().map(|(key, value)| (key.as_str(), value));
        // Reading recurses, and a value that was not parsed from text can be deep enough to overflow the stack.
        if map.values().any(|value| is_deeper_than(value, MAX_MESSAGE_DEPTH)) {
            return Err(TagError::DepthExceeded { limit: MAX_MESSAGE_DEPTH, place: place() });
        }
        let message = Message::deserialize(MapDeserializer::new(fields));
        message.map_err(|err: serde_json::Error| TagError::MessageInvalid {
            reason: err.to_string(),
            place: place(),
        })
    }

    /// Adds a message. It is not escaped, so the engine's own tags are neutralised.
    fn pass_through(&mut self, message: Message) {
        let message = neutral_message(&Arc::new(message));
        self.messages.push((self.entry, Arc::unwrap_or_clone(message)));
    }

    /// Returns the place of `last` under `node`, or of `node` itself if that is empty.
    fn place(&self, node: NodeIdx, last: &str) -> TagPlace {
        let mut path = self.tree.path(node);
        if !path.is_empty() && !last.is_empty() {
            path.push('.');
        }
        path.push_str(last);
        TagPlace { path, contributor: Some(self.source(self.entry)) }
    }

    fn source(&self, entry: usize) -> String {
        self.entries.get(entry).map_or_else(String::new, |it| it.source.to_owned())
    }
}

/// Returns why an object that has a `role` is not a message. The parts of its content are not checked here.
fn no_message(map: &Map<String, Value>) -> Option<String> {
    match (map.get("role"), map.get("content")) {
        (Some(Value::String(role)), _) if Role::parse(role).is_none() => {
            Some(format!("the role `{role}` is none of system, user, assistant and tool"))
        }
        (Some(Value::String(_)), Some(Value::String(_) | Value::Array(_))) => None,
        (Some(Value::String(_)), Some(_)) => {
            Some("its `content` is neither text nor a list of parts".to_owned())
        }
        (Some(Value::String(_)), None) => Some("it has no `content`".to_owned()),
        _ => Some("the role is not text".to_owned()),
    }
}

/// Returns whether `key` describes the enclosing tag instead of naming a nested one.
fn is_own(key: &str) -> bool {
    key == "#text" || key.starts_with('@')
}

/// Returns the number of bytes of text in `value`, at any depth.
fn text_len(value: &Value) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(inner) => open.extend(inner),
            Value::Object(inner) => open.extend(inner.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

/// Returns the text of a value that is neither a list nor an object.
fn scalar_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(number) => Cow::Owned(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Cow::Borrowed(""),
    }
}
