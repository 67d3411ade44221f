//! What the tags do.

use contexture_template::RenderConfig;
use insta::assert_snapshot;
use serde_json::json;

use crate::{Loaded, lenient, shown, try_render};

/// Renders with partials, in lenient mode.
fn with_partials(source: &str, partials: &[(&str, &str)]) -> String {
    let partials = Loaded::new(partials);
    let config = RenderConfig { partials: Some(&partials), ..RenderConfig::lenient() };
    let data = json!({"list": [{"n": 1}, {"n": 2}], "g": "global"});
    shown(try_render(source, &data, &config))
}

#[test]
fn a_loop_tells_its_body_where_it_is() {
    let source = "{% for x in list %}{{ forloop.index }}/{{ forloop.length }}{% if forloop.first %} first{% endif %}\
                  {% if forloop.last %} last{% endif %} {{ forloop.rindex0 }} {{ forloop.name }};{% endfor %}";
    assert_snapshot!(lenient(source, json!({"list": ["a", "b"]})), @"1/2 first 1 x-list;2/2 last 0 x-list;");
}

#[test]
fn a_loop_takes_limit_offset_and_reversed() {
    let loops =
        |args: &str| lenient(&format!("{{% for i in (1..6) {args} %}}{{{{ i }}}}{{% endfor %}}"), json!({}));
    assert_eq!(loops("limit: 2"), "12");
    assert_eq!(loops("offset: 4"), "56");
    assert_eq!(loops("reversed, limit: 2, offset: 1"), "32");
    assert_eq!(loops("limit: 0"), "");
    assert_eq!(loops("limit: -1"), "");
    assert_eq!(loops("offset: -3 limit: 5"), "12");
    assert_eq!(
        loops("offset: 99999999999999999999999999999999999999999"),
        "Argument 1:1: `1.0e+41` is not a whole number"
    );
}

#[test]
fn a_loop_continues_where_the_last_one_ended() {
    let source = "{% for i in (1..6) limit: 2 %}{{ i }}{% endfor %}|{% for i in (1..6) limit: 3 offset: continue %}{{ i }}{% endfor %}|\
                  {% for i in (1..6) offset: continue %}{{ i }}{% endfor %}";
    assert_snapshot!(lenient(source, json!({})), @"12|345|6");
}

#[test]
fn an_empty_loop_shows_its_else() {
    for empty in ["empty", "nil", "nosuch", "''", "(3..1)", "12"] {
        let source = format!("{{% for i in {empty} %}}{{{{ i }}}}{{% else %}}none{{% endfor %}}");
        assert_eq!(lenient(&source, json!({})), "none", "{empty}");
    }
}

#[test]
fn break_and_continue_act_on_the_innermost_loop() {
    let source = "{% for i in (1..3) %}{% for j in (1..9) %}{% if j == 2 %}{% continue %}{% endif %}\
                  {% if j > 3 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}";
    assert_snapshot!(lenient(source, json!({})), @"11 13 21 23 31 33 ");
}

#[test]
fn a_loop_over_a_map_gives_pairs_in_order() {
    let data = json!({"map": {"z": 1, "a": [2, 3]}});
    assert_snapshot!(lenient("{% for p in map %}{{ p[0] }}={{ p.last }};{% endfor %}", data), @"z=1;a=23;");
}

#[test]
fn white_space_control_eats_newlines() {
    assert_eq!(lenient("a \n {{- 'b' -}} \n c", json!({})), "abc");
    assert_eq!(lenient("a \n {%- if true -%} \n b \n {%- endif -%} \n c", json!({})), "abc");
    assert_eq!(lenient("a{% raw -%} {{ x }} {%- endraw %} b", json!({})), "a {{ x }}  b");
}

#[test]
fn a_block_that_shows_nothing_leaves_no_white_space() {
    assert_eq!(lenient("a{% if true %}\n  {% assign x = 1 %}\n{% endif %}b{{ x }}", json!({})), "ab1");
    assert_eq!(
        lenient("a{% for i in (1..3) %}\n {% comment %}x{% endcomment %} {% endfor %}b", json!({})),
        "ab"
    );
    assert_eq!(lenient("a{% if true %} {% else %}x{% endif %}b", json!({})), "a b");
    assert_eq!(lenient("{% capture x %}  {% endcapture %}[{{ x }}]", json!({})), "[  ]");
}

#[test]
fn case_shows_each_match_and_else_if_there_was_none() {
    let source =
        "{% case x %} ignored {% when 1, 2 %}low{% when 'a' or blank %}text{% else %}other{% endcase %}";
    assert_eq!(lenient(source, json!({"x": 2})), "low");
    assert_eq!(lenient(source, json!({"x": "a"})), "text");
    assert_eq!(lenient(source, json!({"x": " "})), "text");
    assert_eq!(lenient(source, json!({"x": 3})), "other");
}

