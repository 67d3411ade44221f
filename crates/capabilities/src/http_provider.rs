//! A context provider that asks a server.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{HttpTool, HttpToolInvalid};
use contexture_compose::ports::HttpCaller;
use contexture_compose::{BoxError, BoxFuture, Call, ContextProvider, ContextSource, TagValue, Trust, Turn};
use contexture_message::{Message, Part, Role};
use serde_json::{Map, Value, json};

/// How long a call may take, unless the provider says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);
/// An answer may hold so many messages.
const MAX_MESSAGES: usize = 50;

/// What a provider asks, and how its answer is read.
#[derive(Clone, Debug)]
pub struct HttpProvider {
    /// The name that identifies it, `provider:<name>`.
    pub name: String,
    /// The call. `{name}` in the URL is a value of the request.
    pub http: HttpTool,
    /// The values of the request. Those that the URL does not use go into the query of GET, HEAD and DELETE, and into a
    /// JSON body otherwise.
    pub request: Vec<(String, TagValue)>,
    /// The role of the message, if the answer is a text.
    pub role: Role,
}

/// Returns a provider that makes an HTTP call and puts the answer before the history.
///
/// The answer, or the part of it that `http.result` points to, is a text or a list of messages `{role, content}` with
/// the roles `system`, `user` and `assistant`. A provider that fails, or takes longer than ten seconds, is left out with
/// the reason, unless its options say otherwise. Errors show neither secrets nor what the server answered.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::sync::Arc;
///
/// use contexture_agent::{HttpReply, HttpRequest, HttpTool};
/// use contexture_capabilities::{HttpProvider, http_provider};
/// use contexture_compose::ports::HttpCaller;
/// use contexture_compose::{BoxError, BoxFuture, Prompt, ResolveOptions, TagValue, Text};
/// use contexture_message::Role;
///
/// struct Desk;
/// impl HttpCaller for Desk {
///     fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>> {
///         assert_eq!(request.url, "https://desk.example/tickets?user=ada");
///         let body = br#"{"summary": "Two open tickets."}"#.to_vec();
///         let content_type = Some("application/json".to_owned());
///         Box::pin(async move { Ok(HttpReply { status: 200, content_type, body }) })
///     }
/// }
///
/// let http: HttpTool = serde_json::from_str(r#"{"url": "https://desk.example/tickets", "result": "/summary"}"#)?;
/// let user = TagValue::from(Text::template("{{ input.user }}")?);
/// let tickets = HttpProvider { name: "tickets".into(), http, request: vec![("user".into(), user)], role: Role::System };
/// let prompt = Prompt::builder("p").provider(http_provider(tickets, Arc::new(Desk))?).build()?;
/// let pass = prompt.resolve(ResolveOptions::new(serde_json::json!({"user": "ada"}))).await?;
/// assert_eq!(pass.request().messages[0].as_text(), Some("Two open tickets."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn http_provider(
    provider: HttpProvider,
    caller: Arc<dyn HttpCaller>,
) -> Result<ContextProvider, HttpToolInvalid> {
    let properties: Map<String, Value> =
        provider.request.iter().map(|(name, _)| (name.clone(), json!({}))).collect();
    let parameters = json!({"type": "object", "properties": properties});
    provider.http.check(&parameters)?;
    let asked = AskedServer { provider, parameters, caller };
    Ok(ContextProvider::of(asked).deadline(DEADLINE).trust(Trust::External))
}

struct AskedServer {
    provider: HttpProvider,
    parameters: Value,
    caller: Arc<dyn HttpCaller>,
}

impl AskedServer {
    async fn ask(&self, call: Call) -> Result<Vec<Message>, BoxError> {
        let HttpProvider { http, request, role, .. } = &self.provider;
        let mut arguments = Map::new();
        for (name, value) in request {
            arguments.insert(name.clone(), value.resolve(&call).await?);
        }
        let request = http.request(&self.parameters, &Value::Object(arguments))?;
        let reply = self.caller.call(request).await?;
        if !(200..300).contains(&reply.status) {
            return Err(format!("the server answered with status {}", reply.status).into());
        }
        messages(http.value(&reply)?, *role)
    }
}

fn messages(answer: Value, role: Role) -> Result<Vec<Message>, BoxError> {
    let text = match answer {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Number(_) | Value::Bool(_) => answer.to_string(),
        Value::Array(items) if items.len() > MAX_MESSAGES => {
            return Err(format!("the answer has {} messages, {MAX_MESSAGES} are allowed", items.len()).into());
        }
        Value::Array(items) => return items.into_iter().enumerate().map(message).collect(),
        Value::Object(_) => {
            return Err("the answer is an object: point `result` at a text or a list of messages".into());
        }
    };
    Ok(if text.trim().is_empty() { Vec::new() } else { vec![Message::text(role, text)] })
}

/// Reads a message of an answer. Only texts of the three roles are allowed: calls and results belong to the conversation.
fn message((idx, item): (usize, Value)) -> Result<Message, BoxError> {
    let message: Message =
        serde_json::from_value(item).map_err(|err| format!("message {idx} of the answer: {err}"))?;
    let is_text = message.content.iter().all(|it| matches!(it, Part::Text { .. }));
    match message.role {
        Role::System | Role::User | Role::Assistant if is_text => {
            Ok(Message::text(message.role, message.joined_text()))
        }
        _ => Err(format!("message {idx} of the answer is not a text of system, user or assistant").into()),
    }
}

impl ContextSource for AskedServer {
    fn name(&self) -> &str {
        &self.provider.name
    }

    fn provide(&self, call: Call, _: Arc<[Turn]>) -> BoxFuture<'_, Result<Vec<Message>, BoxError>> {
        Box::pin(self.ask(call))
    }
}
