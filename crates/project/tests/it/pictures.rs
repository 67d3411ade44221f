//! The example flows, checked and drawn.

use std::path::PathBuf;

use contexture_flow::graph::{mermaid, svg};
use contexture_project::Project;

use super::support::listed;

fn examples() -> Project {
    Project::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/flows")).unwrap()
}

#[test]
fn the_example_flows_have_no_faults() {
    let project = examples();
    let broken: Vec<String> =
        project.flows().filter_map(|(_, flow)| flow.err().map(|it| listed(&it.faults))).collect();
    assert_eq!(broken.join("\n"), "");
    assert_eq!(project.flows().count(), 3);
    let lints: Vec<String> = project.lint().iter().map(ToString::to_string).collect();
    assert_eq!(lints.join("\n"), "");
}

#[test]
fn the_example_flows_are_drawn() {
    let project = examples();
    for (id, flow) in project.flows() {
        let definition = flow.unwrap().definition();
        insta::assert_snapshot!(format!("{id}.mermaid"), mermaid(definition));
        insta::assert_snapshot!(format!("{id}.svg"), svg(definition));
    }
}
