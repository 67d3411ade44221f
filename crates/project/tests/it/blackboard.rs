//! The entry `blackboard` in files.

use std::path::Path;
use std::sync::Arc;

use contexture_capabilities::blackboard::BoardScope;
use contexture_project::{InMemory, Project};

fn faults(front_matter: &str) -> Vec<String> {
    let file = format!("---\nuse:\n{front_matter}\n---\nOwn.\n");
    let project = Project::from_files(Arc::new(InMemory::new([("prompts/p.md", file.as_str())]))).unwrap();
    project.faults().iter().map(ToString::to_string).collect()
}

#[test]
fn a_board_of_a_file_is_defined_by_its_id() {
    let file = "---\nuse:\n  - blackboard: {id: plan, scope: tenant, schema: {properties: {goal: {type: string}}}}\n---\nOwn.\n";
    let project = Project::from_files(Arc::new(InMemory::new([("prompts/p.md", file)]))).unwrap();
    assert_eq!(project.faults(), []);
    let definition = project.boards().definition("plan").unwrap();
    assert_eq!((definition.scope(), definition.options().tools), (BoardScope::Tenant, true));
}

#[test]
fn faults_have_a_place() {
    let unknown = faults("  - blackboard: {id: plan, schema: {}, color: red}");
    assert!(unknown.len() == 1 && unknown[0].contains("color"), "{unknown:?}");
    let missing = faults("  - blackboard: {id: plan}");
    assert!(missing.len() == 1 && missing[0].contains("`id` and `schema`"), "{missing:?}");
    let rule = faults("  - blackboard: {id: plan, schema: {properties: {a: {x-merge: add}}}}");
    assert!(
        rule.len() == 1 && rule[0].contains("known are replace, append, union, counter, max"),
        "{rule:?}"
    );
}

#[test]
fn the_todo_example_has_no_faults() {
    let project = Project::open(Path::new("../../examples/todo")).unwrap();
    assert_eq!(project.faults(), []);
    assert_eq!(project.boards().definition("todo").unwrap().scope(), BoardScope::Session);
    assert!(project.flow("finish").is_ok());
}

#[test]
fn two_schemas_of_one_board_are_an_error_with_both_places() {
    let file =
        |schema: &str| format!("---\nuse:\n  - blackboard: {{id: plan, schema: {schema}}}\n---\nOwn.\n");
    let lint = |other: &str| {
        let one = file("{properties: {goal: {type: string}}}");
        let files = InMemory::new([("prompts/a.md", one.as_str()), ("prompts/b.md", other)]);
        let project = Project::from_files(Arc::new(files)).unwrap();
        project.lint().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lint(&file("{properties: {goal: {type: string}}}")), "");
    insta::assert_snapshot!(
        lint(&file("{properties: {goal: {type: integer}}}")),
        @"prompts/b.md:3:22: error[schema_conflict]: blackboard `plan` has another schema than at prompts/a.md:3:22"
    );
    let working = "---\nuse:\n  - memory: {working: {schema: {}}}\n  - blackboard: {id: working, schema: {properties: {}}}\n---\nOwn.\n";
    let found = lint(working);
    assert!(found.contains("blackboard `working` has another schema than at prompts/b.md:3:23"), "{found}");
}
