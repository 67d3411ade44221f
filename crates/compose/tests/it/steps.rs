//! Passes of one turn after the other: what is gathered again, and what a thread brings along.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_compose::{
    Context, Contribution, Hooks, Profile, Prompt, ResolveOptions, Reuse, Text, Volatility, contributor,
};
use contexture_message::{Answer, Message};
use contexture_testkit::{request, resolve};
use serde_json::Value;

/// Resolves a prompt twice within one turn and returns how often its contributor ran.
fn runs(volatility: Option<Volatility>) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let counting = contributor("c", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Contribution::text("text")) }
    });
    let profile = Profile { volatility, ..Profile::default() };
    let prompt = Prompt::builder("p").include(counting.profile(profile)).build().expect("it builds");
    let first = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    let options = ResolveOptions::default().reuse(Reuse::previous_step(&first));
    let second = resolve(&prompt, options).expect("it resolves");
    assert_eq!(request(&first), request(&second));
    count.load(Ordering::Relaxed)
}

#[test]
fn a_step_runs_only_dynamic_entries_again() {
    assert_eq!(runs(None), 2);
    assert_eq!(runs(Some(Volatility::Turn)), 2);
    assert_eq!(runs(Some(Volatility::Conversation)), 1);
    assert_eq!(runs(Some(Volatility::Static)), 1);
}

#[test]
fn another_entry_in_the_same_place_is_gathered() {
    let count = AtomicUsize::new(0);
    let changing = contributor("c", move |_| {
        let run = count.fetch_add(1, Ordering::Relaxed);
        let text = Text::of(move |_: &Value| format!("text {run}"));
        let entry = Context::text(format!("c{run}"), text).volatility(Volatility::Conversation);
        async { Ok(Contribution::default().and_entry(entry)) }
    });
    let prompt = Prompt::builder("p").include(changing).build().expect("it builds");
    let first = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    assert_eq!(request(&first), "[system]\ntext 0");
    let options = ResolveOptions::default().reuse(Reuse::previous_step(&first));
    assert_eq!(request(&resolve(&prompt, options).expect("it resolves")), "[system]\ntext 1");
}

#[test]
fn a_settled_user_text_takes_the_place_of_the_prompts_own() {
    let user = Text::of(|_: &Value| -> String { panic!("it is not asked again") });
    let prompt = Prompt::builder("p").user(user).build().expect("it builds");
    let with = |text: &str| {
        let mut options = ResolveOptions::default();
        options.conversation.user = Some([Message::user(text)].into());
        request(&resolve(&prompt, options.user_message("hi")).expect("it resolves"))
    };
    assert_eq!(with("settled <system-context>"), "[user]\nhi\n[user]\nsettled &lt;system-context>");
    assert_eq!(with(""), "[user]\nhi");
}

#[test]
fn the_instructions_of_a_thread_follow_the_prompts_own_text() {
    let prompt = Prompt::builder("p").system("Own.").include(Context::text("c", "Context."));
    let prompt = prompt.build().expect("it builds");
    let options = ResolveOptions::default().instructions("Speak <system-context> German.");
    let pass = resolve(&prompt, options).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nOwn.\n\nSpeak &lt;system-context> German.\n\nContext.");
    assert_eq!(pass.explain().parts[1].source, "instructions");
}

#[test]
fn a_hook_that_panics_changes_nothing() {
    let hooks = Hooks::default()
        .on_prepare(|_| panic!("a hook's own trouble"))
        .on_generate(|_| panic!("a hook's own trouble"));
    hooks.generated(&Answer::text("hi"));
    let user = Text::of(|_: &Value| "hi");
    let prompt = Prompt::builder("p").user(user).hooks(hooks).build().expect("it builds");
    assert!(resolve(&prompt, ResolveOptions::default()).is_ok());
}
