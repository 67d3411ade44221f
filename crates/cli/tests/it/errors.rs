//! Everything that can be asked for in a wrong way: a clear answer, and an exit code that says its class.

use serde_json::{Value, json};

use crate::{Folder, initialised};

/// Runs the program with `--json` and returns the exit code and the error.
fn error(folder: &Folder, args: &[&str], stdin: &str) -> (Option<i32>, Value) {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let run = folder.run_with(&all, stdin, &[]);
    let error = run.json()["error"].clone();
    for field in ["code", "message", "at", "sources", "hint"] {
        assert!(error.get(field).is_some(), "{field} is missing: {error}");
    }
    (run.code, error)
}

#[test]
fn the_code_and_the_exit_code_say_what_kind_of_error_it_is() {
    let folder = initialised();
    folder.write("broken.json", "{\"a\": }");
    folder.write("latin1.txt", "ok");
    std::fs::write(folder.path().join("latin1.txt"), [0x61, 0xe9]).expect("files can be written");
    for (args, code) in [
        (&["resolve", "nobody"] as &[&str], "unknown_prompt"),
        (&["resolve", "../../x"], "unknown_prompt"),
        (&["resolve", "prompts/../../../etc/passwd"], "unknown_prompt"),
        (&["resolve", ""], "unknown_prompt"),
        (&["resolve", "support", "--input", "{"], "input_invalid"),
        (&["resolve", "support", "--input", "[]"], "input_invalid"),
        (&["resolve", "support", "--input", "@broken.json"], "input_invalid"),
        (&["resolve", "support", "--input", "@missing.json"], "not_found"),
        (&["resolve", "support", "--input", "@prompts"], "not_found"),
        (&["resolve", "support", "--input", "@"], "usage"),
        (&["render", ""], "usage"),
        (&["render", "prompts"], "not_found"),
        (&["resolve", "support", "--set", "plan=gold"], "input_invalid"),
        (&["resolve", "support", "--set", "plan"], "usage"),
        (&["resolve", "support", "--budget", "3"], "budget_exceeded"),
        (&["resolve", "support", "--input-budget", "3"], "budget_exceeded"),
        (&["resolve", "support", "--budget", "x"], "usage"),
        (&["resolve", "support", "--budget", "-1"], "usage"),
        (&["resolve", "support", "--now", "today"], "usage"),
        (&["inspect", "support", "--wire", "openai"], "usage"),
        (&["resolve", "support", "--history", "missing.jsonl"], "not_found"),
        (&["resolve", "support", "--input", "-", "--history", "-"], "usage"),
        (&["inspect"], "usage"),
        (&["inspect", "support", "--frobnicate"], "usage"),
        (&["fly"], "usage"),
        (&[], "usage"),
        (&["-C", "missing", "lint"], "not_found"),
        (&["diff", "broken.json", "broken.json"], "input_invalid"),
        (&["diff", "missing.json", "broken.json"], "not_found"),
        (&["diff", "support"], "usage"),
        (&["diff", "support", "--a", "{}"], "usage"),
        (&["diff", "support", "--a", "-", "--b", "-"], "usage"),
        (&["diff", "contexture.toml", "broken.json"], "input_invalid"),
        (&["render", "missing.json"], "not_found"),
        (&["render", "broken.json"], "input_invalid"),
        (&["render", "broken.json", "--indent", "17"], "usage"),
        (&["tokens"], "usage"),
        (&["tokens", "missing.txt"], "not_found"),
        (&["tokens", "latin1.txt"], "input_invalid"),
        (&["tokens", "-", "-"], "usage"),
        (&["completions", "cmd"], "usage"),
    ] {
        let (exit, error) = error(&folder, args, "");
        assert_eq!((exit, &error["code"]), (Some(2), &json!(code)), "{args:?}: {error}");
        assert!(error["message"].as_str().is_some_and(|it| !it.is_empty()), "{args:?}");
    }
}

