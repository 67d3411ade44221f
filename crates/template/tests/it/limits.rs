//! Whatever a template does, it ends in time and in bounds.

use contexture_template::{ErrorKind, Expression, Globals, Limits, RenderConfig, Template};
use serde_json::{Value, json};

use crate::{Loaded, lenient, shown, try_render};

/// Runs a test on a stack of 2 MiB, as threads have it.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).unwrap().join().unwrap();
}

/// Renders with partials and returns the kind of the error.
fn kind(source: &str, data: Value, partials: &[(&str, &str)], limits: Limits) -> Option<ErrorKind> {
    let partials = Loaded::new(partials);
    let config = RenderConfig { partials: Some(&partials), limits, ..RenderConfig::lenient() };
    try_render(source, &data, &config).err().map(|it| it.kind())
}

fn limited(source: &str) {
    let started = std::time::Instant::now();
    let data = json!({"map": {"a": 1}});
    assert_eq!(kind(source, data, &[], Limits::default()), Some(ErrorKind::LimitExceeded), "{source}");
    assert!(started.elapsed().as_secs() < 120, "{source} took {:?}", started.elapsed());
}

#[test]
fn deep_nesting_does_not_parse() {
    on_a_small_stack(|| {
        for count in [110, 5_000, 100_000] {
            for block in [
                "{% if a %}",
                "{% for i in a %}",
                "{% capture x %}",
                "{% case x %}{% when 1 %}",
                "{% ifchanged %}",
            ] {
                let source = block.repeat(count);
                let source = source.get(..source.len().min(1 << 20)).unwrap();
                let source = source.get(..source.rfind("{%").unwrap()).unwrap();
                assert_eq!(Template::parse(source).unwrap_err().kind(), ErrorKind::LimitExceeded, "{block}");
            }
            for open in ["a[", "(", "["] {
                let source = format!("{{{{ {} }}}}", open.repeat(count));
                assert_eq!(Template::parse(&source).unwrap_err().kind(), ErrorKind::LimitExceeded, "{open}");
                assert_eq!(
                    Expression::parse(&open.repeat(count)).unwrap_err().kind(),
                    ErrorKind::LimitExceeded
                );
            }
        }
        let lines = format!("{{% {} %}}", "liquid ".repeat(5_000));
        assert_eq!(Template::parse(&lines).unwrap_err().kind(), ErrorKind::LimitExceeded);
    });
}

#[test]
fn the_deepest_nesting_allowed_works_on_a_small_stack() {
    on_a_small_stack(|| {
        let limits = Limits { nesting: usize::MAX, ..Limits::default() };
        let config = contexture_template::ParseConfig { limits, ..Default::default() };
        for (open, close) in [
            ("{% for i in (1..1) %}", "{% endfor %}"),
            ("{% if true %}", "{% endif %}"),
            ("{% case 1 %}{% when 1 %}", "{% endcase %}"),
            ("{% capture x %}", "{% endcapture %}{{ x }}"),
            ("{% tablerow i in (1..1) %}", "{% endtablerow %}"),
        ] {
            let depth = Limits::MAX_NESTING;
            let source = format!("{}x{}", open.repeat(depth), close.repeat(depth));
            let template = Template::parse_with(&source, &config).unwrap();
            let config = RenderConfig { limits, ..RenderConfig::strict() };
            let text = template.render(&Globals::default(), &config).unwrap();
            assert!(text.contains('x'), "{open}");
            assert!(template.variables().is_empty());
        }
        let indexes = format!("{}'a'{}", "a[".repeat(120), "]".repeat(120));
        assert!(Template::parse_with(&format!("{{{{ {indexes} }}}}"), &config).is_ok());
    });
}

#[test]
fn all_kinds_of_depth_together_fit_a_small_stack() {
    on_a_small_stack(|| {
        let limits = Limits { nesting: usize::MAX, ..Limits::default() };
        let indexes = format!("{}'k'{}", "a[".repeat(126), "]".repeat(126));
        let depth = Limits::MAX_NESTING - 1;
        let (open, close) = ("{% for i in (1..1) %}".repeat(depth), "{% endfor %}".repeat(depth));
        let source = format!(
            "{open}{{{{ {indexes} }}}}{{{{ deep }}}}{{{{ deep | json }}}}{{{{ deep | join }}}}{close}"
        );
        let deep = (0..190).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        let a = json!({"k": "k"});
        let config = contexture_template::ParseConfig { limits, ..Default::default() };
        let template = Template::parse_with(&source, &config).unwrap();
        let config = RenderConfig { limits, ..RenderConfig::strict() };
        let text = template.render(&Globals::new(&[("a", &a), ("deep", &deep)]), &config).unwrap();
        assert!(text.starts_with("k1[[[") && text.ends_with("]]]1"), "{text}");
    });
}

