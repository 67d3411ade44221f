//! Knowledge: the bases of a tenant, their documents, and the search in them.
//!
//! A base is the tenant's own, unless the project has a folder of that name: such a base serves every tenant, and only
//! its files change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use contexture::knowledge::document::Media;
use contexture::knowledge::retrieve::{Hit, HitDocument, ReadRange, ReadTarget};
use contexture::knowledge::{Document, IndexError, Query, Refusal, RetrieveError};
use contexture_message::ErrorCode;
use contexture_project::{BaseHome, ProjectBase};
use contexture_session::rank::Language;
use contexture_session::sources::{BaseInfo, BaseSettings, SourceIndex, SourceInfo};
use contexture_session::{BaseId, BaseKey, SourceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::sessions::limited;
use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, in_range, segment, shown, within};
use crate::http::params::{BasePath, KnowledgeDocumentPath};
use crate::http::refusals::{Conflict, Failed, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(NewBase, NewDocument, KnowledgeSearch);
returns!(
    BaseView,
    KnowledgeBasePage,
    KnowledgeDocument,
    KnowledgeDocumentPage,
    KnowledgeDocumentDetails,
    KnowledgeSearchResults
);

/// How long texts beside the document itself may be, in characters.
const MAX_LABEL: usize = 1_000;
const MAX_URL: usize = 2_000;
const MAX_QUERY: usize = 10_000;
const MAX_TOP_K: u32 = 100;
const DEFAULT_TOP_K: u32 = 10;
/// How much of a document is returned at once, in characters.
const MAX_CHARS: u64 = 1_000_000;
const DEFAULT_CHARS: u64 = 100_000;

impl From<RetrieveError> for Problem {
    fn from(err: RetrieveError) -> Self {
        match err {
            RetrieveError::Store(err) => err.into(),
            other => Self::new(ErrorCode::ContributorFailed, other.to_string()),
        }
    }
}

impl From<IndexError> for Problem {
    fn from(err: IndexError) -> Self {
        match err {
            IndexError::Store(err) => err.into(),
            IndexError::Files(err) => Self::new(ErrorCode::ContributorFailed, err.to_string()),
        }
    }
}

/// The settings of a base.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewBase {
    /// What the base is about, for catalogues; by default as before, or what the project's configuration says.
    #[schemars(length(max = 1000))]
    description: Option<String>,
    /// The language of the documents, for stop words and stems; by default as before, or what the configuration says.
    /// Documents that were added before it changed have to be added again.
    language: Option<Language>,
}

/// A knowledge base.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "KnowledgeBase")]
pub(crate) struct BaseView {
    /// Its name.
    base: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The language of its documents.
    language: Language,
    /// Whether it is a folder of the project: it serves every tenant, and only its files change it.
    is_folder: bool,
    /// How many documents are indexed.
    documents: u64,
    /// How many chunks they have.
    chunks: u64,
    /// The time of creation.
    created: DateTime,
    /// The time of its newest document.
    updated: DateTime,
}

impl BaseView {
    fn of(info: BaseInfo, is_folder: bool) -> Self {
        let BaseInfo { base, settings: BaseSettings { language, description }, documents, chunks, .. } = info;
        let (base, created, updated) = (base.to_string(), info.created.into(), info.updated.into());
        Self { base, description, language, is_folder, documents, chunks, created, updated }
    }
}

/// A page of knowledge bases.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeBasePage {
    /// The bases, in the order of their names.
    bases: Vec<BaseView>,
    /// The start of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// The page of bases to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BasesQuery {
    /// Only those after this one.
    #[param(min_length = 1, max_length = 64, pattern = r"^[\w\-][\w.\-]*$")]
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// The page of documents to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentsQuery {
    /// Only those after this one.
    #[param(min_length = 1, max_length = 1000, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// A document to add.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDocument {
    /// Its id in the base, such as a path; a document with that id is replaced. Without one it gets a new one.
    #[schemars(length(min = 1, max = 1000), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"), example = &"refunds")]
    id: Option<String>,
    /// Its title; by default its first heading, or its id.
    #[schemars(length(min = 1, max = 1000))]
    title: Option<String>,
    /// The text.
    #[schemars(length(min = 1), example = &"# Refunds\n\nWithin 30 days.")]
    text: String,
    /// `text/markdown` (the default), `text/plain`, `text/html`, `application/jsonl`, or of source code `text/x-` and
    /// the extension of its files, such as `text/x-rs`.
    #[schemars(example = &"text/markdown")]
    media_type: Option<String>,
    /// Where it came from.
    #[schemars(length(max = 2000), regex(pattern = r"^https?://[!-~]+$"), example = &"https://example.com/refunds")]
    url: Option<String>,
    /// Whatever else is worth knowing about it.
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// A document of a knowledge base.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeDocument {
    /// Its id in the base.
    id: String,
    /// The title.
    title: String,
    /// The URL it came from, or `file:` and the path in the base's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// The media type.
    media_type: String,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    /// The hash of its content, and of how it was indexed.
    version: String,
    /// Its size in bytes.
    bytes: u64,
    /// How many chunks it has.
    chunks: u32,
    /// The time that it was added, or of the last change of its file.
    at: DateTime,
}

