//! What the filters do: one line per call.

use contexture_template::RenderConfig;
use serde_json::{Value, json};

use crate::{lenient, shown, try_render};

fn data() -> Value {
    json!({
        "list": ["b", "a", null, "C"],
        "nums": [3, 1, 2.5],
        "nested": [1, [2, [3]]],
        "maps": [{"k": 1, "t": "x"}, {"k": 2, "t": "y"}, {"k": 2}],
        "map": {"a": 1, "b": 2},
        "html": "<p>a &amp; b</p><script>x</script><!-- c --><style>d</style>",
    })
}

/// Checks `expression => text` lines.
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (expression, expected) = line.split_once("=>").unwrap();
        let source = format!("{{{{ {} }}}}", expression.trim());
        assert_eq!(lenient(&source, data()), expected.trim(), "{line}");
    }
}

#[test]
fn numbers() {
    check(
        "
        3 | plus: 4                                => 7
        '3.5' | plus: 1                            => 4.5
        0.1 | plus: 0.2                            => 0.3
        10.1 | minus: 2.2                          => 7.9
        7 | divided_by: 2                          => 3
        -7 | divided_by: 2                         => -4
        7 | divided_by: 2.0                        => 3.5
        -7 | modulo: 3                             => 2
        7.5 | modulo: 2                            => 1.5
        1.1 | times: 3                             => 3.3
        -3 | abs                                   => 3
        4.5 | round                                => 5
        -4.5 | round                               => -5
        1.005 | round: 2                           => 1.01
        1234 | round: -2                           => 1200
        12.3 | ceil                                => 13
        -12.3 | floor                              => -13
        5 | at_least: 7                            => 7
        5 | at_most: 3                             => 3
        '12 apples' | plus: 1                      => 13
        nil | plus: 1                              => 1
        10000000000000000.0 | plus: 0              => 1.0e+16
        0.00001 | plus: 0                          => 1.0e-05
        9223372036854775807 | plus: 1              => 9223372036854775808
        ",
    );
}

#[test]
fn texts() {
    check(
        "
        'ab' | append: 'c' | prepend: 1            => 1abc
        'éa' | upcase                              => ÉA
        'HELLO World' | capitalize                 => Hello world
        ' a b ' | strip | size                     => 3
        '  a   b ' | squish                        => a b
        'a-b-c' | replace: '-', '+'                => a+b+c
        'a-b-c' | replace_first: '-', '+'          => a+b-c
        'a-b-c' | replace_last: '-', '+'           => a-b+c
        'a-b-c' | remove: '-'                      => abc
        'ab' | replace: '', '.'                    => .a.b.
        'äöü' | slice: 1, 1                        => ö
        'äöü' | slice: -2, 9                       => öü
        'äöü' | slice: 9                           =>
        'äöü' | slice: 0, 99999999999999999999     => äöü
        'äöüß' | truncate: 3, '…'                  => äö…
        'abc' | truncate: 2                        => ...
        'abc' | truncate: -5, ''                   =>
        'a b c' | truncatewords: 2                 => a b...
        ',a,,b,,' | split: ',' | join: '|'         => |a||b
        ' a  b ' | split: ' ' | join: '|'          => a|b
        'äö' | split: '' | join: '|'               => ä|ö
        'abc' | first                              => a
        'abc' | size                               => 3
        ",
    );
    assert_eq!(lenient("{{ 'a\r\nb\nc' | strip_newlines }}", data()), "abc");
    assert_eq!(lenient("{{ 'a\r\nb' | newline_to_br }}", data()), "a<br />\nb");
}

