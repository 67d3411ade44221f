//! `run` and `chat` against a real model, where one is served: `cargo xtask model`, with its address in
//! `CONTEXTURE_TEST_MODEL_URL`. The model is tiny, so nothing here looks at what it says.

use crate::Folder;
use crate::served::config;

/// A project that calls the model, or nothing after it has said so.
#[allow(clippy::print_stdout, reason = "whoever reads the tests' output should know what was not tested")]
fn project(dialect: &str) -> Option<Folder> {
    let Some(url) = std::env::var("CONTEXTURE_TEST_MODEL_URL").ok().filter(|it| !it.is_empty()) else {
        println!("skipped: there is no `CONTEXTURE_TEST_MODEL_URL`; `cargo xtask model` serves one");
        return None;
    };
    let url = url.trim_end_matches('/').trim_end_matches("/v1");
    let config = config(&format!("dialect = \"{dialect}\"\nbase_url = \"{url}/v1\""));
    Some(Folder::new([("prompts/p.md", "You are brief."), ("contexture.toml", &config)]))
}

#[test]
fn a_run_streams_an_answer() {
    for dialect in ["openai", "openai-responses", "anthropic"] {
        let Some(folder) = project(dialect) else { return };
        let run = folder.run(&["run", "p", "--user", "Tell me about the sea.", "--max-tokens", "16"]);
        // So few tokens cut the answer, which is remarked on where the server says so.
        let remark = "warning: model: the answer was cut: the most tokens it may have are reached\n";
        assert!(["", remark].contains(&run.stderr.as_str()), "{dialect}: {}", run.shown());
        assert_eq!(run.code, Some(0), "{dialect}: {}", run.shown());
        assert!(run.stdout.trim().len() > 3, "{dialect}: {}", run.stdout);
    }
}

#[test]
fn a_chat_has_two_turns() {
    let Some(folder) = project("openai") else { return };
    let args = ["chat", "--session", "s1", "--max-tokens", "12"];
    let run = folder.run_with(&args, "My name is Ada.\nWhat is my name?\n", &[]);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let shown = folder.run(&["sessions", "show", "s1"]).stdout;
    assert_eq!(shown.matches("  completed  ").count(), 2, "{shown}");
}
