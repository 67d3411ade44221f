//! The shortest straight loops that give the same answers, on the raw tokenizer library.
//!
//! No errors, no explanations, nothing shared: only the unavoidable work, done in the plainest way.

use std::error::Error;

use contexture_message::{Encoding, Framing, TokenCounter, ToolDefinition};
use tiktoken::CoreBpe;

use crate::data::{Composition, Conversation, FileContext, Tree, TreeNode};
use crate::{Answer, Runner};

fn library() -> Result<&'static CoreBpe, Box<dyn Error>> {
    tiktoken::get_encoding(Encoding::O200kBase.name()).ok_or_else(|| "o200k_base is not compiled in".into())
}

/// Counts every text once.
pub(crate) fn tokenize(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let library = library()?;
    Ok(Box::new(move || {
        let mut tokens = 0;
        for message in data.messages() {
            tokens += library.count(&message.content);
            for call in &message.tool_calls {
                tokens += library.count(&call.name) + library.count(&call.arguments.to_string());
            }
        }
        Ok(Answer::Tokens(tokens as u64))
    }))
}

/// Counts each section, drops and joins.
pub(crate) fn compose(data: &Composition) -> Result<Runner<'_>, Box<dyn Error>> {
    let library = library()?;
    Ok(Box::new(move || {
        let sections: Vec<String> = data.contexts.iter().map(FileContext::section).collect();
        let counts = Counts::of(library, data, &sections);
        Ok(Answer::Text(kept(data, &sections, &counts)))
    }))
}

/// Drops and joins; sections and counts are there.
pub(crate) fn compose_warm(data: &Composition) -> Result<Runner<'_>, Box<dyn Error>> {
    let sections: Vec<String> = data.contexts.iter().map(FileContext::section).collect();
    let counts = Counts::of(library()?, data, &sections);
    Ok(Box::new(move || Ok(Answer::Text(kept(data, &sections, &counts)))))
}

/// What a composition costs.
struct Counts {
    /// What is never dropped.
    fixed: usize,
    /// Each section with the blank line before it.
    sections: Vec<usize>,
}

impl Counts {
    fn of(library: &CoreBpe, data: &Composition, sections: &[String]) -> Self {
        let Framing { request, message, tool: frame, .. } = Encoding::O200kBase.profile().framing;
        let tool = |it: &ToolDefinition| {
            let texts = library.count(&it.name) + library.count(&it.description);
            frame as usize + texts + library.count(&it.parameters.to_string())
        };
        let fixed = (request + 2 * message) as usize
            + library.count(&data.system)
            + library.count(&data.user)
            + data.tools.iter().map(tool).sum::<usize>();
        let separator = library.count("\n\n");
        Self { fixed, sections: sections.iter().map(|it| library.count(it) + separator).collect() }
    }
}

fn kept(data: &Composition, sections: &[String], counts: &Counts) -> String {
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|&it| data.contexts[it].priority);
    let mut keep = vec![true; sections.len()];
    let mut total = counts.fixed + counts.sections.iter().sum::<usize>();
    for position in order {
        if total <= data.budget_tokens as usize {
            break;
        }
        keep[position] = false;
        total -= counts.sections[position];
    }
    let mut out = String::new();
    out.push_str(&data.system);
    for (section, _) in sections.iter().zip(&keep).filter(|(_, keep)| **keep) {
        out.push_str("\n\n");
        out.push_str(section);
    }
    out
}

/// Writes the tree, character by character.
pub(crate) fn render_xml(data: &Tree) -> Runner<'_> {
    Box::new(|| {
        let mut out = String::new();
        push_tree(&mut out, &data.root);
        Ok(Answer::Text(out))
    })
}

/// Appends a node and everything inside, escaped.
pub fn push_tree(out: &mut String, node: &TreeNode) {
    out.push('<');
    push_name(out, &node.tag);
    for (name, value) in &node.attrs {
        out.push(' ');
        push_name(out, name);
        out.push_str("=\"");
        push_escaped(out, value, true);
        out.push('"');
    }
    out.push_str(">\n");
    if let Some(text) = &node.text {
        push_escaped(out, text, false);
        out.push('\n');
    }
    for child in &node.children {
        push_tree(out, child);
        out.push('\n');
    }
    out.push_str("</");
    push_name(out, &node.tag);
    out.push('>');
}

/// The names of the data are in snake case, those of tags in kebab case.
fn push_name(out: &mut String, name: &str) {
    name.chars().for_each(|it| out.push(if it == '_' { '-' } else { it }));
}

fn push_escaped(out: &mut String, text: &str, quotes: bool) {
    for it in text.chars() {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if quotes => out.push_str("&quot;"),
            it => out.push(it),
        }
    }
}
