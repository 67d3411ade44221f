//! The partials of a project, parsed once.
//!
//! `{% render 'name' %}` refers to `NAME.md` or `NAME.liquid` in the folder of the file being rendered, then in
//! `partials/`. All partials that a template can reach are parsed with it, so rendering never looks up files. A name
//! that is not a quoted literal finds only partials that the same template also reaches by a quoted name.

use contexture_message::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_template::{ParseConfig, Partials, Template};

use crate::error::{Place, Problem};
use crate::files::Sources;
use crate::files::is_plain;
use crate::source::front;
use crate::source::spread::Spread;

/// Finds partials and parses each file once.
#[derive(Debug)]
pub(crate) struct Library<'a> {
    sources: &'a Sources,
    parsed: Mutex<BTreeMap<String, Result<Template, Vec<Problem>>>>,
}

/// The partials that a template reaches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// Keyed by name, with the file.
    templates: BTreeMap<String, (String, Template)>,
    /// Files that were read or looked up.
    pub(crate) files: BTreeSet<String>,
    pub(crate) problems: Vec<Problem>,
}

impl Reached {
    /// Returns all reached templates, with their files.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &(String, Template)> {
        self.templates.values()
    }

    /// Returns the partials for rendering, if there are any.
    pub(crate) fn partials(&self) -> Option<Arc<dyn Partials>> {
        if self.templates.is_empty() {
            return None;
        }
        let by_name = self.templates.iter().map(|(name, (_, template))| (name.clone(), template.clone()));
        Some(Arc::new(Found(by_name.collect())))
    }
}

struct Found(BTreeMap<String, Template>);

impl Partials for Found {
    fn partial(&self, name: &str) -> Option<Template> {
        self.0.get(name).cloned()
    }
}

impl<'a> Library<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self { sources, parsed: Mutex::default() }
    }

    /// Follows the partials of a template in `file`, recursively. `spread` maps positions in the template to the file.
    pub(crate) fn reach(&self, template: &Template, file: &str, spread: &Spread) -> Reached {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut reached = Reached::default();
        let own = calls(template, file).into_iter();
        let mut open: Vec<(String, Place, String)> =
            own.map(|(name, place, file)| (name, spread.in_file(place), file)).collect();
        while let Some((name, place, caller)) = open.pop() {
            if reached.templates.contains_key(&name) {
                continue;
            }
            let candidates = candidates(folder, &name);
            reached.files.extend(candidates.iter().cloned());
            match candidates.iter().find(|it| self.sources.contains(it)) {
                None => reached.problems.push(missing(&name, place, &caller, folder)),
                Some(path) => match self.template(path) {
                    Err(problems) => reached.problems.extend(problems),
                    Ok(template) => {
                        open.extend(calls(&template, path));
                        reached.templates.insert(name, (path.clone(), template));
                    }
                },
            }
        }
        reached
    }

    /// Returns the parsed partial at a path, parsing it on first use.
    pub(crate) fn template(&self, path: &str) -> Result<Template, Vec<Problem>> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        parsed.entry(path.to_owned()).or_insert_with(|| self.parse(path)).clone()
    }

    fn parse(&self, path: &str) -> Result<Template, Vec<Problem>> {
        let text = self
            .sources
            .text(path)
            .map_err(|err| err.faults.into_iter().map(Problem::of_file).collect::<Vec<_>>())?;
        let document = front::split(text);
        if !document.problems.is_empty() {
            return Err(document.problems.into_iter().map(|it| it.in_file(path)).collect());
        }
        let config = ParseConfig {
            name: Some(path.to_owned()),
            first_line: document.body_line,
            ..ParseConfig::default()
        };
        // Editors end every file with a newline, which is not part of the rendered text.
        let text = document.body.strip_suffix('\n').unwrap_or(&document.body);
        Template::parse_with(text, &config).map_err(|err| vec![Problem::of_template(&err, |it| it)])
    }
}

/// Returns the partials that a template names in quotes, with the position and the file of each tag.
fn calls(template: &Template, file: &str) -> Vec<(String, Place, String)> {
    template.partials().into_iter().map(|(name, place)| (name, place.into(), file.to_owned())).collect()
}

fn candidates(folder: &str, name: &str) -> Vec<String> {
    [folder, "partials"]
        .iter()
        .flat_map(|it| [format!("{it}/{name}.md"), format!("{it}/{name}.liquid")])
        .collect()
}

fn missing(name: &str, place: Place, caller: &str, folder: &str) -> Problem {
    Problem::new(ErrorCode::TemplateError, format!("there is no partial `{name}`"))
        .at(place)
        .in_file(caller)
        .hint(is_plain(name).then(|| format!("write it to `partials/{name}.md` or `{folder}/{name}.liquid`")))
}
