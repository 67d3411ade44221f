//! Conditions and expressions that stand alone.

use contexture_template::{Condition, Expression, Globals, RenderConfig};
use serde_json::{Value, json};

/// Evaluates a condition over one fixed input, in strict mode.
fn holds(source: &str) -> String {
    let input = json!({"plan": "pro", "n": 3, "tags": ["a", "b"], "off": false, "none": null, "text": "hello", "map": {}});
    let globals = [("input", &input)];
    let result =
        Condition::parse(source).and_then(|it| it.evaluate(&Globals::new(&globals), &RenderConfig::strict()));
    result.map_or_else(|err| err.with_place().to_string(), |it| it.to_string())
}

/// Evaluates an expression, in strict mode.
fn value(source: &str, input: Value) -> Result<Value, String> {
    let globals = [("input", &input)];
    let result = Expression::parse(source)
        .and_then(|it| it.evaluate(&Globals::new(&globals), &RenderConfig::strict()));
    result.map_err(|err| err.with_place().to_string())
}

#[test]
fn these_conditions_hold() {
    for source in [
        "input.plan == 'pro'",
        "input.plan != \"free\" and input.n > 2",
        "input.tags contains 'b'",
        "input.text contains 'ell'",
        "input.map == empty",
        "input.map == blank",
        "input.none == nil",
        "input.n == 3.0",
        "'a' < 'b'",
        "input.n",
        "'' or false",
        "(1..5) contains input.n",
        "input.tags.size >= 2",
        "input.absent == nil",
        "input.absent.deep == blank",
        "true or false and false",
    ] {
        assert_eq!(holds(source), "true", "{source}");
    }
}

#[test]
fn these_conditions_do_not_hold() {
    for source in [
        "input.off",
        "input.none",
        "absent",
        "input.absent > 1",
        "input.none < 1",
        "input.n == '3'",
        "input.tags contains nil",
        "true and false and false or true",
        "empty == blank",
        "nil == empty",
        "input.map < 1",
    ] {
        assert_eq!(holds(source), "false", "{source}");
    }
}

#[test]
fn conditions_have_errors_with_places() {
    assert_eq!(holds("input.n > 'x'"), "1:1: `3` cannot be compared with `\"x\"`");
    assert_eq!(holds(""), "1:1: expected a value, found the end");
    assert_eq!(holds("a = b"), "1:3: expected the end, found `=`");
    assert_eq!(holds("a == "), "1:5: expected a value, found the end");
    assert_eq!(holds("a &&  b"), "1:3: unexpected character `&`");
    assert_eq!(holds("a | size"), "1:3: expected the end, found `|`");
}

#[test]
fn what_decides_is_not_evaluated_further() {
    assert_eq!(holds("false and 1 < 'x'"), "false");
    assert_eq!(holds("true or 1 < 'x'"), "true");
}

#[test]
fn expressions_give_values() {
    let input = json!({"locale": "DE", "list": [3, 1], "map": {"a": {"b": 1.5}}});
    assert_eq!(value("input.locale | downcase", input.clone()), Ok(json!("de")));
    assert_eq!(value("input.list | sort", input.clone()), Ok(json!([1, 3])));
    assert_eq!(value("input.map", input.clone()), Ok(json!({"a": {"b": 1.5}})));
    assert_eq!(value("(1..3)", input.clone()), Ok(json!([1, 2, 3])));
    assert_eq!(value("nil", input.clone()), Ok(json!(null)));
    assert_eq!(value("1 | plus: 0.5", input.clone()), Ok(json!(1.5)));
    assert_eq!(value("input.nope | default: 'x'", input.clone()), Ok(json!("x")));
    assert_eq!(value("input.nope", input), Err("1:1: undefined variable `input.nope`".into()));
}
