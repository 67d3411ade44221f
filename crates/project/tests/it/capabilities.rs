//! Capabilities: bundles in files, presets, `ctx.cap` and the standard stack.

use std::sync::Arc;

use contexture_compose::{Contribution, Contributor, ResolveOptions, Scope, contributor};
use contexture_project::{InMemory, Lint, Project};
use serde_json::json;

use super::support::{faults, faults_of, listed, project, resolved};

/// A bundle with a part of every kind.
const RESEARCH: &str = "---
description: Finds sources.
use: [sources]
blocks: [style]
providers:
  - text: {name: desk, text: 'Desk of {{ ctx.cap.research.reader }}.', role: user}
transforms: [{last_turns: 3}]
tools:
  - {name: fetch, description: Fetches., parameters: {type: object}, http: {url: 'https://x.example/'}}
constraints:
  - {id: short, max_chars: 900}
tool_middleware: [{id: log, tools: [fetch], deny: Never.}]
input: {type: object, properties: {name: {type: string}}}
values: {limit: 5, reader: '{{ input.name }}', deep: {er: [1, 2]}}
presets:
  deep:
    values: {limit: 20}
    use: [sources, archive]
  quiet: {text: Hush.}
---
Read {{ ctx.cap.research.limit }} sources.
";

const CONTEXTS: [(&str, &str); 3] = [
    ("contexts/sources.md", "Prefer primary sources."),
    ("contexts/archive.md", "Search the archive."),
    ("blocks/style.md", "Cite."),
];

/// The project of a prompt that uses entries, with the bundle.
fn with_research(entries: &str) -> Vec<(&str, &str)> {
    let mut files = vec![("prompts/p.md", entries), ("capabilities/research/capability.md", RESEARCH)];
    files.extend(CONTEXTS);
    files
}

