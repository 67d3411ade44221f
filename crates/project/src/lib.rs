//! Reads a project folder and compiles it to prompts and flows.
//!
//! ```text
//! files ─▶ sources ─▶ front matter and body ─▶ fields, sections, entries ─▶ units ─▶ Project
//! ```
//!
//! A [`Project`] is a folder with `contexture.toml`, `prompts/**/*.md`, `contexts/**/*.md`,
//! `capabilities/*/capability.md`, `partials/**` and `flows/**/*.yaml`. It is read as a whole: every prompt and flow is compiled, and all faults are reported at once
//! with file, line and column. Nothing is read from disk afterwards until [`Project::reload`], except the workspace
//! that a prompt lists.
//!
//! The modules, in order of use:
//!
//! * `files` finds the files and holds their texts.
//! * `source` turns a text into data with positions: front matter, trees, decoding, sections of the body.
//! * `read` reads one file into a definition: prompts, contexts, capabilities, blocks and what they have in common.
//! * `knowledge` holds the bases that entries search, `skills` the skills that they list.
//! * `compile` reads all files and builds the prompts; `flows` does the same for flows.
//! * `lint` adds warnings, and `project` is the API.

mod compile;
mod config;
mod error;
mod files;
mod flows;
mod knowledge;
mod lint;
mod project;
mod read;
mod skills;
mod source;
mod workspace;

pub use config::{
    BaseConfig, CompactionConfig, Config, EmbedderConfig, HistoryDefault, HistoryDefaults, HistoryWindow,
    LogFormat, ModelChoice, ProviderConfig, ReferencesConfig, RetrieverConfig, ServerConfig, SkillsConfig,
    StoreConfig, TelemetryConfig,
};
pub use contexture_template::did_you_mean;
pub use error::{Fault, ProjectError};
pub use files::{Files, FilesError, Folder, InMemory, MAX_FILE_BYTES};
pub use flows::FlowParts;
pub use knowledge::{BaseHome, KnowledgePorts, ProjectBase};
pub use lint::{Level, Lint};
pub use project::{Project, Reload};
pub use read::tools::ProjectTool;
pub use skills::SkillFolder;
pub use workspace::{WorkspaceSnapshot, workspace_snapshot};
