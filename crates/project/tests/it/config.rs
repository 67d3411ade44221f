//! `contexture.toml`.

use contexture_message::Tokens;
use contexture_project::Config;
use contexture_wire::Dialect;

use super::support::{listed, project};

const WHOLE: &str = r#"
[model]
default = "openai/gpt-5-mini"
[providers.openai]
dialect = "openai-responses"
base_url = "http://127.0.0.1:11434/v1"
api_key_env = "OPENAI_API_KEY"
[models."openai/gpt-5-mini"]
context_window = 400000
price = {input = 0.25, output = 2}
[store]
url = "memory:"
[server]
listen = "127.0.0.1:1"
[compaction]
trigger_tokens = 80000
[cache]
arrange = "cache_first"
"#;

fn faults(text: &str) -> String {
    Config::parse(text).map_or_else(|err| listed(&err.faults), |_| "fine".to_owned())
}

fn overridden(key: &str, value: &str) -> String {
    match Config::parse(WHOLE).unwrap().with_overrides(&[(key, value)]) {
        Ok(config) => {
            let path: Vec<&str> = key.splitn(2, '.').collect();
            serde_json::to_value(config).unwrap()[path[0]].to_string()
        }
        Err(err) => listed(&err.faults),
    }
}

#[test]
fn everything_that_the_documentation_shows_is_read() {
    let config = Config::parse(WHOLE).unwrap();
    assert_eq!(config.providers["openai"].dialect, Dialect::OpenaiResponses);
    assert_eq!(config.catalogue().facts("openai/gpt-5-mini").context_window, Some(Tokens(400_000)));
    assert_eq!(config.compaction.trigger_tokens, Some(Tokens(80_000)));
    assert_eq!(config.compaction.micro_trigger_pct, 85);
    assert_eq!(Config::parse("").unwrap(), Config::default());
}

#[test]
fn all_that_is_wrong_is_named_with_its_place() {
    let text = "[stroe]\nurl = \"x\"\nother = 1\n[store]\nurl = 5\npath = \"x\"\n[providers.x]\ndialect = \"french\"\n[models.m]\ncontext_windw = 1\ncontext_window = \"big\"\n[compaction]\nmin_messages = -1\n";
    insta::assert_snapshot!(faults(text), @r"
    contexture.toml:1:2 unknown_field: unknown field `stroe` [did you mean `store`?]
    contexture.toml:5:7 file_invalid: `store.url`: expected a text, found `5`
    contexture.toml:6:1 unknown_field: `store`: unknown field `path` [known fields: url]
    contexture.toml:8:11 file_invalid: `providers.x.dialect`: expected `openai` or `openai-responses` or `anthropic` or `gemini`, found `french`
    contexture.toml:10:1 unknown_field: `models.m`: unknown field `context_windw` [did you mean `context_window`?]
    contexture.toml:11:18 file_invalid: `models.m.context_window`: expected a whole number from 0 on, found the text `big`
    contexture.toml:13:16 file_invalid: `compaction.min_messages`: expected a whole number from 0 on, found `-1`
    ");
    insta::assert_snapshot!(faults("[store\nurl = 1"), @"contexture.toml:1:7 file_invalid: this is not TOML: unclosed table, expected `]`");
    insta::assert_snapshot!(faults("store = 5"), @"contexture.toml:1:9 file_invalid: `store`: expected a map, found `5`");
    insta::assert_snapshot!(faults("[providers.x]\nbase_url = \"u\""), @"contexture.toml:1:1 file_invalid: `providers.x`: `dialect` is missing");
    insta::assert_snapshot!(faults("[compaction]\nmicro_trigger_pct = 95"), @"contexture.toml:1:2 file_invalid: `compaction`: `micro_trigger_pct` is 95, more than `full_trigger_pct`, which is 92");
}

#[test]
fn single_keys_can_be_overridden() {
    assert_eq!(overridden("store.url", "postgres://x"), r#"{"url":"postgres://x"}"#);
    assert!(overridden("compaction.trigger_tokens", "5").contains(r#""trigger_tokens":5"#));
    assert!(
        overridden("models.openai/gpt-4.1.context_window", "7")
            .contains(r#""openai/gpt-4.1":{"context_window":7"#)
    );
    assert!(overridden("providers.openai.api_key_env", "KEY").contains(r#""api_key_env":"KEY""#));
    assert_eq!(overridden("model.default", "123"), r#"{"default":"123"}"#);
}

#[test]
fn unknown_or_wrong_overrides_are_refused_by_name() {
    insta::assert_snapshot!(overridden("store.ulr", "x"), @" unknown_field: unknown configuration key `store.ulr` [did you mean `store.url`?]");
    insta::assert_snapshot!(overridden("shop", "x"), @" unknown_field: unknown configuration key `shop`");
    insta::assert_snapshot!(overridden("models.m.window", "5"), @" unknown_field: unknown configuration key `models.m.window`");
    insta::assert_snapshot!(overridden("compaction.min_messages", "many"), @r#" file_invalid: configuration key `compaction.min_messages`: invalid type: string "many", expected usize"#);
    assert!(Config::keys().contains(&"compaction.full_trigger_pct".to_owned()));
}

#[test]
fn the_model_comes_from_the_call_then_the_prompt_then_the_configuration() {
    let files = [
        (
            "contexture.toml",
            "[model]\ndefault = \"openai/small\"\n[models.\"openai/small\"]\ncontext_window = 10000\n[models.big]\ncontext_window = 20000\noutput_reserve = 5",
        ),
        ("prompts/plain.md", "A."),
        ("prompts/own.md", "---\nmodel: anthropic/big\n---\nA."),
    ];
    let project = project(&files);
    let chosen = |prompt: &str, provider: Option<&str>, model: Option<&str>| {
        let prompt = project.prompt(prompt).unwrap();
        let options = project.options(prompt, provider, model);
        let window = options.target.limits.context_window.map(|it| it.0);
        let pass = futures::executor::block_on(
            prompt.resolve(contexture_compose::ResolveOptions { input: serde_json::json!({}), ..options }),
        );
        (pass.unwrap().request().model.clone().unwrap_or_default(), window)
    };
    assert_eq!(chosen("plain", None, None), ("openai/small".to_owned(), Some(10_000)));
    assert_eq!(chosen("own", None, None), ("anthropic/big".to_owned(), Some(20_000)));
    assert_eq!(chosen("own", Some("openai"), Some("small")), ("openai/small".to_owned(), Some(10_000)));
    assert_eq!(chosen("plain", Some("gemini"), None), (String::new(), None), "not another provider's model");
    assert_eq!(
        super::support::project(&files[1..])
            .options(project.prompt("plain").unwrap(), None, None)
            .target
            .model,
        None
    );
}

#[test]
fn prompts_follow_the_cache_wishes_of_the_project() {
    let files = [
        ("contexture.toml", "[cache]\narrange = \"cache_first\""),
        ("prompts/p.md", "---\nuse: [a, b]\n---\nOwn."),
        ("contexts/a.md", "A {{ input.x }}."),
        ("contexts/b.md", "B."),
    ];
    insta::assert_snapshot!(super::support::resolved(&files, serde_json::json!({"x": 1})), @r"
    system: Own.

    B.

    A 1.
    ");
}
