//! `cache`: remembers a value by a key, and asks for it only when it is not known.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey};
use serde_json::Value;

use crate::keys::{CACHE, FRESH, digest, earlier};
use crate::{
    CacheConfig, CacheScope, JsonType, Node, NodeContext, NodeError, Port, PortType, PortValue, Step,
};

const VALUE: &str = "value";

impl CacheConfig {
    fn document_key(&self, cx: &NodeContext) -> DocumentKey {
        let key = cx.data("key").unwrap_or(&Value::Null).to_string();
        let (session, run) = match self.scope {
            CacheScope::Run => (Some(cx.run.session().clone()), cx.run.name()),
            CacheScope::Session => (Some(cx.run.session().clone()), ""),
            CacheScope::Tenant => (None, ""),
        };
        let name = digest(&[&cx.flow, &cx.node, run, &key]);
        DocumentKey { session, ..DocumentKey::of_tenant(&cx.services.tenant, CACHE, name) }
    }

    async fn remembered(&self, cx: &NodeContext) -> Result<Option<Value>, NodeError> {
        let Some(found) = cx.services.documents.document(self.document_key(cx)).await? else {
            return Ok(None);
        };
        let now = cx.services.time.now();
        let is_fresh = match self.ttl_seconds {
            // Not longer than it may now, if it was to live longer then.
            Some(seconds) => found.at > now && found.at <= later(now, seconds),
            None => true,
        };
        // An unreadable entry is recomputed.
        let value: Option<Value> = serde_json::from_str(&found.data).ok();
        let Some(value) = value.filter(|_| is_fresh) else { return Ok(None) };
        // Entries in use are kept. An entry with a time to live is kept until it expires.
        if self.ttl_seconds.is_none() && found.at < earlier(now, FRESH) {
            self.remember(cx, &value).await?;
        }
        Ok(Some(value))
    }

    async fn remember(&self, cx: &NodeContext, value: &Value) -> Result<(), NodeError> {
        let now = cx.services.time.now();
        // An entry with a time to live is dated with its expiry, so pruning by age removes it after that.
        let at = self.ttl_seconds.map_or(now, |it| later(now, it));
        let document = Document { key: self.document_key(cx), at, data: value.to_string() };
        Ok(cx.services.documents.put(document).await?)
    }
}

fn later(at: Timestamp, seconds: u64) -> Timestamp {
    let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    Timestamp(at.0.saturating_add(millis))
}

impl Node for CacheConfig {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("key", PortType::ANY).required(), Port::new(VALUE, PortType::ANY).required().lazy()]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new(VALUE, PortType::ANY), Port::new("hit", PortType::data(JsonType::Boolean))]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let (value, hit) = match cx.data(VALUE) {
                Some(value) => {
                    self.remember(&cx, value).await?;
                    (value.clone(), false)
                }
                None => match self.remembered(&cx).await? {
                    Some(value) => (value, true),
                    None => return Ok(Step::Pull(vec![VALUE.to_owned()])),
                },
            };
            Ok(Step::done([(VALUE, PortValue::data(value)), ("hit", PortValue::data(hit))]))
        })
    }
}