#[test]
fn partials_that_call_themselves_come_to_an_end() {
    on_a_small_stack(|| {
        let limits = Limits { nesting: usize::MAX, ..Limits::default() };
        for (source, partials) in [
            ("{% render 'a' %}", vec![("a", "{% render 'a' %}")]),
            ("{% include 'a' %}", vec![("a", "{% include 'a' %}")]),
            (
                "{% include 'a' %}",
                vec![
                    ("a", "{% if true %}{% include 'b' %}{% endif %}"),
                    ("b", "{% render 'c' %}"),
                    ("c", "{% render 'c' %}"),
                ],
            ),
            ("{% render 'a' for (1..9) %}", vec![("a", "{% render 'a' for (1..9) %}")]),
            (
                "{% include 'a' %}",
                vec![(
                    "a",
                    "{% for i in (1..2) %}{% capture x %}{% include 'a' %}{% endcapture %}{% endfor %}",
                )],
            ),
        ] {
            assert_eq!(
                kind(source, json!({}), &partials, limits),
                Some(ErrorKind::LimitExceeded),
                "{source}"
            );
        }
    });
}

#[test]
fn deep_data_does_not_overflow_the_stack() {
    on_a_small_stack(|| {
        let deep = || (0..1_000).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        let data = Value::Object([("a".into(), deep()), ("b".into(), deep())].into_iter().collect());
        for source in [
            "{{ a }}",
            "{{ a | join }}",
            "{{ a | json }}",
            "{% if a == b %}{% endif %}",
            "{{ a | uniq }}",
            "{{ a | sum }}",
        ] {
            assert_eq!(
                kind(source, data.clone(), &[], Limits::default()),
                Some(ErrorKind::LimitExceeded),
                "{source}"
            );
        }
        let value = Expression::parse("a")
            .unwrap()
            .evaluate(&Globals::new(&[("a", &data["a"])]), &RenderConfig::strict());
        assert_eq!(value.unwrap_err().kind(), ErrorKind::LimitExceeded);
    });
}

#[test]
fn data_as_deep_as_json_parses_is_fine() {
    let text = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    let data = json!({"a": serde_json::from_str::<Value>(&text).unwrap()});
    assert_eq!(lenient("{{ a }}", data.clone()), "1");
    assert_eq!(lenient("{{ a | json }}", data), text);
}

#[test]
fn long_loops_end() {
    limited("{% for i in (1..999999999) %}{% endfor %}");
    limited("{% for i in (-9223372036854775808..9223372036854775807) %}{% endfor %}");
    limited("{% tablerow i in (1..999999999) %}{% endtablerow %}");
    limited("{% for i in (1..9999) %}{% for j in (1..9999) %}{% endfor %}{% endfor %}");
    limited("{{ (1..999999999) | join }}");
    limited("{{ (1..999999999) | reverse | first }}");
    limited("{{ (1..999999999) | sum }}");
    limited("{{ (1..999999999) | json }}");
    assert_eq!(
        lenient("{{ (1..999999999) | size }}{{ (1..999999999) | last }}", json!({})),
        "999999999999999999"
    );
}

#[test]
fn doubling_texts_end() {
    let double = |step: &str| {
        limited(&format!("{{% assign x = 'abcdefgh' %}}{{% for i in (1..64) %}}{step}{{% endfor %}}"))
    };
    double("{% assign x = x | append: x %}");
    double("{% assign x = x | prepend: x %}");
    double("{% capture x %}{{ x }}{{ x }}{% endcapture %}");
    double("{% assign x = x | replace: '', x %}");
    double("{% assign x = x | replace: 'a', x %}");
    double("{% assign x = x | append: x | split: '' | join: x %}");
    double(
        "{% assign x = x | append: x %}{% assign y = x | split: '' %}{% assign y = y | concat: y | reverse | sort %}",
    );
    double("{% assign x = x | append: x | url_encode | escape | base64_encode %}");
    double("{{ x }}{% assign x = x | append: x %}");
}

