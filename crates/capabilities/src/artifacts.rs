//! The entry `artifacts`: a catalogue of the session's artifacts, and a tool to read them.
//!
//! The catalogue is a block of the frozen prefix with names, versions and summaries, never content. What changes later is
//! told by system events (`artifact.created`, `artifact.updated`, `artifact.deleted`) in the main thread.

use std::sync::{Arc, PoisonError, RwLock};

use contexture_agent::{Tool, tool};
use contexture_compose::{
    Block, BoxError, BoxFuture, Call, Contribution, Contributor, Declaration, Entry, Scope, SharedTool,
    Source,
};
use contexture_session::{
    Artifact, ArtifactInfo, SessionError, SessionId, Sessions, StoreError, Tenant, Thread,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The name of the block.
pub const ARTIFACT_CATALOGUE: &str = "available_artifacts";
/// The name of the tool.
pub const READ_ARTIFACT: &str = "ReadArtifact";
/// How many characters the tool returns by default, and at most.
const DEFAULT_CHARS: usize = 8_000;
const MAX_CHARS: usize = 20_000;

/// The artifacts of sessions. They have none until the program [provides](Artifacts::provide) its sessions.
#[derive(Clone, Debug, Default)]
pub struct Artifacts(Arc<RwLock<Option<Sessions>>>);

impl Artifacts {
    /// Sets where the sessions are, of any tenant.
    pub fn provide(&self, sessions: Sessions) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(sessions);
    }

    /// Returns the main thread of the session of a call, if it has one.
    async fn thread(&self, scope: &Scope) -> Result<Option<Thread>, SessionError> {
        let sessions = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(sessions), Some(session)) = (sessions, &scope.session) else { return Ok(None) };
        let tenant = scope.tenant.as_deref().map(Tenant::parse).transpose()?.unwrap_or_default();
        let session = SessionId::parse(session.as_str())?;
        match sessions.of_tenant(tenant).open_thread(&session.main()).await {
            Err(SessionError::Store(StoreError::NotFound { .. })) => Ok(None),
            thread => thread.map(Some),
        }
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactInfo>, SessionError> {
        match self.thread(scope).await? {
            Some(thread) => thread.artifacts().await,
            None => Ok(Vec::new()),
        }
    }

    async fn read(&self, scope: &Scope, arguments: &ReadArguments) -> Result<String, BoxError> {
        let missing = || match arguments.version {
            Some(version) => format!("there is no version {version} of an artifact `{}`", arguments.name),
            None => format!("there is no artifact `{}`", arguments.name),
        };
        let thread = self.thread(scope).await?.ok_or_else(missing)?;
        let artifact = thread.artifact(&arguments.name, arguments.version).await?.ok_or_else(missing)?;
        Ok(shown(&artifact, arguments))
    }
}

/// The arguments of the tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// The name of the artifact.
    name: String,
    /// The version; the newest if absent.
    version: Option<u64>,
    /// The first character to read; 0 if absent.
    from: Option<u64>,
    /// How many characters to read; 8000 if absent, at most 20000.
    max: Option<u64>,
}

fn shown(artifact: &Artifact, arguments: &ReadArguments) -> String {
    let clamped =
        |it: Option<u64>, default: usize| it.map_or(default, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let total = artifact.text.chars().count();
    let from = clamped(arguments.from, 0).min(total);
    let max = clamped(arguments.max, DEFAULT_CHARS).clamp(1, MAX_CHARS);
    let text: String = artifact.text.chars().skip(from).take(max).collect();
    let end = from + text.chars().count();
    let template = if end < total {
        include_str!("templates/artifact_part.txt")
    } else {
        include_str!("templates/artifact.txt")
    };
    let facts = [
        ("{name}", artifact.info.name.clone()),
        ("{version}", artifact.version.to_string()),
        ("{from}", from.to_string()),
        ("{end}", end.to_string()),
        ("{total}", total.to_string()),
    ];
    // A name has no braces, so nothing is taken for another place; the text comes last and as it is.
    let head =
        facts.iter().fold(template.trim_end().to_owned(), |head, (place, value)| head.replace(place, value));
    format!("{head}\n\n{text}")
}

/// Returns an entry that lists the artifacts of the session and lets the model read them.
///
/// ```
/// use contexture_capabilities::{Artifacts, artifacts};
/// use contexture_compose::Prompt;
///
/// let all = Artifacts::default(); // The program provides its sessions.
/// let prompt = Prompt::builder("support").system("You help.").include(artifacts(&all)).build()?;
/// # Ok::<(), contexture_compose::Error>(())
/// ```
pub fn artifacts(artifacts: &Artifacts) -> Entry {
    let catalogue = artifact_catalogue(artifacts);
    Entry::Contributor(Arc::new(ArtifactsEntry { artifacts: artifacts.clone(), catalogue }))
}

/// Returns the block that lists the artifacts of the session, for prompts that only name them. It is the same as that of
/// [`artifacts`].
pub fn artifact_catalogue(artifacts: &Artifacts) -> Entry {
    let of_block = artifacts.clone();
    let body = move |call: Call| {
        let artifacts = of_block.clone();
        async move {
            let list = artifacts.list(&call.scope).await?;
            Ok(list.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
    };
    let catalogue = Block::dynamic(ARTIFACT_CATALOGUE, body)
        .description("The artifacts of the session, which can be read");
    Entry::defined(CatalogueOf(artifacts.clone()), catalogue)
}

/// What the catalogue follows from.
struct CatalogueOf(Artifacts);

impl PartialEq for CatalogueOf {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.0, &other.0.0)
    }
}

/// Returns an artifact in one line.
fn line(info: &ArtifactInfo) -> String {
    let one_line = |it: &String| it.split_whitespace().collect::<Vec<_>>().join(" ");
    let about = [info.title.as_ref(), info.summary.as_ref()].into_iter().flatten().map(one_line);
    let about: Vec<String> = about.collect();
    let text = match about.is_empty() {
        true => format!("- {} (version {})", info.name, info.version),
        false => format!("- {} (version {}): {}", info.name, info.version, about.join(". ")),
    };
    contexture_compose::tags::escape_text(&text).into_owned()
}

struct ArtifactsEntry {
    artifacts: Artifacts,
    catalogue: Entry,
}

impl ArtifactsEntry {
    fn tool(&self, scope: &Scope) -> Tool {
        let (artifacts, scope) = (self.artifacts.clone(), scope.clone());
        let read = move |arguments: ReadArguments| {
            let (artifacts, scope) = (artifacts.clone(), scope.clone());
            async move { artifacts.read(&scope, &arguments).await }
        };
        tool(READ_ARTIFACT, include_str!("templates/artifact_tool.txt").trim_end(), read)
    }
}

impl Contributor for ArtifactsEntry {
    fn id(&self) -> &str {
        "artifacts"
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        let tools = vec![SharedTool::from(self.tool(&call.scope))];
        Box::pin(async { Ok(Contribution { tools, ..Contribution::default() }) })
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        Declaration {
            entries: vec![self.catalogue.clone()],
            family: Some("artifacts".to_owned()),
            source: Some(Source::Noted("artifacts".into())),
            ..Declaration::default()
        }
    }
}
