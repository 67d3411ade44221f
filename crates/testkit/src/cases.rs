//! Case files: JSON that needs no Rust to write.

use serde_json::Value;

/// One case of a file.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, for messages.
    pub name: String,
    /// The whole case.
    pub value: Value,
}

/// Reads the cases of a file in the repository's `cases/` folder.
#[allow(clippy::expect_used, clippy::panic)]
pub fn cases(file: &str) -> Vec<Case> {
    let path = format!("{}/../../cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{path}: {err}"));
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|err| panic!("{path}: {err}"));
    let cases = document["cases"].as_array().expect("a case file has a list `cases`");
    let case = |value: &Value| Case {
        name: value["name"].as_str().expect("a case has a name").to_owned(),
        value: value.clone(),
    };
    cases.iter().map(case).collect()
}
