//! A project folder as definitions.
//!
//! ```text
//! files ─▶ sources ─▶ front matter and body ─▶ fields, sections, entries ─▶ units ─▶ Project
//! ```
//!
//! A [`Project`] is a folder with `contexture.toml`, `prompts/**/*.md`, `contexts/**/*.md`, `partials/**` and `flows/**/*.yaml`. It is
//! read as a whole: every prompt and every flow is compiled, everything that is wrong is reported at once with file, line and
//! column, and nothing is read from disk afterwards until [`Project::reload`] (besides the workspace that a prompt lists).
//!
//! `files` finds the files and `sources` holds their texts; `front` splits a file, `yaml` parses its front matter
//! into a tree of places and `decode` reads types out of it; `sections` finds the texts of a body, `spread` where in
//! the file a template stands and `partials` what it renders. `prompt_file`, `context_file` and `entries` read one file
//! through a `reader`, `pipeline` transforms and providers; `workspace` lists a folder for the model; `index` finds contexts by name, `compile` puts all in order, `flow_file` reads a flow and
//! `flows` checks all of them, and `lint` says what could be better.

mod block_file;
mod blocks;
mod compile;
mod config;
mod context_file;
mod decode;
mod entries;
mod error;
mod facts;
mod files;
mod flow_file;
mod flows;
mod front;
mod index;
mod lint;
mod partials;
mod pipeline;
mod places;
mod project;
mod prompt_file;
mod reader;
mod sections;
mod server_config;
mod sources;
mod spread;
mod tools;
mod workspace;
mod yaml;

pub use config::{
    CompactionConfig, Config, HistoryDefault, HistoryDefaults, HistoryWindow, LogFormat, ModelChoice,
    ProviderConfig, ServerConfig, StoreConfig, TelemetryConfig,
};
pub use contexture_template::did_you_mean;
pub use error::{Fault, ProjectError};
pub use files::{Files, FilesError, Folder, InMemory, MAX_FILE_BYTES};
pub use flows::FlowParts;
pub use lint::{Level, Lint};
pub use project::{Project, Reload};
pub use tools::ProjectTool;
pub use workspace::{WorkspaceSnapshot, workspace_snapshot};