impl From<SourceInfo> for KnowledgeDocument {
    fn from(info: SourceInfo) -> Self {
        let SourceInfo { title, origin: url, media_type, metadata, version, bytes, chunks, .. } = info;
        let (id, at) = (info.id.to_string(), info.at.into());
        Self { id, title, url, media_type, metadata, version, bytes, chunks, at }
    }
}

/// A page of documents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeDocumentPage {
    /// The documents, in the order of their ids.
    documents: Vec<KnowledgeDocument>,
    /// The start of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// The part of a document to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PassageQuery {
    /// The first character.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64, default = 0)]
    from: Option<u64>,
    /// How many characters; chunks are returned whole.
    #[param(minimum = 1, maximum = 1_000_000, default = 100_000)]
    max: Option<u64>,
}

/// A document with its text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeDocumentDetails {
    /// The document.
    document: KnowledgeDocument,
    /// Its chunks, in the order of the text.
    chunks: Vec<KnowledgeChunk>,
    /// The `from` of the next request, if the document continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// A chunk of a document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeChunk {
    /// Its number in the base. Answers cite it as `[base:chunk]`.
    chunk: String,
    /// The headings above it, outermost first.
    headings: Vec<String>,
    /// Where it is in the document, in characters: from the first, up to but without the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<(u64, u64)>,
    /// The text.
    text: String,
}

impl From<Hit> for KnowledgeChunk {
    fn from(hit: Hit) -> Self {
        Self { chunk: hit.chunk, headings: hit.document.headings, span: hit.document.span, text: hit.text }
    }
}

/// A search in a base.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnowledgeSearch {
    /// Words or a question; there is no syntax.
    #[schemars(length(min = 1, max = 10000), example = &"How long do refunds take?")]
    query: String,
    /// How many hits at most; by default 10.
    #[schemars(range(min = 1, max = 100))]
    top_k: Option<u32>,
    /// No hit below this score, from 0 to 1; by default 0.
    #[schemars(range(min = 0, max = 1))]
    min_score: Option<f64>,
}

/// What a search found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeSearchResults {
    /// The hits, best first.
    hits: Vec<KnowledgeHit>,
    /// What is worth knowing about them, such as how many were below the score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// A chunk that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnowledgeHit {
    /// The score: from 0 to 1, unless the base is in a search engine with a scale of its own.
    score: f64,
    /// What each signal added to the score, such as `lexical`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    shares: BTreeMap<String, f64>,
    /// The document's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// The document's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The document's URL, or `file:` and the path in the base's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(flatten)]
    chunk: KnowledgeChunk,
}

impl From<Hit> for KnowledgeHit {
    fn from(hit: Hit) -> Self {
        let shares = hit.shares.iter().map(|(signal, share)| (signal.as_str().to_owned(), *share)).collect();
        let HitDocument { id: document, title, origin: url, .. } = hit.document.clone();
        Self { score: hit.score, shares, document, title, url, chunk: hit.into() }
    }
}

/// A base, as the caller finds it.
struct Found {
    base: Arc<ProjectBase>,
    store: Arc<dyn SourceIndex>,
    key: BaseKey,
    is_folder: bool,
}

impl Found {
    /// Finds a base whose documents are kept here.
    fn of(access: &Access, id: &BaseId) -> Result<Self, Problem> {
        if id.is_reserved() {
            return Err(missing(id));
        }
        let base = access.loaded().project.base(id);
        let store = base.store();
        match base.home(&access.caller.tenant) {
            BaseHome::Folder(key) => Ok(Self { base, store, key, is_folder: true }),
            BaseHome::Own(key) => Ok(Self { base, store, key, is_folder: false }),
            BaseHome::Engine => {
                let text = format!("the documents of knowledge base `{id}` are in a search engine, not here");
                Err(Problem::new(ErrorCode::NotFound, text))
            }
        }
    }

