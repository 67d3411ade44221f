//! The Golden Liquid cases, where they are at hand.

use std::collections::BTreeMap;

use contexture_template::{Globals, Partials, RenderConfig, Template};
use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/golden-liquid.json");

/// How many cases must pass.
const FLOOR: usize = 527;

struct Loaded(BTreeMap<String, Template>);

impl Partials for Loaded {
    fn partial(&self, name: &str) -> Option<Template> {
        self.0.get(name).cloned()
    }
}

/// Renders a case in lenient mode. The only caller of the API here.
fn rendered(case: &Value) -> Result<String, String> {
    let message = |err: contexture_template::Error| err.with_place().to_string();
    let mut partials = Loaded(BTreeMap::new());
    for (name, source) in case["templates"].as_object().into_iter().flatten() {
        partials.0.insert(name.clone(), Template::parse(source.as_str().unwrap()).map_err(message)?);
    }
    let template = Template::parse(case["template"].as_str().unwrap()).map_err(message)?;
    let data = case["data"].as_object().cloned().unwrap_or_default();
    let globals: Vec<(&str, &Value)> = data.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let config = RenderConfig { partials: Some(&partials), ..RenderConfig::lenient() };
    template.render(&Globals::new(&globals), &config).map_err(message)
}

fn passes(case: &Value, result: &Result<String, String>) -> bool {
    match result {
        Err(_) => case["invalid"] == true,
        Ok(_) if case["invalid"] == true => false,
        Ok(text) => match case["results"].as_array() {
            Some(results) => results.iter().any(|it| it == text.as_str()),
            None => case["result"] == text.as_str(),
        },
    }
}

#[test]
fn golden_liquid_cases_pass() {
    let Ok(text) = std::fs::read_to_string(FILE) else {
        println!("the Golden Liquid cases are not here, nothing to check");
        return;
    };
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["tests"].as_array().unwrap();
    let mut passed = 0;
    for case in cases {
        let result = rendered(case);
        if passes(case, &result) {
            passed += 1;
        } else {
            println!(
                "{}: {}\n  is     {result:?}\n  should {}",
                case["name"], case["template"], case["result"]
            );
        }
    }
    println!("{passed} of {} Golden Liquid cases pass", cases.len());
    assert!(passed >= FLOOR, "{passed} cases pass, the floor is {FLOOR}");
}
