//! The two parts of the catalogue.

use std::sync::Arc;

use contexture_capabilities::{SkillIndex, skill, skills};
use contexture_compose::ports::{FixedSkill, FixedSkills, SkillSource};
use contexture_compose::{Context, Entry, Pass, Prompt, ResolveOptions};
use contexture_message::Tokens;
use futures::executor::block_on;

fn some() -> FixedSkills {
    FixedSkills(vec![
        FixedSkill::new(
            "refunds",
            "Pays back money for orders.\nUse for returns.",
            "Ask for the order number.",
        ),
        FixedSkill::new("poems", "Writes poems & <rhymes>.", "Rhyme."),
        FixedSkill::new("legal", "Answers questions about contracts.", "Cite the paragraph."),
    ])
}

fn resolved(entries: Vec<Entry>, said: &str) -> Pass {
    let builder = Prompt::builder("p").system("Help.");
    let prompt = entries.into_iter().fold(builder, |it, entry| it.include(entry)).build().unwrap();
    block_on(prompt.resolve(ResolveOptions::default().model("openai/gpt-5-mini").user_message(said))).unwrap()
}

/// Lists source, slot, state and priority of what is not the prompt's own.
fn parts(pass: &Pass) -> String {
    let explanation = pass.explain();
    let own = ["prompt", "in_flight"];
    let parts = explanation.parts.iter().filter(|it| !own.contains(&it.source.as_str()));
    let line = |it: &contexture_compose::Part| {
        let reason = it.reason.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{} {} {} {}{reason}", it.source, it.slot, it.state, it.priority)
    };
    parts.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_short_list_is_whole_in_the_prefix_and_needs_no_hints() {
    let pass = resolved(vec![skills(Arc::new(some())).into()], "I want my money back.");
    insta::assert_snapshot!(pass.system().unwrap(), @"
    Help.

    <available-skills>
    - legal: Answers questions about contracts.
    - poems: Writes poems &amp; &lt;rhymes&gt;.
    - refunds: Pays back money for orders. Use for returns.
    </available-skills>
    ");
    insta::assert_snapshot!(pass.user().unwrap(), @"I want my money back.");
    insta::assert_snapshot!(parts(&pass), @"
    block:available-skills system kept 90
    contributor:skills tools kept 50
    contributor:skills tools kept 50
    contributor:skills tools kept 50
    ");
}

#[test]
fn a_long_list_has_names_only_and_the_turn_has_hints() {
    let pass = resolved(
        vec![skills(Arc::new(some())).full_index_tokens(Tokens(10)).into()],
        "I want my money back.",
    );
    insta::assert_snapshot!(pass.system().unwrap(), @"
    Help.

    <available-skills>
    - legal
    - poems
    - refunds
    </available-skills>
    ");
    insta::assert_snapshot!(pass.user().unwrap(), @"
    I want my money back.<system-reminders>
    Skills that may help with this message (load one with LoadSkill):
    - refunds: Pays back money for orders. Use for returns.
    </system-reminders>
    ");
    insta::assert_snapshot!(parts(&pass), @"
    block:available-skills system kept 90
    contributor:skills reminders kept 90
    contributor:skills tools kept 50
    contributor:skills tools kept 50
    contributor:skills tools kept 50
    ");
    let reminders = pass.reminders().unwrap();
    assert!(pass.user().unwrap().contains(&reminders.text));
}

#[test]
fn nothing_matches_and_nothing_is_reminded_of() {
    let pass = resolved(vec![skills(Arc::new(some())).full_index_tokens(Tokens(10)).into()], "Xyzzy?");
    assert_eq!(pass.user().unwrap(), "Xyzzy?");
}

#[test]
fn several_entries_make_one_list() {
    let one = |name: &str| Entry::from(skills(Arc::new(some())).only([name]).unwrap());
    let own = skill(FixedSkill::new("own", "Of the program.", "Do."));
    let nested = Context::text("c", "Context.").include(one("legal"));
    let pass = resolved(vec![one("refunds"), nested.into(), own.into()], "Hi.");
    insta::assert_snapshot!(pass.system().unwrap(), @"
    Help.

    <available-skills>
    - legal: Answers questions about contracts.
    - own: Of the program.
    - refunds: Pays back money for orders. Use for returns.
    </available-skills>

    Context.
    ");
    insta::assert_snapshot!(parts(&pass), @"
    block:available-skills system kept 90
    skill:legal system excluded 90 (joined with skill:refunds)
    context:c system kept 50
    skill:own system excluded 90 (joined with skill:refunds)
    skill:refunds tools kept 50
    skill:refunds tools kept 50
    skill:refunds tools kept 50
    ");
    let tool = pass.request().tools.iter().find(|it| it.name == "LoadSkill").unwrap();
    insta::assert_snapshot!(tool.parameters["properties"]["name"]["enum"], @r#"["legal","own","refunds"]"#);
}

#[test]
fn unknown_names_answer_with_what_there_is() {
    let unknown = skills(Arc::new(some())).only(["refund"]).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no skill `refund`; there are: refunds, poems, legal");
}

#[test]
fn the_parts_can_be_composed_by_hand() {
    let all = skills(Arc::new(some()));
    let pass = resolved(vec![all.as_context()], "Hi.");
    assert!(pass.request().tools.is_empty() && pass.system().unwrap().contains("<available-skills>"));
    assert_eq!(all.as_tools().iter().map(|it| it.name().to_owned()).collect::<Vec<_>>().len(), 3);
}

#[test]
fn the_right_skill_is_found_by_name_description_and_instructions() {
    let index = SkillIndex::new(some().list());
    let best = |text: &str| index.search(text, 10).first().map(|it| it.name.clone());
    assert_eq!(best("refund please").as_deref(), Some("refunds"));
    assert_eq!(best("what does my contract say").as_deref(), Some("legal"));
    assert_eq!(best("something that rhymes").as_deref(), Some("poems"));
    assert_eq!(best("which paragraph").as_deref(), Some("legal"));
    assert_eq!(best(""), None);
}