#[test]
fn cycles_go_by_their_name_or_their_values() {
    let source = "{% for i in (1..4) %}{% cycle 'a', 'b', 'c' %}{% cycle n: 1, 2 %}{% endfor %}";
    assert_snapshot!(lenient(source, json!({})), @"a1b2c1a2");
}

#[test]
fn counters_are_apart_from_variables() {
    let source = "{% assign n = 9 %}{% increment n %}{% increment n %}{% decrement m %}{% decrement m %}{{ n }}{{ m }}";
    assert_snapshot!(lenient(source, json!({})), @"01-1-29-2");
}

#[test]
fn ifchanged_shows_what_is_new() {
    let source = "{% for i in list %}{% ifchanged %}{{ i }}{% endifchanged %}{% endfor %}";
    assert_snapshot!(lenient(source, json!({"list": [1, 1, 2, 2, 1]})), @"121");
}

#[test]
fn a_liquid_tag_has_a_tag_on_each_line() {
    let source = "{% liquid\n  assign x = 2\n  # a comment\n  for i in (1..x)\n    echo i | times: 10\n  endfor\n  comment\n    echo 'no'\n  endcomment\n%}";
    assert_snapshot!(lenient(source, json!({})), @"1020");
}

#[test]
fn comments_and_docs_show_nothing() {
    let source = "a{% comment %}{% if %}{% comment %}{% endcomment %}{{ x {% endcomment %}b{% doc %} {{ {% enddoc %}c{% # d %}";
    assert_snapshot!(lenient(source, json!({})), @"Syntax 1:2: tag `comment` is not closed by `endcomment`");
    let source = "a{% comment %}{% if %}{% comment %}{% endcomment %}{% endcomment %}b{% doc %} {{ {% enddoc %}c{% # d %}";
    assert_snapshot!(lenient(source, json!({})), @"abc");
}

#[test]
fn a_table_row_has_columns() {
    let source = "{% tablerow i in (1..3) cols: 2 %}{{ i }}{% if tablerowloop.col_last %}!{% endif %}{% endtablerow %}";
    assert_eq!(
        lenient(source, json!({})),
        "<tr class=\"row1\">\n<td class=\"col1\">1</td><td class=\"col2\">2!</td></tr>\n<tr class=\"row2\"><td class=\"col1\">3</td></tr>\n"
    );
}

#[test]
fn a_rendered_partial_sees_arguments_and_globals_only() {
    let partials = [("p", "{{ a }}|{{ b }}|{{ g }}{% assign a = 'x' %}{% increment n %}{% break %}no")];
    let source = "{% assign a = 1 %}{% assign b = 2 %}{% increment n %} {% render 'p', b: 3 %} {{ a }}{% increment n %}";
    assert_snapshot!(with_partials(source, &partials), @"0 |3|global0 11");
}

#[test]
fn a_partial_is_rendered_for_each_item() {
    let partials =
        [("dir/item", "{{ item.n }}{% unless forloop.last %}, {% endunless %}"), ("row", "{{ x.n }};")];
    assert_snapshot!(with_partials("{% render 'dir/item' for list %}", &partials), @"1, 2");
    assert_snapshot!(with_partials("{% render 'row' for list as x %}{% render 'row' with list[1] as x %}", &partials), @"1;2;2;");
}

#[test]
fn an_included_partial_shares_the_variables() {
    let partials = [("p", "{{ a }}{% assign a = 'x' %}{{ arg }}"), ("q", "{% break %}")];
    assert_snapshot!(with_partials("{% assign a = 1 %}{% include 'p', arg: 2 %}{{ a }}{{ arg }}", &partials), @"12x");
    assert_snapshot!(with_partials("{% for i in (1..3) %}{{ i }}{% include 'q' %}{% endfor %}", &partials), @"1");
    assert_snapshot!(with_partials("{% render 'r' %}", &[("r", "{% include 'r' %}")]), @"UnknownTag r:1:1: tag `include` is not allowed inside `render`");
}

#[test]
fn values_print_as_text() {
    let data = json!({"list": [1, [2, null], "x"], "map": {"a": [true, 1.5], "b": null}, "big": 18446744073709551615u64});
    let source = "{{ list }} {{ map }} {{ big }} {{ 1.0 }} {{ 1e2 }}";
    assert_snapshot!(lenient(source, data.clone()), @"Syntax 1:46: expected the end, found `e2`");
    let source = "{{ list }} {{ map }} {{ big }} {{ 1.0 }} {{ (1..3) }} {{ nil }}{{ false }}";
    assert_snapshot!(lenient(source, data), @r#"12x {"a":[true,1.5],"b":null} 18446744073709551615 1.0 1..3 false"#);
}

#[test]
fn paths_have_indexes_and_commands() {
    let data = json!({"a": {"list": [1, 2, 3], "size": "own", "k e y": 4}, "key": "list"});
    let source = "{{ a.list[-1] }}{{ a[key][0] }}{{ a['k e y'] }}{{ a.list.size }}{{ a.list.first }}{{ a.size }}{{ key.size }}{{ ['key'] }}";
    assert_snapshot!(lenient(source, data), @"31431own4list");
}
