//! The catalogue of knowledge bases: names and descriptions, never content.

use contexture_compose::Block;

use crate::base::KnowledgeBase;

/// The name of the block.
pub const CATALOGUE: &str = "available_knowledge_bases";

/// Returns the block that lists bases, for the frozen prefix of a thread. The model loads content through tools.
///
/// ```
/// # use std::sync::Arc;
/// # use contexture_capabilities::{BaseAccess, KnowledgeBase, Lookup, catalogue};
/// # use contexture_compose::Scope;
/// # struct Nowhere;
/// # impl BaseAccess for Nowhere {
/// #     fn retriever(&self, _: &Scope) -> Lookup { Box::pin(std::future::pending()) }
/// # }
/// let about = Some("Refunds and shipping".to_owned());
/// let handbook = KnowledgeBase::with_access("handbook", about, Arc::new(Nowhere));
/// let block = catalogue(&[handbook]);
/// assert_eq!(block.definition().name, "available_knowledge_bases");
/// ```
pub fn catalogue(bases: &[KnowledgeBase]) -> Block {
    let line = |base: &KnowledgeBase| match base.description() {
        Some(about) => {
            format!("- {}: {}", base.name(), about.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        None => format!("- {}", base.name()),
    };
    let lines: Vec<String> = bases.iter().map(line).collect();
    Block::text(CATALOGUE, contexture_compose::Text::literal(lines.join("\n")))
        .description("The knowledge bases that can be searched")
}
