//! The tools of a board: `<prefix>_read`, `<prefix>_write`, `<prefix>_patch` and `<prefix>_clear`.

use contexture_agent::{Invocation, Tool, ToolRefused};
use contexture_compose::BoxError;
use contexture_message::ToolDefinition;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::board::{Board, BoardWrite};
use super::edit::{Edit, PatchOperation};
use super::error::BoardError;
use super::pointer::Pointer;
use super::state::BoardAuthor;

#[derive(Deserialize)]
struct ReadArguments {
    #[serde(default)]
    path: Pointer,
}

#[derive(Deserialize)]
struct WriteArguments {
    path: Pointer,
    value: Value,
}

#[derive(Deserialize)]
struct PatchArguments {
    operations: Vec<PatchOperation>,
}

/// What all writes have.
#[derive(Deserialize)]
struct WriteCircumstances {
    /// Models also write integers as `5.0`.
    version: Option<f64>,
    reason: Option<String>,
}

/// Returns the four tools of a board.
pub(crate) fn tools(board: &Board) -> Result<Vec<Tool>, ToolRefused> {
    let refused = |err: serde_json::Error| ToolRefused {
        name: board.definition().prefix().to_owned(),
        reason: err.to_string(),
    };
    let definitions: Vec<ToolDefinition> =
        serde_json::from_str(include_str!("templates/tools.json")).map_err(refused)?;
    Ok(definitions.into_iter().map(|it| tool(board, it)).collect())
}

fn tool(board: &Board, template: ToolDefinition) -> Tool {
    let definition = board.definition();
    let kind = template.name.clone();
    let about = definition.options().description.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
    let description = template
        .description
        .replace("{id}", definition.id())
        .replace("{about}", &about)
        // The schema last: nothing in it is a place to fill.
        .replace("{schema}", &definition.schema().value().to_string());
    let name = format!("{}_{kind}", definition.prefix());
    let board = board.clone();
    Tool::unchecked(ToolDefinition { name, description, ..template }, move |invocation| {
        let (board, kind) = (board.clone(), kind.clone());
        async move {
            match kind.as_str() {
                "read" => read(&board, arguments::<ReadArguments>(&invocation)?.path).await,
                kind => write(&board, edit(kind, &invocation)?, &invocation).await,
            }
        }
    })
}

fn arguments<T: DeserializeOwned>(invocation: &Invocation) -> Result<T, BoxError> {
    Ok(T::deserialize(&invocation.call.arguments)?)
}

/// Returns the edit that a call asks for.
fn edit(kind: &str, invocation: &Invocation) -> Result<Edit, BoxError> {
    Ok(match kind {
        "write" => {
            let WriteArguments { path, value } = arguments(invocation)?;
            Edit::Put { path, value }
        }
        "patch" => Edit::Patch(arguments::<PatchArguments>(invocation)?.operations),
        _ => Edit::Clear(arguments::<ReadArguments>(invocation)?.path),
    })
}

async fn read(board: &Board, path: Pointer) -> Result<Value, BoxError> {
    let state = board.read().await?;
    let value = path.get(state.value()).cloned().unwrap_or_default();
    Ok(json!({"version": state.version(), "path": path, "value": value}))
}

async fn write(board: &Board, edit: Edit, invocation: &Invocation) -> Result<Value, BoxError> {
    let WriteCircumstances { version, reason } = arguments(invocation)?;
    let path = match &edit {
        Edit::Put { path, .. } | Edit::Clear(path) => path.clone(),
        Edit::Patch(_) => Pointer::default(),
    };
    let write = BoardWrite {
        // A version that is no whole number is rounded down, which only makes the write more careful.
        expected: version.map(|it| it.max(0.0) as u64).into(),
        author: BoardAuthor::Model,
        turn: Some(format!("{} {}", invocation.thread, invocation.turn)),
        reason,
        key: Some(format!("{}/{}/{}", invocation.thread, invocation.turn, invocation.call.id)),
        ..BoardWrite::new(edit)
    };
    let state = match board.write(write).await {
        Err(err @ (BoardError::Stale { .. } | BoardError::TestFailed { .. })) => {
            let version = board.read().await?.version().to_string();
            let text = include_str!("templates/stale.txt").trim_end().replace("{version}", &version);
            return Err(text.replace("{error}", &err.to_string()).into());
        }
        state => state?,
    };
    let path = if matches!(path.split(), Some((_, "-"))) { Pointer::default() } else { path };
    let value = path.get(state.value()).cloned().unwrap_or_default();
    Ok(json!({"version": state.version(), "path": path, "value": value}))
}
