//! `knowledge`, on a SQLite file in a temporary folder.

use contexture_wire::Dialect;
use insta::assert_snapshot;
use serde_json::Value;

use crate::served::{Served, says};
use crate::{Folder, Run};

const CHAT: (&str, &str) = ("prompts/chat.md", "---\nmodel: mock/m-1\n---\nYou are helpful.\n");
const REFUNDS: (&str, &str) = ("docs/refunds.md", "# Refunds\n\nRefunds take 30 days.\n");
const SHIPPING: (&str, &str) = ("docs/more/shipping.txt", "Parcels leave on Mondays.\n");

fn knowledge(folder: &Folder, args: &[&str]) -> Run {
    let all: Vec<&str> = ["knowledge"].iter().chain(args).copied().collect();
    folder.run(&all)
}

fn document(folder: &Folder, args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    knowledge(folder, &all).json()
}

fn error(folder: &Folder, args: &[&str]) -> String {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let run = knowledge(folder, &all);
    format!("{} {}", run.code.unwrap_or(-1), run.json()["error"]["code"].as_str().unwrap_or_default())
}

#[test]
fn files_are_added_found_shown_and_removed() {
    let folder = Folder::new([CHAT, REFUNDS, SHIPPING, ("docs/logo.png", "\u{0}\u{1}")]);
    assert_snapshot!(knowledge(&folder, &["add", "rules", "docs"]).shown(), @r"
    rules: 2 added, 0 updated, 0 unchanged, 2 chunks written
    left out `logo.png`: it is a binary file
    prompts can use it once contexture.toml names it: `[knowledge.rules]`
    [exit 0]
    ");
    let again = document(&folder, &["add", "rules", "docs"]);
    assert_eq!((&again[0]["unchanged"], &again[0]["chunks"]), (&2.into(), &0.into()), "{again}");
    assert_snapshot!(knowledge(&folder, &["list", "rules"]).shown(), @r"
    document           title                      chunks  bytes  type
    more/shipping.txt  Parcels leave on Mondays.       1     26  text/plain
    refunds.md         Refunds                         1     33  text/markdown
    [exit 0]
    ");
    assert_eq!(document(&folder, &["list"])[0]["documents"], 2);
    let found = document(&folder, &["search", "rules", "How long do refunds take?", "--top-k", "1"]);
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["document"]["id"], found["hits"].as_array().map(Vec::len)),
        (&"refunds.md".into(), Some(1))
    );
    assert!(hit["shares"]["lexical"].as_f64().is_some_and(|it| it > 0.0), "{hit}");
    let shown = knowledge(&folder, &["search", "rules", "mondays"]).shown();
    assert!(shown.contains("[rules:1]") && shown.contains("lexical") && shown.contains("Parcels"), "{shown}");
    assert_eq!(knowledge(&folder, &["search", "rules", "zebra"]).shown(), "Nothing was found.\n[exit 0]");
    let shown = knowledge(&folder, &["show", "rules", "refunds.md"]).shown();
    assert!(shown.contains("Refunds take 30 days."), "{shown}");
    assert_eq!(
        knowledge(&folder, &["remove", "rules", "refunds.md"]).shown(),
        "removed refunds.md\n[exit 0]"
    );
    assert_eq!(document(&folder, &["search", "rules", "refunds"])["hits"], Value::Array(Vec::new()));
    let other = document(&folder, &["list", "--tenant", "other"]);
    assert_eq!(other, Value::Array(Vec::new()), "another tenant has other bases");
}

#[test]
fn mistakes_have_codes() {
    let folder =
        Folder::new([CHAT, REFUNDS, ("docs/logo.png", "\u{0}"), ("knowledge/shop/a.md", "A text.\n")]);
    assert_eq!(error(&folder, &["search", "none", "x"]), "2 not_found");
    assert_eq!(error(&folder, &["list", "none"]), "2 not_found");
    assert_eq!(error(&folder, &["reindex", "none"]), "2 not_found");
    assert_eq!(error(&folder, &["show", "shop", "b.md"]), "2 not_found");
    assert_eq!(error(&folder, &["add", "rules", "nowhere"]), "2 file_invalid");
    assert_eq!(error(&folder, &["add", "rules", "docs/logo.png"]), "2 file_invalid");
    assert_eq!(error(&folder, &["add", "a/b", "docs"]), "2 id_invalid");
    assert_eq!(error(&folder, &["add", "rules", "docs", "--store", "memory:"]), "2 usage");
    assert_eq!(error(&folder, &["add", "shop", "docs"]), "2 base_read_only");
    assert_eq!(error(&folder, &["remove", "shop", "a.md"]), "2 base_read_only");
    assert_eq!(error(&folder, &["search", "shop", " "]), "2 usage");
}

#[test]
fn a_folder_is_indexed_again_when_its_files_change() {
    let folder = Folder::new([CHAT, ("knowledge/shop/a.md", "Refunds take 30 days.\n")]);
    assert_eq!(document(&folder, &["reindex"])[0]["added"], 1);
    folder.write("knowledge/shop/a.md", "Refunds take 14 days.\n");
    let found = document(&folder, &["search", "shop", "refunds"]);
    assert_eq!(found["hits"][0]["text"], "Refunds take 14 days.");
    let again = document(&folder, &["reindex", "shop"]);
    assert_eq!((&again[0]["unchanged"], &again[0]["added"]), (&1.into(), &0.into()), "{again}");
}

#[test]
fn the_sources_of_an_answer_are_listed_below_it() {
    let grounded =
        "---\nmodel: mock/m-1\nuse:\n  - grounding: {bases: [shop]}\n---\nAnswer from the shop's rules.\n";
    let answer = "Refunds take 30 days [shop:1].";
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, answer), says(Dialect::Openai, answer)]);
    served.folder.write("prompts/ask.md", grounded);
    served.folder.write("knowledge/shop/refunds.md", "Refunds take 30 days.\n");
    let args = ["run", "ask", "--user", "How long do refunds take?"];
    let run = served.run(&args);
    assert_eq!(run.stdout, format!("{answer}\n"));
    assert!(run.stderr.contains("1. file:refunds.md [shop:1]"), "{}", run.stderr);
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let document = served.run(&all).json();
    assert_eq!(document["citations"][0]["chunk"], "shop:1", "{document}");
}

#[test]
fn the_example_answers_from_its_handbook() {
    let wrong = "Refunds take 14 days [handbook:1].";
    let right = "A refund is paid \"within 30 days\" [handbook:1].";
    let answers = [wrong, right, "Shipping costs 4.90 euros."].map(|it| says(Dialect::Openai, it));
    let served = Served::example("handbook", "", answers);
    assert_eq!(served.run(&["lint"]).code, Some(0));
    let args = ["run", "answer", "--model", "mock/m-1", "--user", "How long do refunds take?"];
    let run = served.run(&args);
    assert_eq!(run.stdout, format!("{right}\n"), "{}", run.stderr);
    let (warning, sources) = run.stderr.split_once('\n').unwrap();
    assert!(warning.contains("an answer does not count and is made again"), "{warning}");
    assert!(warning.contains("The number 14 is not in [handbook:1]"), "{warning}");
    assert_snapshot!(sources, @"1. file:refunds.md [handbook:1]: “within 30 days”");
    let run = served.run(&["run", "search", "--model", "mock/m-1", "--user", "What does shipping cost?"]);
    assert_eq!(run.stdout, "Shipping costs 4.90 euros.\n", "{}", run.stderr);
    let asked = served.asked().last().unwrap().body["messages"].to_string();
    assert!(asked.contains("Below that it costs 4.90 euros"), "{asked}");
}