#[test]
fn a_folder_without_a_project_says_what_to_do() {
    let (exit, error) = error(&Folder::new([]), &["resolve", "p"], "");
    assert_eq!((exit, &error["code"]), (Some(2), &json!("not_found")));
    assert!(error["hint"].as_str().is_some_and(|it| it.contains("contexture init")), "{error}");
}

#[test]
fn all_faults_of_a_prompt_are_told_at_once() {
    let folder = Folder::new([("prompts/p.md", "---\ntemprature: 1\ndescriptoin: x\n---\nOwn.")]);
    let (exit, error) = error(&folder, &["resolve", "p"], "");
    assert_eq!((exit, &error["code"]), (Some(2), &json!("unknown_field")));
    assert_eq!(error["at"], "prompts/p.md:2:1");
    assert_eq!(error["more"][0]["at"], "prompts/p.md:3:1");
}

#[test]
fn a_template_error_names_file_line_and_column() {
    let folder = Folder::new([("prompts/p.md", "---\ndescription: x\n---\nOne.\nHello {{ input.nme }}.")]);
    let (exit, error) = error(&folder, &["inspect", "p"], "");
    assert_eq!((exit, &error["code"]), (Some(2), &json!("template_error")));
    assert_eq!(error["at"], "prompts/p.md:5:10");
}

#[test]
fn deep_and_large_json_is_refused_and_does_no_harm() {
    let folder = initialised();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    for (args, stdin, code) in [
        (&["render", "-"] as &[&str], deep.as_str(), "input_invalid"),
        (&["render", "-"], objects.as_str(), "depth_exceeded"),
        (&["resolve", "support", "--input", "-"], deep.as_str(), "input_invalid"),
        (&["resolve", "support", "--history", "-"], deep.as_str(), "input_invalid"),
        (&["diff", "-", "-x"], deep.as_str(), "usage"),
    ] {
        let (exit, error) = error(&folder, args, stdin);
        assert_eq!((exit, &error["code"]), (Some(2), &json!(code)), "{args:?}: {error}");
    }
    folder.write(
        "prompts/ask.md",
        "---\ninput: {question: string}\n---\n<user>\n{{ input.question }}\n</user>\n",
    );
    let large = format!("{{\"question\": \"{}\"}}", "word ".repeat(50_000));
    let run =
        folder.run_with(&["resolve", "ask", "--input", "-", "--input-budget", "9000", "--json"], &large, &[]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (Some(2), &json!("budget_exceeded")));
}

#[test]
fn a_wrong_configuration_is_told_with_its_line() {
    let folder = Folder::new([("contexture.toml", "[stroe]\nurl = \"memory:\"\n"), ("prompts/p.md", "S")]);
    let (exit, error) = error(&folder, &["resolve", "p"], "");
    assert_eq!((exit, &error["code"]), (Some(2), &json!("unknown_field")));
    assert!(error["at"].as_str().is_some_and(|it| it.starts_with("contexture.toml:1")), "{error}");
    let fine = Folder::new([("prompts/p.md", "S")]);
    let run =
        fine.run_with(&["resolve", "p", "--json"], "", &[("CONTEXTURE_COMPACTION_MIN_MESSAGES", "many")]);
    assert_eq!(run.code, Some(2), "{}", run.shown());
    assert!(run.stdout.contains("CONTEXTURE_COMPACTION_MIN_MESSAGES"), "{}", run.stdout);
}

#[test]
fn a_slip_of_the_pen_in_the_input_is_told() {
    let folder = initialised();
    let slip = &["resolve", "support", "--set", "plna=pro"] as &[&str];
    let (exit, error) = error(&folder, &[slip, &["--strict"]].concat(), "");
    assert_eq!((exit, &error["code"]), (Some(2), &json!("input_invalid")), "{error}");
    assert_eq!(error["message"], "no schema declares the input key `plna`; did you mean `plan`?");
    let page = folder.run(slip);
    assert!(page.stdout.contains("did you mean `plan`?"), "{}", page.stdout);
    let document = folder.run(&[slip, &["--json"]].concat());
    assert!(
        document.stderr.contains("warning: no schema declares the input key `plna`"),
        "{}",
        document.stderr
    );
    assert_eq!(document.code, Some(0));
}