#[test]
fn markup_and_encodings() {
    check(
        r#"
        "<a href='x'>&amp;" | escape               => &lt;a href=&#39;x&#39;&gt;&amp;amp;
        "<&lt;&#39;&x" | escape_once               => &lt;&lt;&#39;&amp;x
        html | strip_html                          => a &amp; b
        "<script <script <b>x" | strip_html        => x
        "a b&ü" | url_encode                       => a+b%26%C3%BC
        "a+b%26%C3%BC%" | url_decode               => a b&ü%
        "ü?" | base64_encode                       => w7w/
        "ü?" | base64_url_safe_encode              => w7w_
        "w7w/" | base64_decode                     => ü?
        "w7w_" | base64_url_safe_decode            => ü?
        "YQ==" | base64_decode                     => a
        "YQ" | base64_url_safe_decode              => a
        map | json                                 => {"a":1,"b":2}
        'a"b' | json                               => "a\"b"
        "#,
    );
}

#[test]
fn lists() {
    check(
        "
        list | join: '-'                           => b-a--C
        list | compact | join: '-'                 => b-a-C
        list | sort | join: '-'                    => C-a-b-
        list | sort_natural | join: '-'            => a-b-C-
        nums | sort | join: '-'                    => 1-2.5-3
        list | reverse | join: '-'                 => C--a-b
        nested | join: '-'                         => 1-2-3
        nested | concat: nums | join: '-'          => 1-2-3-3-1-2.5
        nums | sum                                 => 6.5
        maps | sum: 'k'                            => 5
        maps | map: 't' | join: '-'                => x-y-
        maps | where: 'k', 2 | size                => 2
        maps | reject: 'k', 2 | size               => 1
        maps | where: 't' | size                   => 2
        maps | find: 'k', 2 | json                 => {\"k\":2,\"t\":\"y\"}
        maps | find_index: 'k', 2                  => 1
        maps | has: 't', 'z'                       => false
        maps | uniq: 'k' | size                    => 2
        maps | sort: 't' | map: 't' | join: '-'    => x-y-
        maps | compact: 't' | size                 => 2
        nums | slice: 1, 2 | join: '-'             => 1-2.5
        nums | first                               => 3
        nums | last                                => 2.5
        (1..4) | reverse | join                    => 4 3 2 1
        (1..4) | size                              => 4
        map | first                                => a1
        map | size                                 => 2
        ",
    );
}

#[test]
fn defaults() {
    check(
        "
        nil | default: 'x'                         => x
        false | default: 'x'                       => x
        false | default: 'x', allow_false: true    => false
        '' | default: 'x'                          => x
        0 | default: 'x'                           => 0
        nope | default: 'x'                        => x
        ",
    );
}

#[test]
fn dates() {
    check(
        "
        1152098955 | date: '%Y-%m-%d %H:%M:%S %z'                 => 2006-07-05 11:29:15 +0000
        'March 14, 2016' | date: '%a %A %b %B %e %-d %j %y'       => Mon Monday Mar March 14 14 074 16
        '2016-03-14T15:09:26.535+02:00' | date: '%I:%M %p %L %:z %s' => 03:09 PM 535 +02:00 1457960966
        '14 Mar 2016 3:05 pm' | date: '%H.%M %k %l %P'            => 15.05 15  3 pm
        '2021-01-03' | date: '%G-W%V %u %w %U %W'                 => 2020-W53 7 0 01 00
        '2024-12-31' | date: '%G-W%V %F %D %T'                    => 2025-W01 2024-12-31 12/31/24 00:00:00
        '31.12.2024' | date: '%c|%^b|%05d|%_m|%Q'                 => Tue Dec 31 00:00:00 2024|DEC|00031|12|%Q
        'hello' | date: '%Y'                                      => hello
        '2021-02-30' | date: '%Y'                                 => 2021-02-30
        nil | date: '%Y'                                          =>
        1 | date: ''                                              => 1
        ",
    );
    let config = RenderConfig { now: Some("2026-02-03T04:05:06Z"), ..RenderConfig::strict() };
    assert_eq!(shown(try_render("{{ 'now' | date: '%F %R' }}", &json!({}), &config)), "2026-02-03 04:05");
    assert_eq!(shown(try_render("{{ 'June 5' | date: '%F' }}", &json!({}), &config)), "2026-06-05");
}
