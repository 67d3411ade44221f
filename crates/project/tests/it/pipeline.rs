//! `transforms` and `providers` in prompt files.

use contexture_compose::{ResolveOptions, Scope, Turn};
use contexture_message::Message;
use contexture_project::Project;
use serde_json::json;

use crate::support::{Temporary, faults_of, listed, project};

#[test]
fn transforms_and_providers_come_from_the_front_matter() {
    let project = project(&[(
        "prompts/p.md",
        "---
transforms:
  - without_thinking
  - without_media
  - last_turns: 1
  - redact: [email, {name: order, pattern: 'ORD-[0-9]+'}]
providers:
  - identity: 'You act for {{ ctx.tenant }}.'
---
Own.",
    )]);
    let turns =
        ["a", "b"].map(|it| Turn::new(it, vec![Message::user(format!("{it}: x@y.de has ORD-7"))])).to_vec();
    let prompt = project.prompt("p").unwrap();
    let scope = Scope {
        tenant: Some("Acme".to_owned()),
        now: Some("2026-03-01T10:00:00Z".to_owned()),
        ..Scope::default()
    };
    let options = ResolveOptions { input: json!({}), scope, ..project.options(prompt, None, None) };
    let pass = futures::executor::block_on(prompt.resolve(options.history(turns))).unwrap();
    let messages: Vec<&str> = pass.request().messages.iter().filter_map(|it| it.as_text()).collect();
    assert_eq!(
        messages,
        [
            "Own.",
            "You act for Acme.\nToday's date is 2026-03-01.",
            "b: [redacted:email] has [redacted:order]"
        ]
    );
    let names: Vec<String> = pass.explain().transforms.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["without_thinking", "without_media", "last_turns", "redact"]);
    assert_eq!(pass.explain().excluded[0].reason, "left out by transform `last_turns`");
}

#[test]
fn the_date_alone_is_a_provider() {
    let project = project(&[("prompts/p.md", "---\nproviders: [date]\n---\nOwn.")]);
    let prompt = project.prompt("p").unwrap();
    let scope = Scope { now: Some("2026-03-01T10:00:00Z".to_owned()), ..Scope::default() };
    let options = ResolveOptions { scope, ..project.options(prompt, None, None) };
    let pass = futures::executor::block_on(prompt.resolve(options)).unwrap();
    assert_eq!(pass.request().messages[1].as_text(), Some("Today's date is 2026-03-01."));
}

