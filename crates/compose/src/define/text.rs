//! Text that an author writes: a literal, a template, or a function of the input.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use contexture_template::{Partials, Template, Variable};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use super::{Call, Scope};
use crate::BoxError;
use crate::segment::{SharedText, Volatility};

type TextFn = dyn Fn(&Call) -> Result<String, BoxError> + Send + Sync;
type TextFuture = dyn Fn(Call) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// Text of a prompt or an entry. Strings convert into it.
///
/// ```
/// use contexture_compose::Text;
/// # #[derive(serde::Deserialize)] struct Ticket { plan: String }
/// let literal: Text = "You answer questions about invoices.".into();
/// let template = Text::template("The customer's plan is {{ input.plan }}.")?;
/// let function = Text::of(|ticket: &Ticket| format!("Plan: {}", ticket.plan));
/// let later = Text::later(|ticket: std::sync::Arc<Ticket>| async move { Ok(ticket.plan.clone()) });
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone)]
pub struct Text(Kind);

#[derive(Clone)]
enum Kind {
    Literal(Literal),
    Template(TemplateText),
    Sync(Arc<TextFn>),
    Async(Arc<TextFuture>),
}

/// A text that never changes.
#[derive(Clone)]
pub(crate) struct Literal {
    text: SharedText,
    /// The author's original text, if the engine's tags had to be neutralised in it.
    original: Option<Arc<str>>,
}

impl Literal {
    fn new(original: &str) -> Self {
        let text = SharedText::authored(original);
        let is_same = text.as_str() == original;
        Self { text, original: (!is_same).then(|| original.into()) }
    }

    fn original(&self) -> &str {
        self.original.as_deref().unwrap_or(&self.text)
    }
}

/// A template with the partials it may use.
#[derive(Clone)]
struct TemplateText {
    template: Template,
    partials: Option<Arc<dyn Partials>>,
}

impl Text {
    /// Returns a text that is the same for every pass.
    pub fn literal(text: impl Into<String>) -> Self {
        Self(Kind::Literal(Literal::new(&text.into())))
    }

    /// Parses a Liquid template over `input`, `ctx` and `config`; undefined variables are errors.
    pub fn template(source: &str) -> Result<Self, contexture_template::Error> {
        Ok(Self::from_template(Template::parse(source)?, None))
    }

    /// Returns the text of a parsed template, with the partials that it may render.
    pub fn from_template(template: Template, partials: Option<Arc<dyn Partials>>) -> Self {
        match template.as_literal() {
            Some(literal) => Self::literal(literal),
            None => Self(Kind::Template(TemplateText { template, partials })),
        }
    }

