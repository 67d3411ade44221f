//! No template and no data make the engine panic, and equal inputs give equal bytes.

use contexture_template::{Condition, Expression, Limits, RenderConfig, Template};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Loaded, try_render};

const FRAGMENTS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{%-",
    "-%}",
    "{{-",
    "-}}",
    " ",
    "\n",
    "a",
    "b.c",
    "x",
    "input",
    "input.list",
    "input.map",
    "input.text",
    ".size",
    ".first",
    ".last",
    "[0]",
    "[-1]",
    "[",
    "]",
    "['k']",
    "(1..3)",
    "(1..x)",
    "(",
    ")",
    "..",
    ".",
    "|",
    ":",
    ",",
    "'s'",
    "\"ä€\"",
    "'",
    "1",
    "-2",
    "3.5",
    "99999999999999999999",
    "nil",
    "true",
    "empty",
    "blank",
    "==",
    "!=",
    "<",
    ">=",
    "contains",
    "and",
    "or",
    "=",
    "#",
    "é",
    "\0",
    "{% if x %}",
    "{% elsif a %}",
    "{% else %}",
    "{% endif %}",
    "{% unless a %}",
    "{% endunless %}",
    "{% case a %}",
    "{% when 1, 'a' %}",
    "{% endcase %}",
    "{% for x in input.list %}",
    "{% for i in (1..4) reversed limit: 2 offset: continue %}",
    "{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% tablerow r in input.map cols: 2 %}",
    "{% endtablerow %}",
    "{% assign x = ",
    "{% assign x = x | append: x %}",
    "{% capture x %}",
    "{% endcapture %}",
    "{% increment x %}",
    "{% decrement a %}",
    "{% cycle 'a', x %}",
    "{% cycle x: 1, 2 %}",
    "{% ifchanged %}",
    "{% endifchanged %}",
    "{% comment %}",
    "{% endcomment %}",
    "{% raw %}",
    "{% endraw %}",
    "{% doc %}",
    "{% enddoc %}",
    "{% liquid ",
    "{% render 'p', x: input %}",
    "{% render 'p' for input.list as x %}",
    "{% include 'p' %}",
    "{% include 'q' with x %}",
    "{{ x }}",
    "{{ input }}",
    "{{ forloop.index }}",
    "{{ forloop.parentloop.last }}",
    "{{ a[x] }}",
    "{{ [x] }}",
];

const FILTERS: &[&str] = &[
    "abs",
    "append",
    "at_least",
    "at_most",
    "base64_decode",
    "base64_encode",
    "base64_url_safe_decode",
    "capitalize",
    "ceil",
    "compact",
    "concat",
    "date",
    "default",
    "divided_by",
    "downcase",
    "escape",
    "escape_once",
    "find",
    "find_index",
    "first",
    "floor",
    "has",
    "join",
    "json",
    "last",
    "lstrip",
    "map",
    "minus",
    "modulo",
    "newline_to_br",
    "plus",
    "prepend",
    "reject",
    "remove",
    "remove_first",
    "remove_last",
    "replace",
    "replace_first",
    "replace_last",
    "reverse",
    "round",
    "size",
    "slice",
    "sort",
    "sort_natural",
    "split",
    "squish",
    "strip",
    "strip_html",
    "sum",
    "strip_newlines",
    "times",
    "truncate",
    "truncatewords",
    "uniq",
    "upcase",
    "url_decode",
    "url_encode",
    "where",
];

const ARGUMENTS: &[&str] = &[
    "",
    ": 0",
    ": 1",
    ": -1",
    ": 'a'",
    ": ''",
    ": nil",
    ": x",
    ": input.list",
    ": input.map",
    ": 2, 3",
    ": 'k', 'v'",
    ": -3, 9",
    ": 1.5",
    ": '%Y %-d %^a %N %10s'",
    ": (1..5)",
    ": 170141183460469231731687303715884105727",
    ": -170141183460469231731687303715884105727",
    ": true",
    ": empty",
];

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        "[a-c ä€<>&%'\"\\n1-3.:-]{0,12}".prop_map(Value::from),
        Just(json!("March 14, 2016 10:30 pm +02:00")),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[akvé ]{1,2}", inner), 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn fragments() -> impl Strategy<Value = String> {
    let pipe = (prop::sample::select(FILTERS), prop::sample::select(ARGUMENTS))
        .prop_map(|(name, arguments)| format!("{{{{ x | {name}{arguments} }}}}"));
    let fragment = prop_oneof![
        5 => prop::sample::select(FRAGMENTS).prop_map(str::to_owned),
        2 => pipe,
        1 => "\\PC{0,4}",
    ];
    prop::collection::vec(fragment, 0..24).prop_map(|it| it.concat())
}

/// Renders twice with small limits, compares, and checks the size.
fn check(source: &str, x: &Value) {
    let partials = Loaded::new(&[
        ("p", "{{ x }}{% include 'p' %}"),
        ("q", "{% for y in q %}{{ y }}{% include 'q' %}{% endfor %}"),
    ]);
    let limits = Limits { steps: 20_000, output_bytes: 5_000, built_bytes: 100_000, ..Limits::default() };
    let data =
        json!({"x": x, "input": {"list": [1, x, "two"], "map": {"k": x, "v": 2}, "text": "a b"}, "a": x});
    for base in [RenderConfig::strict(), RenderConfig::lenient()] {
        let config = RenderConfig { partials: Some(&partials), limits, now: Some("1700000000"), ..base };
        let run = || try_render(source, &data, &config).map_err(|err| err.with_place().to_string());
        let first = run();
        assert_eq!(first, run());
        assert!(first.is_err() || first.is_ok_and(|it| it.len() <= 5_000));
    }
    if let Ok(template) = Template::parse(source) {
        template.variables();
        template.partials();
        assert_eq!(template.source(), source);
        if let Some(literal) = template.as_literal() {
            let text = template.render(&Default::default(), &RenderConfig::lenient()).unwrap();
            assert_eq!(text, literal);
        }
    }
    let _ = Condition::parse(source);
    let _ = Expression::parse(source);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn templates_of_fragments_never_panic(source in fragments(), x in data()) {
        check(&source, &x);
    }

    #[test]
    fn any_text_never_panics(source in "\\PC{0,60}", x in data()) {
        check(&source, &x);
    }

    #[test]
    fn filters_take_any_value(
        x in data(),
        calls in prop::collection::vec((prop::sample::select(FILTERS), prop::sample::select(ARGUMENTS)), 1..5),
    ) {
        // A wrong number of arguments does not parse, so each call is tried alone as well.
        let pipes: Vec<String> = calls.iter().map(|(name, arguments)| format!(" | {name}{arguments}")).collect();
        check(&format!("{{{{ x{} }}}}", pipes.concat()), &x);
        for pipe in &pipes {
            check(&format!("{{{{ x{pipe} }}}}"), &x);
        }
    }
}