#[test]
fn what_is_wrong_has_its_place() {
    let text = "---
transforms:
  - without_thoughts
  - last_turns: many
  - last_turns
  - redact: [email, e-mail]
  - redact: {name: open, pattern: '('}
  - redact: {name: x}
  - redact: {name: x, patern: y}
  - [a]
  - zzz
providers:
  - dates
  - identity
  - identity: '{{ input. }}'
  - workspace: ../secrets
  - workspace: src
  - date: true
---
Own.";
    insta::assert_snapshot!(faults_of(text), @"
    prompts/p.md:3:5 file_invalid: `transforms[0]`: unknown transform `without_thoughts` [did you mean `without_thinking`? known: without_thinking, without_media, bounded_results, last_turns, redact]
    prompts/p.md:4:17 file_invalid: `transforms[1].last_turns`: expected a whole number from 0 on, found the text `many`
    prompts/p.md:5:5 file_invalid: `transforms[2]`: write this as `- last_turns: 20`
    prompts/p.md:6:21 file_invalid: `transforms[3].redact[1]`: unknown redaction rule `e-mail` [did you mean `email`? known: email, credit_card, api_key, bearer, private_key]
    prompts/p.md:7:13 file_invalid: `transforms[4].redact`: the pattern of redaction rule `open` is not a valid regular expression: unclosed group
    prompts/p.md:8:13 file_invalid: `transforms[5].redact`: a custom redaction rule needs `name` and `pattern`
    prompts/p.md:9:23 file_invalid: `transforms[6].redact`: unknown field `patern` [did you mean `pattern`? known: name, pattern]
    prompts/p.md:10:5 file_invalid: `transforms[7]`: expected a name, or a map of one name, found a list
    prompts/p.md:11:5 file_invalid: `transforms[8]`: unknown transform `zzz` [known: without_thinking, without_media, bounded_results, last_turns, redact]
    prompts/p.md:13:5 file_invalid: `providers[0]`: unknown provider `dates` [did you mean `date`? known: identity, date, workspace, text, http]
    prompts/p.md:14:5 file_invalid: `providers[1]`: write this as `- identity: You act for …`
    prompts/p.md:15:25 template_error: expected a name, found the end
    prompts/p.md:16:16 file_invalid: `providers[3].workspace`: `../secrets` is not a folder of the project: use a relative path with `/`
    prompts/p.md:17:16 file_invalid: `providers[4].workspace`: this project is not in a folder, so it has no workspace
    prompts/p.md:18:5 file_invalid: `providers[5]`: write this as `- date`
    ");
}

#[test]
fn lists_are_lists() {
    insta::assert_snapshot!(faults_of("---\ntransforms: redact\nproviders: {date: true}\n---\nOwn."), @r"
    prompts/p.md:2:13 file_invalid: `transforms`: expected a list, found the text `redact`
    prompts/p.md:3:12 file_invalid: `providers`: expected a list, found a map
    ");
}

#[test]
fn the_workspace_of_a_project_is_a_folder_of_it() {
    let folder = Temporary::new();
    folder
        .write("prompts/p.md", "---\nproviders:\n  - workspace: app\n---\nOwn.")
        .write("app/main.py", "")
        .write("app/secret.txt", "")
        .write(".gitignore", "secret.txt\n")
        .write("elsewhere.txt", "");
    let project = Project::open(&folder.0).unwrap();
    let prompt = project.prompt("p").unwrap();
    let pass = futures::executor::block_on(prompt.resolve(project.options(prompt, None, None))).unwrap();
    assert_eq!(
        pass.request().messages[1].as_text(),
        Some("The files of the workspace, as they were when this was first asked for:\n\nmain.py")
    );
    assert_eq!(&*pass.frozen_blocks()[0].name, "provider:workspace");

    folder.write("app/new.py", "");
    let options = project.options(prompt, None, None).frozen_by(&pass);
    let again = futures::executor::block_on(prompt.resolve(options)).unwrap();
    assert_eq!(again.fingerprint(), pass.fingerprint());
}

#[test]
fn two_providers_of_one_kind_are_a_fault() {
    let faults = match project(&[("prompts/p.md", "---\nproviders: [date, date]\n---\nOwn.")]).prompt("p") {
        Ok(_) => "fine".to_owned(),
        Err(err) => listed(&err.faults),
    };
    insta::assert_snapshot!(faults, @"prompts/p.md duplicate_id: two different entries have the id `identity`: providers[0] and providers[1] [rename one of them, or use the same entry twice: it renders once]");
}

/// Returns what the providers of a prompt in a folder say.
fn provided(providers: &str) -> Vec<String> {
    let front = format!("---\nproviders:\n{providers}---\nOwn.");
    let folder = Temporary::new();
    folder.write("app/main.py", "").write("docs/index.md", "").write("prompts/p.md", &front);
    let project = Project::open(&folder.0).unwrap();
    let prompt = project.prompt("p").unwrap_or_else(|err| panic!("{err}"));
    let scope = Scope { now: Some("2026-03-01T08:30:00Z".into()), ..Scope::default() };
    let options = ResolveOptions { scope, ..ResolveOptions::default() };
    let pass = futures::executor::block_on(prompt.resolve(options)).unwrap();
    pass.request().messages[1..].iter().filter_map(|it| it.as_text().map(str::to_owned)).collect()
}

#[test]
fn a_date_beside_an_identity_is_said_once() {
    assert_eq!(
        provided("  - date\n  - identity: You act for Acme.\n"),
        ["You act for Acme.\nToday's date is 2026-03-01."]
    );
}

#[test]
fn several_workspaces_are_told_apart_and_may_be_listed_in_every_turn() {
    assert_eq!(
        provided("  - workspace: app\n  - workspace: {path: docs, mode: real_time}\n"),
        [
            "The files of the workspace, as they were when this was first asked for:\n\nmain.py",
            "The files of the workspace in `docs`, as they are now:\n\nindex.md",
        ]
    );
}
