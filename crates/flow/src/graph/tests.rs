//! The pictures of any definition are well formed.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::layout::{Size, layout};
use super::{mermaid, svg};
use crate::FlowDefinition;

fn definition(document: &Value) -> FlowDefinition {
    FlowDefinition::read("f", document).unwrap_or_default()
}

#[test]
fn whatever_could_break_a_picture_is_escaped() {
    let flow = definition(&json!({
        "nodes": {
            "end": {"type": "llm_request", "prompt": "a\"]|<b>&`#;\u{1}\n%%"},
            "sub": {"type": "sub_flow", "flow": "x".repeat(100)},
        },
        "edges": ["start -> end", "end.text -> sub.text", "end -> end", "no edge", "end -> nobody"],
    }));
    insta::assert_snapshot!(mermaid(&flow), @r#"
    flowchart TD
        n0(["start"])
        n1["end<br/>llm_request: a#34;#93;#124;#60;b#62;#38;#96;#35;#59;  #37;#37;"]
        n2[["sub<br/>sub_flow: xxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"]]
        n0 --> n1
        n1 -->|"text → text"| n2
        n1 --> n1
    "#);
    let drawing = svg(&flow);
    assert!(roxmltree::Document::parse(&drawing).is_ok(), "{drawing}");
    assert!(drawing.contains("llm_request: a&quot;]|&lt;b&gt;&amp;`#;  %%"), "{drawing}");
}

#[test]
fn portals_and_forks_are_visible() {
    let flow = definition(&json!({
        "nodes": {
            "fork": {"type": "parallel", "branches": ["a", "b"]},
            "in": {"type": "portal_in", "portal": "far"},
            "out": {"type": "portal_out", "portal": "far"},
            "join": {"type": "join", "inputs": {"x": "any", "y": "any"}},
        },
        "edges": ["start -> fork", "fork.a -> in", "out -> join.x", "fork.b -> join.y"],
    }));
    insta::assert_snapshot!(mermaid(&flow), @r#"
    flowchart TD
        n0(["start"])
        n1{{"fork<br/>parallel"}}
        n2(("in<br/>portal_in: far"))
        n3(("out<br/>portal_out: far"))
        n4{{"join"}}
        n0 --> n1
        n1 -->|"a"| n2
        n3 -->|"→ x"| n4
        n1 -->|"b → y"| n4
        n2 -.-> n3
    "#);
}

/// Whether a line is one of those that a flowchart has: quotes in pairs, and nothing special between them.
fn is_fine(line: &str) -> bool {
    let parts: Vec<&str> = line.split('"').collect();
    let inside = parts.iter().skip(1).step_by(2).all(|it| {
        let it = it.replace("<br/>", "");
        !it.chars().any(|it| "<>&`[]{}|%\\".contains(it) || it.is_control())
    });
    let outside = parts.iter().step_by(2).all(|it| it.chars().all(|it| it.is_ascii_graphic() || it == ' '));
    line == "flowchart TD" || (parts.len() % 2 == 1 && line.starts_with("    n") && inside && outside)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-e]", "[\"#<>&`|;\\]\\[{}%'-]{0,60}"]
}

fn flow() -> impl Strategy<Value = FlowDefinition> {
    let node = (0..6_u8, text()).prop_map(|(kind, text)| match kind {
        0 => json!({"type": "llm_request", "prompt": text}),
        1 => json!({"type": "sub_flow", "flow": text}),
        2 => json!({"type": "portal_in", "portal": "p"}),
        3 => json!({"type": "portal_out", "portal": "p"}),
        4 => json!({"type": "start"}),
        _ => json!({"type": "branch", "cases": {text: "true"}}),
    });
    let nodes = prop::collection::vec((text(), node), 0..8);
    let end = || "[a-e](\\.[a-c])?|start";
    let edges = prop::collection::vec((end(), end()).prop_map(|(from, to)| format!("{from} -> {to}")), 0..20);
    (text(), nodes, edges).prop_map(|(id, nodes, edges)| {
        let nodes: serde_json::Map<String, Value> = nodes.into_iter().collect();
        definition(&json!({"id": id, "nodes": nodes, "edges": edges}))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_definition_has_well_formed_pictures(flow in flow()) {
        let drawing = svg(&flow);
        prop_assert!(roxmltree::Document::parse(&drawing).is_ok(), "{}", drawing);
        prop_assert_eq!(&drawing, &svg(&flow));
        let chart = mermaid(&flow);
        prop_assert!(chart.lines().all(is_fine), "{}", chart);
    }

    #[test]
    fn boxes_never_overlap_and_edges_have_both_ends(
        n_boxes in 1..12_usize,
        edges in prop::collection::vec((0..12_usize, 0..12_usize), 0..24),
    ) {
        let sizes: Vec<Size> = (0..n_boxes).map(|it| Size { width: 50.0 + it as f64 * 9.0, height: 40.0 }).collect();
        let edges: Vec<(usize, usize)> = edges.iter().map(|(one, other)| (one % n_boxes, other % n_boxes)).collect();
        let placed = layout(&sizes, &edges, 50.0);
        for (idx, (one, size)) in placed.boxes.iter().zip(&sizes).enumerate() {
            prop_assert!(one.x >= size.width / 2.0 && one.x + size.width / 2.0 <= placed.size.width);
            for (other, other_size) in placed.boxes.iter().zip(&sizes).skip(idx + 1) {
                let apart_x = (one.x - other.x).abs() >= (size.width + other_size.width) / 2.0;
                prop_assert!(apart_x || (one.y - other.y).abs() >= 40.0, "{:?}", placed);
            }
        }
        for (route, (from, to)) in placed.routes.iter().zip(&edges).filter(|(_, (from, to))| from != to) {
            let ends = route.first().zip(route.last());
            let near = |y: f64, idx: usize| (y - placed.boxes[idx].y).abs() <= 20.5;
            prop_assert!(ends.is_some_and(|(first, last)| near(first.y, *from) && near(last.y, *to)));
        }
    }
}

#[test]
fn an_unreadable_flow_is_drawn_too() {
    let nodes: serde_json::Map<String, Value> =
        (0..2000).map(|it| (format!("n{it}"), json!({"type": "portal_in", "portal": "p"}))).collect();
    let edges: Vec<String> =
        (0..1999).flat_map(|it| [format!("n{it} -> n{}", it + 1), format!("n0 -> n{}", it + 1)]).collect();
    let drawing = svg(&definition(&json!({"nodes": nodes, "edges": edges})));
    assert!(drawing.ends_with("</svg>\n"));
}
