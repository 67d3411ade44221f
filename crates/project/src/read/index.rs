//! Finds context files and capabilities by the names that entries use.
//!
//! The full rule: `brand` means `contexts/brand.md`; otherwise the only context file that declares `id: brand`;
//! otherwise the only `brand.md` in any folder below `contexts/`. A name that matches several files is ambiguous and
//! selects none.

use std::collections::BTreeMap;

use contexture_compose::DEFAULT_PRESET;

/// Recorded as a dependency of a unit that looked up a context by id or file name, whether it found one or not.
pub(crate) const INDEX: &str = "contexts/";

/// The context files of a project with their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    ids: BTreeMap<String, String>,
    /// Files by id.
    by_id: BTreeMap<String, Vec<String>>,
    /// Files by the last component of their path.
    by_name: BTreeMap<String, Vec<String>>,
}

/// The result of looking up a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Located<'a> {
    /// The file at the path that the name spells.
    Path(&'a str),
    /// The only file with that id or file name.
    Found(&'a str),
    /// All files that match an ambiguous name.
    Several(&'a [String]),
    Nowhere,
}

impl Index {
    /// Builds the index from all context files and their ids.
    pub(crate) fn new(ids: BTreeMap<String, String>) -> Self {
        let mut index = Index::default();
        for (file, id) in &ids {
            index.by_id.entry(id.clone()).or_default().push(file.clone());
            index.by_name.entry(last_part(file).to_owned()).or_default().push(file.clone());
        }
        Self { ids, ..index }
    }

    /// Returns the id of a context file.
    pub(crate) fn id(&self, file: &str) -> Option<&str> {
        self.ids.get(file).map(String::as_str)
    }

    /// Finds the file that `name` refers to.
    pub(crate) fn locate(&self, name: &str) -> Located<'_> {
        if let Some((path, _)) = self.ids.get_key_value(&context_path(name)) {
            return Located::Path(path);
        }
        let by_name = || self.by_name.get(&format!("{name}.md"));
        match self.by_id.get(name).or_else(by_name).map(Vec::as_slice) {
            None | Some([]) => Located::Nowhere,
            Some([file]) => Located::Found(file),
            Some(several) => Located::Several(several),
        }
    }
}

/// Returns the path that a context name is tried as first.
pub(crate) fn context_path(name: &str) -> String {
    format!("contexts/{name}.md")
}

/// Returns the name that entries use for a context file.
pub(crate) fn context_name(path: &str) -> Option<&str> {
    path.strip_prefix("contexts/")?.strip_suffix(".md")
}

/// Returns the id of a context file that declares none: its file name without the folder.
pub(crate) fn default_id(path: &str) -> &str {
    last_part(context_name(path).unwrap_or(path))
}

/// Returns the file of a capability.
pub(crate) fn capability_path(name: &str) -> String {
    format!("capabilities/{name}/capability.md")
}

/// Returns the name of the capability in a file.
pub(crate) fn capability_name(file: &str) -> Option<&str> {
    file.strip_prefix("capabilities/")?.strip_suffix("/capability.md")
}

/// Returns the key of a variant among the units.
pub(crate) fn unit_key(name: &str, preset: Option<&str>) -> String {
    match preset.filter(|it| *it != DEFAULT_PRESET) {
        Some(preset) => format!("{}#{preset}", capability_path(name)),
        None => capability_path(name),
    }
}

fn last_part(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(_, last)| last)
}
