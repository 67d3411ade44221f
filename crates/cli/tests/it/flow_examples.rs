//! The example flows, run from the command line as a reader would.

use contexture_wire::Dialect;
use serde_json::json;

use crate::served::{Served, says};

const OPENAI: Dialect = Dialect::Openai;

/// The examples, with a model that says these things one after the other.
fn served<'a>(texts: impl IntoIterator<Item = &'a str>) -> Served {
    Served::example("flows", "", texts.into_iter().map(|it| says(OPENAI, it)))
}

#[test]
fn the_chat_goes_on_as_long_as_somebody_speaks() {
    let served = served(["One.", "Two."]);
    let run = served.piped(&["flow", "run", "chat"], "first\nsecond\n");
    assert_eq!((run.stdout.as_str(), run.code), ("One.\nTwo.\n", Some(1)), "{}", run.stderr);
    let second = &served.asked()[1].body["messages"];
    assert!(second.to_string().contains("One."), "the main thread grows: {second}");
}

#[test]
fn the_router_gives_each_specialist_a_thread_of_its_own() {
    let billing = r#"{"intent": "billing"}"#;
    let technical = r#"{"intent": "technical"}"#;
    let served = served([billing, "Paid.", technical, "Restart it.", billing, "Refunded."]);
    let said = "Where is my invoice?\nIt does not start.\nAnd my refund?\n";
    let run = served.piped(&["flow", "run", "router", "--session", "s"], said);
    assert_eq!(run.stdout, "Paid.\nRestart it.\nRefunded.\n", "{}", run.stderr);
    let asked = served.asked();
    let technical = asked[3].body["messages"].to_string();
    assert!(!technical.contains("invoice"), "what the others were asked is not seen: {technical}");
    let billing = asked[5].body["messages"].to_string();
    assert!(billing.contains("invoice") && billing.contains("Paid."), "{billing}");
    assert_eq!(
        served.run(&["sessions", "show", "s", "--json"]).json(),
        json!([]),
        "nothing is said on the main thread"
    );
}

#[test]
fn the_research_waits_for_a_person() {
    let served = served([
        "Found one.",
        "Found two.",
        "Found three.",
        "Again one.",
        "Again two.",
        "Again three.",
        "The report.",
    ]);
    let args = ["flow", "run", "research", "--set", "topic=leases", "--session", "s"];
    let run = served.piped(&args, "again\nwrite\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("\"report\": \"The report.\""), "{}", run.stdout);
    assert_eq!(served.asked().len(), 7);
    let report = served.asked()[6].body["messages"].to_string();
    assert!(report.contains("Again one.") && !report.contains("Found one."), "{report}");
    let runs = served.run(&["flow", "runs", "--json"]).json();
    assert_eq!(runs[0]["status"], "completed");
}

#[test]
fn the_research_can_be_left() {
    let served = served(["Found one.", "Found two.", "Found three."]);
    let run = served.piped(&["flow", "run", "research", "--set", "topic=leases"], "leave\n");
    assert_eq!((run.code, served.asked().len()), (Some(0), 3), "{}", run.stderr);
    assert!(!run.stdout.contains("report"), "{}", run.stdout);
}
