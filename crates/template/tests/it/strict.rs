//! Absent variables in strict mode.

use contexture_template::{ErrorKind, RenderConfig};
use insta::assert_snapshot;
use serde_json::json;

use crate::{Loaded, shown, strict, try_render};

fn data() -> serde_json::Value {
    json!({"input": {"name": "Ada", "none": null, "list": [1]}})
}

#[test]
fn an_absent_key_is_an_error_with_its_place_and_path() {
    assert_snapshot!(strict("a\nb {{ input.nme }}", data()), @"UndefinedVariable 2:6: undefined variable `input.nme`");
    assert_snapshot!(strict("{{ inptu }}", data()), @"UndefinedVariable 1:4: undefined variable `inptu`");
    assert_snapshot!(strict("{{ input.none.deep.er }}", data()), @"UndefinedVariable 1:4: undefined variable `input.none.deep.er`");
    assert_snapshot!(strict("ä{{input['a b'].c}}", data()), @r#"UndefinedVariable 1:4: undefined variable `input["a b"].c`"#);
    assert_snapshot!(strict("{{ input.list[3] }}", data()), @"UndefinedVariable 1:4: undefined variable `input.list[3]`");
    assert_snapshot!(strict("{{ input.name.nope }}", data()), @"UndefinedVariable 1:4: undefined variable `input.name.nope`");
}

#[test]
fn a_slip_of_the_pen_is_guessed() {
    let hint = |template: &str| {
        try_render(template, &data(), &RenderConfig::strict())
            .err()
            .map(|it| it.hint().unwrap_or("none").to_owned())
    };
    assert_eq!(hint("{{ input.nme }}").as_deref(), Some("did you mean `input.name`?"));
    assert_eq!(hint("{{ inpt.name }}").as_deref(), Some("did you mean `input.name`?"));
    assert_eq!(hint("{{ input.weather }}").as_deref(), Some("none"));
    let unknown = |template: &str| {
        contexture_template::Template::parse(template).err().map(|it| it.hint().unwrap_or("none").to_owned())
    };
    assert_eq!(unknown("{{ x | upcas }}").as_deref(), Some("did you mean `upcase`?"));
    assert_eq!(unknown("{{ x | translate_to_latin }}").as_deref(), Some("none"));
}

#[test]
fn null_is_defined() {
    assert_eq!(strict("[{{ input.none }}]", data()), "[]");
}

#[test]
fn default_and_conditions_accept_absent_keys() {
    assert_eq!(strict("{{ input.nme | default: 'you' }}", data()), "you");
    assert_eq!(strict("{% assign x = a.b.c | default: 'y' | upcase %}{{ x }}", data()), "Y");
    assert_eq!(strict("{% if input.vip %}a{% elsif input.x.y == 1 %}b{% else %}c{% endif %}", data()), "c");
    assert_eq!(strict("{% unless input.vip %}a{% endunless %}", data()), "a");
    assert_eq!(
        strict("{% case input.plan %}{% when input.other %}same{% else %}b{% endcase %}", data()),
        "same"
    );
}

#[test]
fn default_as_second_filter_is_too_late() {
    assert_snapshot!(
        strict("{{ input.nme | upcase | default: 'you' }}", data()),
        @"UndefinedVariable 1:4: undefined variable `input.nme`"
    );
}

#[test]
fn loops_and_arguments_do_not_accept_absent_keys() {
    assert_snapshot!(strict("{% for x in input.rows %}{% endfor %}", data()), @"UndefinedVariable 1:13: undefined variable `input.rows`");
    assert_snapshot!(strict("{{ 'a' | append: input.b }}", data()), @"UndefinedVariable 1:18: undefined variable `input.b`");
    assert_snapshot!(strict("{{ input[key] }}", data()), @"UndefinedVariable 1:10: undefined variable `key`");
    assert_snapshot!(strict("{% assign x = y %}", data()), @"UndefinedVariable 1:15: undefined variable `y`");
    assert_snapshot!(strict("{% for i in (1..n) %}{% endfor %}", data()), @"UndefinedVariable 1:17: undefined variable `n`");
}

#[test]
fn local_variables_are_defined() {
    let source = "{% assign a = 1 %}{% capture b %}{{ a }}{% endcapture %}{% for c in input.list %}{{ c }}{{ forloop.index }}{{ b }}{% endfor %}";
    assert_eq!(strict(source, data()), "111");
    assert_snapshot!(
        strict("{% for c in input.list %}{% endfor %}{{ c }}", data()),
        @"UndefinedVariable 1:41: undefined variable `c`"
    );
}

#[test]
fn an_error_in_a_partial_names_the_partial() {
    let partials = Loaded::new(&[("card", "line\n  {{ title }}")]);
    let config = RenderConfig { partials: Some(&partials), ..RenderConfig::strict() };
    assert_snapshot!(
        shown(try_render("{% render 'card' %}", &data(), &config)),
        @"UndefinedVariable card:2:6: undefined variable `title`"
    );
    let err = try_render("\n {% render 'crad' %}", &data(), &config).unwrap_err();
    assert_eq!((err.kind(), err.name()), (ErrorKind::MissingPartial, None));
    assert_eq!(err.with_place().to_string(), "2:2: no partial `crad`");
}
