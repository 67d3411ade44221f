//! The entry `memory` of a project.

use std::sync::Arc;

use contexture_capabilities::memory::{Layer, MemoryPorts, Namespace, NewRecord};
use contexture_compose::{BoxFuture, ResolveOptions, Scope};
use contexture_history::Timestamp;
use contexture_project::Project;
use contexture_session::{MemoryStore, Tenant, Time};
use futures::executor::block_on;
use serde_json::json;

use crate::support::{faults, project};

#[derive(Debug)]
struct Noon;

impl Time for Noon {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn provide(project: &Project) {
    let store = Arc::new(MemoryStore::new(Arc::new(Noon)));
    project.memories().provide(MemoryPorts { index: store.clone(), log: store, time: Arc::new(Noon) });
}

fn system(project: &Project) -> String {
    let prompt = project.prompt("p").unwrap();
    let scope = Scope { user: Some("ada".into()), ..Scope::default() };
    let options = ResolveOptions { scope, ..project.options(prompt, None, None) };
    let pass = block_on(prompt.resolve(options.user_message("Hello"))).unwrap();
    let tools: Vec<&str> = pass.request().tools.iter().map(|it| it.name.as_str()).collect();
    format!("{}\n{}", pass.request().messages[0].joined_text(), tools.join(", "))
}

#[test]
fn a_prompt_has_the_memory_of_its_store() {
    for (entry, tools) in [
        ("memory: true", "forget, memory_read, memory_search, remember"),
        ("memory: {tools: files, core_tokens: 200}", "memory"),
        ("memory: {tools: 'off', policy: {archival_mode: auto, archival_limit: 3}}", ""),
    ] {
        let project = project(&[("prompts/p.md", &format!("---\nuse:\n  - {entry}\n---\nHelp."))]);
        // Without a store there is no memory.
        assert_eq!(system(&project), "Help.\n");
        provide(&project);
        let ada = project.memories().space(&Tenant::default(), Namespace::of_user("ada")).unwrap();
        block_on(ada.add(NewRecord::new(Layer::Rules, "Always answer in German."))).unwrap();
        let expected = "Help.\n\n<core-memory>\n- Always answer in German.\n</core-memory>";
        assert_eq!(system(&project), format!("{expected}\n{tools}"));
    }
}

#[test]
fn a_working_state_has_the_schema_of_the_file() {
    let entry = "memory: {working: {description: The plan., schema: {properties: {step: {type: integer}}}}}";
    let project = project(&[("prompts/p.md", &format!("---\nuse:\n  - {entry}\n---\nHelp."))]);
    assert_eq!(project.faults(), []);
    let definition = project.boards().definition("working").unwrap();
    assert_eq!(definition.schema().faults(&json!({"step": "x"})), [r#"/step: "x" is not of type "integer""#]);
    assert_eq!(definition.options().description.as_deref(), Some("The plan."));
}

#[test]
fn faults_name_the_place() {
    let of = |entry: &str| faults(&[("prompts/p.md", &format!("---\nuse:\n  - {entry}\n---\nHelp."))]);
    let entries = [
        "memory: {tool: own}",
        "memory: {tools: some}",
        "memory: {policy: {archival_mode: always}}",
        "memory: 5",
        "memory: {working: {}}",
        "memory: {working: {schema: {type: string}}}",
    ];
    let all: Vec<String> = entries.iter().map(|it| of(it)).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    prompts/p.md:3:14 unknown_field: `use[0].memory`: unknown field `tool` [did you mean `tools`?]
    prompts/p.md:3:21 file_invalid: `use[0].memory.tools`: expected `off` or `own` or `files`, found `some`
    prompts/p.md:3:38 file_invalid: `use[0].memory.policy.archival_mode`: expected `off` or `tool_only` or `auto`, found `always`
    prompts/p.md:3:13 file_invalid: `use[0].memory`: expected a map, found `5`
    prompts/p.md:3:23 file_invalid: `use[0].memory.working`: `schema` is missing
    prompts/p.md:3:23 entry_invalid: `use[0].memory.working`: blackboard `working`: its schema has the type "string", a board is an `object`
    "#);
}
