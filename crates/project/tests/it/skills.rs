//! Skill folders: what is found, what is loaded, and what `lint` says about them.

use std::fs;
use std::path::Path;
use std::process::Command;

use contexture_project::{Project, SkillFolder};
use futures::executor::block_on;
use serde_json::json;

use crate::support::{Temporary, faults, listed, project, resolved};

const REFUNDS: (&str, &str) = (
    "skills/refunds/SKILL.md",
    "---\nname: refunds\ndescription: Pays back money.\n---\n\n# Refunds\n\nAsk first.\n",
);
const POEMS: (&str, &str) = ("skills/poems/SKILL.md", "---\nname: poems\ndescription: Rhymes.\n---\nRhyme.");

/// A folder of a skill: the name of the folder, the text of its `SKILL.md`, and whether it is as specified.
fn table() -> Vec<(&'static str, String, bool)> {
    let skill = |front: &str| format!("---\n{front}\n---\n\nDo it.\n");
    let long = |n: usize| "x".repeat(n);
    let mut table = vec![
        ("good", skill("name: good\ndescription: Does it."), true),
        ("a", skill("name: a\ndescription: D"), true),
        ("a1-b2-c3", skill("name: a1-b2-c3\ndescription: D"), true),
        (
            "full",
            skill(
                "name: full\ndescription: Does it. Use it when asked.\nlicense: Apache-2.0\ncompatibility: Needs git\nallowed-tools: Bash(git:*) Read\nmetadata:\n  author: me\n  version: \"1.0\"",
            ),
            true,
        ),
        ("quoted", skill("name: \"quoted\"\ndescription: 'It''s: fine'"), true),
        ("folded", skill("name: folded\ndescription: >\n  Two lines\n  of text."), true),
        ("literal", skill("name: literal\ndescription: |\n  Two lines\n  - of text: {x}"), true),
        ("wrapped", skill("name: wrapped\ndescription: Two lines\n  of text."), true),
        ("comments", skill("# About it\nname: comments # here\ndescription: D"), true),
        ("unicode-text", skill("name: unicode-text\ndescription: Größe 大きさ 📏"), true),
        ("longest", skill(&format!("name: longest\ndescription: {}", long(1024))), true),
        ("empty-body", "---\nname: empty-body\ndescription: D\n---\n".to_owned(), true),
        ("crlf", "---\r\nname: crlf\r\ndescription: D\r\n---\r\nDo.\r\n".to_owned(), true),
        ("rule-below", "---\nname: rule-below\ndescription: D\n---\nA\n\n---\n\nB".to_owned(), true),
        ("other", skill("name: another\ndescription: D"), false),
        ("Upper", skill("name: Upper\ndescription: D"), false),
        ("under_score", skill("name: under_score\ndescription: D"), false),
        ("-dash", skill("name: -dash\ndescription: D"), false),
        ("dash-", skill("name: dash-\ndescription: D"), false),
        ("da--sh", skill("name: da--sh\ndescription: D"), false),
        ("spa ce", skill("name: spa ce\ndescription: D"), false),
        ("no-name", skill("description: D"), false),
        ("no-description", skill("name: no-description"), false),
        ("empty-description", skill("name: empty-description\ndescription: \"\""), false),
        ("blank-description", skill("name: blank-description\ndescription: \"  \""), false),
        ("too-long", skill(&format!("name: too-long\ndescription: {}", long(1025))), false),
        (
            "compatible",
            skill(&format!("name: compatible\ndescription: D\ncompatibility: {}", long(501))),
            false,
        ),
        ("extra", skill("name: extra\ndescription: D\nversion: 1"), false),
        ("bare-colon", skill("name: bare-colon\ndescription: Use it: always"), false),
        ("flow-map", skill("name: flow-map\ndescription: D\nmetadata: {a: b}"), false),
        ("flow-list", skill("name: flow-list\ndescription: D\nallowed-tools: [Read, Write]"), false),
        ("anchored", skill("name: &n anchored\ndescription: *n"), false),
        ("tagged", skill("name: tagged\ndescription: !!str D"), false),
        ("twice", skill("name: twice\nname: twice\ndescription: D"), false),
        ("dashes", skill("name: dashes\ndescription: a --- b"), false),
        ("no-front", "# No front matter\n".to_owned(), false),
        ("unclosed", "---\nname: unclosed\ndescription: D\n".to_owned(), false),
        ("late", "\n---\nname: late\ndescription: D\n---\n".to_owned(), false),
        ("bom", "\u{feff}---\nname: bom\ndescription: D\n---\n".to_owned(), false),
        ("listed", "---\n- name: listed\n---\n".to_owned(), false),
        ("empty", String::new(), false),
    ];
    let name: &'static str = Box::leak(long(65).into_boxed_str());
    table.push((name, skill(&format!("name: {name}\ndescription: D")), false));
    let name: &'static str = Box::leak(long(64).into_boxed_str());
    table.push((name, skill(&format!("name: {name}\ndescription: D")), true));
    table
}

