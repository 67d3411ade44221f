//! Tags written by hand: a borrowed tree with attributes, for text that does not belong to an entry.

use std::borrow::Cow;
use std::fmt;

use super::error::{TagError, TagPlace};
use super::escape::{escaped_capacity, push_attribute, push_text};
use super::names::{kebab, tag_name};
use super::tree::MAX_TAG_DEPTH;

/// A tag with its contents, borrowed from the caller.
///
/// As everywhere, a tag without content is left out, and a tag's own text comes before its children.
///
/// ```
/// use contexture_compose::tags::Tag;
///
/// let tag = Tag::new("documents")?
///     .child(Tag::new("doc")?.attribute("id", "a<b")?.text("1 & 2"))
///     .child(Tag::new("doc")?.text(""));
/// assert_eq!(tag.render(), "<documents>\n<doc id=\"a&lt;b\">\n1 &amp; 2\n</doc>\n</documents>");
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub struct Tag<'a>(Box<Body<'a>>);

/// The data of a tag. It is boxed because a builder moves its tag at every step.
struct Body<'a> {
    name: Cow<'a, str>,
    attributes: Vec<(Cow<'a, str>, &'a str)>,
    text: &'a str,
    /// Further texts; most leaves have only the first one.
    more: Vec<&'a str>,
    children: Vec<Tag<'a>>,
    /// The approximate number of bytes before escaping.
    size: usize,
    /// The number of levels of tags inside.
    height: usize,
}

/// Returns `body` inside the tag `name`, escaped; empty if `body` is empty.
///
/// ```
/// use contexture_compose::tags::xml_tag;
///
/// let text = xml_tag("userNote", &[("lang", "en")], "a < b")?;
/// assert_eq!(text, "<user-note lang=\"en\">\na &lt; b\n</user-note>");
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub fn xml_tag(name: &str, attributes: &[(&str, &str)], body: &str) -> Result<String, TagError> {
    let mut tag = Tag::new(name)?;
    for (name, value) in attributes {
        tag = tag.attribute(name, value)?;
    }
    Ok(tag.text(body).render())
}

impl<'a> Tag<'a> {
    /// Returns a tag without content. The name is normalised and checked like any key.
    #[inline]
    pub fn new(name: &'a str) -> Result<Self, TagError> {
        let name = tag_name(name, TagPlace::outside)?;
        let size = 2 * name.len() + 7;
        let (attributes, more, children) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self(Box::new(Body { name, attributes, text: "", more, children, size, height: 0 })))
    }

    /// Returns the tag with an attribute. The name is normalised; an existing attribute gets the new value.
    #[inline]
    pub fn attribute(mut self, name: &'a str, value: &'a str) -> Result<Self, TagError> {
        let name = match kebab(name) {
            Ok(name) => name,
            Err(fault) => {
                return Err(TagError::NameInvalid {
                    key: name.to_owned(),
                    fault,
                    place: TagPlace::outside(name),
                });
            }
        };
        self.0.size += name.len() + value.len() + 4;
        match self.0.attributes.iter_mut().find(|(it, _)| *it == name) {
            Some((_, old)) => *old = value,
            None => self.0.attributes.push((name, value)),
        }
        Ok(self)
    }

    /// Returns the tag with one more text, on separate lines, unless it is empty.
    #[inline]
    #[must_use]
    pub fn text(mut self, text: &'a str) -> Self {
        self.0.size += text.len() + 1;
        if self.0.text.is_empty() {
            self.0.text = text;
        } else if !text.is_empty() {
            self.0.more.push(text);
        }
        self
    }

    /// Returns the tag with one more tag inside, unless that tag has no content.
    #[inline]
    #[must_use]
    pub fn child(mut self, child: Tag<'a>) -> Self {
        if child.has_content() {
            self.0.size += child.0.size;
            self.0.height = self.0.height.max(child.0.height + 1);
            self.0.children.push(child);
        }
        self
    }

    /// Returns the tagged text, without a final newline.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.render_into(&mut out);
        out
    }

    /// Appends the tagged text to `out`, without a final newline.
    pub fn render_into(&self, out: &mut String) {
        if !self.has_content() {
            return;
        }
        out.reserve(escaped_capacity(self.0.size));
        self.open(out);
        // The open tags, each with its remaining children. An explicit stack, so that no depth can overflow the call
        // stack.
        let mut open = vec![(self, self.0.children.iter())];
        while let Some((tag, children)) = open.last_mut() {
            if let Some(child) = children.next() {
                child.open(out);
                open.push((child, child.0.children.iter()));
            } else {
                out.push_str("</");
                out.push_str(&tag.0.name);
                out.push_str(">\n");
                open.pop();
            }
        }
        out.pop();
    }

    /// Appends the opening tag and the texts.
    fn open(&self, out: &mut String) {
        out.push('<');
        out.push_str(&self.0.name);
        for (name, value) in &self.0.attributes {
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            push_attribute(out, value);
            out.push('"');
        }
        out.push_str(">\n");
        if !self.0.text.is_empty() {
            push_text(out, self.0.text);
            out.push('\n');
        }
        for text in &self.0.more {
            push_text(out, text);
            out.push('\n');
        }
    }

    /// Returns whether it is rendered. Children without content were never added.
    fn has_content(&self) -> bool {
        !self.0.text.is_empty() || !self.0.children.is_empty()
    }
}

impl Drop for Tag<'_> {
    // In a deep tree children are removed before they are dropped, so that no depth can overflow the stack.
    fn drop(&mut self) {
        if self.0.height <= MAX_TAG_DEPTH {
            return;
        }
        let mut rest = std::mem::take(&mut self.0.children);
        while let Some(mut tag) = rest.pop() {
            rest.append(&mut tag.0.children);
        }
    }
}

impl fmt::Debug for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tag").field("name", &self.0.name).finish_non_exhaustive()
    }
}