#[test]
fn reading_long_texts_again_and_again_ends() {
    let long = "{% assign x = 'abcdefgh' %}{% for i in (1..18) %}{% assign x = x | append: x %}{% endfor %}";
    for step in [
        "{% if x == blank %}{% endif %}",
        "{{ x | size }}",
        "{{ x.size }}",
        "{% if x contains 'z' %}{% endif %}",
        "{{ x | slice: 1 }}",
        "{% assign y = x | strip_html %}",
        "{% if x < x %}{% endif %}",
        "{{ x | truncate: 3 }}",
        "{{ map[x] }}",
        "{{ [x] }}",
        "{% if map contains x %}{% endif %}",
        "{% assign y = map | where: x %}",
    ] {
        limited(&format!("{long}{{% for i in (1..100000) %}}{step}{{% endfor %}}"));
    }
}

#[test]
fn output_and_source_are_bounded() {
    limited("{% for i in (1..500000) %}{{ 'aaaaaaaaaaaaaaaa' }}{% endfor %}");
    let limits = Limits { output_bytes: 10, ..Limits::default() };
    assert_eq!(kind("1234567890", json!({}), &[], limits), None);
    assert_eq!(kind("12345678901", json!({}), &[], limits), Some(ErrorKind::LimitExceeded));
    let source = "a".repeat((1 << 20) + 1);
    assert_eq!(Template::parse(&source).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn hostile_sources_parse_in_linear_time() {
    let started = std::time::Instant::now();
    for (start, part, end) in [
        ("{% raw %}", "{%", "%}{% endraw %}"),
        ("{% comment %}", "{{{%%}", "}}"),
        ("{% comment %}", "{%raw%}", "%}"),
        ("{% doc %}", "{{ {%", "%}{% enddoc %}"),
        ("", "{", ""),
        ("", "{{a}}", ""),
        ("{{ a", " | upcase", " }}"),
        ("{% if a", " and a", "%}{% endif %}"),
        ("{{ a", ".b", " }}"),
        ("{% if a %}", "{% elsif a %}", "{% endif %}"),
        ("{% liquid\n", "echo a\n", "%}"),
        ("{% cycle a", ",a", "%}"),
        ("{{ '", "<script", "' | strip_html }}"),
        ("{{ '", "<!--", "' | strip_html }}"),
        ("{{ '", "&a", "' | escape_once }}"),
    ] {
        let source = format!("{start}{}{end}", part.repeat(1_000_000 / part.len()));
        let _ = try_render(&source, &json!({"a": 1}), &RenderConfig::lenient());
    }
    assert!(started.elapsed().as_secs() < 300, "took {:?}", started.elapsed());
}

#[test]
fn large_numbers_neither_wrap_nor_panic() {
    let max = "170141183460469231731687303715884105727";
    for filter in [
        "plus: 1",
        "minus: -1",
        "times: 99",
        "divided_by: -1",
        "modulo: -1",
        "abs",
        "round: 99",
        "round: -99",
        "ceil",
        "floor",
        "at_least: 1",
    ] {
        for number in [
            max,
            &format!("-{max}8"),
            &format!("-{max}"),
            "1.5",
            "99999999999999999999.5",
            "-0.000000000000000000001",
        ] {
            lenient(&format!("{{{{ {number} | {filter} }}}}"), json!({}));
            lenient(
                &format!("{{{{ {number} | {filter} | {filter} | slice: {number}, {number} }}}}"),
                json!({}),
            );
        }
    }
    let big = format!(
        "{{{{ 'abc' | slice: {max}, {max} }}}}{{{{ 'abc' | truncate: {max} }}}}{{{{ 'abc' | truncatewords: {max} }}}}"
    );
    assert_eq!(lenient(&big, json!({})), "abcabc");
    assert_eq!(lenient(&format!("{{{{ a[{max}] }}}}{{{{ a[-{max}] }}}}"), json!({"a": [1]})), "");
    assert_eq!(lenient(&format!("{{{{ {max} | date: '%Y' }}}}"), json!({})), max);
    assert!(lenient("{{ 1 | date: '%99999999999d' }}", json!({})).starts_with("LimitExceeded"));
}

#[test]
fn partials_that_render_each_other_are_named() {
    let circle = |sources: &[(&str, &str)]| {
        let partials = Loaded::new(sources);
        let config = RenderConfig { partials: Some(&partials), ..RenderConfig::strict() };
        shown(try_render("{% render 'a' %}", &json!({}), &config))
    };
    insta::assert_snapshot!(
        circle(&[("a", "{% render 'b' %}"), ("b", "{% if true %}{% render 'c' %}{% endif %}"), ("c", "{% render 'b' %}")]),
        @"LimitExceeded c:1:1: partials render each other more than 100 deep: b -> c -> b"
    );
    insta::assert_snapshot!(circle(&[("a", "x {% render 'a' %}")]), @"LimitExceeded a:1:3: partials render each other more than 100 deep: a -> a");
}
