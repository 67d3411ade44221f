//! Makes passes: arguments in, a [`Pass`] out. Shared by `resolve`, `inspect` and `diff`.

use contexture_compose::{Budget, Pass, Prompt, Scope, Turn};
use contexture_message::Tokens;
use contexture_project::Project;
use serde_json::{Map, Value};

use crate::args::{CallArgs, Globals, ResolveArgs};
use crate::clock;
use crate::error::Failure;
use crate::read;
use crate::root;
use crate::runtime;

/// Everything that passes of one prompt share.
pub(crate) struct Passes<'a> {
    project: Project,
    id: &'a str,
    call: &'a CallArgs,
    history: Vec<Turn>,
    now: String,
}

impl<'a> Passes<'a> {
    /// Opens the project and reads what the arguments name.
    pub(crate) fn of(id: &'a str, call: &'a CallArgs, globals: &Globals) -> Result<Self, Failure> {
        if let Some(dialect) = &call.wire {
            let message =
                format!("`--wire {dialect}`: requests in a provider's own JSON are not in this version");
            return Err(Failure::usage(message).hint("`--json` prints the request in the neutral form"));
        }
        let now = match &call.now {
            Some(now) if clock::is_rfc3339(now) => now.clone(),
            Some(now) => {
                let failure = Failure::usage(format!("`--now {now}` is not a time of RFC 3339"));
                return Err(failure.hint("write it like `2026-07-01T09:30:00Z`"));
            }
            None => clock::now(),
        };
        let project = root::open(globals)?;
        let history = call.history.as_deref().map_or(Ok(Vec::new()), read::turns)?;
        Ok(Self { project, id, call, history, now })
    }

    /// Resolves the prompt for an input.
    pub(crate) fn resolve(&self, input: Value) -> Result<Pass, Failure> {
        let prompt = self.prompt()?;
        let call = self.call;
        let mut options = self.project.options(prompt, call.provider.as_deref(), call.model.as_deref());
        options.input = input;
        options.scope = Scope {
            session: call.session.clone(),
            tenant: call.tenant.clone(),
            user: call.scope_user.clone(),
            now: Some(self.now.clone()),
        };
        options.budget = Budget {
            token_budget: call.budget.map(Tokens),
            input_budget: call.input_budget.map(Tokens),
            ..Budget::default()
        };
        options.history.clone_from(&self.history);
        if let Some(text) = &call.user {
            options = options.user_message(text);
        }
        options.engine = Some(contexture::engine());
        runtime::block_on(prompt.resolve(options))?.map_err(|err| self.project.error(&err).into())
    }

    fn prompt(&self) -> Result<&Prompt, Failure> {
        self.project.prompt(self.id).map_err(|err| {
            let failure = Failure::from(err);
            // Shells complete file names.
            let name = self.id.strip_prefix("prompts/").and_then(|it| it.strip_suffix(".md"));
            match name {
                Some(name) => {
                    failure.hint(format!("a prompt is named without its folder and ending: `{name}`"))
                }
                None => failure,
            }
        })
    }
}

/// Resolves a prompt as `resolve` and `inspect` are asked to.
pub(crate) fn resolve(args: &ResolveArgs, globals: &Globals) -> Result<Pass, Failure> {
    if args.input.as_deref() == Some("-") && args.call.history.as_deref() == Some("-") {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let passes = Passes::of(&args.prompt, &args.call, globals)?;
    // An unknown prompt is told before anything is said about its input.
    let schema = passes.prompt()?.input_schema();
    let mut input = match &args.input {
        Some(value) => read::json_option("--input", value)?,
        None => Value::Object(Map::new()),
    };
    args.sets.iter().try_for_each(|it| read::set(&mut input, it, &schema))?;
    passes.resolve(input)
}