    /// Finds a base that the caller may change.
    fn writable(access: &Access, id: &BaseId) -> Result<Self, Problem> {
        let found = Self::of(access, id)?;
        if found.is_folder {
            let text = format!("knowledge base `{id}` is a folder of the project");
            let problem = Problem::new(ErrorCode::BaseReadOnly, text);
            return Err(problem.hint(format!("change the files in `knowledge/{id}`")));
        }
        Ok(found)
    }

    /// Returns what the store knows of the base. A folder is brought up to date first.
    async fn info(&self) -> Result<BaseInfo, Problem> {
        self.base.open_folder().await?;
        let info = self.store.base(self.key.clone()).await?;
        info.ok_or_else(|| missing(&self.key.base))
    }

    async fn document(&self, id: &SourceId) -> Result<SourceInfo, Problem> {
        self.info().await?;
        let found = self.store.sources_with(self.key.clone(), vec![id.clone()]).await?;
        found.into_iter().next().ok_or_else(|| no_document(id))
    }
}

fn missing(id: &BaseId) -> Problem {
    let problem = Problem::not_found("knowledge base", id.as_str());
    problem.hint("`PUT /v1/knowledge/{base}` creates it")
}

fn no_document(id: &SourceId) -> Problem {
    Problem::not_found("document", &shown(id.as_str()))
}

/// List the knowledge bases: the tenant's own, and the folders of the project.
#[utoipa::path(
    get, path = "/v1/knowledge", operation_id = "list_knowledge_bases", tag = "knowledge", params(BasesQuery),
    responses((status = 200, description = "A page of bases.", body = KnowledgeBasePage), Refused)
)]
pub(crate) async fn list(
    access: Access,
    QueryParams(page): QueryParams<BasesQuery>,
) -> JsonResult<KnowledgeBasePage> {
    let limit = limited(page.limit, 100, 1000)?;
    let after = page.after.map(BaseId::parse).transpose()?;
    let store = Arc::clone(&access.sources);
    let own = store.bases(access.caller.tenant.clone(), after.clone(), limit).await?;
    let own = own
        .into_iter()
        .filter(|it| !it.base.is_reserved())
        .map(|it| (it.base.clone(), BaseView::of(it, false)));
    let mut views: BTreeMap<BaseId, BaseView> = own.collect();
    let folders = access.loaded().project.folder_bases();
    for id in folders.into_iter().filter(|it| after.as_ref().is_none_or(|after| it > after)) {
        let Ok(found) = Found::of(&access, &id) else { continue };
        // Not brought up to date here: a list must not take as long as an index.
        let info = store.base(found.key.clone()).await?;
        let now = || BaseInfo::new(id.clone(), found.base.settings(), access.time.now());
        views.insert(id.clone(), BaseView::of(info.unwrap_or_else(now), true));
    }
    let bases: Vec<BaseView> = views.into_values().take(limit).collect();
    let after = bases.last().filter(|_| bases.len() == limit).map(|it| it.base.clone());
    Ok(Json(KnowledgeBasePage { bases, after }))
}

/// Create a knowledge base, or change its settings.
#[utoipa::path(
    put, path = "/v1/knowledge/{base}", operation_id = "put_knowledge_base", tag = "knowledge", params(BasePath),
    request_body = NewBase,
    responses((status = 200, description = "The base.", body = BaseView), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn put(
    access: Access,
    PathParam(id): PathParam<BaseId>,
    JsonBody(new): JsonBody<NewBase>,
) -> JsonResult<BaseView> {
    let found = Found::writable(&access, &id)?;
    within("description", new.description.as_deref(), MAX_LABEL)?;
    // What is not given stays as it is.
    let known = found.store.base(found.key.clone()).await?;
    let usual = known.map_or_else(|| found.base.settings(), |it| it.settings);
    let settings = BaseSettings {
        language: new.language.unwrap_or(usual.language),
        description: new.description.or(usual.description),
    };
    let info = found.store.put_base(found.key, settings, access.time.now()).await?;
    Ok(Json(BaseView::of(info, false)))
}

/// Show a knowledge base.
#[utoipa::path(
    get, path = "/v1/knowledge/{base}", operation_id = "show_knowledge_base", tag = "knowledge", params(BasePath),
    responses((status = 200, description = "The base.", body = BaseView), Refused, NotThere, Failed)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<BaseId>) -> JsonResult<BaseView> {
    let found = Found::of(&access, &id)?;
    Ok(Json(BaseView::of(found.info().await?, found.is_folder)))
}

