//! Tools that a project can run, and checks that are looked at when it is loaded.

use serde_json::json;

use crate::support::{faults_of, listed, project};

const ORDER: &str = "\
---
tools:
  - name: order
    description: Looks up an order.
    parameters: {type: object, properties: {id: {type: string}}, required: [id]}
    http: {url: 'https://shop.test/orders/{id}', header_env: {authorization: SHOP_TOKEN}}
    approval: true
    timeout: 2.5
---
You help with orders.";

#[test]
fn an_http_tool_is_declared_beside_what_the_model_sees() {
    let project = project(&[("prompts/p.md", ORDER)]);
    let tools = project.tools();
    let [tool] = tools.as_slice() else { panic!("one tool: {tools:?}") };
    assert_eq!((tool.tool.name.as_str(), tool.http.method.as_str()), ("order", "GET"));
    assert!(tool.approval && tool.timeout.is_some_and(|it| it.as_millis() == 2500));
    // Nothing of how it is run is in what the model sees.
    let sent = format!("{:?}", project.prompt("p").expect("it builds").definition().tools);
    assert!(!sent.contains("shop.test") && !sent.contains("SHOP_TOKEN"), "{sent}");
}

#[test]
fn a_name_means_a_tool_if_all_files_declare_it_alike() {
    let names = |context: &str| -> Vec<String> {
        let project = project(&[("prompts/p.md", ORDER), ("contexts/c.md", context)]);
        project.tools().into_iter().map(|it| it.tool.name).collect()
    };
    assert_eq!(names(ORDER), ["order"]);
    assert!(names(&ORDER.replace("2.5", "3")).is_empty());

    // One of the files may leave it open how the tool runs.
    let (start, behind) = ORDER.split_once("    http:").expect("a call");
    let plain = format!("{start}---{}", behind.split_once("---").expect("a front").1);
    assert_eq!(names(&plain), ["order"]);
    assert!(names(&plain.replace("Looks up an order.", "Cancels an order.")).is_empty());
}

#[test]
fn a_flow_cannot_call_a_tool_that_files_declare_differently() {
    let flow = "nodes: {s: {type: start}, t: {type: tool_call, tool: order}}\nedges: [s -> t]\n";
    let other = ORDER.replace("2.5", "3");
    let project = project(&[("prompts/p.md", ORDER), ("prompts/q.md", &other), ("flows/f.yaml", flow)]);
    insta::assert_snapshot!(listed(&project.faults()), @"flows/f.yaml:1:54 tool_collision: node `t`: tool `order` is declared differently in prompts/p.md and prompts/q.md [give one of them another name]");
}

/// Resolves the prompt `p` of a project and lists its tools, or its error.
fn tools_of(files: &[(&str, &str)]) -> String {
    let project = project(files);
    match project.prompt("p") {
        Ok(prompt) => contexture_testkit::resolve_input(prompt, json!({}))
            .expect("it resolves")
            .explain()
            .tools
            .join(" "),
        Err(err) => listed(&err.faults),
    }
}

#[test]
fn the_same_call_declared_by_a_bundle_and_a_prompt_is_one_tool() {
    let front = ORDER.split("---").nth(1).expect("a front");
    let prompt = format!("---{front}use: [{{capability: c}}]\n---\nHi.");
    assert_eq!(tools_of(&[("prompts/p.md", &prompt), ("capabilities/c/capability.md", ORDER)]), "order");
    let other = ORDER.replace("/orders/", "/bills/");
    insta::assert_snapshot!(tools_of(&[("prompts/p.md", &prompt), ("capabilities/c/capability.md", &other)]), @"prompts/p.md:3:5 tool_collision: tool `order` is given by capability:c and by prompt [rename one; tools given at the call site replace others of that name]");
}

#[test]
fn declarations_that_make_no_sense_are_faults() {
    let tool = |rest: &str| faults_of(&format!("---\ntools:\n  - {{name: t, {rest}}}\n---\nText."));
    insta::assert_snapshot!(tool("http: {url: 'https://a.test/{id}'}"), @"prompts/p.md:3:5 file_invalid: `tools[0]`: `http`: the address reads `id`, which the tool's parameters do not declare");
    insta::assert_snapshot!(tool("approval: true"), @"prompts/p.md:3:5 file_invalid: `tools[0]`: `approval` needs `http`: a tool without `http` is run by the application");
    insta::assert_snapshot!(tool("http: {url: 'https://a.test/'}, timeout: 0"), @"prompts/p.md:3:5 file_invalid: `tools[0]`: `timeout` must be a positive number of seconds");
    insta::assert_snapshot!(tool("htpp: 1"), @"prompts/p.md:3:15 unknown_field: `tools[0]`: unknown field `htpp` [did you mean `http`?]");
}

#[test]
fn checks_are_looked_at_when_they_are_read() {
    let field = |text: &str| faults_of(&format!("---\n{text}\n---\nText."));
    let typo = field("constraints: [{id: short, max_word: 3}]");
    assert!(
        typo.starts_with("prompts/p.md:2:15 file_invalid: `constraints[0]`: unknown field `max_word`"),
        "{typo}"
    );
    let broken = field("guardrails: [{id: g, not_matches: '('}]");
    assert!(broken.contains("`guardrails[0]`: `not_matches` is not a valid regular expression"), "{broken}");
    let unknown = field("tool_middleware: [{id: m, kind: magic}]");
    assert!(unknown.contains("`tool_middleware[0]`: unknown variant `magic`"), "{unknown}");
    assert_eq!(field("constraints: [{id: a_function}]"), "fine");
}
