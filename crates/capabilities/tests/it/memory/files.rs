//! The six commands on files, against the local backend of the official Python SDK.
//!
//! Runs if `CONTEXTURE_TEST_PYTHON` names a Python that has the package `anthropic`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use contexture_capabilities::memory::{Layer, Namespace, RecordFilter, SearchRequest};
use contexture_session::Tenant;
use serde_json::{Value, json};

use super::Process;

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn path(&mut self) -> &'static str {
        // Those that usually work come more often.
        const PLAIN: [&str; 8] = [
            "/memories/a.txt",
            "/memories/b.md",
            "/memories/d/a.txt",
            "/memories/d/e/f.txt",
            "/memories/d/e/g/h",
            "/memories/d",
            "/memories/d/e",
            "/memories/z/ü.txt",
        ];
        const ODD: [&str; 14] = [
            "/memories",
            "/memories/",
            "/memories/.hidden",
            "/memories/../memories/a.txt",
            "/memories/../x",
            "/memoriesz",
            "/tmp/x",
            "memories/a",
            "/memories/a.txt/x",
            "/memories/a.txt/x/y",
            "/memories/./d//a.txt",
            "/memories/d/../b.md",
            "/memories/../../etc/passwd",
            "/memories/d/",
        ];
        let pool: &[&'static str] = if self.below(4) == 0 { &ODD } else { &PLAIN };
        pool[self.below(pool.len())]
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 9] = [
            "",
            "a",
            "one\ntwo\nthree\n",
            "aaa\naaa",
            "naïve\nü\n",
            "x\r\ny\r\n",
            "\n",
            "\n\n",
            "tail without end",
        ];
        match self.below(6) {
            0 => "0123456789abcdef\n".repeat(64 + self.below(200)),
            _ => (*self.one(&TEXTS)).to_owned(),
        }
    }

    fn command(&mut self) -> Value {
        const RANGES: [&[i64]; 9] =
            [&[1, 2], &[2, -1], &[0, 0], &[3, 1], &[-5, -2], &[1], &[], &[2, 900], &[900, 901]];
        const OLD: [&str; 8] = ["a", "aa", "", "one", "two\nthree", "zzz", "ü", "\n"];
        match self.below(12) {
            0 | 1 => json!({"command": "view", "path": self.path()}),
            2 => json!({"command": "view", "path": self.path(), "view_range": self.one(&RANGES)}),
            3..=5 => json!({"command": "create", "path": self.path(), "file_text": self.text()}),
            6 | 7 => {
                let (old, new) = (*self.one(&OLD), self.text());
                json!({"command": "str_replace", "path": self.path(), "old_str": old, "new_str": new})
            }
            8 | 9 => {
                let line = self.below(6) as i64 - 1;
                json!({"command": "insert", "path": self.path(), "insert_line": line, "insert_text": self.text()})
            }
            10 => json!({"command": "delete", "path": self.path()}),
            _ => json!({"command": "rename", "old_path": self.path(), "new_path": self.path()}),
        }
    }
}

/// Replaces the sizes of folders, which differ between file systems.
fn plain(text: &str) -> String {
    let is_listing = text.starts_with("Here're the files");
    let line = |(idx, line): (usize, &str)| match line.split_once('\t') {
        Some((_, path)) if is_listing && (idx == 1 || path.ends_with('/')) => format!("-\t{path}"),
        _ => line.to_owned(),
    };
    text.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn shown(answer: &Result<String, String>) -> Value {
    match answer {
        Ok(text) => json!({"text": plain(text)}),
        // The reference passes on errors of the system, whose words are the system's.
        Err(error) if error.starts_with("Not a directory") || error.ends_with("into itself") => {
            json!({"system": true})
        }
        Err(error) => json!({"error": error}),
    }
}

fn judged(sequences: &[Vec<Value>]) -> Option<Vec<Vec<Value>>> {
    let python = std::env::var_os("CONTEXTURE_TEST_PYTHON")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/memory/reference.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = serde_json::to_vec(sequences).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "who runs the test should see that nothing was checked")]
async fn the_six_commands_answer_as_the_reference_does() {
    let mut dice = Dice(20);
    let sequences: Vec<Vec<Value>> = (0..60).map(|_| (0..60).map(|_| dice.command()).collect()).collect();
    let Some(expected) = judged(&sequences) else {
        println!("skipped: `CONTEXTURE_TEST_PYTHON` is not set");
        return;
    };
    let process = Process::new();
    let (mut n_texts, mut n_errors) = (0, 0);
    for (no, (commands, expected)) in sequences.iter().zip(&expected).enumerate() {
        let namespace = Namespace::of_user(format!("user-{no}"));
        let space = process.memories.space(&Tenant::default(), namespace).unwrap();
        let mut before: Vec<&Value> = Vec::new();
        for (command, expected) in commands.iter().zip(expected) {
            before.push(command);
            let answer = space.run_file_command(command, None).await.unwrap();
            let expected = match expected["text"].as_str() {
                Some(text) => json!({"text": plain(text)}),
                None => expected.clone(),
            };
            assert_eq!(shown(&answer), expected, "sequence {no}: {before:#?}");
            n_texts += usize::from(answer.is_ok());
            n_errors += usize::from(answer.is_err());
        }
    }
    assert!(n_texts > 500 && n_errors > 500, "{n_texts} texts, {n_errors} errors");
}

#[tokio::test]
async fn files_are_records_with_versions() {
    let process = Process::new();
    let space = process.ada();
    let run = async |command: Value| space.run_file_command(&command, None).await.unwrap().unwrap();
    run(json!({"command": "create", "path": "/memories/plan.md", "file_text": "Ship on Friday.\n"})).await;
    run(json!({"command": "str_replace", "path": "/memories/plan.md", "old_str": "Friday", "new_str": "Monday"})).await;
    run(json!({"command": "rename", "old_path": "/memories/plan.md", "new_path": "/memories/old/plan.md"}))
        .await;
    let records = space.list(&RecordFilter::default()).await.unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        (record.id.as_str(), record.version, record.layer),
        ("file:/memories/old/plan.md", 2, Layer::Facts)
    );
    let texts: Vec<String> = space.history(&record.id).await.unwrap().into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["Ship on Friday.\n", "Ship on Monday.\n"]);
    assert_eq!(space.search(&SearchRequest::new("ship", 5)).await.unwrap().len(), 1);
    run(json!({"command": "delete", "path": "/memories/old"})).await;
    assert_eq!(space.list(&RecordFilter { with_past: true, ..RecordFilter::default() }).await.unwrap(), []);
    insta::assert_snapshot!(run(json!({"command": "view", "path": "/memories"})).await, @r"
    Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:
    4K	/memories
    ");
}
