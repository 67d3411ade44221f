//! Prompt blocks: those of the project's files, and those that the tenant adds to them.

use axum::Json;
use axum::http::StatusCode;
use contexture_compose::tags::{TagError, block_tag_name, outside_block_name};
use contexture_compose::{Block, BlockMessage, BlockMode, BlockScope, Prompt, ResolveOptions, Source};
use contexture_message::{ErrorCode, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::turn_shapes::input;
use crate::app::Access;
use crate::http::input::{JsonBody, PathParam, shown, within};
use crate::http::params::BlockPath;
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::tenant_blocks::{MAX_BLOCKS, MAX_BODY, TenantBlock, TenantBlocks};
use crate::{JsonResult, Problem};

accepts!(TenantBlock, BlockPreviewRequest);
returns!(BlockList, BlockView, BlockPreview);

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlockOrigin {
    /// A file of the project.
    Project,
    /// The tenant.
    Tenant,
}

impl BlockOrigin {
    /// Only blocks of the tenant have a text of their own.
    fn of(body: &Option<String>) -> Self {
        if body.is_some() { BlockOrigin::Tenant } else { BlockOrigin::Project }
    }
}

/// A prompt block.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Block")]
pub(crate) struct BlockView {
    /// Its name, which is also its tag.
    name: String,
    /// Where it comes from.
    origin: BlockOrigin,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Which message it belongs to.
    message: BlockMessage,
    /// How long it stays valid.
    scope: BlockScope,
    /// Whether it is evaluated once or for each request.
    mode: BlockMode,
    /// Keywords for finding it.
    tags: Vec<String>,
    /// Its order among blocks with the same placement.
    order: i32,
    /// How long its text may be reused for the same input, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_s: Option<u64>,
    /// The ids of the prompts it applies to; empty means all.
    agents: Vec<String>,
    /// Whether it is included at all.
    enabled: bool,
    /// Its text, of a block of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl BlockView {
    /// Returns a block of the project, or with its text one of the tenant.
    fn of(block: &Block, body: Option<String>) -> Self {
        let block = block.definition();
        Self {
            name: block_tag_name(&block.name).unwrap_or_else(|_| block.name.clone()),
            origin: BlockOrigin::of(&body),
            description: block.description.clone(),
            message: block.message,
            scope: block.scope,
            mode: block.mode,
            tags: block.tags.clone(),
            order: block.order,
            ttl_s: block.ttl.map(|it| it.as_secs()),
            agents: block.agents.clone(),
            enabled: block.enabled,
            body,
        }
    }
}

/// Prompt blocks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlockList {
    /// The blocks of the project, then those of the tenant, each in the order of their names.
    blocks: Vec<BlockView>,
}

fn blocks(access: &Access) -> TenantBlocks {
    TenantBlocks::new(std::sync::Arc::clone(&access.documents))
}

/// Returns the name of a block as a tag.
fn tag(name: &str) -> Result<String, Problem> {
    block_tag_name(name).map_err(bad_name)
}

fn bad_name(err: TagError) -> Problem {
    let problem = Problem::new(ErrorCode::IdInvalid, err.to_string()).at("name");
    match err.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn made(name: &str, block: &TenantBlock) -> Result<Block, Problem> {
    block.block(name).map_err(|fault| Problem::new(ErrorCode::TemplateError, fault).at("body"))
}

/// Returns the block of the project's files with that tag.
fn of_project(access: &Access, name: &str) -> Option<Block> {
    let loaded = access.loaded();
    let is_meant = |it: &&Block| block_tag_name(&it.definition().name).is_ok_and(|it| it == name);
    loaded.project.blocks().filter_map(|(_, it)| it.ok()).find(is_meant).cloned()
}

/// Finds the block with a tag: of the project, or of the tenant with its text.
async fn found(access: &Access, name: &str) -> Result<(Block, Option<String>), Problem> {
    if let Some(block) = of_project(access, name) {
        return Ok((block, None));
    }
    let block = blocks(access).get(&access.caller.tenant, name).await?;
    let block = block.ok_or_else(|| Problem::not_found("block", &shown(name)))?;
    Ok((made(name, &block)?, Some(block.body)))
}

/// List the prompt blocks.
#[utoipa::path(
    get, path = "/v1/blocks", operation_id = "list_blocks", tag = "blocks",
    responses((status = 200, description = "The blocks.", body = BlockList), Refused)
)]
pub(crate) async fn list(access: Access) -> JsonResult<BlockList> {
    let loaded = access.loaded();
    let files = loaded.project.blocks().filter_map(|(_, it)| it.ok());
    let mut listed: Vec<BlockView> = files.map(|it| BlockView::of(it, None)).collect();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    for (name, block) in blocks(&access).all(&access.caller.tenant).await? {
        listed.push(BlockView::of(&made(&name, &block)?, Some(block.body)));
    }
    Ok(Json(BlockList { blocks: listed }))
}

