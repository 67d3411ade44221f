//! Adaptations and settings.

use contexture_compose::{Adaptation, Prompt, PromptBuilder, ResolveOptions};
use contexture_message::{Settings, ToolChoice};
use contexture_testkit::{request, resolve};

fn prompt() -> PromptBuilder {
    let settings = |temperature: u32, max_tokens: Option<u32>| Settings {
        temperature: Some(temperature.into()),
        max_tokens,
        ..Settings::default()
    };
    Prompt::builder("p")
        .system("Own.")
        .prompt("Question.")
        .settings(settings(1, Some(5)))
        .adapt(
            "gpt-5",
            Adaptation {
                settings: settings(2, None),
                append_system: Some("\nModel.".into()),
                ..Adaptation::default()
            },
        )
        .adapt(
            "openai",
            Adaptation {
                settings: settings(3, None),
                prepend_system: Some("Before.".into()),
                append_system: Some("\n\nProvider.".into()),
                tool_choice: Some(ToolChoice::Required),
                ..Adaptation::default()
            },
        )
        .adapt(
            "*",
            Adaptation {
                settings: settings(4, Some(800)),
                append_prompt: Some("Everyone.".into()),
                ..Adaptation::default()
            },
        )
}

fn resolved(options: ResolveOptions) -> String {
    let pass = resolve(&prompt().build().expect("it builds"), options).expect("it resolves");
    let settings = serde_json::to_string(&pass.request().settings).expect("plain data");
    let model = pass.request().model.clone().unwrap_or_default();
    format!("{model}\n{}\n{settings} {:?}", request(&pass), pass.request().tool_choice)
}

#[test]
fn all_that_match_are_merged_the_most_specific_last() {
    let mut options = ResolveOptions::default().model("gpt-5");
    options.target.provider = Some("openai".to_owned());
    let expected = r#"openai/gpt-5
[system]
Before.

Own.

Provider.

Model.
[user]
Question.

Everyone.
{"temperature":2,"max_tokens":800} Some(Required)"#;
    assert_eq!(resolved(options), expected);
    // The provider may also stand before the first slash.
    assert_eq!(resolved(ResolveOptions::default().model("openai/gpt-5")), expected);
}

#[test]
fn without_a_match_only_the_star_applies() {
    insta::assert_snapshot!(resolved(ResolveOptions::default().model("anthropic/claude")), @r#"
    anthropic/claude
    [system]
    Own.
    [user]
    Question.

    Everyone.
    {"temperature":4,"max_tokens":800} None
    "#);
}

#[test]
fn the_call_site_has_the_last_word_on_settings() {
    let mut options = ResolveOptions::default().model("openai/gpt-5");
    options.overrides.settings.temperature = Some(0.into());
    options.overrides.tool_choice = Some(ToolChoice::None);
    let shown = resolved(options);
    assert!(shown.ends_with(r#"{"temperature":0,"max_tokens":800} Some(None)"#), "{shown}");
}

#[test]
fn the_full_name_of_a_model_is_a_key_however_it_was_given() {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let adaptation = Adaptation { settings, ..Adaptation::default() };
    let prompt = Prompt::builder("p").adapt("openai/gpt-5", adaptation).build().expect("it builds");
    let mut options = ResolveOptions::default().model("gpt-5");
    options.target.provider = Some("openai".to_owned());
    for options in [options, ResolveOptions::default().model("openai/gpt-5")] {
        let pass = resolve(&prompt, options).expect("it resolves");
        assert_eq!(pass.request().settings.seed, Some(7));
    }
}