fn linted(project: &Project) -> String {
    project.lint().iter().map(Lint::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_bundle_brings_all_its_parts() {
    let files = with_research("---\nuse: [{capability: research}]\n---\nOwn.");
    insta::assert_snapshot!(resolved(&files, json!({"name": "Ada"})), @"
    system: Own.

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Read 5 sources.
    user: Desk of Ada.
    ");
    let project = project(&files);
    let prompt = project.prompt("p").unwrap();
    let pass = contexture_testkit::resolve_input(prompt, json!({"name": "Ada"})).unwrap();
    insta::assert_snapshot!(serde_json::to_string(&pass.explain().capabilities).unwrap(), @r#"[{"name":"research","preset":"defaults","parts":["context:sources","block:style","provider:desk","capability:research"]}]"#);
    assert_eq!(pass.explain().tools, ["fetch"]);
    assert_eq!(pass.explain().transforms[0].name, "last_turns");
    assert_eq!(prompt.definition().tool_middleware[0].id, "log");
    assert_eq!(project.tools()[0].tool.name, "fetch");
    assert_eq!(project.prompts().count(), 1);
}

#[test]
fn a_preset_replaces_keys_and_single_values() {
    let deep = with_research("---\nuse: [{capability: research, preset: deep}]\n---\nOwn.");
    insta::assert_snapshot!(resolved(&deep, json!({"name": "Ada"})), @"
    system: Own.

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Search the archive.

    Read 20 sources.
    user: Desk of Ada.
    ");
    let quiet =
        with_research("---\nuse: [{capability: research, preset: quiet}]\n---\n{{ ctx.cap.research.limit }}");
    insta::assert_snapshot!(resolved(&quiet, json!({"name": "Ada"})), @"
    system: 5

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Hush.
    user: Desk of Ada.
    ");
}

#[test]
fn the_preset_defaults_is_used_if_none_is_named() {
    let bundle = "---\nvalues: {n: 1, m: 2}\npresets: {defaults: {values: {n: 7}}, plain: {}}\n---\n{{ ctx.cap.b.n }}{{ ctx.cap.b.m }}";
    let of = |entry: &str| {
        let prompt = format!("---\nuse: [{entry}]\n---\nOwn.");
        resolved(&[("prompts/p.md", &prompt), ("capabilities/b/capability.md", bundle)], json!({}))
    };
    assert_eq!(of("{capability: b}"), "system: Own.\n\n72");
    assert_eq!(of("{capability: b, preset: defaults}"), "system: Own.\n\n72");
    assert_eq!(of("{capability: b, preset: plain}"), "system: Own.\n\n12");
}

#[test]
fn a_bundle_under_a_condition_is_there_or_not_as_a_whole() {
    let bundle = "---\nuse: [{context: {id: c, text: Part.}}]\nvalues: {n: 1}\n---\nWhole {{ ctx.cap.b.n }}.";
    let prompt = "---\nuse:\n  - {when: input.on, use: {capability: b}}\n  - {match: input.m, cases: {x: [{capability: b}]}, default: {context: {text: Else.}}}\n---\nOwn {{ ctx.cap.b.n }}.";
    let files = [("prompts/p.md", prompt), ("capabilities/b/capability.md", bundle)];
    assert_eq!(resolved(&files, json!({"on": true})), "system: Own 1.\n\nPart.\n\nWhole 1.\n\nElse.");
    assert_eq!(resolved(&files, json!({"on": true, "m": "x"})), "system: Own 1.\n\nPart.\n\nWhole 1.");
    assert_eq!(resolved(&files, json!({"on": false})), "system: Own 1.\n\nElse.");
}

#[test]
fn bundles_nest_and_the_same_one_is_rendered_once() {
    let files = [
        ("prompts/p.md", "---\nuse: [{capability: a}, {capability: b}, c]\n---\nOwn."),
        ("capabilities/a/capability.md", "---\nuse: [{capability: b}]\n---\nA."),
        ("capabilities/b/capability.md", "B."),
        ("contexts/c.md", "---\nuse: [{capability: b}]\n---\nC."),
    ];
    assert_eq!(resolved(&files, json!({})), "system: Own.\n\nB.\n\nA.\n\nC.");
}

#[test]
fn what_is_wrong_with_an_entry_has_its_place() {
    let wrong = "---
use:
  - capability: reserch
  - {capability: research, preset: depe}
  - {capability: research, prest: deep}
  - {capability: [research]}
  - {capability: ../x}
---
Own.";
    insta::assert_snapshot!(faults(&with_research(wrong)), @"
    
    prompts/p.md:3:17 unknown_entry: there is no capability `reserch`, no file `capabilities/reserch/capability.md` [did you mean `research`?]
    prompts/p.md:4:36 unknown_entry: capability `research` has no preset `depe` [did you mean `deep`?]
    prompts/p.md:5:28 unknown_field: `use[2]`: unknown field `prest` [did you mean `preset`?]
    prompts/p.md:6:18 file_invalid: `use[3].capability`: expected a text, found a list
    prompts/p.md:7:18 unknown_entry: there is no capability `../x`, no file `capabilities/../x/capability.md`
    ");
    let two = "---\nuse:\n  - capability: research\n  - {capability: research, preset: deep}\n---\nOwn.";
    insta::assert_snapshot!(faults(&with_research(two)), @"prompts/p.md:4:5 duplicate_id: capability `research` is included with the preset `defaults` at use[0], and with `deep` at use[1] [name the same preset everywhere]");
    let conditional = "---\nuse: [{when: input.on, use: {capability: research}}]\n---\nOwn.";
    insta::assert_snapshot!(faults(&with_research(conditional)), @"prompts/p.md:2:29 file_invalid: capability:research has transforms, which can't depend on a condition [include the capability without a condition, or move what depends on it to a capability of its own]");
}

#[test]
fn what_is_wrong_with_a_bundle_has_its_place() {
    let bundle = "---
id: x
text: y
usee: []
blocks: [none]
providers: [dat]
transforms: [zzz]
values: [1]
tools: [{name: a b}]
presets:
  deep: {usee: [], presets: {}}
  a/b: 5
---
{{ input. }}";
    let of =
        |path: &str| faults(&[("prompts/p.md", "---\nuse: [{capability: b}]\n---\nOwn."), (path, bundle)]);
    insta::assert_snapshot!(of("capabilities/b/capability.md"), @"
    capabilities/b/capability.md:2:1 unknown_field: unknown field `id`: the name of a capability is that of its folder
    capabilities/b/capability.md:3:1 unknown_field: unknown field `text`: the text of a capability file is its body
    capabilities/b/capability.md:4:1 unknown_field: unknown field `usee` [did you mean `use`?]
    capabilities/b/capability.md:5:10 unknown_entry: there is no block `none`
    capabilities/b/capability.md:6:13 file_invalid: `providers[0]`: unknown provider `dat` [did you mean `date`? known: identity, date, workspace, text, http]
    capabilities/b/capability.md:7:14 file_invalid: `transforms[0]`: unknown transform `zzz` [known: without_thinking, without_media, bounded_results, last_turns, redact]
    capabilities/b/capability.md:8:9 file_invalid: `values`: expected a map, found a list
    capabilities/b/capability.md:9:16 file_invalid: `tools[0]`: invalid tool name `a b`: use 1 to 64 letters, digits, `_` or `-`
    capabilities/b/capability.md:11:29 file_invalid: `presets.deep.presets`: a preset can't have presets
    capabilities/b/capability.md:12:8 file_invalid: `presets.a/b`: `a/b` can't be the name of a preset
    capabilities/b/capability.md:12:8 file_invalid: `presets.a/b`: expected a map, found `5`
    ");
    let named = |name: &str| {
        let path = format!("capabilities/{name}/capability.md");
        let prompt = format!("---\nuse: [{{capability: {name}}}]\n---\nOwn.");
        faults(&[("prompts/p.md", &prompt), (&path, "B.")])
    };
    insta::assert_snapshot!(named("a.b"), @"capabilities/a.b/capability.md:1:1 file_invalid: `a.b` can't be the name of a capability [rename the folder: a letter, then letters, digits, `_` or `-`, 64 at most]");
    insta::assert_snapshot!(named("defaults"), @"capabilities/defaults/capability.md:1:1 file_invalid: `defaults` is the standard stack: a capability can't have that name [rename the folder: a letter, then letters, digits, `_` or `-`, 64 at most]");
}

#[test]
fn circles_and_depth_are_faults() {
    let circle = [
        ("prompts/p.md", "---\nuse: [{capability: a}]\n---\nOwn."),
        ("capabilities/a/capability.md", "---\nuse: [c]\npresets: {other: {use: []}}\n---\nA."),
        ("contexts/c.md", "---\nuse: [{when: input.x, use: [{capability: a}]}]\n---\nC."),
    ];
    insta::assert_snapshot!(faults(&circle), @"
    capabilities/a/capability.md:2:7 depth_exceeded: capabilities and contexts use each other in a circle: capability:a → context:c (contexts/c.md) → capability:a [remove one of these uses, or move what both need to a context of its own]
    contexts/c.md:2:42 depth_exceeded: capabilities and contexts use each other in a circle: context:c (contexts/c.md) → capability:a → context:c [remove one of these uses, or move what both need to a context of its own]
    ");
    let mut deep = vec![("prompts/p.md".to_owned(), "---\nuse: [{capability: c40}]\n---\nOwn.".to_owned())];
    deep.push(("capabilities/c0/capability.md".to_owned(), "C.".to_owned()));
    deep.extend((1..41).map(|it| {
        let uses = format!("---\nuse: [{{capability: c{}}}]\n---\nC.", it - 1);
        (format!("capabilities/c{it}/capability.md"), uses)
    }));
    let deep: Vec<(&str, &str)> = deep.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    insta::assert_snapshot!(faults(&deep), @"capabilities/c32/capability.md:2:20 depth_exceeded: capability `c31` is nested more than 32 deep");
}

#[test]
fn an_undefined_value_is_an_error_and_lint_finds_it_before() {
    let prompt = "---\nuse: [{capability: b}]\n---\n{{ ctx.cap.b.lmit }} {{ ctx.cap.c.n }} {{ ctx.cpa }}";
    let files =
        [("prompts/p.md", prompt), ("capabilities/b/capability.md", "---\nvalues: {limit: 5}\n---\nB.")];
    insta::assert_snapshot!(resolved(&files, json!({})), @"prompts/p.md:4:4 template_error: undefined variable `ctx.cap.b.lmit` [did you mean `ctx.cap.b.limit`?]");
    insta::assert_snapshot!(linted(&project(&files)), @"
    prompts/p.md:2:20: warning[cache_order]: capability:b never changes but follows the prompt's own text, which changes each turn: caches cannot keep it
    prompts/p.md:4:4: warning[variable_unknown]: there is no variable `ctx.cap.b.lmit`
    prompts/p.md:4:25: warning[variable_unknown]: there is no variable `ctx.cap.c.n`
    prompts/p.md:4:43: warning[variable_unknown]: there is no variable `ctx.cpa`
    ");
}

#[test]
fn lint_covers_bundles_that_no_prompt_uses() {
    let files = [
        ("prompts/p.md", "Own."),
        ("capabilities/b/capability.md", "---\ntools: [{name: t}]\npresets: {x: {use: [nowhere]}}\n---\nB."),
    ];
    insta::assert_snapshot!(linted(&project(&files)), @"
    capabilities/b/capability.md:1:1: warning[capability_unused]: no prompt uses the capability `b`
    capabilities/b/capability.md:2:9: warning[tool_undescribed]: tool `t` has no description
    capabilities/b/capability.md:3:21: error[unknown_entry]: there is no context `nowhere`, no file `contexts/nowhere.md`
    ");
    let used =
        [("prompts/p.md", "---\nuse: [{capability: b}]\n---\nOwn."), ("capabilities/b/capability.md", "B.")];
    assert_eq!(linted(&project(&used)), "");
}

/// The system text of `p`.
fn system(project: &Project) -> String {
    let pass = contexture_testkit::resolve_input(project.prompt("p").unwrap(), json!({})).unwrap();
    pass.system().unwrap_or_default().to_owned()
}

#[test]
fn a_reload_sees_edits_of_bundles_and_of_their_presets() {
    let folder = super::support::Temporary::new();
    folder
        .write("prompts/p.md", "---\nuse: [{capability: b, preset: deep}]\n---\nOwn.")
        .write("prompts/other.md", "Other.")
        .write(
            "capabilities/b/capability.md",
            "---\npresets: {deep: {values: {n: 1}}}\n---\nN {{ ctx.cap.b.n }}.",
        );
    let mut project = Project::open(&folder.0).unwrap();
    assert_eq!(system(&project), "Own.\n\nN 1.");
    folder.write(
        "capabilities/b/capability.md",
        "---\npresets: {deep: {values: {n: 2}}}\n---\nN {{ ctx.cap.b.n }}.",
    );
    assert_eq!(project.reload().unwrap().changed, ["p"]);
    assert_eq!(system(&project), "Own.\n\nN 2.");
    // A preset that is gone is a fault, and the last good version stays.
    folder.write("capabilities/b/capability.md", "B.");
    let reload = project.reload().unwrap();
    assert_eq!(
        super::support::listed(&reload.faults),
        "prompts/p.md:2:31 unknown_entry: capability `b` has no preset `deep` [there are: defaults]"
    );
    assert_eq!(system(&project), "Own.\n\nN 2.");
    folder.write("prompts/p.md", "---\nuse: [{capability: b}, {capability: c}]\n---\nOwn.");
    assert!(!project.reload().unwrap().faults.is_empty());
    folder.write("capabilities/c/capability.md", "C.");
    assert_eq!(project.reload().unwrap().changed, ["p"]);
    assert_eq!(system(&project), "Own.\n\nB.\n\nC.");
}

/// A project with bases and skills whose prompt has the standard stack.
fn stacked(entry: &str) -> String {
    let prompt = format!("---\nuse:\n{entry}---\nOwn.");
    let files = [
        ("prompts/p.md", prompt.as_str()),
        ("knowledge/handbook/a.md", "# A"),
        ("skills/refunds/SKILL.md", "---\nname: refunds\ndescription: Pays back.\n---\nAsk."),
        ("blocks/aaa.md", "First by name."),
    ];
    let project = project(&files);
    let outcome = project.prompt("p").map(|prompt| {
        let scope = Scope { now: Some("2026-03-01T08:30:00Z".into()), ..Scope::default() };
        let options = ResolveOptions { scope, ..ResolveOptions::default() }.user_message("Hi");
        let pass = futures::executor::block_on(prompt.resolve(options)).unwrap();
        let mut shown = contexture_testkit::request(&pass);
        let transforms: Vec<_> = pass.explain().transforms.into_iter().map(|it| it.name).collect();
        shown.push_str(&format!("\ntransforms: {}", transforms.join(", ")));
        shown
    });
    outcome.unwrap_or_else(|err| super::support::listed(&err.faults))
}

#[test]
fn the_standard_stack_has_one_order() {
    let map =
        stacked("  - defaults: {identity: You act for Acme., memory: true, knowledge: true, skills: true}\n");
    insta::assert_snapshot!(map, @"
    [system]
    Own.

    <available-knowledge-bases>
    - handbook
    </available-knowledge-bases>

    <available-skills>
    - refunds: Pays back.
    </available-skills>

    <aaa>
    First by name.
    </aaa>
    [system]
    You act for Acme.
    Today's date is 2026-03-01.
    [user]
    Hi
    tools: LoadReference, LoadSkill, UnloadSkill
    transforms: bounded_results
    ");
    let turned = "  - defaults: {skills: '*', knowledge: true, memory: {}, identity: You act for Acme.}\n";
    assert_eq!(stacked(turned), map);
    insta::assert_snapshot!(stacked("  - defaults: true\n"), @"
    [system]
    Own.

    <available-knowledge-bases>
    - handbook
    </available-knowledge-bases>

    <available-skills>
    - refunds: Pays back.
    </available-skills>

    <aaa>
    First by name.
    </aaa>
    [system]
    Today's date is 2026-03-01.
    [user]
    Hi
    tools: LoadReference, LoadSkill, UnloadSkill
    transforms: bounded_results
    ");
    assert_eq!(stacked("  - defaults\n"), stacked("  - defaults: true\n"));
    assert_eq!(
        stacked("  - defaults: false\n"),
        "[system]\nOwn.\n\n<aaa>\nFirst by name.\n</aaa>\n[user]\nHi\ntransforms: "
    );
    insta::assert_snapshot!(stacked("  - defaults: {skills: [refund], workspace: ../x, knowlege: true}\n"), @"
    prompts/p.md:3:25 unknown_entry: there is no skill `refund` [did you mean `refunds`?]
    prompts/p.md:3:45 file_invalid: `use[0].defaults.workspace`: `../x` is not a folder of the project: use a relative path with `/`
    prompts/p.md:3:51 unknown_field: `use[0].defaults`: unknown field `knowlege` [did you mean `knowledge`?]
    ");
    insta::assert_snapshot!(resolved(&[("prompts/p.md", "---\nuse: [defaults]\n---\nOwn.")], json!({})), @"system: Own.");
}

#[test]
fn a_context_with_the_name_of_the_stack_is_meant_by_its_name() {
    let files = [("prompts/p.md", "---\nuse: [defaults]\n---\nOwn."), ("contexts/defaults.md", "Mine.")];
    assert_eq!(resolved(&files, json!({})), "system: Own.\n\nMine.");
}

#[test]
fn catalogues_are_named_like_blocks() {
    let prompt = "---\nuse: [{block: available_memory}, c, {block: available_skills}, {block: available_knowledge_bases}]\n---\nOwn.";
    let files = [
        ("prompts/p.md", prompt),
        ("contexts/c.md", "---\nuse: [{block: available_memory}]\n---\nC."),
        ("skills/refunds/SKILL.md", "---\nname: refunds\ndescription: Pays back.\n---\nAsk."),
        ("knowledge/handbook/a.md", "# A"),
    ];
    insta::assert_snapshot!(resolved(&files, json!({})), @"
    system: Own.

    <available-knowledge-bases>
    - handbook
    </available-knowledge-bases>

    <available-skills>
    - refunds: Pays back.
    </available-skills>

    C.
    ");
    insta::assert_snapshot!(faults_of("---\nuse: [{block: available_memories}]\n---\nOwn."), @"prompts/p.md:2:15 unknown_entry: there is no block `available_memories` [did you mean `available_memory`?]");
}

#[test]
fn injectables_declare_what_belongs_together() {
    let text = "---
use:
  - injectable:
      id: weather
      text: ['It rains in {{ input.city }}.', '{{ input.none | default: \"\" }}']
      values: {place: '{{ input.city }}'}
      tools: [{name: forecast, description: Says more.}]
      constraints: [{id: short, max_chars: 900}]
      guardrails: [{id: safe, on: input, not_contains: bomb}]
      metadata: {unit: mm, city: '{{ input.city }}'}
      input: {type: object, properties: {city: {type: string}}, required: [city]}
---
Own.";
    let files = [("prompts/p.md", text)];
    insta::assert_snapshot!(resolved(&files, json!({"city": "Osaka <b>"})), @"
    system: Own.

    It rains in Osaka <b>.

    <place>
    Osaka &lt;b&gt;
    </place>
    ");
    insta::assert_snapshot!(resolved(&files, json!({})), @"prompts/p.md input_invalid: the input is invalid: `input.city`: is required (rule `required` of injectable:weather) [`contexture prompts` lists the input that each prompt expects]");
    let project = project(&files);
    let pass =
        contexture_testkit::resolve_input(project.prompt("p").unwrap(), json!({"city": "Osaka"})).unwrap();
    assert_eq!(pass.explain().tools, ["forecast"]);
    insta::assert_snapshot!(serde_json::to_string(&pass.extras().metadata).unwrap(), @r#"{"injectable:weather":{"city":"Osaka","unit":"mm"}}"#);
    insta::assert_snapshot!(faults_of("---\nuse: [{injectable: {text: x}}, {injectable: {id: a, txt: x}}]\n---\nOwn."), @"
    prompts/p.md:2:20 file_invalid: `use[0].injectable`: `id` is missing
    prompts/p.md:2:53 unknown_field: `use[1].injectable`: unknown field `txt` [did you mean `text`?]
    ");
}

#[test]
fn contributors_are_those_of_the_application() {
    let files = [("prompts/p.md", "---\nuse: [{contributor: weather}]\n---\nOwn.")];
    insta::assert_snapshot!(faults(&files), @"prompts/p.md:2:21 unknown_entry: there is no contributor `weather` [an application registers contributors in Rust with `Project::with_contributors`; the command line has none]");
    let weather = contributor("weather", |_| async { Ok(Contribution::text("It rains.")) });
    let plain = Project::from_files(Arc::new(InMemory::new(files))).unwrap();
    let mut project = plain.with_contributors([Arc::new(weather) as Arc<dyn Contributor>]);
    assert_eq!(system(&project), "Own.\n\nIt rains.");
    project.reload().unwrap();
    assert_eq!(system(&project), "Own.\n\nIt rains.");
}

/// Builds a prompt with `use` and a bundle `b` with `bundled`, and returns `fine` or the faults.
fn built(bundled: &str, used: &str) -> String {
    let bundle = format!("---\nuse: [{bundled}]\n---\nBundle.");
    let prompt = format!("---\nuse: [{used}]\n---\nText.");
    let project = project(&[("capabilities/b/capability.md", &bundle), ("prompts/p.md", &prompt)]);
    match project.faults().as_slice() {
        [] => project.prompt("p").map_or_else(|err| err.to_string(), |_| "fine".to_owned()),
        faults => listed(faults),
    }
}

#[test]
fn equal_definitions_are_one_entry() {
    let board = "{blackboard: {id: plan, schema: {properties: {step: {type: string}}}}}";
    let same = [
        "{memory: true}, {memory: {}}",
        "{artifacts: true}, {artifacts: true}",
        "{block: available_artifacts}, {artifacts: true}",
        &format!("{board}, {board}"),
        "{context: {id: a, text: Hi}}, {context: {id: a, text: Hi}}",
        "{capability: b}, {memory: true}",
        "{memory: true}, defaults",
        "defaults, {memory: true}",
        "{injectable: {id: i, text: Hi}}, {injectable: {id: i, text: Hi}}",
        "{provider: {text: {name: n, text: Hi}}}, {provider: {text: {name: n, text: Hi}}}",
    ];
    for used in same {
        assert_eq!(built("{memory: true}", used), "fine", "{used}");
    }
    let used = "---\nuse: [{context: {id: a, text: Hi}}, {context: {id: a, text: Hi}}]\n---\nOwn.";
    insta::assert_snapshot!(resolved(&[("prompts/p.md", used)], json!({})), @"
    system: Own.

    Hi
    ");
}

#[test]
fn different_entries_with_one_id_are_named_with_their_places() {
    insta::assert_snapshot!(built("null", "{memory: true}, {memory: {core: false}}"), @"prompts/p.md:2:23 duplicate_id: two different entries have the id `memory:memory`: use[0] and use[1] [rename one of them, or use the same entry twice: it renders once]");
    insta::assert_snapshot!(built("{memory: {core: false}}", "{capability: b}, {memory: true}"), @"prompts/p.md:2:24 duplicate_id: two different entries have the id `memory:memory`: capabilities/b/capability.md use[0] and use[1] [rename one of them, or use the same entry twice: it renders once]");
    let board = |kind: &str| {
        format!("{{blackboard: {{id: plan, schema: {{properties: {{step: {{type: {kind}}}}}}}}}}}")
    };
    insta::assert_snapshot!(built("null", &format!("{}, {}", board("string"), board("integer"))), @"prompts/p.md:2:97 duplicate_id: two different entries have the id `blackboard-plan`: use[0] use[0] and use[1] use[0] [rename one of them, or use the same entry twice: it renders once]");
    insta::assert_snapshot!(built("null", "{context: {id: a, text: Hi}}, {context: {id: a, text: Ho}}"), @"prompts/p.md:2:52 duplicate_id: two different entries have the id `a`: use[0] and use[1] [rename one of them, or use the same entry twice: it renders once]");
}
