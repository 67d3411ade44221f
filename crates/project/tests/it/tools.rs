//! Tools that a project can run, and checks that are looked at when it is loaded.

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
    let tools = project.tools().expect("they agree");
    let [tool] = tools.as_slice() else { panic!("one tool: {tools:?}") };
    assert_eq!((tool.tool.name.as_str(), tool.http.method.as_str()), ("order", "GET"));
    assert!(tool.approval && tool.timeout.is_some_and(|it| it.as_millis() == 2500));
    // Nothing of how it is run is in what the model sees.
    let sent = format!("{:?}", project.prompt("p").expect("it builds").definition().tools);
    assert!(!sent.contains("shop.test") && !sent.contains("SHOP_TOKEN"), "{sent}");
}

#[test]
fn two_files_may_declare_a_tool_alike_but_not_differently() {
    let alike = project(&[("prompts/p.md", ORDER), ("contexts/c.md", ORDER)]);
    assert_eq!(alike.tools().expect("they agree").len(), 1);
    let other = ORDER.replace("2.5", "3");
    let differing = project(&[("prompts/p.md", ORDER), ("contexts/c.md", &other)]);
    let err = differing.tools().expect_err("they differ");
    insta::assert_snapshot!(listed(&err.faults), @"prompts/p.md:3:5 tool_collision: tool `order` is declared differently in contexts/c.md and prompts/p.md");

    let (start, behind) = ORDER.split_once("    http:").expect("a call");
    let plain = format!("{start}---{}", behind.split_once("---").expect("a front").1);
    let alike = project(&[("prompts/p.md", ORDER), ("contexts/c.md", &plain)]);
    assert_eq!(alike.tools().expect("they agree").len(), 1);
    let other = plain.replace("Looks up an order.", "Cancels an order.");
    let differing = project(&[("prompts/p.md", ORDER), ("contexts/c.md", &other)]);
    assert_eq!(differing.tools().expect_err("they differ").faults[0].code, "tool_collision");
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
