//! Reloading: what changed is compiled again, and nothing that worked is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use contexture_compose::HistoryConfig;
use contexture_project::{Config, Files, FilesError, InMemory, Project, ProjectError, Reload};

use super::support::listed;

/// Files that a test can change.
#[derive(Clone, Default)]
struct Changing(Arc<Mutex<BTreeMap<String, String>>>);

impl Changing {
    fn new(files: &[(&str, &str)]) -> Self {
        let changing = Self::default();
        files.iter().for_each(|(path, text)| changing.set(path, text));
        changing
    }

    fn set(&self, path: &str, text: &str) {
        self.0.lock().unwrap().insert(path.to_owned(), text.to_owned());
    }

    fn remove(&self, path: &str) {
        self.0.lock().unwrap().remove(path);
    }
}

impl Files for Changing {
    fn list(&self) -> Result<Vec<String>, FilesError> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    fn read(&self, path: &str) -> Result<String, FilesError> {
        let files = self.0.lock().unwrap();
        files.get(path).cloned().ok_or_else(|| FilesError::NotFound { path: path.to_owned() })
    }
}

fn opened(files: &[(&str, &str)]) -> (Changing, Project) {
    let files = Changing::new(files);
    (files.clone(), Project::from_files(Arc::new(files)).unwrap())
}

/// Reloads and says what happened.
fn reloaded(project: &mut Project) -> String {
    let reload = project.reload().unwrap();
    format!("changed {:?} removed {:?}\n{}", reload.changed, reload.removed, listed(&reload.faults))
        .trim()
        .to_owned()
}

const FILES: [(&str, &str); 5] = [
    ("prompts/one.md", "---\nuse: [a]\n---\nOne."),
    ("prompts/two.md", "---\nuse: [b]\n---\nTwo."),
    ("contexts/a.md", "---\nuse: [b]\n---\nA."),
    ("contexts/b.md", "B. {% render 'x' %}"),
    ("partials/x.md", "X"),
];

#[test]
fn nothing_changed_means_nothing_compiled() {
    let (_, mut project) = opened(&FILES);
    let before = project.prompt("one").unwrap().clone();
    assert_eq!(reloaded(&mut project), "changed [] removed []");
    assert!(project.prompt("one").unwrap().is_same(&before));
}

#[test]
fn a_change_reaches_its_dependants_and_nobody_else() {
    let (files, mut project) = opened(&FILES);
    let two = project.prompt("two").unwrap().clone();
    files.set("contexts/a.md", "A2.");
    assert_eq!(reloaded(&mut project), "changed [\"one\"] removed []");
    assert!(project.prompt("two").unwrap().is_same(&two));
    files.set("partials/x.md", "X2");
    assert_eq!(reloaded(&mut project), "changed [\"two\"] removed []");
}

