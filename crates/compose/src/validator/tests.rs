//! Malicious and harmless schemas and values.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SchemaValidator, meter};

/// Returns why a schema is refused, or the faults of a value.
fn told(schema: &Value, value: &Value) -> String {
    match SchemaValidator::new(schema) {
        Err(refused) => format!("refused: {refused}"),
        Ok(validator) => {
            let faults = validator.faults(value);
            faults.iter().map(|it| it.masked.as_str()).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Returns definitions `d0` to `d{n}`, each of which references the next twice.
fn doubling(n: usize, last: &Value) -> Value {
    let level = |it: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", it + 1)});
        (format!("d{it}"), json!({"anyOf": [next, next]}))
    };
    let mut all: serde_json::Map<String, Value> = (0..n).map(level).collect();
    all.insert(format!("d{n}"), last.clone());
    json!({"$ref": "#/$defs/d0", "$defs": all})
}

#[test]
fn a_schema_that_doubles_with_every_reference_is_refused() {
    let told = told(&doubling(30, &json!({"type": "integer"})), &json!("x"));
    assert!(
        told.starts_with("refused: the schema has ") && told.contains("ways to apply it to one value"),
        "{told}"
    );
    assert!(SchemaValidator::new(&doubling(5, &json!({"type": "integer"}))).is_ok());
}

#[test]
fn a_schema_that_goes_in_a_circle_is_refused() {
    let root = told(&json!({"$ref": "#"}), &json!({}));
    assert_eq!(root, "refused: the schema `#` refers to itself without looking into the value");
    for schema in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"if": {"$ref": "#/$defs/a"}}}}),
        json!({"dependentSchemas": {"x": {"$ref": "#"}}}),
    ] {
        let told = told(&schema, &json!({}));
        assert!(told.contains("refers to itself without looking into the value"), "{schema}: {told}");
    }
}

#[test]
fn a_schema_that_is_too_large_is_refused_with_both_numbers() {
    let deep = (0..120).fold(json!(true), |it, _| json!({"not": it}));
    assert_eq!(told(&deep, &json!(1)), "refused: the schema has 101 levels of nesting, the limit is 100");
    let wide = json!({"enum": vec!["x".repeat(100); 10_000]});
    assert!(told(&wide, &json!(1)).ends_with("bytes, the limit is 262144"), "{}", told(&wide, &json!(1)));
    let chain: serde_json::Map<String, Value> =
        (0..200).map(|it| (format!("d{it}"), json!({"$ref": format!("#/$defs/d{}", it + 1)}))).collect();
    let chain = json!({"$ref": "#/$defs/d0", "$defs": chain});
    assert!(told(&chain, &json!(1)).starts_with("refused: "));
    let many: Vec<Value> = (0..25_000).map(|_| json!({})).collect();
    assert!(told(&json!({"prefixItems": many}), &json!(1)).contains("subschemas, the limit is 10000"));
}

#[test]
fn nothing_outside_of_a_schema_is_read() {
    for reference in
        ["file:///etc/passwd", "http://127.0.0.1:1/x", "other.json", "#/nowhere", "#nowhere", "#%zz"]
    {
        let told = told(&json!({"$ref": reference}), &json!(1));
        assert!(told.starts_with(&format!("refused: `$ref` `{reference}` leads nowhere")), "{told}");
    }
    let inner = json!({"$defs": {"a": {"$id": "other", "$ref": "#/x"}}, "$ref": "#/$defs/a"});
    assert_eq!(told(&inner, &json!(1)), "refused: the keyword `$id` is not supported");
    assert_eq!(
        told(&json!({"$dynamicRef": "#a"}), &json!(1)),
        "refused: the keyword `$dynamicRef` is not supported"
    );
}