/// Show a prompt block.
#[utoipa::path(
    get, path = "/v1/blocks/{name}", operation_id = "show_block", tag = "blocks", params(BlockPath),
    responses((status = 200, description = "The block.", body = BlockView), Refused, NotThere)
)]
pub(crate) async fn show(access: Access, PathParam(name): PathParam<String>) -> JsonResult<BlockView> {
    let (block, body) = found(&access, &tag(&name)?).await?;
    Ok(Json(BlockView::of(&block, body)))
}

/// Create or replace a prompt block of the tenant.
///
/// It applies to the prompts that `agents` lists, or to all. A thread that froze an earlier version keeps it until its
/// prefix is evaluated again: `POST /v1/threads/{id}/refresh`.
#[utoipa::path(
    put, path = "/v1/blocks/{name}", operation_id = "put_block", tag = "blocks", params(BlockPath), request_body = TenantBlock,
    responses((status = 200, description = "The block.", body = BlockView), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn put(
    access: Access,
    PathParam(name): PathParam<String>,
    JsonBody(block): JsonBody<TenantBlock>,
) -> JsonResult<BlockView> {
    let name = outside_block_name(&name).map_err(bad_name)?;
    check(&access, &block)?;
    let view = BlockView::of(&made(&name, &block)?, Some(block.body.clone()));
    if of_project(&access, &name).is_some() {
        let text = format!("the project has a block `{name}`, which a tenant can't replace");
        return Err(Problem::new(ErrorCode::AlreadyExists, text).at("name"));
    }
    let (all, tenant) = (blocks(&access), &access.caller.tenant);
    let known = all.all(tenant).await?;
    if known.len() >= MAX_BLOCKS && !known.iter().any(|(it, _)| *it == name) {
        let text = format!("the tenant has {} blocks of at most {MAX_BLOCKS}", known.len());
        return Err(Problem::new(ErrorCode::BodyInvalid, text).hint("delete one first"));
    }
    all.put(tenant, &name, &block, access.time.now()).await?;
    access.audit.record(access.act("block.put", &name)).await;
    Ok(Json(view))
}

/// Checks the fields of a block that the schema of the body can't.
fn check(access: &Access, block: &TenantBlock) -> Result<(), Problem> {
    if block.body.len() > MAX_BODY {
        let text = format!("the body has {} bytes; it has at most {MAX_BODY}", block.body.len());
        return Err(Problem::in_body("body", text));
    }
    within("description", block.description.as_deref(), 1000)?;
    if block.tags.len() > 50 || block.tags.iter().any(|it| it.chars().count() > 100) {
        let text = "there are more than 50, or one is longer than 100 characters";
        return Err(Problem::in_body("tags", text));
    }
    if block.ttl_s.is_some_and(|it| !(1..=31_536_000).contains(&it)) {
        return Err(Problem::in_body("ttl_s", "it is from 1 to 31,536,000"));
    }
    let loaded = access.loaded();
    for (idx, agent) in block.agents.iter().enumerate() {
        if loaded.project.prompt(agent).is_err() {
            let problem =
                Problem::new(ErrorCode::InputInvalid, format!("there is no prompt `{}`", shown(agent)));
            return Err(problem.at(format!("agents[{idx}]")));
        }
    }
    Ok(())
}

/// Delete a prompt block of the tenant. Threads that froze it keep it until their prefix is evaluated again.
#[utoipa::path(
    delete, path = "/v1/blocks/{name}", operation_id = "delete_block", tag = "blocks", params(BlockPath),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete(
    access: Access,
    PathParam(name): PathParam<String>,
) -> Result<StatusCode, Problem> {
    let name = tag(&name)?;
    if of_project(&access, &name).is_some() {
        let text = format!("block `{name}` is a file of the project");
        return Err(Problem::new(ErrorCode::FileExists, text).at("name"));
    }
    let was_there = blocks(&access).delete(&access.caller.tenant, &name, access.time.now()).await?;
    let missing = Problem::not_found("block", &shown(&name));
    access.deleted(was_there, access.act("block.deleted", &name), missing).await
}

/// What to preview a block with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BlockPreviewRequest {
    /// The input that its template reads.
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Value,
    /// The value of `ctx.user`.
    user_id: Option<String>,
    /// The model whose tokens are counted, `provider/model`.
    model: Option<String>,
    /// A text in the place of the block's own, to try it.
    #[schemars(length(max = 65536))]
    body: Option<String>,
}