/// Remove a knowledge base with all of its documents.
#[utoipa::path(
    delete, path = "/v1/knowledge/{base}", operation_id = "delete_knowledge_base", tag = "knowledge", params(BasePath),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete(access: Access, PathParam(id): PathParam<BaseId>) -> Result<StatusCode, Problem> {
    let found = Found::writable(&access, &id)?;
    let was_there = found.store.delete_base(found.key).await?;
    access.deleted(was_there, access.act("knowledge.base_deleted", id.as_str()), missing(&id)).await
}

/// List the documents of a knowledge base.
#[utoipa::path(
    get, path = "/v1/knowledge/{base}/documents", operation_id = "list_knowledge_documents", tag = "knowledge",
    params(BasePath, DocumentsQuery),
    responses((status = 200, description = "A page of documents.", body = KnowledgeDocumentPage), Refused, NotThere, Failed)
)]
pub(crate) async fn documents(
    access: Access,
    PathParam(id): PathParam<BaseId>,
    QueryParams(page): QueryParams<DocumentsQuery>,
) -> JsonResult<KnowledgeDocumentPage> {
    let limit = limited(page.limit, 100, 1000)?;
    let after = page.after.map(SourceId::parse).transpose()?;
    let found = Found::of(&access, &id)?;
    found.info().await?;
    let sources = found.store.sources(found.key, after, limit).await?;
    let after = sources.last().filter(|_| sources.len() == limit).map(|it| it.id.to_string());
    Ok(Json(KnowledgeDocumentPage {
        documents: sources.into_iter().map(KnowledgeDocument::from).collect(),
        after,
    }))
}

/// Add a document to a knowledge base, or replace the one with the same id.
#[utoipa::path(
    post, path = "/v1/knowledge/{base}/documents", operation_id = "add_knowledge_document", tag = "knowledge",
    params(BasePath), request_body = NewDocument,
    responses(
        (status = 201, body = KnowledgeDocument, description = "The document. It can be found from now on.", headers(("Location" = String, description = "Where it is."))),
        Refused, NotThere, Conflict, Unusable,
    )
)]
pub(crate) async fn add(
    access: Access,
    PathParam(id): PathParam<BaseId>,
    JsonBody(new): JsonBody<NewDocument>,
) -> Result<impl IntoResponse, Problem> {
    let found = Found::writable(&access, &id)?;
    found.info().await?;
    let (at, new_id) = (access.time.now(), access.names.next());
    let (indexer, key) = (found.base.indexer(), found.key.clone());
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let document = Document { at, ..document(new_id, new)? };
        let source = document.id.clone();
        runtime.block_on(indexer.add(&key, vec![document], &|_| {}))?;
        Ok::<_, Problem>(source)
    };
    // Converting, cutting and analysing a large text takes long, and other requests need the runtime's threads.
    let done = tokio::task::spawn_blocking(work).await;
    let source = done.map_err(|err| Problem::new(ErrorCode::Panicked, err.to_string()))??;
    access.bases.want_vectors(found.key.clone());
    let view = KnowledgeDocument::from(found.document(&source).await?);
    let location = format!("/v1/knowledge/{}/documents/{}", segment(id.as_str()), segment(&view.id));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(view)))
}

fn document(new_id: String, new: NewDocument) -> Result<Document, Problem> {
    within("title", new.title.as_deref(), MAX_LABEL)?;
    within("url", new.url.as_deref(), MAX_URL)?;
    if new.text.is_empty() {
        return Err(Problem::in_body("text", "the text is empty"));
    }
    if new.title.as_deref() == Some("") {
        return Err(Problem::in_body("title", "the title is empty"));
    }
    let is_web = |it: &String| it.starts_with("http://") || it.starts_with("https://");
    let is_plain = |it: &String| it.bytes().all(|it| it.is_ascii_graphic());
    if new.url.as_ref().is_some_and(|it| !is_web(it) || !is_plain(it)) {
        let text = "the URL must begin with `http://` or `https://`, without spaces";
        return Err(Problem::in_body("url", text));
    }
    let id = SourceId::parse(new.id.unwrap_or(new_id))?;
    let media = media(new.media_type.as_deref())?;
    let document = Document::convert(id, media, new.text).map_err(refused)?;
    let title = new.title.unwrap_or_else(|| document.title.clone());
    Ok(Document { title, origin: new.url, metadata: new.metadata, ..document })
}

