//! A key goes to its provider and nowhere else.

use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Client, ClientConfig, ClientError, ModelErrorKind, ModelProvider};
use contexture_wire::Dialect;
use serde_json::json;

use crate::{answered, asked, call, client_with, config, good, hear};

#[tokio::test]
async fn a_key_that_the_provider_sends_back_is_blanked_out() {
    for dialect in Dialect::ALL {
        let body = json!({"error": {
            "message": "Incorrect API key provided: sk-secret-key",
            "type": "sk-secret-key",
            "code": "sk-secret-key",
            "status": "sk-secret-key",
        }});
        for reply in [Reply::json(401, &body), Reply::status(401).text("no: Bearer sk-secret-key")] {
            let (heard, _) = answered(dialect, [reply]).await;
            let shown = format!("{} {:?}", heard.error(), heard.error());
            assert!(!shown.contains("sk-secret-key"), "{dialect:?}: {shown}");
            assert_eq!(heard.error().kind(), ModelErrorKind::Auth, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn keys_do_not_show() {
    let provider = ModelProvider::new(Dialect::Openai)
        .at("http://127.0.0.1:9/v1")
        .with_key("sk-secret-key\n")
        .with_header("x-gateway", "sk-other-key");
    let at = "http://me:sk-password@127.0.0.1:9/v1?key=sk-query-key";
    let addressed = ModelProvider::new(Dialect::Openai).at(at);
    let providers = [("mock".to_owned(), provider), ("other".to_owned(), addressed)].into();
    let config = ClientConfig { providers, ..config() };
    let shown = format!("{config:?} {:?}", Client::new(config.clone()).unwrap());
    assert!(!shown.contains("sk-"), "{shown}");
}

#[tokio::test]
async fn keys_in_headers_and_addresses_are_blanked_out_of_messages() {
    let message = "no such key: sk-header-key, sk-query-key";
    let server = MockModel::start([Reply::json(401, &json!({"error": {"message": message}}))]).await;
    let provider = ModelProvider::new(Dialect::Openai)
        .at(format!("{}?api-version=2024-10-21&key=sk-query-key", server.url()))
        .with_header("authorization", "Bearer sk-header-key");
    let heard = hear(&client_with(provider, config()), call("hello")).await;
    assert_eq!(heard.error().to_string().matches("***").count(), 2, "{}", heard.error());
}

#[tokio::test]
async fn a_key_is_blanked_out_where_a_long_message_is_cut() {
    let message = format!("{}sk-secret-key", "x".repeat(990));
    let reply = Reply::json(401, &json!({"error": {"message": message}}));
    let (heard, _) = answered(Dialect::Openai, [reply]).await;
    assert!(!heard.error().to_string().contains("sk-s"), "{}", heard.error());
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    for dialect in Dialect::ALL {
        let server = MockModel::start([good(dialect)]).await;
        let provider = ModelProvider::new(dialect).at(server.url());
        hear(&client_with(provider, config()), call("hello")).await;
        let headers = server.received().remove(0).headers;
        for name in ["authorization", "x-api-key", "x-goog-api-key"] {
            assert!(!headers.contains_key(name), "{dialect:?}: {headers:?}");
        }
    }
}

#[tokio::test]
async fn headers_of_the_configuration_come_last() {
    let server = MockModel::start([good(Dialect::Anthropic)]).await;
    let provider = ModelProvider::new(Dialect::Anthropic)
        .at(server.url())
        .with_header("anthropic-version", "2099-01-01")
        .with_header("Anthropic-Beta", "something-new");
    hear(&client_with(provider, config()), call("hello")).await;
    let headers = server.received().remove(0).headers;
    assert_eq!(headers["anthropic-version"], "2099-01-01");
    assert_eq!(headers["anthropic-beta"], "something-new");
}

#[test]
fn a_key_that_can_t_be_sent_is_refused_without_showing_it() {
    let provider = ModelProvider::new(Dialect::Openai).with_key("sk-secret\nkey");
    let providers = [("mock".to_owned(), provider)].into();
    let err = Client::new(ClientConfig { providers, ..config() }).unwrap_err();
    assert!(matches!(err, ClientError::Header { .. }));
    let shown = format!("{err} {err:?}");
    assert!(shown.contains("authorization") && !shown.contains("sk-secret"), "{shown}");
}

#[tokio::test]
async fn a_provider_gets_only_its_own_key() {
    let (one, other) = (MockModel::start([good(Dialect::Openai)]).await, MockModel::start([]).await);
    let providers = [
        ("mock".to_owned(), ModelProvider::new(Dialect::Openai).at(one.url()).with_key("key-of-one")),
        ("other".to_owned(), ModelProvider::new(Dialect::Openai).at(other.url()).with_key("key-of-other")),
    ];
    let client = Client::new(ClientConfig { providers: providers.into(), ..config() }).unwrap();
    hear(&client, call("hello")).await;
    assert_eq!(one.received()[0].headers["authorization"], "Bearer key-of-one");
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn the_prompt_is_sent() {
    let server = MockModel::start([good(Dialect::Openai)]).await;
    asked(Dialect::Openai, &server).await;
    assert!(server.received()[0].body.to_string().contains("hello"));
}
