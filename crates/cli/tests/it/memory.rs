//! `contexture memory`: what agents remember, on the command line.

use serde_json::Value;

use crate::Folder;

fn json(folder: &Folder, args: &[&str]) -> Value {
    let mut all = vec!["memory"];
    all.extend(args);
    all.extend(["--user", "ada", "--json"]);
    let output = folder.run(&all);
    serde_json::from_str(&output.stdout).unwrap_or_else(|err| panic!("{err}: {}", output.shown()))
}

#[test]
fn records_are_added_found_decided_and_forgotten() {
    let folder = Folder::new([("contexture.toml", "")]);
    let added = json(&folder, &["add", "Ada's invoices are due on Fridays."]);
    let id = added["id"].as_str().expect("an id").to_owned();
    json(&folder, &["add", "Always answer in German.", "--layer", "rules"]);
    assert_eq!(json(&folder, &["list"]).as_array().expect("a list").len(), 2);
    assert_eq!(json(&folder, &["list", "--layer", "rules"])[0]["text"], "Always answer in German.");
    assert_eq!(json(&folder, &["search", "when are invoices due"])["hits"][0]["id"], id.as_str());
    assert_eq!(json(&folder, &["reject", &id])["status"], "rejected");
    assert_eq!(json(&folder, &["approve", &id])["version"], 3);
    assert_eq!(json(&folder, &["history", &id]).as_array().expect("a list").len(), 3);
    let lines = folder.run(&["memory", "export", "--user", "ada"]).stdout;
    folder.write("lines.jsonl", &lines);
    assert_eq!(json(&folder, &["forget", &id, "--dry-run"])["records"].as_array().expect("a list").len(), 1);
    let receipt = json(&folder, &["forget", &id]);
    assert_eq!((&receipt["erased"], &receipt["versions"]), (&Value::Bool(true), &Value::from(2)));
    assert_eq!(json(&folder, &["list"]).as_array().expect("a list").len(), 1);
    // What was forgotten does not come back with an old export.
    let imported = json(&folder, &["import", "lines.jsonl"]);
    assert_eq!((&imported["added"], &imported["known"]), (&Value::from(0), &Value::from(2)));
    assert_eq!(json(&folder, &["audit"])["findings"], serde_json::json!([]));
    let missing = folder.run(&["memory", "show", &id, "--user", "ada"]);
    assert_ne!(missing.code, Some(0), "{}", missing.shown());
    let spaces = folder.run(&["memory", "list"]);
    assert_eq!(spaces.stdout.trim(), "user=ada");
}