fn refused(refusal: Refusal) -> Problem {
    let problem = Problem::new(ErrorCode::InputInvalid, format!("the text can't be indexed: {refusal}"));
    let problem = problem.at("text");
    match refusal.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// Checks a media type.
fn media(name: Option<&str>) -> Result<Media, Problem> {
    let Some(name) = name else { return Ok(Media::Markdown) };
    let media = Media::of_type(name);
    // Whatever else begins with `text/` is read as plain text.
    if matches!(media, Media::Text) && !name.starts_with("text/") {
        let text = format!("documents of the type `{}` can't be indexed", shown(name));
        let problem = Problem::new(ErrorCode::InputInvalid, text).at("media_type");
        return Err(problem.hint("convert it first, and send its text as `text/markdown` or `text/plain`"));
    }
    Ok(media)
}

/// Show a document with its text.
#[utoipa::path(
    get, path = "/v1/knowledge/{base}/documents/{id}", operation_id = "show_knowledge_document", tag = "knowledge",
    params(BasePath, KnowledgeDocumentPath, PassageQuery),
    responses((status = 200, description = "The document.", body = KnowledgeDocumentDetails), Refused, NotThere, Failed)
)]
pub(crate) async fn document_details(
    access: Access,
    PathParams(base, id): PathParams<BaseId, SourceId>,
    QueryParams(range): QueryParams<PassageQuery>,
) -> JsonResult<KnowledgeDocumentDetails> {
    let max = in_range(ErrorCode::QueryInvalid, "max", range.max.unwrap_or(DEFAULT_CHARS), 1..=MAX_CHARS)?;
    let found = Found::of(&access, &base)?;
    let document = found.document(&id).await?.into();
    let retriever = found.base.retriever(&access.caller.tenant).await?;
    let range = ReadRange { from: Some(range.from.unwrap_or(0)), max };
    let passage = retriever.read(ReadTarget::Document(id.to_string()), range).await?;
    let chunks = passage.hits.into_iter().map(KnowledgeChunk::from).collect();
    Ok(Json(KnowledgeDocumentDetails { document, chunks, next: passage.next }))
}

/// Remove a document.
#[utoipa::path(
    delete, path = "/v1/knowledge/{base}/documents/{id}", operation_id = "delete_knowledge_document", tag = "knowledge",
    params(BasePath, KnowledgeDocumentPath),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete_document(
    access: Access,
    PathParams(base, id): PathParams<BaseId, SourceId>,
) -> Result<StatusCode, Problem> {
    let found = Found::writable(&access, &base)?;
    found.info().await?;
    let n_removed = found.store.remove_sources(found.key, vec![id.clone()]).await?;
    let act = access.act("knowledge.document_deleted", base.as_str()).detail(id.to_string());
    access.deleted(n_removed > 0, act, no_document(&id)).await
}

/// Search a knowledge base.
#[utoipa::path(
    post, path = "/v1/knowledge/{base}/search", operation_id = "search_knowledge", tag = "knowledge", params(BasePath),
    request_body = KnowledgeSearch,
    responses((status = 200, description = "What was found.", body = KnowledgeSearchResults), Refused, NotThere, Unusable, Failed)
)]
pub(crate) async fn search(
    access: Access,
    PathParam(id): PathParam<BaseId>,
    JsonBody(search): JsonBody<KnowledgeSearch>,
) -> JsonResult<KnowledgeSearchResults> {
    let KnowledgeSearch { query: text, top_k, min_score } = search;
    within("query", Some(&text), MAX_QUERY)?;
    if text.is_empty() {
        return Err(Problem::in_body("query", "the query is empty"));
    }
    let top_k =
        in_range(ErrorCode::BodyInvalid, "top_k", top_k.unwrap_or(DEFAULT_TOP_K), 1..=MAX_TOP_K)? as usize;
    let min_score = in_range(ErrorCode::BodyInvalid, "min_score", min_score.unwrap_or(0.0), 0.0..=1.0)?;
    let query = Query { text, top_k, min_score, now: Some(access.time.now()) };
    let base = access.loaded().project.base(&id);
    let retriever = base.retriever(&access.caller.tenant).await?;
    let found = retriever.retrieve(query).await?;
    let notes = found.notes.iter().map(ToString::to_string).collect();
    Ok(Json(KnowledgeSearchResults { hits: found.hits.into_iter().map(KnowledgeHit::from).collect(), notes }))
}
