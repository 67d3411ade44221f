//! Catalogues: blocks that list what can be loaded by name and description, never content.

use std::future::Future;

use contexture_compose::tags::escape_text;
use contexture_compose::{Block, BoxError, Call};

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
    let lines: Vec<String> = bases.iter().map(|it| line(it.name(), it.description())).collect();
    Block::text(CATALOGUE, contexture_compose::Text::literal(lines.join("\n")))
        .description("The knowledge bases that can be searched")
}

/// One line of a catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueItem {
    /// The name by which it is loaded.
    pub name: String,
    /// What it is about, in a sentence.
    pub description: Option<String>,
}

/// Returns a catalogue of anything that is known only during a call, for the frozen prefix of a thread: a thread keeps the
/// list that its first turn showed. An empty list adds nothing.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_capabilities::{CatalogueItem, listing};
/// use contexture_compose::{Prompt, ResolveOptions};
///
/// let reports = listing("available_reports", "The reports that can be read", |_call| async {
///     Ok(vec![CatalogueItem { name: "q1".into(), description: Some("Sales <by region>".into()) }])
/// });
/// let prompt = Prompt::builder("p").include(reports).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await?;
/// let said = "<available-reports>\n- q1: Sales &lt;by region&gt;\n</available-reports>";
/// assert_eq!(pass.system(), Some(said));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn listing<F>(
    name: impl Into<String>,
    description: impl Into<String>,
    list: impl Fn(Call) -> F + Send + Sync + 'static,
) -> Block
where
    F: Future<Output = Result<Vec<CatalogueItem>, BoxError>> + Send + 'static,
{
    let body = move |call: Call| {
        let items = list(call);
        async move {
            let line = |it: &CatalogueItem| line(&it.name, it.description.as_deref());
            let lines: Vec<String> = items.await?.iter().map(line).collect();
            Ok(escape_text(&lines.join("\n")).into_owned())
        }
    };
    Block::dynamic(name, body).description(description)
}

/// Returns the line of something that can be loaded. A name and a description are one line, however they are written.
pub(crate) fn line(name: &str, description: Option<&str>) -> String {
    let flat = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
    match description {
        Some(about) => format!("- {}: {}", flat(name), flat(about)),
        None => format!("- {}", flat(name)),
    }
}
