//! Modules of a crate point one way, like crates do.
//!
//! A module uses another if it names an item of it by a `crate::`, `super::` or `self::` path, in a `use` or in code. A
//! re-export is followed to the module that defines the item. The rule holds between siblings on every level: a use
//! of `crate::a::x` in `b::y` is an arrow from `b` to `a`. A parent and its children are one idea, so they may use each
//! other. Test modules and the inside of macro calls are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The path of a module from the root of its crate; empty for the root.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    /// What `use` declarations name here: the local name and the absolute path behind it.
    imports: BTreeMap<String, ModulePath>,
    /// Absolute paths that the module's code names.
    references: BTreeSet<ModulePath>,
}

/// A crate's modules by path.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// Lists the knots of a crate, each a line that names the modules and one of the arrows between each two.
pub(crate) fn knots(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Crate::default();
    found.read(root, Vec::new())?;
    Ok(found.levels().into_iter().flat_map(|(parent, arrows)| knots_of_level(&parent, &arrows)).collect())
}

impl Crate {
    fn read(&mut self, file: &Path, path: ModulePath) -> Result<(), String> {
        let text = std::fs::read_to_string(file).map_err(|err| format!("{}: {err}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|err| format!("{}: {err}", file.display()))?;
        self.read_items(&parsed.items, file, path)
    }

    fn read_items(&mut self, items: &[Item], file: &Path, path: ModulePath) -> Result<(), String> {
        let mut module = Module::default();
        for item in items {
            if let Item::Mod(child) = item
                && !is_test(&child.attrs)
            {
                module.children.insert(child.ident.to_string());
            }
        }
        let mut reader = Reader { path: &path, module: &mut module };
        items.iter().filter(|it| !matches!(it, Item::Mod(_))).for_each(|it| reader.visit_item(it));
        self.modules.insert(path.clone(), module);
        for item in items {
            let Item::Mod(child) = item else { continue };
            if is_test(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let child_path: ModulePath = path.iter().cloned().chain([name.clone()]).collect();
            match &child.content {
                Some((_, items)) => self.read_items(items, file, child_path)?,
                None => self.read(&file_of_child(file, &name), child_path)?,
            }
        }
        Ok(())
    }

    /// Returns the arrows between siblings, by the path of their parent. Each arrow has one path that caused it.
    fn levels(&self) -> BTreeMap<ModulePath, Arrows> {
        let mut levels: BTreeMap<ModulePath, Arrows> = BTreeMap::new();
        for (from, module) in &self.modules {
            for reference in &module.references {
                let to = self.home(reference, 0);
                let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
                    let level = levels.entry(from[..shared].to_vec()).or_default();
                    level
                        .entry(one.clone())
                        .or_default()
                        .entry(other.clone())
                        .or_insert_with(|| format!("{} uses {}", from.join("::"), reference.join("::")));
                }
            }
        }
        levels
    }

    /// Returns the module that defines the item behind an absolute path.
    fn home(&self, path: &[String], depth: usize) -> ModulePath {
        let mut at = ModulePath::new();
        for (idx, segment) in path.iter().enumerate() {
            let Some(module) = self.modules.get(&at) else { break };
            if module.children.contains(segment) {
                at.push(segment.clone());
                continue;
            }
            // A chain of re-exports this long is a circle of globs.
            if let Some(target) = module.imports.get(segment).filter(|_| depth < 16) {
                let target: ModulePath = target.iter().chain(&path[idx + 1..]).cloned().collect();
                return self.home(&target, depth + 1);
            }
            break;
        }
        at
    }
}

/// Arrows between siblings: from, to, and what causes the arrow.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

struct Reader<'a> {
    path: &'a ModulePath,
    module: &'a mut Module,
}

impl Reader<'_> {
    /// Returns the absolute path behind `segments` as written in this module, unless it leads out of the crate.
    fn absolute(&self, segments: &[String]) -> Option<ModulePath> {
        let first = segments.first()?;
        if first == "crate" {
            return Some(segments[1..].to_vec());
        }
        if self.module.children.contains(first) {
            return Some(self.path.iter().chain(segments).cloned().collect());
        }
        let ups = segments.iter().take_while(|it| *it == "super").count();
        let skipped = if ups > 0 { ups } else { usize::from(first == "self") };
        let kept = self.path.len().checked_sub(ups)?;
        (skipped > 0).then(|| self.path[..kept].iter().chain(&segments[skipped..]).cloned().collect())
    }

