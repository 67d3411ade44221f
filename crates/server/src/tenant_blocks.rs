//! Prompt blocks of tenants, on top of those of the project's files.
//!
//! A block is one document of its tenant. What a deleted one leaves behind is a marker: threads that froze the block keep
//! what they froze until their prefix is evaluated again, and the marker gives it its place until then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CallerEntries;
use contexture_compose::tags::block_tag_name;
use contexture_compose::{
    Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, BoxFuture, Entry, OnError, Scope,
    Text,
};
use contexture_history::Timestamp;
use contexture_project::Project;
use contexture_session::{Document, DocumentKey, Documents, SessionError, StoreError, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of documents that hold blocks.
const BLOCK: &str = "block";
/// The kind of documents that mark deleted blocks.
pub(crate) const DELETED: &str = "block_deleted";
/// The most blocks of a tenant.
pub(crate) const MAX_BLOCKS: usize = 200;
/// How many documents are read first. Each turn reads the blocks of its tenant, who mostly has a few, and what follows
/// them belongs to other tenants.
const FIRST_PAGE: usize = 16;
/// The longest body, in bytes.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// A block of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BlockBody")]
pub(crate) struct TenantBlock {
    /// What the block is for.
    #[schemars(length(max = 1000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Which message it belongs to.
    #[serde(default)]
    pub(crate) message: BlockMessage,
    /// How long it stays valid.
    #[serde(default)]
    pub(crate) scope: BlockScope,
    /// Whether it is evaluated once or for each request.
    #[serde(default)]
    pub(crate) mode: BlockMode,
    /// `static`: a block of a tenant has a text.
    #[serde(rename = "type", default)]
    pub(crate) kind: BlockType,
    /// Keywords for finding it.
    #[schemars(length(max = 50))]
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// Its order among blocks with the same placement: lower first, then by name.
    #[serde(default)]
    pub(crate) order: i32,
    /// How long its text may be reused for the same input, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub(crate) ttl_s: Option<u64>,
    /// The ids of the prompts it applies to; empty means all.
    #[schemars(length(max = 200))]
    #[serde(default)]
    pub(crate) agents: Vec<String>,
    /// Whether it is included at all; by default yes.
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
    /// Its text: a Liquid template over `input` and `ctx`, at most 64 KiB. It is always escaped.
    #[schemars(length(max = 65536))]
    pub(crate) body: String,
}

fn yes() -> bool {
    true
}

/// What makes the text of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlockType {
    /// A text.
    #[default]
    Static,
}

impl TenantBlock {
    /// Returns the block under a name, or what is wrong with its template.
    pub(crate) fn block(&self, name: &str) -> Result<Block, String> {
        let text = Text::template(&self.body).map_err(|err| err.with_place().to_string())?;
        Ok(Block::from(BlockDefinition {
            name: name.to_owned(),
            description: self.description.clone(),
            message: self.message,
            scope: self.scope,
            mode: self.mode,
            body: BlockBody::Static(text),
            tags: self.tags.clone(),
            order: self.order,
            ttl: self.ttl_s.map(Duration::from_secs),
            // A text that can't be rendered must not stop all turns of its tenant.
            on_error: OnError::Warn,
            agents: self.agents.clone(),
            enabled: self.enabled,
            ..BlockDefinition::default()
        }))
    }

    /// Whether threads keep what it said first.
    fn is_frozen(&self) -> bool {
        (self.message, self.scope, self.mode)
            == (BlockMessage::System, BlockScope::Conversation, BlockMode::Cached)
    }
}

/// The blocks of all tenants.
#[derive(Clone, Debug)]
pub(crate) struct TenantBlocks {
    documents: Arc<dyn Documents>,
    /// The names of the project's blocks, which a tenant can't replace.
    of_project: Arc<BTreeSet<String>>,
}

