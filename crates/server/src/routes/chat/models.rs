//! The models of the OpenAI endpoint: the project's prompts, and the models that it names.

use std::collections::BTreeSet;

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::{ChatRefused, no_model};
use crate::JsonResult;
use crate::app::Access;
use crate::http::input::{PathParam, PathParams};
use crate::http::params::ModelPath;
use crate::http::schemas::returns;
use crate::loaded_project::LoadedProject;

returns!(ModelView, ModelList);

/// A prompt or a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
pub(crate) struct ModelView {
    /// The name to use in requests.
    id: String,
    /// Always `model`.
    object: &'static str,
    /// Unknown: always 0.
    created: u64,
    /// `contexture` for prompts, the provider for models.
    owned_by: String,
}

/// All models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ModelList {
    /// Always `list`.
    object: &'static str,
    /// The prompts and models.
    data: Vec<ModelView>,
}

fn all(loaded: &LoadedProject) -> Vec<ModelView> {
    let config = loaded.project.config();
    let view = |id: &str, owned_by: &str| ModelView {
        id: id.to_owned(),
        object: "model",
        created: 0,
        owned_by: owned_by.to_owned(),
    };
    let prompts = loaded.project.prompts().filter_map(|(id, it)| it.ok().map(|it| (id, it)));
    let prompts: Vec<_> = prompts.collect();
    let of_prompts = prompts.iter().filter_map(|(_, it)| it.definition().model.as_deref());
    let named = config.models.keys().chain(&config.model.default).map(String::as_str).chain(of_prompts);
    let models: BTreeSet<&str> = named.collect();
    let models = models.into_iter().filter_map(|it| Some((it, it.split_once('/')?.0)));
    prompts.iter().map(|it| view(it.0, "contexture")).chain(models.map(|it| view(it.0, it.1))).collect()
}

/// List what a chat completion can name as its model: the prompts, and the models that the project names.
#[utoipa::path(get, path = "/v1/models", operation_id = "list_models", tag = "chat", responses((status = 200, description = "The prompts and models.", body = ModelList), ChatRefused))]
pub(crate) async fn list(access: Access) -> Json<ModelList> {
    Json(ModelList { object: "list", data: all(&access.loaded()) })
}

/// Show one of them.
#[utoipa::path(
    get, path = "/v1/models/{id}", operation_id = "show_model", tag = "chat", params(ModelPath),
    responses((status = 200, description = "The prompt or model.", body = ModelView), ChatRefused)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<String>) -> JsonResult<ModelView> {
    one(&access, &id)
}

/// Shows a model whose name contains unescaped slashes.
pub(crate) async fn show_named(
    access: Access,
    PathParams(id, rest): PathParams<String, String>,
) -> JsonResult<ModelView> {
    one(&access, &format!("{id}/{rest}"))
}

fn one(access: &Access, id: &str) -> JsonResult<ModelView> {
    let found = all(&access.loaded()).into_iter().find(|it| it.id == id);
    found.map(Json).ok_or_else(|| no_model(id))
}
