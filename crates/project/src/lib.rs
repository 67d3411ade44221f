//! Reads a project folder and compiles it to prompts and flows.
//!
//! ```text
//! files ─▶ sources ─▶ front matter and body ─▶ fields, sections, entries ─▶ units ─▶ Project
//! ```
//!
//! A [`Project`] is a folder with `contexture.toml`, `prompts/**/*.md`, `contexts/**/*.md`, `partials/**` and
//! `flows/**/*.yaml`. It is read as a whole: every prompt and flow is compiled, and all faults are reported at once
//! with file, line and column. Nothing is read from disk afterwards until [`Project::reload`], except the workspace
//! that a prompt lists.
//!
//! The modules, in order of use:
//!
//! * `files` finds the files and `sources` holds their texts.
//! * `front` splits a file, `yaml` parses its front matter to a tree with positions, and `decode` reads types from it.
//! * `sections` finds the texts of a body, `spread` maps template positions to the file, and `partials` finds what a
//!   template renders.
//! * `prompt_file`, `context_file` and `entries` read one file through a `reader`; `pipeline` reads its transforms and
//!   providers, and `workspace` lists a folder for the model.
//! * `index` finds contexts by name and `compile` builds all units.
//! * `flow_file` reads a flow and `flows` checks all of them.
//! * `lint` adds warnings.

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
