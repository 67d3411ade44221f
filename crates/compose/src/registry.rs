//! A tree of named prompts.

use indexmap::IndexMap;

use crate::{Error, ErrorKind, Prompt};

/// A tree of prompts: each has a path such as `support/refund`, and an id that is unique in the whole tree.
///
/// ```
/// use contexture_compose::{Prompt, Prompts};
///
/// let mut prompts = Prompts::default();
/// prompts.insert("support/refund", Prompt::builder("refund").system("Be kind.").build()?)?;
/// assert_eq!(prompts.get("refund")?.id(), "refund");
/// assert_eq!(prompts.iter().count(), 1);
/// # Ok::<(), contexture_compose::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prompts {
    by_path: IndexMap<String, Prompt>,
}

impl Prompts {
    /// Adds a prompt at a path; refuses an id that is there already, naming both paths.
    pub fn insert(&mut self, path: impl Into<String>, prompt: Prompt) -> Result<(), Error> {
        let path = path.into();
        let taken = self.by_path.iter().find(|(known, it)| it.id() == prompt.id() || **known == path);
        if let Some((first, _)) = taken {
            let (id, first) = (prompt.id().to_owned(), first.clone());
            return Err(ErrorKind::DuplicateId { id, first, second: path }.into());
        }
        self.by_path.insert(path, prompt);
        Ok(())
    }

    /// Returns the prompt with that id, or at that path.
    pub fn get(&self, id: &str) -> Result<&Prompt, Error> {
        let by_id = || self.by_path.values().find(|it| it.id() == id);
        let unknown = || ErrorKind::UnknownPrompt { id: id.to_owned(), known: self.ids() }.into();
        by_id().or_else(|| self.by_path.get(id)).ok_or_else(unknown)
    }

    /// Returns the prompts below a path, with their full paths.
    pub fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a Prompt)> {
        let is_below = move |it: &str| it.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.iter().filter(move |(it, _)| path.is_empty() || is_below(it))
    }

    /// Returns all prompts with their paths, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Prompt)> {
        self.by_path.iter().map(|(path, prompt)| (path.as_str(), prompt))
    }

    fn ids(&self) -> Vec<String> {
        self.by_path.values().map(|it| it.id().to_owned()).collect()
    }
}
