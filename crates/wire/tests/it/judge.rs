//! The official SDKs judge the golden requests; see `judge/judge.py`.
//!
//! Runs if `CONTEXTURE_TEST_PYTHON` names a Python that has the packages `openai`, `anthropic`, `google-genai` and
//! `jsonschema`.

use std::process::Command;

use super::golden::folder;

#[allow(
    clippy::print_stdout,
    reason = "whoever runs the test should see what was checked, or that nothing was"
)]
fn judge(args: &[&str]) {
    let Some(python) = std::env::var_os("CONTEXTURE_TEST_PYTHON") else {
        println!("skipped: `CONTEXTURE_TEST_PYTHON` is not set");
        return;
    };
    let output = Command::new(python).arg(folder("judge/judge.py")).args(args).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "the SDKs refuse:\n{said}\n{errors}");
}

#[test]
fn the_official_sdks_accept_the_golden_requests() {
    judge(&[]);
}

#[test]
fn the_judge_refuses_damaged_requests() {
    judge(&["--self-test"]);
}
