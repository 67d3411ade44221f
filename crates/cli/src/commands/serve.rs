//! `serve`: serves the project over HTTP until it is stopped.

use contexture_message::ErrorCode;
use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contexture::{SystemNames, SystemTime, session_ports};
use contexture_project::{Level, Project};
use contexture_server::{AgentMaker, ListenError, Listener, Parts, Server};
use contexture_session::Sessions;
use serde_json::json;

use crate::args::{Globals, ServeArgs};
use crate::error::{Exit, Failure};
use crate::output::{self, Reply};
use crate::setup::models::{self, Models};
use crate::setup::root;
use crate::setup::runtime;
use crate::setup::store::{self, Missing, Opened, Place, open_all};
use crate::setup::telemetry::{self, Usual};
use crate::stage::{agent_builder, session_config};

/// How long the server may take to stop after the grace period of its turns, to write their results.
const LAST_GRACE: Duration = Duration::from_secs(4);

pub(super) fn run(args: &ServeArgs, globals: &Globals) -> Result<Reply, Failure> {
    if args.print_openapi {
        return Ok(Reply::document(contexture_server::openapi()));
    }
    let globals =
        Globals { project: args.dir.clone().or_else(|| globals.project.clone()), json: globals.json };
    let (project, dir) = root::open_with_flags(&globals, flags(args)?)?;
    let place = match &args.store {
        Some(url) => store::parse(url, &root::here()?)?,
        None => store::parse(&project.config().store.url, &dir)?,
    };
    let models = Models::of(project.config(), models::variable)?;
    warn_of_faults(&project);
    warn_of_models(&project, &models);
    let proxies = models.proxies();
    let _telemetry = telemetry::start(&project.config().telemetry, Usual::Requests, proxies)?;
    runtime::block_on_many(serve(project, &dir, &place, globals.json))?
}

/// Returns the configuration keys that flags override.
fn flags(args: &ServeArgs) -> Result<Vec<(&'static str, String)>, Failure> {
    let here = root::here()?;
    let file = |path: &Path| here.join(path).display().to_string();
    let origins = (!args.cors_origins.is_empty()).then(|| args.cors_origins.join(","));
    let flags = [
        ("server.listen", args.listen.clone()),
        ("server.tls_cert", args.tls_cert.as_deref().map(file)),
        ("server.tls_key", args.tls_key.as_deref().map(file)),
        ("server.cors_origins", origins),
        ("server.shutdown_grace_seconds", args.shutdown_grace_seconds.map(|it| it.to_string())),
        ("telemetry.log", args.log.clone()),
        ("telemetry.log_format", args.log_format.clone()),
    ];
    Ok(flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// Warns about invalid files: requests that need them are refused until they are repaired.
fn warn_of_faults(project: &Project) {
    for lint in project.lint().iter().filter(|it| it.level == Level::Error) {
        output::warn(&lint.to_string());
    }
}

/// Warns about models that cannot be called, once each: turns that need them fail.
fn warn_of_models(project: &Project, models: &Models) {
    let named = project.prompts().filter_map(|(_, it)| it.ok()?.definition().model.clone());
    let all: BTreeSet<String> = named.chain(project.config().model.default.clone()).collect();
    for failure in all.iter().filter_map(|it| models.check(Some(it)).err()) {
        let hint = failure.to_json()["error"]["hint"].as_str().map(|it| format!("; {it}"));
        output::warn(&format!("{}{}", failure.message(), hint.unwrap_or_default()));
    }
}

async fn serve(project: Project, dir: &Path, place: &Place, as_json: bool) -> Result<Reply, Failure> {
    let Opened { store, documents, sources } = open_all(place, Missing::Create).await?;
    let ports = session_ports(project.config().model.default.as_deref());
    let sessions = Sessions::new(store, ports, session_config(project.config()));
    let (time, names) = (Arc::new(SystemTime), Arc::new(SystemNames));
    let parts = Parts { project, agent: agent_maker(), sessions, documents, sources, time, names };
    let server = Server::new(parts).map_err(|err| Failure::new(ErrorCode::FileInvalid, err))?;
    let listener = Listener::bind(&server, dir).await.map_err(refused)?;
    output::started(
        &json!({"listening": listener.url()}),
        &format!("listening on {}", listener.url()),
        as_json,
    );
    let grace = Duration::from_secs(server.config().shutdown_grace_seconds);
    listener.serve(&server, told_to_stop(grace)?).await;
    Ok(Reply::default())
}

fn agent_maker() -> AgentMaker {
    Arc::new(|project: &Project| {
        let made = Models::of(project.config(), models::variable);
        let made = made.and_then(|models| agent_builder(project, &models));
        made.map_err(|failure| failure.message().to_owned())
    })
}

fn refused(err: ListenError) -> Failure {
    if let ListenError::Store(err) = err {
        return err.into();
    }
    let failure = Failure::new(err.code(), err.to_string());
    match err.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Waits for a signal to stop. A second signal or the end of the grace period exits the process, whatever the server
/// is doing.
///
/// Signals are handled on a separate thread, which work of the server cannot block.
fn told_to_stop(grace: Duration) -> Result<impl Future<Output = ()>, Failure> {
    let (say, said) = tokio::sync::oneshot::channel();
    let watch = move || {
        let stopped = runtime::block_on(async move {
            let mut signals = Signals::new();
            signals.next().await;
            output::aside("stopping: turns that run may end; stop again to end at once");
            let _ = say.send(());
            let last = grace.saturating_add(LAST_GRACE);
            let is_late = tokio::time::timeout(last, signals.next()).await.is_err();
            if is_late {
                output::aside("the server did not stop in time: it is ended");
            }
        });
        if stopped.is_ok() {
            std::process::exit(i32::from(Exit::World.code()));
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.map_err(|err| Failure::new(ErrorCode::RuntimeFailed, format!("no thread is available: {err}")))?;
    Ok(async move {
        if said.await.is_err() {
            // Signals cannot be received, so their default action ends the program.
            std::future::pending().await
        }
    })
}

/// SIGINT and SIGTERM, or Ctrl-C on platforms without signals.
struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            terminate: signal(SignalKind::terminate()).ok(),
            interrupt: signal(SignalKind::interrupt()).ok(),
        }
    }

    async fn next(&mut self) {
        async fn one(signal: &mut Option<tokio::signal::unix::Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                // A signal that cannot be received ends the program by default.
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = one(&mut self.terminate) => {}
            () = one(&mut self.interrupt) => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self {}
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