impl TenantBlocks {
    pub(crate) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents, of_project: Arc::default() }
    }

    /// Returns the same blocks without those that a project has under the same name.
    pub(crate) fn besides(self, project: &Project) -> Self {
        let named = project.blocks().filter_map(|(_, it)| it.ok()).map(|it| it.definition().name.clone());
        let names = named.filter_map(|it| block_tag_name(&it).ok()).collect();
        Self { of_project: Arc::new(names), ..self }
    }

    /// Returns the block of a tenant with that name, which is a tag.
    pub(crate) async fn get(&self, tenant: &Tenant, name: &str) -> Result<Option<TenantBlock>, StoreError> {
        let document = self.documents.document(DocumentKey::of_tenant(tenant, BLOCK, name)).await?;
        Ok(document.and_then(|it| read(&it)))
    }

    /// Lists the blocks of a tenant by name.
    pub(crate) async fn all(&self, tenant: &Tenant) -> Result<Vec<(String, TenantBlock)>, StoreError> {
        self.of_kind(tenant, BLOCK).await
    }

    /// Creates or replaces a block.
    pub(crate) async fn put(
        &self,
        tenant: &Tenant,
        name: &str,
        block: &TenantBlock,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(DocumentKey::of_tenant(tenant, BLOCK, name), block, at).await?;
        self.documents.delete(DocumentKey::of_tenant(tenant, DELETED, name)).await
    }

    async fn write(&self, key: DocumentKey, block: &TenantBlock, at: Timestamp) -> Result<(), StoreError> {
        let data = serde_json::to_string(block).unwrap_or_default();
        self.documents.put(Document { key, at, data }).await
    }

    /// Deletes a block. Returns whether it existed.
    pub(crate) async fn delete(
        &self,
        tenant: &Tenant,
        name: &str,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(block) = self.get(tenant, name).await? else { return Ok(false) };
        if block.is_frozen() {
            let marker = TenantBlock { body: String::new(), ..block };
            self.write(DocumentKey::of_tenant(tenant, DELETED, name), &marker, at).await?;
        }
        self.documents.delete(DocumentKey::of_tenant(tenant, BLOCK, name)).await?;
        Ok(true)
    }

    /// Reads the documents of a kind that belong to a tenant itself.
    async fn of_kind(&self, tenant: &Tenant, kind: &str) -> Result<Vec<(String, TenantBlock)>, StoreError> {
        let is_own = |it: &Document| it.key.tenant == *tenant && it.key.session.is_none();
        let page = async |after: DocumentKey, max: usize| {
            let listed = self.documents.list(kind.to_owned(), Some(after), max).await?;
            Ok::<_, StoreError>(listed.into_iter().take_while(is_own).collect::<Vec<_>>())
        };
        let mut own = page(DocumentKey::of_tenant(tenant, kind, ""), FIRST_PAGE).await?;
        if let Some(last) = own.get(FIRST_PAGE - 1) {
            own.extend(page(last.key.clone(), MAX_BLOCKS - FIRST_PAGE).await?);
        }
        Ok(own.into_iter().filter_map(|it| Some((it.key.name.clone(), read(&it)?))).collect())
    }

    async fn entries_of(&self, tenant: &Tenant) -> Result<Vec<Entry>, StoreError> {
        let mut found = self.all(tenant).await?;
        found.extend(self.of_kind(tenant, DELETED).await?);
        found.retain(|(name, _)| !self.of_project.contains(name));
        found.sort_by(|a, b| (a.1.order, &a.0).cmp(&(b.1.order, &b.0)));
        // A template was checked when it was stored.
        Ok(found.iter().filter_map(|(name, it)| it.block(name).ok()).map(Entry::Block).collect())
    }
}

fn read(document: &Document) -> Option<TenantBlock> {
    serde_json::from_str(&document.data).ok()
}

impl CallerEntries for TenantBlocks {
    fn entries(&self, scope: &Scope, _prompt: &str) -> BoxFuture<'_, Result<Vec<Entry>, SessionError>> {
        let tenant = scope.tenant.as_deref().map(Tenant::parse);
        Box::pin(async move {
            match tenant {
                Some(Ok(tenant)) => Ok(self.entries_of(&tenant).await?),
                Some(Err(_)) | None => Ok(Vec::new()),
            }
        })
    }
}
