//! What people see. The pages are in `snapshots/`.

use insta::assert_snapshot;

use crate::{Folder, initialised};

/// A page without what depends on the machine.
fn page(text: &str) -> String {
    text.split("\n\nTimings").next().unwrap_or_default().trim_end().to_owned()
}

#[test]
fn help() {
    let folder = Folder::new([]);
    assert_snapshot!("help", folder.run(&["--help"]).shown());
    for command in [
        "init",
        "resolve",
        "inspect",
        "run",
        "chat",
        "compact",
        "diff",
        "render",
        "window",
        "tokens",
        "lint",
        "prompts",
        "blocks",
        "flow",
        "sessions",
        "completions",
    ] {
        assert_snapshot!(format!("help-{command}"), folder.run(&[command, "--help"]).shown());
    }
}

#[test]
fn init() {
    assert_snapshot!("init", Folder::new([]).run(&["init", "shop"]).shown());
}

#[test]
fn resolve() {
    let folder = initialised();
    folder.write("chat.jsonl", concat!(
        "{\"role\": \"user\", \"content\": \"Hello\"}\n",
        "{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_call\", \"id\": \"c1\", \"name\": \"find_order\", \"arguments\": {\"number\": 1042}}]}\n",
        "{\"role\": \"tool\", \"content\": [{\"type\": \"tool_result\", \"call_id\": \"c1\", \"name\": \"find_order\", \"output\": {\"type\": \"json\", \"value\": {\"state\": \"shipped\"}}}]}\n",
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Look:\"}, {\"type\": \"image\", \"media_type\": \"image/png\", \"data\": \"AAAA\"}]}\n",
    ));
    assert_snapshot!("resolve", folder.run(&["resolve", "support", "--history", "chat.jsonl"]).shown());
}

#[test]
fn inspect() {
    let folder = initialised();
    assert_snapshot!("inspect", page(&folder.run(&["inspect", "support"]).stdout));
    let tight = [
        "inspect",
        "support",
        "--set",
        "plan=pro",
        "--budget",
        "115",
        "--model",
        "anthropic/claude-sonnet-4-5",
    ];
    let run = folder.run(&tight);
    assert!(run.stdout.lines().all(|it| it.len() <= 100), "{}", run.stdout);
    assert_snapshot!("inspect-tight", page(&run.stdout));
}

#[test]
fn diff() {
    let folder = initialised();
    let b = r#"{"plan": "pro", "orders": [{"number": 1042, "state": "delivered"}]}"#;
    assert_snapshot!("diff", folder.run(&["diff", "support", "--a", "{}", "--b", b]).shown());
    assert_snapshot!("diff-equal", folder.run(&["diff", "support", "--a", "{}", "--b", "{}"]).shown());
}

#[test]
fn lint() {
    let folder = Folder::new([
        ("prompts/p.md", "---\ntemprature: 1\nuse: [brnad]\n---\nHello {{ input.name }}."),
        ("contexts/brand.md", "---\npriority: 101\n---\nKind."),
        ("contexts/empty.md", ""),
    ]);
    assert_snapshot!("lint", folder.run(&["lint"]).shown());
    assert_snapshot!("lint-clean", initialised().run(&["lint"]).shown());
}

#[test]
fn prompts() {
    let folder = initialised();
    folder.write("prompts/team/broken.md", "---\nuse: [nobody]\n---\nHi.");
    assert_snapshot!("prompts", folder.run(&["prompts"]).shown());
}

#[test]
fn tokens() {
    let folder = Folder::new([("a.txt", "hello world"), ("b.txt", "hello")]);
    assert_snapshot!("tokens", folder.run(&["tokens", "a.txt", "b.txt"]).shown());
}

#[test]
fn errors() {
    let folder = Folder::new([
        ("prompts/p.md", "---\ntemprature: 1\ndescriptoin: x\n---\nOwn."),
        ("prompts/q.md", "Hello {{ input.nme }}."),
        ("prompts/tags.md", "---\ncontext: [{d: x}, {d: {e: y}}]\n---\nOwn."),
    ]);
    let shown: Vec<String> = [
        &["resolve", "p"] as &[&str],
        &["resolve", "q"],
        &["resolve", "tags"],
        &["resolve", "../../x"],
        &["resolve", "prompts/q.md"],
        &["resolve", "q", "--input", "in.json"],
        &["resolve", "q", "--wire", "cohere"],
        &["resolve", "q", "--budgte", "3"],
        &["resolve"],
        &["resolve", "q", "--json", "--frobnicate"],
    ]
    .iter()
    .map(|args| format!("$ contexture {}\n{}", args.join(" "), folder.run(args).shown()))
    .collect();
    assert_snapshot!("errors", shown.join("\n\n"));
}