    /// Returns a text computed from the typed input.
    pub fn of<I, R>(function: impl Fn(&I) -> R + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        R: Into<String>,
    {
        Self(Kind::Sync(Arc::new(move |call| Ok(function(&*call.input.get::<I>()?).into()))))
    }

    /// Returns a text computed from the typed input and the pass's scope.
    ///
    /// ```
    /// use contexture_compose::Text;
    /// # #[derive(serde::Deserialize)] struct Ticket { plan: String }
    /// let text = Text::of_scoped(|it: &Ticket, ctx| {
    ///     format!("{} has the plan {}.", ctx.user.as_deref().unwrap_or("The user"), it.plan)
    /// });
    /// ```
    pub fn of_scoped<I, R>(function: impl Fn(&I, &Scope) -> R + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        R: Into<String>,
    {
        Self(Kind::Sync(Arc::new(move |call| Ok(function(&*call.input.get::<I>()?, &call.scope).into()))))
    }

    /// Returns a text computed from the typed input by a function that can fail.
    pub fn try_of<I, R, E>(function: impl Fn(&I) -> Result<R, E> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        R: Into<String>,
        E: Into<BoxError>,
    {
        Self(Kind::Sync(Arc::new(move |call| {
            function(&*call.input.get::<I>()?).map(Into::into).map_err(Into::into)
        })))
    }

    /// Returns a text computed by an async function, which runs concurrently with the other contributors.
    pub fn later<I, F>(function: impl Fn(Arc<I>) -> F + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Self(Kind::Async(Arc::new(move |call| match call.input.get::<I>() {
            Ok(input) => Box::pin(function(input)),
            Err(err) => Box::pin(std::future::ready(Err(err))),
        })))
    }

    /// Returns how often the text can change, derived from what it reads: a literal never changes; a template that
    /// reads only the tenant, user or session changes with the conversation; all other texts change with the turn.
    pub fn volatility(&self) -> Volatility {
        match &self.0 {
            Kind::Literal(_) => Volatility::Static,
            Kind::Template(text) => text.volatility(&text.template, 0),
            Kind::Sync(_) | Kind::Async(_) => Volatility::Turn,
        }
    }

    /// Returns the global variables that a template reads; empty for other kinds of text.
    pub fn variables(&self) -> Vec<Variable> {
        match &self.0 {
            Kind::Template(text) => text.template.variables(),
            Kind::Literal(_) | Kind::Sync(_) | Kind::Async(_) => Vec::new(),
        }
    }

    /// Returns the paths of all variables that a template and its partials read.
    pub(crate) fn variables_in_all(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        if let Kind::Template(text) = &self.0 {
            text.read(&text.template, 0, &mut paths);
        }
        paths
    }

    /// Returns the text for a call.
    pub async fn resolve(&self, call: &Call) -> Result<String, BoxError> {
        self.evaluate(call).wait_original().await
    }

    /// Returns the text immediately if it can be computed synchronously, or else a future.
    pub(crate) fn evaluate(&self, call: &Call) -> Evaluated {
        match &self.0 {
            Kind::Literal(literal) => Evaluated::Known(literal.clone()),
            Kind::Template(text) => Evaluated::Made(text.render(call)),
            Kind::Sync(function) => Evaluated::Made(function(call)),
            Kind::Async(function) => Evaluated::Later(function(call.clone())),
        }
    }

    /// Renders a template with what is known now. Async texts are evaluated earlier and are an error here.
    pub(crate) fn render_now(&self, call: &Call) -> Result<SharedText, BoxError> {
        match self.evaluate(call) {
            Evaluated::Known(literal) => Ok(literal.text),
            Evaluated::Made(text) => text.map(|it| SharedText::authored(&it)),
            Evaluated::Later(_) => Err("a text that waits can't be rendered at once".into()),
        }
    }

    /// Returns the text if it is a literal.
    pub(crate) fn as_literal(&self) -> Option<&SharedText> {
        match &self.0 {
            Kind::Literal(literal) => Some(&literal.text),
            Kind::Template(_) | Kind::Sync(_) | Kind::Async(_) => None,
        }
    }

    /// Returns the author's original text if it is a literal.
    pub(crate) fn as_original(&self) -> Option<&str> {
        match &self.0 {
            Kind::Literal(literal) => Some(literal.original()),
            Kind::Template(_) | Kind::Sync(_) | Kind::Async(_) => None,
        }
    }

    /// Returns whether it is a template, which may read values that are known only after all entries are gathered.
    pub(crate) fn is_template(&self) -> bool {
        matches!(self.0, Kind::Template(_))
    }
}

/// The result of evaluating a text: available now, or a future.
pub(crate) enum Evaluated {
    Known(Literal),
    Made(Result<String, BoxError>),
    Later(BoxFuture<'static, Result<String, BoxError>>),
}

impl Evaluated {
    /// Returns the text with the engine's tags neutralised, so that nothing in it can pass for an engine envelope.
    pub(crate) async fn wait(self) -> Result<SharedText, BoxError> {
        match self {
            Evaluated::Known(literal) => Ok(literal.text),
            Evaluated::Made(text) => text.map(|it| SharedText::authored(&it)),
            Evaluated::Later(future) => future.await.map(|it| SharedText::authored(&it)),
        }
    }

    /// Returns the author's original text, for a place where everything is escaped anyway.
    pub(crate) async fn wait_original(self) -> Result<String, BoxError> {
        match self {
            Evaluated::Known(literal) => Ok(literal.original().to_owned()),
            Evaluated::Made(text) => text,
            Evaluated::Later(future) => future.await,
        }
    }
}

/// The maximum depth to which partials are followed to find out what a text reads.
const MAX_PARTIALS: usize = 8;

impl TemplateText {
    /// Returns how often a template's output changes, derived from what it and its partials read.
    fn volatility(&self, template: &Template, depth: usize) -> Volatility {
        if template.shows_time() {
            return Volatility::Turn;
        }
        let read = template.variables().iter().map(variable_volatility).max().unwrap_or(Volatility::Static);
        let of_partial = |(name, _)| match self.partials.as_ref().and_then(|it| it.partial(name)) {
            Some(partial) if depth < MAX_PARTIALS => self.volatility(&partial, depth + 1),
            // A partial that cannot be inspected may read anything.
            _ => Volatility::Turn,
        };
        let partials = template.partials();
        let rendered = partials.iter().map(|(name, place)| of_partial((name.as_str(), place))).max();
        rendered.map_or(read, |it| it.max(read))
    }

    fn read(&self, template: &Template, depth: usize, paths: &mut Vec<Vec<String>>) {
        paths.extend(template.variables().into_iter().map(|it| it.path));
        for (name, _) in template.partials() {
            let partial = self.partials.as_ref().and_then(|it| it.partial(&name));
            if let Some(partial) = partial.filter(|_| depth < MAX_PARTIALS) {
                self.read(&partial, depth + 1, paths);
            }
        }
    }

    fn render(&self, call: &Call) -> Result<String, BoxError> {
        let rendered = call
            .in_template(self.partials.as_deref(), |globals, config| self.template.render(globals, config));
        Ok(rendered?)
    }
}

fn variable_volatility(variable: &Variable) -> Volatility {
    match variable.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ctx", "session" | "tenant" | "user" | "cap", ..] | ["config", "model" | "provider", ..] => {
            Volatility::Conversation
        }
        _ => Volatility::Turn,
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::literal(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::literal(text)
    }
}

impl From<Template> for Text {
    fn from(template: Template) -> Self {
        Self::from_template(template, None)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Literal(literal) => f.debug_tuple("Literal").field(&literal.original()).finish(),
            Kind::Template(text) => f.debug_tuple("Template").field(&text.template.source()).finish(),
            Kind::Sync(_) => f.write_str("Function"),
            Kind::Async(_) => f.write_str("AsyncFunction"),
        }
    }
}