fn written(folders: &[(&str, String, bool)]) -> Temporary {
    let dir = Temporary::new();
    for (name, text, _) in folders {
        dir.write(&format!("skills/{name}/SKILL.md"), text);
    }
    dir
}

#[test]
fn folders_are_judged_as_the_specification_says() {
    let folders = table();
    let dir = written(&folders);
    let project = Project::open(&dir.0).unwrap();
    for (name, _, is_good) in &folders {
        let folder = format!("skills/{name}");
        let skill = project.skill_folders().iter().find(|it| it.folder == folder).unwrap();
        assert_eq!(skill.findings.is_empty(), *is_good, "{name}: {}", listed(&skill.findings));
        let lints = project.lint().into_iter().filter(|it| it.file == format!("{folder}/SKILL.md"));
        assert_eq!(lints.count() == 0, *is_good);
        assert!(skill.findings.iter().all(|it| it.line.is_some() || it.message.contains("another skill")));
    }
}

/// A folder that passes our lint passes the public validator. It runs if `CONTEXTURE_TEST_PYTHON` names a Python that has the
/// package `skills-ref`, as `cargo xtask test` sets it.
#[test]
fn the_public_validator_accepts_what_lint_accepts() {
    let Some(python) = std::env::var_os("CONTEXTURE_TEST_PYTHON") else {
        println!("skipped: `CONTEXTURE_TEST_PYTHON` is not set");
        return;
    };
    let folders = table();
    let dir = written(&folders);
    let script = "import json, pathlib, sys\n\
        from skills_ref.validator import validate\n\
        root = pathlib.Path(sys.argv[1])\n\
        print(json.dumps({p.name: validate(p) for p in sorted(root.iterdir())}))";
    let output = Command::new(python).args(["-c", script]).arg(dir.0.join("skills")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let judged: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut n_refused = 0;
    for (name, _, is_good) in &folders {
        let faults = judged[*name].as_array().unwrap();
        n_refused += usize::from(!faults.is_empty());
        if *is_good {
            assert_eq!(judged[*name], json!([]), "{name}");
        }
    }
    assert!(n_refused > 20, "the validator refuses the bad ones too");
}

/// Where packages keep their skills, and how many there are.
const PUBLIC: [(&str, usize); 3] =
    [("@tanstack/intent/meta", 4), ("@tanstack/db/skills", 2), ("@tanstack/db/skills/db-core", 5)];

/// Skills that others have published load, with what they say. It runs if `CONTEXTURE_TEST_NODE` names a folder with
/// the packages, as `cargo xtask test` sets it.
#[test]
fn public_skills_load() {
    let Some(node) = std::env::var_os("CONTEXTURE_TEST_NODE") else {
        println!("skipped: `CONTEXTURE_TEST_NODE` is not set");
        return;
    };
    for (place, n_skills) in PUBLIC {
        let dir = Temporary::new();
        let folders = fs::read_dir(Path::new(&node).join("node_modules").join(place)).unwrap();
        for folder in folders.map(|it| it.unwrap()) {
            if let Ok(text) = fs::read_to_string(folder.path().join("SKILL.md")) {
                dir.write(&format!("skills/{}/SKILL.md", folder.file_name().display()), &text);
            }
        }
        dir.write("prompts/p.md", "---\nuse:\n  - skill: \"*\"\n---\nHelp.");
        let project = Project::open(&dir.0).unwrap();
        assert_eq!(project.skill_folders().len(), n_skills, "{place}");
        let prompt = project.prompt("p").unwrap();
        let pass = block_on(prompt.resolve(project.options(prompt, None, None))).unwrap();
        let system = pass.request().messages[0].joined_text();
        for SkillFolder { name, description, version, .. } in project.skill_folders() {
            let version = version.as_ref().unwrap_or_else(|| panic!("{place}/{name} has no instructions"));
            assert!(version.instructions.contains("# "), "{place}/{name}");
            let first = description.as_ref().and_then(|it| it.split_whitespace().next()).unwrap();
            assert!(system.contains(&format!("- {name}: {first}")), "{place}/{name}: {system}");
        }
    }
}

#[test]
fn all_faults_are_told_with_their_places() {
    let text = "---\nname: Refunds\nversion: 2\ndescription:\nmetadata: {a: [b]}\n---\n";
    let project = project(&[("skills/refunds/SKILL.md", text)]);
    insta::assert_snapshot!(listed(&project.skill_folders()[0].findings), @"
    skills/refunds/SKILL.md:5:1 file_invalid: lists, maps, anchors and tags of YAML can't be used here
    skills/refunds/SKILL.md:2:7 file_invalid: `name` may have `a` to `z`, digits and `-` only
    skills/refunds/SKILL.md:3:1 unknown_field: unknown field `version` [put what is your own under `metadata`]
    skills/refunds/SKILL.md:4:12 file_invalid: `description` must be a text, found nothing [put quotes around it]
    skills/refunds/SKILL.md:5:11 file_invalid: `metadata.a` must be a text
    ");
}

#[test]
fn loading_is_lenient() {
    let of = |text: &str| {
        let project = project(&[("skills/s/SKILL.md", text)]);
        let SkillFolder { name, description, version, .. } = project.skill_folders()[0].clone();
        let version = version.map(|it| (it.allowed_tools, it.instructions.to_string()));
        format!("{name} {description:?} {version:?}")
    };
    insta::assert_snapshot!(of("---\nname: s\ndescription: Use it: always\nallowed-tools: Read, Bash(git add:*)\n---\nDo."), @r#"s Some("Use it: always") Some((["Read", "Bash(git add:*)"], "Do."))"#);
    insta::assert_snapshot!(of("---\nname: Other Name\ndescription: D\nunknown: 1\n---\nDo."), @r#"s Some("D") Some(([], "Do."))"#);
    insta::assert_snapshot!(of("---\nname: s\ndescription: D\nallowed-tools: [Read, Write]\n---\nDo."), @r#"s Some("D") Some((["Read", "Write"], "Do."))"#);
    insta::assert_snapshot!(of("---\nname: s\n---\nDo."), @"s None None");
    insta::assert_snapshot!(of("Do."), @"s None None");
}

#[test]
fn prompts_list_the_skills_that_they_name() {
    let of = |entry: &str| {
        let prompt = format!("---\nuse:\n  - {entry}\n---\nHelp.");
        resolved(&[("prompts/p.md", &prompt), REFUNDS, POEMS], json!({}))
    };
    insta::assert_snapshot!(of("skill: refunds"), @"
    system: Help.

    <available-skills>
    - refunds: Pays back money.
    </available-skills>
    ");
    insta::assert_snapshot!(of("skill: \"*\""), @"
    system: Help.

    <available-skills>
    - poems: Rhymes.
    - refunds: Pays back money.
    </available-skills>
    ");
    insta::assert_snapshot!(of("skill: [poems, refunds]"), @"
    system: Help.

    <available-skills>
    - poems: Rhymes.
    - refunds: Pays back money.
    </available-skills>
    ");
    insta::assert_snapshot!(of("skill: {name: poems, inject: system}"), @"
    system: Help.

    <available-skills>
    - poems: Rhymes.
    </available-skills>
    ");
    insta::assert_snapshot!(of("block: available_skills"), @"
    system: Help.

    <available-skills>
    - poems: Rhymes.
    - refunds: Pays back money.
    </available-skills>
    ");
    // Two entries make one list, and a branch that is not taken adds nothing.
    insta::assert_snapshot!(of("skill: refunds\n  - {when: input.x, use: {skill: poems}}\n  - skill: refunds"), @"
    system: Help.

    <available-skills>
    - refunds: Pays back money.
    </available-skills>
    ");
}

#[test]
fn wrong_entries_are_told_with_their_places() {
    let of = |entry: &str| {
        faults(&[("prompts/p.md", &format!("---\nuse:\n  - {entry}\n---\nHelp.")), REFUNDS, POEMS])
    };
    let entries = [
        "skill: refund",
        "skill: nothing",
        "skill: [poems, ../x]",
        "skill: 5",
        "skill: {inject: system}",
        "skill: {name: poems, inject: everywhere}",
        "skill: {name: poems, injct: auto}",
    ];
    insta::assert_snapshot!(entries.map(of).join("\n"), @r#"
    prompts/p.md:3:12 unknown_entry: there is no skill `refund` [did you mean `refunds`?]
    prompts/p.md:3:12 unknown_entry: there is no skill `nothing` [there are: poems, refunds]
    prompts/p.md:3:20 unknown_entry: there is no skill `../x` [there are: poems, refunds]
    prompts/p.md:3:12 file_invalid: `use[0].skill`: expected the name of a skill, or `"*"` for all, found `5`
    prompts/p.md:3:12 file_invalid: `use[0].skill`: `name` is missing
    prompts/p.md:3:34 file_invalid: `use[0].skill.inject`: expected `auto` or `system`, found `everywhere`
    prompts/p.md:3:26 unknown_field: `use[0].skill`: unknown field `injct` [did you mean `inject`?]
    "#);
    insta::assert_snapshot!(faults(&[("prompts/p.md", "---\nuse: [{skill: x}]\n---\n")]), @"prompts/p.md:2:15 unknown_entry: there is no skill `x` [write `skills/x/SKILL.md`, with a `description`]");
}

#[test]
fn folders_are_found_where_they_may_be_and_nowhere_else() {
    let dir = Temporary::new();
    let skill = |name: &str| format!("---\nname: {name}\ndescription: D\n---\nDo {name}.");
    dir.write("contexture.toml", "[skills]\npaths = [\"../shared\", \"more\"]")
        .write("skills/one/SKILL.md", skill("one"))
        .write("skills/group/two/SKILL.md", skill("two"))
        .write("skills/a/b/c/d/SKILL.md", skill("d"))
        .write("skills/.hidden/SKILL.md", skill("hidden"))
        .write("skills/one/references/r.md", "Read me.")
        .write("skills/one/scripts/s.py", "print()")
        .write("skills/one/.secret", "no")
        .write(".agents/skills/three/SKILL.md", skill("three"))
        .write(".agents/skills/one/SKILL.md", skill("one"))
        .write("more/four/SKILL.md", skill("four"))
        .write("elsewhere/five/SKILL.md", skill("five"));
    let project = Project::open(&dir.0).unwrap();
    let shown = |it: &SkillFolder| {
        let files =
            it.version.as_ref().map(|it| it.files.join(" ")).unwrap_or_else(|| "not loaded".to_owned());
        format!("{} {} [{files}] {}", it.name, it.folder, listed(&it.findings)).trim_end().to_owned()
    };
    let all: Vec<String> = project.skill_folders().iter().map(shown).collect();
    insta::assert_snapshot!(all.join("\n"), @"
    four more/four []
    one skills/one [references/r.md scripts/s.py]
    one .agents/skills/one [not loaded] .agents/skills/one/SKILL.md duplicate_id: there is another skill `one`, which is used
    three .agents/skills/three []
    two skills/group/two []
    ");
}

#[cfg(unix)]
#[test]
fn hostile_folders_do_no_harm() {
    use std::os::unix::fs::symlink;
    let dir = Temporary::new();
    let outside = Temporary::new();
    outside.write("secret.md", "SECRET").write("stolen/SKILL.md", "---\nname: stolen\ndescription: D\n---\n");
    dir.write("prompts/p.md", "---\nuse: [{skill: \"*\"}]\n---\nHelp.")
        .write("skills/good/SKILL.md", "---\nname: good\ndescription: D\n---\nDo.")
        .write("skills/good/r.bin", [0xff, 0xfe])
        .write("skills/huge/SKILL.md", "x".repeat(10 << 20))
        .write("skills/binary/SKILL.md", [0xff, 0xfe, 0x00])
        .write("skills/größe/SKILL.md", "---\nname: größe\ndescription: D\n---\n")
        .write("skills/linked/keep.md", "");
    symlink(outside.0.join("secret.md"), dir.0.join("skills/good/leak.md")).unwrap();
    symlink(outside.0.join("stolen"), dir.0.join("skills/stolen")).unwrap();
    symlink(outside.0.join("stolen/SKILL.md"), dir.0.join("skills/linked/SKILL.md")).unwrap();
    symlink(&dir.0, dir.0.join("skills/good/loop")).unwrap();
    let project = Project::open(&dir.0).unwrap();
    let shown = |it: &SkillFolder| {
        format!("{} {:?} {}", it.name, it.description, listed(&it.findings)).trim_end().to_owned()
    };
    let all: Vec<String> = project.skill_folders().iter().map(shown).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    binary None skills/binary/SKILL.md file_invalid: the file is not UTF-8: the byte at 0 is not part of a character [save the file as UTF-8]
    good Some("D")
    größe Some("D") skills/größe/SKILL.md:2:7 file_invalid: `name` may have `a` to `z`, digits and `-` only
    huge None skills/huge/SKILL.md file_invalid: the file is larger than 1048576 bytes
    linked None skills/linked/SKILL.md file_invalid: the file is a link that leads out of the project; such links are not followed [copy the file into the project, or link to a file inside it]
    "#);

    let source = project.skills();
    let read = |file: &str| block_on(source.read("good", file)).map(|it| it.map(|it| it.to_string()));
    for file in ["leak.md", "../huge/SKILL.md", "/etc/passwd", "loop/contexture.toml", "", "..", "r.bin/../r"]
    {
        assert!(matches!(read(file), Ok(None) | Err(_)), "{file}");
    }
    assert!(read("r.bin").is_err());
    for name in ["..", "", "stolen", "linked", "../good", "good\0", "größe/../good"] {
        assert!(block_on(source.load(name)).unwrap().is_none(), "{name}");
    }
    // A file that is listed and replaced by a link later is not followed.
    fs::remove_file(dir.0.join("skills/good/r.bin")).unwrap();
    symlink(outside.0.join("secret.md"), dir.0.join("skills/good/r.bin")).unwrap();
    assert!(read("r.bin").is_err());
}

#[test]
fn a_reload_finds_edited_skills_and_keeps_what_did_not_change() {
    let dir = Temporary::new();
    dir.write("prompts/p.md", "---\nuse: [{skill: \"*\"}]\n---\nHelp.")
        .write("skills/one/SKILL.md", "---\nname: one\ndescription: D\n---\nDo.");
    let mut project = Project::open(&dir.0).unwrap();
    let hash = |project: &Project| project.skill_folders()[0].version.as_ref().unwrap().hash.clone();
    let before = hash(&project);
    assert!(project.reload().unwrap().changed.is_empty());
    dir.write("skills/one/SKILL.md", "---\nname: one\ndescription: D\n---\nDo more.");
    assert_eq!(project.reload().unwrap().changed, ["p"]);
    assert_ne!(hash(&project), before);
}