    fn read_use(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(it) => {
                before.push(it.ident.to_string());
                self.read_use(&it.tree, before);
                before.pop();
            }
            UseTree::Group(it) => it.items.iter().for_each(|tree| self.read_use(tree, before)),
            UseTree::Name(it) => self.import(before, &it.ident.to_string(), &it.ident.to_string()),
            UseTree::Rename(it) => self.import(before, &it.ident.to_string(), &it.rename.to_string()),
            UseTree::Glob(_) => self.refer(before),
        }
    }

    fn import(&mut self, before: &[String], name: &str, local: &str) {
        // `use a::{self}` imports `a`.
        let (path, local) = match (name, before.last()) {
            ("self", Some(last)) => {
                (before.to_vec(), if local == "self" { last.clone() } else { local.to_owned() })
            }
            _ => (before.iter().cloned().chain([name.to_owned()]).collect(), local.to_owned()),
        };
        if let Some(target) = self.absolute(&path) {
            self.module.references.insert(target.clone());
            self.module.imports.insert(local, target);
        }
    }

    fn refer(&mut self, path: &[String]) {
        if let Some(target) = self.absolute(path) {
            self.module.references.insert(target);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.read_use(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if segments.len() > 1 {
            self.refer(&segments);
        }
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg") && it.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn file_of_child(file: &Path, name: &str) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().unwrap_or_default();
    let folder = if ["lib", "main", "mod"].iter().any(|it| stem == *it) {
        folder.to_owned()
    } else {
        folder.join(stem)
    };
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() { flat } else { folder.join(name).join("mod.rs") }
}

/// Finds the sets of siblings that reach each other.
fn knots_of_level(parent: &[String], arrows: &Arrows) -> Vec<String> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|it| (it.as_str(), reached(it, arrows))).collect();
    let reaches = |one: &str, other: &str| reach.get(one).is_some_and(|it| it.contains(other));
    let mut knots: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for name in arrows.keys().filter(|it| reaches(it, it)) {
        knots.insert(
            arrows.keys().map(String::as_str).filter(|it| reaches(name, it) && reaches(it, name)).collect(),
        );
    }
    knots.into_iter().map(|knot| described(parent, &knot, arrows)).collect()
}

fn reached<'a>(from: &str, arrows: &'a Arrows) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(name) = open.pop() {
        for to in arrows.get(name).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

fn described(parent: &[String], knot: &BTreeSet<&str>, arrows: &Arrows) -> String {
    let names: Vec<&str> = knot.iter().copied().collect();
    let mut text = format!("{}: {}", [&["crate".to_owned()], parent].concat().join("::"), names.join(", "));
    for from in knot {
        for (to, cause) in
            arrows.get(*from).into_iter().flatten().filter(|(to, _)| knot.contains(to.as_str()))
        {
            text.push_str(&format!("\n    {from} -> {to}: {cause}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Crate, knots_of_level};

    /// Reads modules given as `path: source` lines and lists their knots.
    fn knots(sources: &[(&str, &str)]) -> String {
        let mut found = Crate::default();
        for (path, source) in sources {
            let path: Vec<String> = path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let parsed = syn::parse_file(source).unwrap();
            // Children are listed in the source, and read as sources of their own.
            let items: Vec<syn::Item> = parsed.items;
            let mut alone = Crate::default();
            let _ = alone.read_items(&items, std::path::Path::new("none.rs"), path.clone());
            found.modules.extend(alone.modules.into_iter().filter(|(it, _)| *it == path));
        }
        let levels = found.levels();
        levels
            .iter()
            .flat_map(|(parent, arrows)| knots_of_level(parent, arrows))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn modules_that_point_one_way_are_fine() {
        assert_eq!(knots(&[("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "struct B;")]), "");
    }

    #[test]
    fn two_modules_that_use_each_other_are_a_knot() {
        assert_eq!(
            knots(&[("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "fn f() { super::a::g() }")]),
            "crate: a, b\n    a -> b: a uses b::B\n    b -> a: b uses a::g"
        );
    }

    #[test]
    fn a_re_export_is_followed_to_the_definition() {
        assert_eq!(
            knots(&[
                ("", "mod a; mod b; pub use a::A; pub use b::{B, C as D};"),
                ("a", "use crate::D;"),
                ("b", "use crate::A;")
            ]),
            "crate: a, b\n    a -> b: a uses D\n    b -> a: b uses A"
        );
    }

    #[test]
    fn siblings_of_a_folder_are_a_level_of_their_own() {
        assert_eq!(
            knots(&[
                ("", "mod a;"),
                ("a", "mod one; mod two; struct Shared;"),
                ("a::one", "use super::{Shared, two::X};"),
                ("a::two", "use super::one;")
            ]),
            "crate::a: one, two\n    one -> two: a::one uses a::two::X\n    two -> one: a::two uses a::one"
        );
    }

    #[test]
    fn tests_and_parents_do_not_count() {
        assert_eq!(
            knots(&[
                ("", "mod a; mod b; struct Root;"),
                ("a", "use crate::{Root, b::B};"),
                ("b", "#[cfg(test)] mod tests { use crate::a::A; }")
            ]),
            ""
        );
    }
}