#[test]
fn a_broken_prompt_keeps_its_last_good_version() {
    let (files, mut project) = opened(&FILES);
    let good = project.prompt("one").unwrap().clone();
    files.set("contexts/a.md", "---\nprio: 1\n---\n");
    insta::assert_snapshot!(reloaded(&mut project), @r#"
    changed ["one"] removed []
    contexts/a.md:2:1 unknown_field: unknown field `prio` [did you mean `priority`?]
    "#);
    assert!(project.prompt("one").unwrap().is_same(&good));
    assert!(project.prompts().all(|(_, it)| it.is_ok()));
    assert_eq!(project.lint().iter().filter(|it| it.code == "unknown_field").count(), 1);
    files.set("prompts/one.md", "---\n[\n---\n");
    project.reload().unwrap();
    assert!(project.prompt("one").unwrap().is_same(&good), "still the last good one");
    files.set("prompts/one.md", "Mended.");
    assert_eq!(reloaded(&mut project), "changed [\"one\"] removed []");
    assert!(!project.prompt("one").unwrap().is_same(&good));
}

#[test]
fn files_that_come_and_go_are_noticed() {
    let (files, mut project) = opened(&[("prompts/one.md", "---\nuse: [new]\n---\n{% render 'p' %}")]);
    assert_eq!(project.prompt("one").unwrap_err().faults.len(), 2);
    files.set("contexts/new.md", "New.");
    files.set("partials/p.liquid", "P");
    files.set("prompts/sub/two.md", "Two.");
    assert_eq!(reloaded(&mut project), "changed [\"one\", \"sub/two\"] removed []");
    assert!(project.prompt("one").is_ok());
    files.remove("prompts/sub/two.md");
    assert_eq!(reloaded(&mut project), "changed [] removed [\"sub/two\"]");
    assert_eq!(project.prompt("sub/two").unwrap_err().faults[0].code, "unknown_prompt");
}

#[test]
fn a_circle_that_is_opened_again_works() {
    let (files, mut project) = opened(&[
        ("prompts/p.md", "---\nuse: [a]\n---\n"),
        ("contexts/a.md", "---\nuse: [b]\n---\nA."),
        ("contexts/b.md", "---\nuse: [a]\n---\nB."),
    ]);
    assert!(project.prompt("p").is_err());
    files.set("contexts/b.md", "B.");
    project.reload().unwrap();
    assert!(project.prompt("p").is_ok());
}

#[test]
fn a_wrong_configuration_leaves_everything_as_it_was() {
    let (files, mut project) = opened(&FILES);
    files.set("contexture.toml", "[stroe]\nurl = \"memory:\"");
    files.set("prompts/one.md", "New.");
    assert_eq!(project.reload().unwrap_err().faults[0].code, "unknown_field");
    assert_eq!(project.config().store.url, "sqlite:.contexture/contexture.db");
    assert_eq!(project.prompt("one").unwrap().definition().entries.len(), 1);
}

#[test]
fn a_context_that_is_found_by_its_id_follows_the_ids() {
    let (files, mut project) = opened(&[
        ("prompts/p.md", "---\nuse: [brand]\n---\nP."),
        ("contexts/x.md", "---\nid: brand\n---\nX."),
    ]);
    assert!(project.prompt("p").is_ok());
    files.set("contexts/y.md", "Y.");
    assert_eq!(reloaded(&mut project), "changed [\"p\"] removed []");
    files.set("contexts/y.md", "Y2.");
    assert_eq!(reloaded(&mut project), "changed [] removed []", "the ids are the same");
    files.set("contexts/y.md", "---\nid: brand\n---\nY.");
    insta::assert_snapshot!(reloaded(&mut project), @r#"
    changed ["p"] removed []
    prompts/p.md:2:7 unknown_entry: `brand` may be contexts/x.md or contexts/y.md [name one by its path: `x` or `y`]
    "#);
    files.remove("contexts/x.md");
    assert_eq!(reloaded(&mut project), "changed [\"p\"] removed []");
    files.set("contexts/brand.md", "Brand.");
    assert_eq!(reloaded(&mut project), "changed [\"p\"] removed []");
}

#[test]
fn a_new_prompt_with_a_known_id_is_told() {
    let (files, mut project) = opened(&[("prompts/b.md", "---\nid: same\n---\nB.")]);
    files.set("prompts/a.md", "---\nid: same\n---\nA.");
    project.reload().unwrap();
    assert_eq!(project.prompt("same").unwrap_err().faults[0].code, "duplicate_id");
    files.set("prompts/a.md", "A.");
    project.reload().unwrap();
    assert!(project.prompt("same").is_ok());
}

#[test]
fn a_changed_block_reaches_the_prompts_it_applies_to() {
    let (files, mut project) = opened(&[
        ("prompts/one.md", "One."),
        ("prompts/two.md", "Two."),
        ("prompts/three.md", "---\nuse: [{block: named}]\n---\nThree."),
        ("blocks/of_one.md", "---\nagents: [one]\n---\nB."),
        ("blocks/named.md", "---\nagents: [two]\n---\nN."),
    ]);
    assert_eq!(reloaded(&mut project), "changed [] removed []");
    files.set("blocks/of_one.md", "---\nagents: [one]\n---\nB2.");
    assert_eq!(reloaded(&mut project), "changed [\"one\"] removed []");
    files.set("blocks/named.md", "---\nagents: [two]\n---\nN2.");
    assert_eq!(reloaded(&mut project), "changed [\"three\", \"two\"] removed []");
    files.set("blocks/new.md", "New.");
    assert_eq!(reloaded(&mut project), "changed [\"one\", \"three\", \"two\"] removed []");
    files.remove("blocks/new.md");
    assert_eq!(reloaded(&mut project), "changed [\"one\", \"three\", \"two\"] removed []");
    // A prompt that is gone makes the block's list wrong; the others keep their last good version.
    files.remove("prompts/two.md");
    insta::assert_snapshot!(reloaded(&mut project), @r#"
    changed ["one", "three"] removed ["two"]
    blocks/named.md:2:10 unknown_prompt: `agents`: there is no prompt `two`
    "#);
}

#[test]
fn a_flow_that_is_broken_now_keeps_its_last_good_version() {
    let flow =
        |text: &str| format!("nodes: {{a: {{type: transform, template: {text}}}}}\nedges: [start -> a]\n");
    let (files, mut project) = opened(&[("flows/f.yaml", &flow("A")), ("flows/g.yaml", &flow("G"))]);
    let told = |project: &mut Project| {
        let reload = project.reload().unwrap();
        let (changed, removed) = (reload.changed_flows, reload.removed_flows);
        format!("changed {changed:?} removed {removed:?}\n{}", listed(&reload.faults)).trim().to_owned()
    };
    let first = project.flow("f").unwrap().fingerprint().to_owned();
    assert_eq!(told(&mut project), "changed [] removed []");

    files.set("flows/f.yaml", "nodes: {a: {type: nothing}}");
    insta::assert_snapshot!(told(&mut project), @r"
    changed [] removed []
    flows/f.yaml:1:19 flow_unknown_type: node `a`: there is no type `nothing` [there are: start, llm_request, user_input, manual_input, new_thread, inject_messages, release_thread, tools, tool_call, intent_router, branch, parallel, join, cache, blackboard_wait, portal_in, portal_out, sub_flow, transform, custom]
    ");
    assert_eq!(project.flow("f").unwrap().fingerprint(), first);
    assert_eq!(project.lint().len(), 1);

    files.set("flows/f.yaml", &flow("B"));
    assert_eq!(told(&mut project), "changed [\"f\"] removed []");
    assert_ne!(project.flow("f").unwrap().fingerprint(), first);

    files.remove("flows/g.yaml");
    assert_eq!(told(&mut project), "changed [] removed [\"g\"]");
    assert!(project.flow("g").is_err());
}

#[test]
fn a_flow_follows_its_parts_and_the_names_of_prompts() {
    let outer = "nodes: {s: {type: sub_flow, flow: part}}\nedges: [start -> s]\n";
    let part =
        |text: &str| format!("nodes: {{a: {{type: transform, template: {text}}}}}\nedges: [start -> a]\n");
    let (files, mut project) = opened(&[("flows/f.yaml", outer), ("flows/part.yaml", &part("A"))]);
    files.set("flows/part.yaml", &part("B"));
    assert_eq!(project.reload().unwrap().changed_flows, ["f", "part"]);

    files.set("flows/part.yaml", "nodes: {a: {type: llm_request, prompt: p}}\nedges: [start -> a]\n");
    let codes = |project: &mut Project| {
        let faults = project.reload().unwrap().faults;
        faults.into_iter().map(|it| it.code.to_string()).collect::<Vec<_>>()
    };
    assert!(codes(&mut project).contains(&"unknown_prompt".to_owned()));
    files.set("prompts/p.md", "P.");
    assert!(!codes(&mut project).contains(&"unknown_prompt".to_owned()));
}

/// Counts how often a file is read.
struct Counting(InMemory, AtomicUsize);

impl Files for Counting {
    fn list(&self) -> Result<Vec<String>, FilesError> {
        self.0.list()
    }

    fn read(&self, path: &str) -> Result<String, FilesError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read(path)
    }
}

#[test]
fn a_project_is_read_and_compiled_once_however_many_overrides_there_are() {
    let config = "[history]\ndefault = false\n";
    let files = InMemory::new([("contexture.toml", config), ("prompts/p.md", "P."), ("contexts/c.md", "C.")]);
    let files = Arc::new(Counting(files, AtomicUsize::new(0)));
    let overrides = |config: &Config| {
        assert_eq!(config.history.default.config(), HistoryConfig::NONE, "as written");
        Ok::<_, ProjectError>(vec![
            ("history.default".to_owned(), "true".to_owned()),
            ("store.url".to_owned(), "memory:".to_owned()),
        ])
    };
    let mut project = Project::load(files.clone(), overrides).unwrap();
    assert_eq!(files.1.load(Ordering::Relaxed), 3, "each file once");
    // The prompt was compiled with the override, which also survives a reload that compiles nothing.
    let history = |project: &Project| project.prompt("p").unwrap().definition().history;
    assert_eq!(history(&project), HistoryConfig::default());
    assert_eq!(project.reload().unwrap(), Reload::default());
    assert_eq!(
        (history(&project), project.config().store.url.as_str()),
        (HistoryConfig::default(), "memory:")
    );
}
