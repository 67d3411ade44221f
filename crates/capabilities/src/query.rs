//! The words to search for: a template over the input and the conversation.

use contexture_compose::{BoxError, Call, Turn, TurnStatus};
use contexture_message::Role;
use contexture_template::{Globals, RenderConfig, Template};
use serde_json::{Value, json};

/// The variables that a template of a query can read.
///
/// `user` is what the user says in this turn, `last` the turn before it (`last.user`, `last.assistant`, empty if there
/// is none), `history` the list of all earlier turns in the same form.
pub const QUERY_VARIABLES: [&str; 5] = ["input", "ctx", "user", "last", "history"];

/// The query of entries that have none: the user's text with the last turn. Answers are long, and their first words say
/// what they are about.
const DEFAULT: &str = include_str!("templates/query.txt");

/// A template of a query.
#[derive(Clone, Debug)]
pub struct QueryTemplate(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Template(Template),
    /// Words that came with a request and are no template, whatever they contain.
    Words(String),
}

impl QueryTemplate {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, contexture_template::Error> {
        Template::parse(text).map(Self::from)
    }

    pub(crate) fn words(words: &str) -> Self {
        Self(Kind::Words(words.trim().to_owned()))
    }

    /// Renders the query of a call.
    fn render(&self, values: &QueryValues) -> Result<String, BoxError> {
        let template = match &self.0 {
            Kind::Template(template) => template,
            Kind::Words(words) => return Ok(words.clone()),
        };
        let text = template.render(&Globals::new(&values.globals()), &RenderConfig::strict())?;
        Ok(text.trim().to_owned())
    }
}

impl From<Template> for QueryTemplate {
    fn from(template: Template) -> Self {
        Self(Kind::Template(template))
    }
}

/// What a template of a query can read.
pub(crate) struct QueryValues {
    input: Value,
    ctx: Value,
    user: Value,
    last: Value,
    history: Value,
}

impl QueryValues {
    pub(crate) fn of(call: &Call) -> Self {
        let scope = &call.scope;
        let earlier = call.conversation().iter().filter(|it| it.status() != TurnStatus::InFlight);
        let history: Vec<Value> = earlier.map(words).collect();
        let nothing = || json!({"user": "", "assistant": ""});
        Self {
            input: call.input.value().clone(),
            ctx: json!({
                "session": scope.session, "tenant": scope.tenant, "user": scope.user, "now": scope.now,
            }),
            user: call.user_text().into(),
            last: history.last().cloned().unwrap_or_else(nothing),
            history: history.into(),
        }
    }

    pub(crate) fn globals(&self) -> [(&'static str, &Value); 5] {
        let Self { input, ctx, user, last, history } = self;
        [("input", input), ("ctx", ctx), ("user", user), ("last", last), ("history", history)]
    }

    /// Renders a template, or the default: nothing if the user says nothing.
    pub(crate) fn query(&self, template: Option<&QueryTemplate>) -> Result<String, BoxError> {
        match template {
            Some(template) => template.render(self),
            None if self.user.as_str().is_none_or(|it| it.trim().is_empty()) => Ok(String::new()),
            None => QueryTemplate::parse(DEFAULT)?.render(self),
        }
    }
}

/// Returns what was said in a turn.
fn words(turn: &Turn) -> Value {
    let said = |role: Role| {
        let texts = turn.messages().iter().filter(|it| it.role == role).map(|it| it.joined_text());
        let mut own = texts.filter(|it| !it.trim().is_empty());
        // A turn begins with what the user says and ends with the answer.
        let found = if role == Role::User { own.next() } else { own.next_back() };
        found.unwrap_or_default()
    };
    json!({"user": visible(&said(Role::User)), "assistant": said(Role::Assistant)})
}

/// Returns a user's text without the hidden envelopes behind it.
fn visible(text: &str) -> &str {
    let tags = contexture_compose::tags::ENGINE_TAG_NAMES.iter();
    let first = tags.filter_map(|it| text.find(&format!("<{it}"))).min();
    text[..first.unwrap_or(text.len())].trim_end()
}
