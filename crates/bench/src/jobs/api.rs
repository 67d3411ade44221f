//! The jobs through the public API, as a user would write them.

use std::error::Error;

use contexture_compose::tags::{Tag, TagError};
use contexture_compose::{Context, Prompt, ResolveOptions};
use contexture_message::{Encoding, Message, Tokens, part_tokens};
use futures::executor::block_on;

use crate::data::{Composition, Conversation, FileMessage, Tree, TreeNode};
use crate::{Answer, Runner};

/// A model whose encoding is public, so that counts are exact.
const MODEL: &str = "openai/gpt-4o";

/// Counts what is said in every message; the framing is a provider's and left out.
pub(crate) fn tokenize(data: &Conversation) -> Runner<'_> {
    let messages: Vec<Message> = data.messages().map(FileMessage::to_message).collect();
    Box::new(move || {
        let parts = messages.iter().flat_map(|it| &it.content);
        let tokens: Tokens = parts.map(|it| part_tokens(&Encoding::O200kBase, it)).sum();
        Ok(Answer::Tokens(tokens.0.into()))
    })
}

/// Builds and resolves: a new prompt has its own engine with empty caches.
pub(crate) fn compose(data: &Composition) -> Runner<'_> {
    Box::new(|| {
        let prompt = built_prompt(data)?;
        Ok(Answer::Pass(block_on(prompt.resolve(resolve_options()))?))
    })
}

/// Resolves a prompt that was resolved before.
pub(crate) fn compose_warm(data: &Composition) -> Result<Runner<'_>, Box<dyn Error>> {
    let prompt = built_prompt(data)?;
    block_on(prompt.resolve(resolve_options()))?;
    Ok(Box::new(move || Ok(Answer::Pass(block_on(prompt.resolve(resolve_options()))?))))
}

/// Builds the tree and renders it.
pub(crate) fn render_xml(data: &Tree) -> Runner<'_> {
    Box::new(|| Ok(Answer::Text(tree_tag(&data.root)?.render())))
}

/// Builds the prompt of a composition.
pub fn built_prompt(data: &Composition) -> Result<Prompt, contexture_compose::Error> {
    let mut prompt = Prompt::builder("bench")
        .system(data.system.as_str())
        .user(data.user.as_str())
        .input_budget(data.budget_tokens);
    for context in &data.contexts {
        let rank = f64::from(context.priority) / 1000.0;
        prompt = prompt.include(Context::text(context.id.as_str(), context.section()).priority(rank));
    }
    for tool in &data.tools {
        prompt = prompt.tool(tool.clone());
    }
    prompt.build()
}

/// Returns the options that all compositions are resolved with.
pub fn resolve_options() -> ResolveOptions {
    ResolveOptions::default().model(MODEL)
}

/// Returns the tag of a node with everything inside, borrowed.
pub fn tree_tag(node: &TreeNode) -> Result<Tag<'_>, TagError> {
    let mut tag = Tag::new(&node.tag)?;
    for (name, value) in &node.attrs {
        tag = tag.attribute(name, value)?;
    }
    if let Some(text) = &node.text {
        tag = tag.text(text);
    }
    for child in &node.children {
        tag = tag.child(tree_tag(child)?);
    }
    Ok(tag)
}
