//! Opens the store of a command.
//!
//! The URL comes from `--store`, the environment or contexture.toml. A relative path is resolved against the folder
//! where its URL was written: the current folder, or that of the project.

use contexture_message::ErrorCode;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture::SystemTime;
use contexture_session::{Documents, MemoryStore, SourceIndex, Store};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

use crate::args::{Globals, StoreArgs};
use crate::error::Failure;
use crate::setup::root;

/// The location of a session store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    /// The URL, which may contain a password.
    Postgres(String),
    /// Lost when the program ends.
    Memory,
}

/// What to do if the store does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

/// Returns the location of the store to maintain.
pub(crate) fn place(args: &StoreArgs, globals: &Globals) -> Result<Place, Failure> {
    let place = match &args.store {
        Some(url) => parse(url, &root::here()?),
        None => {
            let (config, dir) = root::config(globals)?;
            parse(&config.store.url, &dir)
        }
    };
    match place? {
        Place::Memory => {
            let message =
                "a store in memory is gone when its program ends, so there is nothing to look after";
            Err(Failure::usage(message).hint("`--store URL` names another store"))
        }
        place => Ok(place),
    }
}

/// Parses the URL of a store; a relative path in it is resolved against `dir`.
pub(crate) fn parse(url: &str, dir: &Path) -> Result<Place, Failure> {
    let hint = "write `sqlite:PATH` or `postgres://USER@HOST/DATABASE`";
    match url.split_once(':') {
        Some(("sqlite", path)) => match path.strip_prefix("//").unwrap_or(path) {
            "" => Err(Failure::usage("`sqlite:` names no file").hint(hint)),
            path => Ok(Place::Sqlite(dir.join(path))),
        },
        Some(("postgres" | "postgresql", _)) => Ok(Place::Postgres(url.to_owned())),
        Some(("memory", _)) => Ok(Place::Memory),
        // The rest of the URL may contain a password, so the error does not show it.
        Some((scheme, _)) => {
            Err(Failure::usage(format!("there are no stores of the kind `{scheme}:`")).hint(hint))
        }
        None => Err(Failure::usage(format!("`{url}` is not the URL of a store")).hint(hint)),
    }
}

/// A store, and the documents and knowledge bases that it keeps next to conversations.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) sources: Arc<dyn SourceIndex>,
}

/// Opens a store.
pub(crate) async fn open_store(place: &Place, missing: Missing) -> Result<Arc<dyn Store>, Failure> {
    Ok(open_all(place, missing).await?.store)
}

/// Opens a store and whatever else it keeps.
pub(crate) async fn open_all(place: &Place, missing: Missing) -> Result<Opened, Failure> {
    match place {
        Place::Sqlite(path) => {
            match missing {
                Missing::Refuse if !path.exists() => return Err(no_file(path)),
                Missing::Refuse => {}
                Missing::Create => make_folder(path)?,
            }
            Ok(opened(SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime)))?))
        }
        Place::Memory => Ok(opened(MemoryStore::new(Arc::new(SystemTime)))),
        Place::Postgres(url) => Ok(opened(PostgresStore::connect(url, PostgresConfig::default()).await?)),
    }
}

fn opened<S: Store + Documents + SourceIndex>(store: S) -> Opened {
    let store = Arc::new(store);
    let documents = Arc::clone(&store) as Arc<dyn Documents>;
    Opened { store: Arc::clone(&store) as Arc<dyn Store>, documents, sources: store }
}

fn no_file(path: &Path) -> Failure {
    let path = path.display().to_string();
    let failure =
        Failure::new(ErrorCode::StoreMissing, format!("there is no store yet: `{path}` does not exist"));
    failure.at(path).hint("it is made with the first session; `--store URL` names another store")
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // The folder will hold conversations and hashes of keys, so only the owner may read it. An existing folder keeps
    // its mode.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|err| {
        let folder = folder.display().to_string();
        Failure::new(ErrorCode::WriteFailed, format!("cannot create the folder `{folder}`: {err}")).at(folder)
    })?;
    ignore_in_git(folder);
    Ok(())
}

/// Keeps conversations out of the project's repository. If that fails, they are stored anyway.
fn ignore_in_git(folder: &Path) {
    let is_ours = folder.file_name().is_some_and(|it| it == ".contexture");
    let file = folder.join(".gitignore");
    if is_ours && !file.exists() {
        let _ = fs::write(file, "*\n");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Place, parse};

    fn parsed(url: &str) -> String {
        match parse(url, Path::new("/shop")) {
            Ok(Place::Sqlite(path)) => path.display().to_string(),
            Ok(Place::Postgres(url)) => url,
            Ok(Place::Memory) => "in memory".to_owned(),
            Err(failure) => failure.to_json()["error"]["message"].to_string(),
        }
    }

    #[test]
    fn a_url_says_what_kind_of_store_it_is() {
        assert_eq!(parsed("sqlite:.contexture/a.db"), "/shop/.contexture/a.db");
        assert_eq!(parsed("sqlite:/var/a.db"), "/var/a.db");
        assert_eq!(parsed("sqlite:///var/a.db"), "/var/a.db");
        assert_eq!(parsed("postgresql://db/app"), "postgresql://db/app");
        assert_eq!(parsed("memory:"), "in memory");
        assert_eq!(parsed("mysql://me:secret@db"), r#""there are no stores of the kind `mysql:`""#);
        assert_eq!(parsed("sqlite:"), r#""`sqlite:` names no file""#);
        assert_eq!(parsed("a.db"), r#""`a.db` is not the URL of a store""#);
    }
}
