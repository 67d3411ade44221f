//! Resolves passes from arguments. Shared by `resolve`, `inspect` and `diff`.

use contexture_agent::resolve_reminded;
use contexture_compose::{Budget, Pass, Prompt, Scope, Turn};
use contexture_message::Tokens;
use contexture_project::Project;
use contexture_session::Tenant;
use contexture_wire::Catalogue;
use serde_json::{Map, Value};

use crate::args::{CallArgs, Globals, InputArgs, ResolveArgs, ScopeArgs};
use crate::clock;
use crate::error::Failure;
use crate::output;
use crate::read;
use crate::setup::knowledge;
use crate::setup::models;
use crate::setup::root;
use crate::setup::runtime;
use crate::setup::store::{self, Place};

/// The setup that all passes of one prompt share.
pub(crate) struct Passes<'a> {
    project: Project,
    /// The store of the project, which may have knowledge bases.
    place: Place,
    id: &'a str,
    call: &'a CallArgs,
    history: Vec<Turn>,
    scope: Scope,
}

impl<'a> Passes<'a> {
    /// Opens the project and reads what the arguments refer to.
    pub(crate) fn of(id: &'a str, call: &'a CallArgs, globals: &Globals) -> Result<Self, Failure> {
        let scope = scope(&call.scope, call.session.as_deref())?;
        let (project, dir) = root::open_with_dir(globals)?;
        let place = store::parse(&project.config().store.url, &dir)?;
        let history = call.history.as_deref().map_or(Ok(Vec::new()), read::turns)?;
        Ok(Self { project, place, id, call, history, scope })
    }

    /// Resolves the prompt for an input.
    pub(crate) fn resolve(&self, input: Value) -> Result<Pass, Failure> {
        let prompt = self.prompt()?;
        let call = self.call;
        // Use the same model name as `run`.
        let own = prompt.definition().model.as_deref().or(self.project.config().model.default.as_deref());
        let model = models::named(&call.model, own);
        let mut options = match (&call.model.provider, &call.model.model) {
            (Some(provider), None) => self.project.options(prompt, Some(provider), None),
            _ => self.project.options(prompt, None, model.as_deref()),
        };
        options.additions.blocks = call.blocks.iter().map(|it| read::block(it)).collect::<Result<_, _>>()?;
        options.input = input;
        options.scope = self.scope.clone();
        options.overrides.budget = Budget {
            token_budget: call.budget.map(Tokens),
            input_budget: call.input_budget.map(Tokens),
            ..Budget::default()
        };
        options.conversation.history.clone_from(&self.history);
        if let Some(text) = &call.user {
            options = options.user_message(text);
        }
        options.engine = Some(contexture::engine());
        runtime::block_on(async {
            knowledge::provide_existing(&self.project, &self.place).await?;
            let pass = resolve_reminded(prompt, options, &call.reminders).await;
            pass.map_err(|err| self.project.error(&err).into())
        })?
    }

    fn prompt(&self) -> Result<&Prompt, Failure> {
        prompt(&self.project, self.id)
    }
}

/// Returns a prompt of the project, with a hint if the id is a file name.
pub(crate) fn prompt<'a>(project: &'a Project, id: &str) -> Result<&'a Prompt, Failure> {
    project.prompt(id).map_err(|err| {
        let failure = Failure::from(err);
        // Shell completion produces file names.
        match id.strip_prefix("prompts/").and_then(|it| it.strip_suffix(".md")) {
            Some(name) => failure.hint(format!("a prompt is named without its folder and ending: `{name}`")),
            None => failure,
        }
    })
}

/// Returns the scope for templates: session, tenant, user and time.
pub(crate) fn scope(args: &ScopeArgs, session: Option<&str>) -> Result<Scope, Failure> {
    let now = match &args.now {
        Some(now) if clock::is_rfc3339(now) => now.clone(),
        Some(now) => {
            let failure = Failure::usage(format!("`--now {now}` is not a time of RFC 3339"));
            return Err(failure.hint("write it like `2026-07-01T09:30:00Z`"));
        }
        None => clock::now(),
    };
    Ok(Scope {
        session: session.map(str::to_owned),
        tenant: Some(args.tenant.clone().unwrap_or_else(|| Tenant::default().to_string())),
        user: args.scope_user.clone(),
        now: Some(now),
        ..Scope::default()
    })
}

/// Returns the input of a prompt. If `strict`, keys that no schema declares are an error.
pub(crate) fn input(args: &InputArgs, strict: bool, prompt: &Prompt) -> Result<Value, Failure> {
    let input = input_of(args, &prompt.input_schema())?;
    match prompt.undeclared_input(&input) {
        undeclared if strict && !undeclared.is_empty() => {
            Err(Failure::input(undeclared.join("; ")).hint("without `--strict` this is a warning"))
        }
        _ => Ok(input),
    }
}

/// Warns about input keys that no schema of the prompt declares.
pub(crate) fn warn_of_undeclared(prompt: &Prompt, input: &Value) {
    prompt.undeclared_input(input).iter().for_each(|it| output::warn(it));
}

/// Reads an input described by a schema.
pub(crate) fn input_of(args: &InputArgs, schema: &Value) -> Result<Value, Failure> {
    let mut input = match &args.input {
        Some(value) => read::json_option("--input", value)?,
        None => Value::Object(Map::new()),
    };
    args.sets.iter().try_for_each(|it| read::set(&mut input, it, schema))?;
    Ok(input)
}

/// Resolves a prompt for `resolve` and `inspect`.
pub(crate) fn resolve(args: &ResolveArgs, globals: &Globals) -> Result<(Pass, Catalogue), Failure> {
    if args.input.input.as_deref() == Some("-") && args.call.history.as_deref() == Some("-") {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let passes = Passes::of(&args.prompt, &args.call, globals)?;
    // Report an unknown prompt before any problem with its input.
    let prompt = passes.prompt()?;
    let input = input(&args.input, args.strict, prompt)?;
    Ok((passes.resolve(input)?, passes.project.catalogue().clone()))
}
