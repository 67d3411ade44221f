//! What a template reads, without rendering it.

use contexture_template::{Condition, Expression, Template, Variable};
use insta::assert_snapshot;

fn listed(variables: Vec<Variable>) -> String {
    variables.iter().map(|it| format!("{} {}\n", it.place, it.path.join("."))).collect()
}

/// Lists the variables of a template with their places.
fn variables(source: &str) -> String {
    listed(Template::parse(source).unwrap().variables())
}

#[test]
fn paths_come_in_order_and_once() {
    assert_snapshot!(variables("{{ input.name }} {{ ctx.now }}\n{{ input.name }}{{ input['a b'].c }}"), @r"
    1:4 input.name
    1:21 ctx.now
    2:20 input.a b.c
    ");
}

#[test]
fn a_path_ends_at_a_dynamic_index() {
    assert_snapshot!(variables("{{ input.rows[input.idx].name }}{{ a[0].b }}"), @r"
    1:4 input.rows
    1:15 input.idx
    1:36 a
    ");
}

#[test]
fn local_variables_are_left_out() {
    let source = "{{ x }}{% assign x = y %}{{ x }}{% for a in list limit: n %}{{ a.b }}{{ forloop.index }}{% endfor %}{{ a }}\
                  {% capture c %}{{ d }}{% endcapture %}{{ c }}{% increment e %}{{ e }}";
    assert_snapshot!(variables(source), @r"
    1:4 x
    1:22 y
    1:45 list
    1:57 n
    1:104 a
    1:126 d
    ");
}

#[test]
fn conditions_filters_and_partials_read_too() {
    let source = "{% if a and b == c %}{{ 1 | plus: d }}{% endif %}{% case e %}{% when f %}{% endcase %}{% render 'p', x: g %}\
                  {% cycle h: i, 'j' %}{% unless k %}{% elsif l %}{% endunless %}";
    let found = Template::parse(source).unwrap().variables();
    let names: Vec<&str> = found.iter().map(|it| it.path[0].as_str()).collect();
    assert_eq!(names.join(""), "abcdefghikl");
    assert_snapshot!(listed(Condition::parse("input.a > input.b").unwrap().variables()), @r"
    1:1 input.a
    1:11 input.b
    ");
    assert_snapshot!(listed(Expression::parse("input.a | append: b").unwrap().variables()), @r"
    1:1 input.a
    1:19 b
    ");
}

#[test]
fn partials_are_listed_by_name() {
    let template =
        Template::parse("{% render 'a' %}\n{% if x %}{% include \"b/c\" %}{% include d %}{% endif %}")
            .unwrap();
    let found: Vec<String> =
        template.partials().iter().map(|(name, place)| format!("{name} {place}")).collect();
    assert_eq!(found, ["a 1:1", "b/c 2:11"]);
}

#[test]
fn text_without_tags_is_a_literal() {
    let literal = |source: &str| Template::parse(source).unwrap().as_literal().map(str::to_owned);
    assert_eq!(literal(""), Some("".into()));
    assert_eq!(literal("a { b } %} c"), Some("a { b } %} c".into()));
    assert_eq!(literal("a {# b"), Some("a {# b".into()));
    assert_eq!(literal("a {{ b }}"), None);
    assert_eq!(literal("{% comment %}{% endcomment %}"), None);
    assert_eq!(literal("{{ }}"), None);
}
