//! Where the server's programs are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What to say when there are none.
pub const MISSING: &str = "no PostgreSQL server programs (`initdb`, `postgres`) were found; \
    `cargo xtask test` installs them, or install Debian's package `postgresql`";

/// Returns the folder with `initdb` and `postgres`: from `PATH`, Debian's folders, or `pg_config`.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).find(|it| has_server(it));
    in_path.or_else(in_debian).or_else(from_pg_config)
}

fn has_server(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("postgres").is_file()
}

/// Returns the folder of the newest version among Debian's.
fn in_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|it| it.path().join("bin")).filter(|it| has_server(it));
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.parent().and_then(Path::file_name).and_then(|it| it.to_str());
        name.and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    folders.max_by_key(version)
}

fn from_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    has_server(&folder).then_some(folder)
}