#[test]
fn patterns_that_are_too_large_are_refused_and_others_end() {
    assert!(told(&json!({"pattern": "((a{1,100}){1,100}){1,100}"}), &json!("a")).contains("is too large"));
    let slow = json!({"pattern": "^(?=(a|aa)+$)(a+)+$"});
    let start = Instant::now();
    assert_ne!(told(&slow, &json!(format!("{}!", "a".repeat(2000)))), "");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn what_schemas_usually_have_is_followed() {
    let tree = json!({
        "$id": "https://example.org/tree",
        "type": "object",
        "required": ["value"],
        "properties": {
            "value": {"type": "integer"},
            "$id": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#"}},
            "color": {"$ref": "https://example.org/tree#/$defs/a~1b%20c"},
            "name": {"$ref": "#name"},
        },
        "$defs": {"a/b c": {"enum": ["red", {"$id": "x", "type": "y"}]}, "n": {"$anchor": "name", "type": "string"}},
    });
    let leaf = json!({"value": 1, "color": "red", "name": "n", "$id": "mine"});
    assert_eq!(told(&tree, &json!({"value": 1, "children": [leaf, leaf]})), "");
    assert_eq!(told(&tree, &json!({"value": 1, "children": [{}]})), r#""value" is a required property"#);
    assert_eq!(told(&json!({"pattern": "^(?!a)b"}), &json!("bc")), "");
    assert_eq!(told(&json!({"type": "sttring"}), &json!(1)).split(':').next(), Some("refused"));
    let deep = (0..40).fold(json!({"value": 1}), |it, _| json!({"value": 1, "children": [it]}));
    assert_eq!(told(&tree, &deep), "");
    let rows: Vec<Value> = (0..20_000).map(|it| json!({"value": it})).collect();
    assert_eq!(told(&tree, &json!({"value": 1, "children": rows})), "");
}

#[test]
fn a_value_that_doubles_the_work_with_every_level_is_not_looked_at() {
    let twice = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
    let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": twice, "type": ["array", "integer"]}}});
    let nested = |n: usize| (0..n).fold(json!("x"), |it, _| json!([it]));
    assert_ne!(told(&schema, &nested(5)), "");
    assert!(told(&schema, &nested(100)).contains("checking it takes more than 1000000 steps"));
}

#[test]
fn schemas_that_are_passed_on_are_looked_at_too() {
    let checked = |schema: Value| SchemaValidator::check(&schema).map_err(|it| it.to_string());
    for fine in [
        json!({"type": "object"}),
        json!({"$ref": "https://example.org/x"}),
        json!({"$dynamicRef": "#a"}),
        json!({"$schema": "mine:1", "type": 7}),
    ] {
        assert_eq!(checked(fine.clone()), Ok(()), "{fine}");
    }
    assert!(checked(json!({"type": "objekt"})).is_err_and(|it| it.starts_with("invalid JSON Schema")));
    assert!(checked(doubling(30, &json!({}))).is_err_and(|it| it.contains("ways to apply it")));
}

#[test]
fn costly_keywords_are_bounded() {
    let items: Vec<Value> = (0..30_000).map(|it| json!({"a": it})).collect();
    let many: serde_json::Map<String, Value> = (0..20_000).map(|it| (format!("k{it}"), json!(it))).collect();
    let patterns: serde_json::Map<String, Value> =
        (0..500).map(|it| (format!("^k.*{it}$"), json!({}))).collect();
    for (schema, value) in [
        (json!({"uniqueItems": true}), json!(items)),
        (json!({"items": {"enum": (0..10_000).collect::<Vec<_>>()}}), json!(items)),
        (json!({"contains": {"anyOf": vec![json!({"type": "string"}); 500]}}), json!(items)),
        (json!({"patternProperties": patterns}), json!(many)),
        (
            json!({"unevaluatedProperties": false, "anyOf": vec![json!({"required": ["x"]}); 400]}),
            json!(many),
        ),
        (json!({"propertyNames": {"anyOf": vec![json!({"pattern": "(a|b)*c"}); 400]}}), json!(many)),
    ] {
        let start = Instant::now();
        let _ = told(&schema, &value);
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}: {}",
            start.elapsed(),
            &schema.to_string()[..60]
        );
    }
}

#[test]
fn the_deepest_value_that_is_looked_at_fits_on_a_small_stack() {
    let next = json!({"$ref": "#/$defs/a"});
    let chain = (0..20).fold(json!({"items": next}), |it, _| json!({"allOf": [it]}));
    let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": chain}});
    let work = move || {
        let validator = SchemaValidator::new(&schema).map_err(|err| err.to_string())?;
        let told: Vec<String> = (1..120)
            .map(|n| (0..n).fold(json!({"x": [1]}), |it, _| json!([it])))
            .flat_map(|value| validator.faults(&value))
            .map(|it| it.masked)
            .collect();
        Ok::<_, String>(told.join("\n"))
    };
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(work);
    let told = thread.map(std::thread::JoinHandle::join).expect("there are threads").expect("it fits");
    assert!(told.as_deref().is_ok_and(|it| it.contains("nested too deep for its schema")), "{told:?}");
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({"type": "string"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/x"})),
        Just(json!({"pattern": "a+b"})),
        Just(json!({"enum": [1, "a", null]})),
    ];
    let inner = leaf.prop_recursive(4, 40, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            list.clone().prop_map(|it| json!({"anyOf": it})),
            list.clone().prop_map(|it| json!({"allOf": it, "unevaluatedProperties": false})),
            list.prop_map(|it| json!({"prefixItems": it})),
            inner.clone().prop_map(|it| json!({"items": it, "contains": it})),
            inner.clone().prop_map(|it| json!({"properties": {"a": it}, "additionalProperties": it})),
            inner.clone().prop_map(|it| json!({"patternProperties": {"a|b": it}, "not": it})),
            inner.prop_map(|it| json!({"if": it, "then": it, "propertyNames": it})),
        ]
    });
    (inner.clone(), inner).prop_map(|(a, b)| json!({"items": a, "properties": {"b": a}, "$defs": {"x": b}}))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("aab")), Just(Value::Null)];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let map = proptest::collection::btree_map("[ab]", inner.clone(), 0..3);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            map.prop_map(|it| json!(it)),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_not_refused_is_judged_as_the_validator_alone_would(schema in any_schema(), value in any_value()) {
        let Ok(validator) = SchemaValidator::new(&schema) else { return Ok(()) };
        prop_assume!(meter::measure(&validator.0.graph, &value).is_ok());
        let plain = jsonschema::validator_for(&schema).expect("it was compiled before");
        prop_assert_eq!(validator.faults(&value).is_empty(), plain.is_valid(&value));
        prop_assert_eq!(validator.is_valid(&value), plain.is_valid(&value));
    }
}
