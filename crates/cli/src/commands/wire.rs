//! `resolve --wire`: shows a request in the provider's format.

use contexture_compose::Pass;
use contexture_message::ErrorCode;
use contexture_wire::{Catalogue, Dialect, Encoded, Loss, Target, encode_request};
use serde_json::json;

use crate::error::Failure;
use crate::output::Reply;

/// Returns the JSON that would be sent, and what the dialect cannot represent.
pub(super) fn reply(
    dialect: Dialect,
    pass: &Pass,
    catalogue: &Catalogue,
    cache_key: Option<String>,
    as_json: bool,
) -> Result<Reply, Failure> {
    let request = pass.request();
    let Some(full) = request.model.as_deref() else {
        let failure =
            Failure::new(ErrorCode::ModelMissing, "no model is named, and what is sent depends on it");
        return Err(failure.hint("`--model provider/model` names one"));
    };
    // A model without a provider belongs to the dialect's owner.
    let (provider, model) = full.split_once('/').unwrap_or((dialect.as_str(), full));
    let target = Target {
        facts: catalogue.facts(full),
        stream: true,
        cache_key,
        ..Target::new(dialect, provider, model)
    };
    let Encoded { body, losses } = encode_request(&target, request);
    if as_json {
        let document = json!({"dialect": dialect, "model": full, "body": body, "losses": losses});
        return Ok(Reply::json(document));
    }
    let note = |reply: Reply, Loss { at, reason }: &Loss| reply.note(format!("left out: {at}: {reason}"));
    Ok(losses.iter().fold(Reply::json(body), note))
}
