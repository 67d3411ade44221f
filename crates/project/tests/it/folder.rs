//! Real folders.

use std::path::Path;

use contexture_project::{Files, Folder, MAX_FILE_BYTES, Project};

use crate::support::Temporary;

fn listed(root: &Path) -> String {
    let mut files = Folder::new(root).list().unwrap();
    files.sort();
    files.join("\n")
}

#[test]
fn only_files_of_a_project_are_listed() {
    let folder = Temporary::new();
    for path in [
        "contexture.toml",
        "prompts/a.md",
        "prompts/sub/b.md",
        "prompts/a.txt",
        "prompts/.hidden.md",
        "prompts/.git/c.md",
        "contexts/x/y.md",
        "blocks/b.md",
        "blocks/deep/b.md",
        "partials/p.liquid",
        "partials/deep/q.md",
        "skills/s/SKILL.md",
        "skills/s/other.md",
        "skills/SKILL.md",
        "flows/f.yaml",
        "flows/f.json",
        "secret.md",
        ".env",
    ] {
        folder.write(path, "");
    }
    insta::assert_snapshot!(listed(&folder.0), @r"
    blocks/b.md
    contexts/x/y.md
    contexture.toml
    flows/f.yaml
    partials/deep/q.md
    partials/p.liquid
    prompts/a.md
    prompts/sub/b.md
    skills/s/SKILL.md
    ");
}

#[cfg(unix)]
#[test]
fn links_that_lead_outside_or_in_circles_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (folder, outside) = (Temporary::new(), Temporary::new());
    outside.write("secret.md", "s").write("more/secret.md", "s");
    folder.write("prompts/a.md", "A.");
    symlink(outside.0.join("secret.md"), folder.0.join("prompts/link.md")).unwrap();
    symlink(&outside.0, folder.0.join("contexts")).unwrap();
    symlink(folder.0.join("prompts"), folder.0.join("prompts/loop")).unwrap();
    symlink(folder.0.join("gone"), folder.0.join("prompts/gone.md")).unwrap();
    symlink(folder.0.join("prompts/a.md"), folder.0.join("prompts/same.md")).unwrap();
    assert_eq!(
        listed(&folder.0),
        "prompts/a.md\nprompts/gone.md\nprompts/link.md\nprompts/same.md",
        "a link that is not followed is known, so that it can be told"
    );
    let project = Project::open(&folder.0).unwrap();
    assert!(project.prompt("same").is_ok());
    insta::assert_snapshot!(project.prompt("link").unwrap_err(), @"prompts/link.md: the file is a link that leads out of the project; such links are not followed (copy the file into the project, or link to a file inside it)");
    insta::assert_snapshot!(project.prompt("gone").unwrap_err(), @"prompts/gone.md: the file is a link that leads nowhere (copy the file into the project, or link to a file inside it)");
    assert!(Folder::new(&folder.0).read("../secret.md").is_err());
}

#[test]
fn files_that_are_too_large_or_no_text_break_only_themselves() {
    let folder = Temporary::new();
    folder
        .write("prompts/good.md", "Good.")
        .write("prompts/large.md", vec![b'x'; usize::try_from(MAX_FILE_BYTES).unwrap() + 1])
        .write("prompts/latin.md", b"caf\xe9");
    let project = Project::open(&folder.0).unwrap();
    assert!(project.prompt("good").is_ok());
    insta::assert_snapshot!(project.prompt("large").unwrap_err(), @"prompts/large.md: the file is larger than 1048576 bytes");
    insta::assert_snapshot!(project.prompt("latin").unwrap_err(), @"prompts/latin.md: the file is not UTF-8: the byte at 3 is not part of a character (save the file as UTF-8)");
    assert_eq!(project.lint().len(), 2);
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let folder = Temporary::new();
    let gone = folder.0.join("gone");
    let error = Project::open(&gone).unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert!(
        Project::open(&folder.0).unwrap().prompts().next().is_none(),
        "an empty folder is an empty project"
    );
}

#[test]
fn the_root_is_found_from_below() {
    let folder = Temporary::new();
    folder.write("one/contexture.toml", "").write("one/sub/deep/x", "").write("two/prompts/a.md", "A.");
    let root = |path: &str| Project::find_root(&folder.0.join(path));
    assert_eq!(root("one/sub/deep"), Some(folder.0.join("one")));
    assert_eq!(root("two/prompts"), Some(folder.0.join("two")));
}

#[test]
fn a_real_folder_is_reloaded() {
    let folder = Temporary::new();
    folder.write("prompts/p.md", "One.");
    let mut project = Project::open(&folder.0).unwrap();
    folder.write("prompts/p.md", "Two.");
    assert_eq!(project.reload().unwrap().changed, ["p"]);
}
