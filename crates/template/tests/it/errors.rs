//! Errors of authors, with their places.

use insta::assert_snapshot;
use serde_json::json;

use crate::{lenient, parse_error};

#[test]
fn places_count_from_where_the_template_begins_in_its_file() {
    assert_snapshot!(parse_error("{{ x | nope }}"), @"UnknownFilter p.md:4:10: unknown filter `nope`");
    assert_snapshot!(parse_error("é\n{{ x | nope }}"), @"UnknownFilter p.md:5:8: unknown filter `nope`");
}

#[test]
fn unclosed_things_point_to_where_they_open() {
    assert_snapshot!(parse_error("a {{ b"), @"Syntax p.md:4:5: output `{{` is not closed by `}}`");
    assert_snapshot!(parse_error("a {% b"), @"Syntax p.md:4:5: tag `{%` is not closed by `%}`");
    assert_snapshot!(parse_error("a {{ b {% c %}"), @"Syntax p.md:4:5: output `{{` is not closed by `}}`");
    assert_snapshot!(parse_error("{% if a %}{% for b in c %}{% endfor %}"), @"Syntax p.md:4:3: tag `if` is not closed by `endif`");
    assert_snapshot!(parse_error("\n{% raw %}"), @"Syntax p.md:5:1: tag `raw` is not closed by `endraw`");
    assert_snapshot!(parse_error("{% comment %}"), @"Syntax p.md:4:3: tag `comment` is not closed by `endcomment`");
    assert_snapshot!(parse_error("{{ 'a }}"), @"Syntax p.md:4:6: string is not closed by `'`");
}

#[test]
fn tags_stand_where_they_belong() {
    assert_snapshot!(parse_error("{% fro x in y %}"), @"UnknownTag p.md:4:6: unknown tag `fro`");
    assert_snapshot!(parse_error("{% %}"), @"Syntax p.md:4:3: tag has no name");
    assert_snapshot!(parse_error("{% endif %}"), @"UnknownTag p.md:4:6: tag `endif` does not belong to an open block");
    assert_snapshot!(parse_error("{% if a %}{% endfor %}{% endif %}"), @"UnknownTag p.md:4:16: tag `endfor` stands where `endif` is expected");
    assert_snapshot!(parse_error("{% else %}"), @"UnknownTag p.md:4:6: tag `else` does not belong to an open block");
    assert_snapshot!(parse_error("{% if a %}{% liquid endif %}"), @"UnknownTag p.md:4:23: tag `endif` does not belong to an open block");
}

#[test]
fn markup_is_checked() {
    assert_snapshot!(parse_error("{{ a b }}"), @"Syntax p.md:4:8: expected the end, found `b`");
    assert_snapshot!(parse_error("{{ a. }}"), @"Syntax p.md:4:8: expected a name, found the end");
    assert_snapshot!(parse_error("{{ a[ }}"), @"Syntax p.md:4:8: expected a value, found the end");
    assert_snapshot!(parse_error("{{ 1 + 2 }}"), @"Syntax p.md:4:8: unexpected character `+`");
    assert_snapshot!(parse_error("{{ a | }}"), @"Syntax p.md:4:9: expected a name, found the end");
    assert_snapshot!(parse_error("{% if %}{% endif %}"), @"Syntax p.md:4:8: expected a value, found the end");
    assert_snapshot!(parse_error("{% for x of y %}{% endfor %}"), @"Syntax p.md:4:12: expected `in`, found `of`");
    assert_snapshot!(parse_error("{% for x in y step: 2 %}{% endfor %}"), @"Syntax p.md:4:17: unknown loop argument `step`");
    assert_snapshot!(parse_error("{% assign x 1 %}"), @"Syntax p.md:4:15: expected `=`, found `1`");
    assert_snapshot!(parse_error("{% render name %}"), @"Syntax p.md:4:13: the name of a partial stands in quotes");
    assert_snapshot!(parse_error("{% # a\n b %}"), @"Syntax p.md:5:2: each line of an inline comment begins with `#`");
}

#[test]
fn arguments_of_filters_are_counted() {
    assert_snapshot!(parse_error("{{ a | append }}"), @"Argument p.md:4:10: filter `append` takes 1 argument, found 0");
    assert_snapshot!(parse_error("{{ a | slice: 1, 2, 3 }}"), @"Argument p.md:4:10: filter `slice` takes 1 to 2 arguments, found 3");
    assert_snapshot!(parse_error("{{ a | upcase: 1 }}"), @"Argument p.md:4:10: filter `upcase` takes no arguments, found 1");
    assert_snapshot!(parse_error("{{ a | upcase: b: 1 }}"), @"Argument p.md:4:10: filter `upcase` has no argument `b`");
}

#[test]
fn filters_say_what_they_cannot_work_with() {
    let data = json!({"list": [1, "a"], "ints": [1, 2]});
    assert_snapshot!(lenient("{{ 1 | divided_by: 0 }}", data.clone()), @"Argument 1:8: division by zero");
    assert_snapshot!(lenient("{{ 1 | modulo: 0.0 }}", data.clone()), @"Argument 1:8: division by zero");
    assert_snapshot!(lenient("{{ list | sort }}", data.clone()), @r#"Argument 1:11: `1` and `"a"` cannot be sorted"#);
    assert_snapshot!(lenient("{{ ints | map: 'x' }}", data.clone()), @r#"Argument 1:11: `1` has no property `"x"`"#);
    assert_snapshot!(lenient("{{ 'abc' | slice: 'x' }}", data.clone()), @r#"Argument 1:12: `"x"` is not a whole number"#);
    assert_snapshot!(lenient("{{ list | concat: 5 }}", data.clone()), @"Argument 1:11: `concat` needs a list, found `5`");
    assert_snapshot!(lenient("{{ '$' | base64_decode }}", data.clone()), @"Argument 1:10: the text is not valid Base64");
    assert_snapshot!(lenient("{{ '%ff' | url_decode }}", data.clone()), @"Argument 1:12: the decoded text is not valid UTF-8");
    assert_snapshot!(lenient("{{ 'now' | date: '%Y' }}", data), @"Argument 1:12: the current time is not known here");
}
