//! A tree of named prompts.

use indexmap::IndexMap;

use super::Prompt;
use crate::{Error, ErrorKind};

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
    /// Adds a prompt at a path. Returns an error that names both paths if the id is already in use.
    pub fn insert<In, Out>(&mut self, path: impl Into<String>, prompt: Prompt<In, Out>) -> Result<(), Error> {
        let (path, prompt) = (path.into(), prompt.untyped());
        let taken = self.by_path.iter().find(|(known, it)| it.id() == prompt.id() || **known == path);
        if let Some((first, _)) = taken {
            let (id, first) = (prompt.id().to_owned(), first.clone());
            return Err(ErrorKind::DuplicateId { id, first, second: path }.into());
        }
        self.by_path.insert(path, prompt);
        Ok(())
    }

    /// Returns the registry of a typed tree, see [`prompt_tree`](crate::prompt_tree).
    pub fn of_tree(tree: &impl PromptTree) -> Result<Self, Error> {
        let mut prompts = Self::default();
        tree.register("", &mut prompts)?;
        Ok(prompts)
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

/// A tree of prompts whose nodes are fields, so that each prompt keeps its types. Made by
/// [`prompt_tree`](crate::prompt_tree).
pub trait PromptTree {
    /// Adds all prompts of the tree to a registry, below a path.
    fn register(&self, path: &str, prompts: &mut Prompts) -> Result<(), Error>;
}

impl<In, Out> PromptTree for Prompt<In, Out> {
    fn register(&self, path: &str, prompts: &mut Prompts) -> Result<(), Error> {
        prompts.insert(path, self.clone())
    }
}

/// Declares a tree of prompts as a struct: each field is a [`Prompt`](crate::Prompt) or another tree.
///
/// ```
/// use contexture_compose::{Prompt, Prompts, prompt_tree};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Ticket { question: String }
/// prompt_tree! {
///     /// What the help desk says.
///     struct Support {
///         refund: Prompt<Ticket>,
///     }
/// }
///
/// let refund = Prompt::builder("refund").input::<Ticket>().user_with(|it| it.question.clone()).build()?;
/// let support = Support { refund };
/// let typed: &Prompt<Ticket> = &support.refund;
/// let dynamic = Prompts::of_tree(&support)?;
/// assert!(dynamic.get("refund")?.is_same(typed));
/// # Ok::<(), contexture_compose::Error>(())
/// ```
#[macro_export]
macro_rules! prompt_tree {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $kind:ty),* $(,)?
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $kind,)*
        }

        impl $crate::PromptTree for $name {
            fn register(
                &self,
                path: &str,
                prompts: &mut $crate::Prompts,
            ) -> ::std::result::Result<(), $crate::Error> {
                $($crate::PromptTree::register(
                    &self.$field,
                    &$crate::below(path, stringify!($field)),
                    prompts,
                )?;)*
                Ok(())
            }
        }
    };
}

/// Joins two parts of a path. For [`prompt_tree`](crate::prompt_tree).
#[doc(hidden)]
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
