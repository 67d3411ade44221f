//! Who is asked, and by which way.

use std::sync::Arc;

use contexture_message::Request;
use contexture_mockmodel::MockModel;
use contexture_model::{ClientConfig, ModelCall, ModelErrorKind, ModelProvider, Proxy};
use contexture_wire::Dialect;

use crate::{Heard, call, client_with, config, good, hear, provider};

async fn asked_for(model: Option<&str>) -> Heard {
    let client = client_with(ModelProvider::new(Dialect::Openai).at("http://127.0.0.1:9"), config());
    let request = Request { model: model.map(str::to_owned), ..Request::default() };
    hear(&client, ModelCall { request: Arc::new(request), ..ModelCall::default() }).await
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_with_those_that_are() {
    let heard = asked_for(Some("nobody/gpt")).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::NotFound);
    assert_eq!(
        heard.error().to_string(),
        "model `nobody/gpt`: there is no provider `nobody`; configured are `mock`"
    );
    assert_eq!(asked_for(None).await.error().to_string(), "the request names no model");
    let no_provider = "`gpt` is not `provider/model`; configured are `mock`";
    assert_eq!(asked_for(Some("gpt")).await.error().to_string(), no_provider);
    assert_eq!(asked_for(Some("mock/")).await.error().kind(), ModelErrorKind::NotFound);
}

#[tokio::test]
async fn the_model_is_what_follows_the_first_slash() {
    let server = MockModel::start([good(Dialect::Openai)]).await;
    let client = client_with(provider(Dialect::Openai, &server), config());
    let request = Request { model: Some("mock/meta/llama-3".to_owned()), ..Request::default() };
    hear(&client, ModelCall { request: Arc::new(request), ..ModelCall::default() }).await;
    assert_eq!(server.received()[0].body["model"], "meta/llama-3");
}

#[tokio::test]
async fn a_proxy_is_used_when_there_is_one() {
    let proxy = MockModel::start([good(Dialect::Openai)]).await;
    let provider =
        ModelProvider::new(Dialect::Openai).at("http://models.invalid/v1").with_key("sk-secret-key");
    let proxies = vec![Proxy::all(proxy.url()).unwrap()];
    let client = client_with(provider, ClientConfig { proxies, ..config() });
    assert_eq!(hear(&client, call("hello")).await.text(), "The answer is 42.");
    assert_eq!(proxy.received()[0].path, "http://models.invalid/v1/chat/completions");
}

#[tokio::test]
async fn callers_may_look_at_what_would_be_sent() {
    let server = MockModel::start([good(Dialect::Openai)]).await;
    let client = client_with(provider(Dialect::Openai, &server), config());
    let call = ModelCall { cache_key: Some("thread-1".to_owned()), ..call("hello") };
    let encoded = client.encode_with_losses(&call).unwrap();
    hear(&client, call).await;
    assert_eq!(server.received()[0].body, encoded.body);
    assert!(encoded.losses.is_empty());
}