/// What a block would say.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlockPreview {
    /// The block's name.
    name: String,
    /// Where it comes from.
    origin: BlockOrigin,
    /// Which message it belongs to.
    message: BlockMessage,
    /// How long it stays valid.
    scope: BlockScope,
    /// Whether it is evaluated once or for each request.
    mode: BlockMode,
    /// Its text with its tag; empty if the body is blank.
    text: String,
    /// What it costs.
    tokens: Tokens,
}

/// Show what a prompt block would say.
#[utoipa::path(
    post, path = "/v1/blocks/{name}/preview", operation_id = "preview_block", tag = "blocks", params(BlockPath), request_body = BlockPreviewRequest,
    responses((status = 200, description = "What it would say.", body = BlockPreview), Refused, NotThere, Unusable)
)]
pub(crate) async fn preview(
    access: Access,
    PathParam(name): PathParam<String>,
    JsonBody(request): JsonBody<BlockPreviewRequest>,
) -> JsonResult<BlockPreview> {
    let name = tag(&name)?;
    let (block, own) = found(&access, &name).await?;
    let (mut definition, origin) = (block.definition().clone(), BlockOrigin::of(&own));
    if let Some(body) = request.body {
        let tried = TenantBlock { body, ..TenantBlock::default() };
        check(&access, &tried)?;
        // Whatever a request brings is escaped.
        (definition.body, definition.raw) = (made(&name, &tried)?.definition().body.clone(), false);
    }
    // The block is shown as a prompt that it applies to would see it, and its faults are told.
    (definition.agents, definition.enabled) = (Vec::new(), true);
    definition.on_error = contexture_compose::OnError::Fail;
    let (message, scope, mode) = (definition.message, definition.scope, definition.mode);
    let prompt = Prompt::builder("preview").include(Block::from(definition)).build();
    let prompt = prompt.map_err(|err| access.loaded().project.error(&err))?;
    let mut options = ResolveOptions::new(input(request.input))
        .scope(access.scope(None, request.user_id))
        .engine(&contexture::engine());
    options.target.model = request.model;
    let pass = prompt.resolve(options).await.map_err(|err| access.loaded().project.error(&err))?;
    let source = pass.segments().iter().map(|it| &it.source).find(|it| matches!(it, Source::Block(_)));
    let source = source.map(ToString::to_string);
    let part = pass.explain().parts.into_iter().find(|it| Some(&it.source) == source.as_ref());
    let (text, tokens) = part.map(|it| (it.text.unwrap_or_default(), it.tokens)).unwrap_or_default();
    Ok(Json(BlockPreview { name, origin, message, scope, mode, text, tokens }))
}
