//! Events as a view of the log: what the log tells is what was told while the turn ran.

use contexture_agent::{Event, EventView};
use contexture_message::{Part, Thinking};
use contexture_session::Thread;
use futures::StreamExt as _;
use serde_json::json;

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script};

/// Returns the events of a thread's log.
async fn view(thread: &Thread) -> Vec<Event> {
    let (items, mut view) = (thread.all(None).await.unwrap(), EventView::default());
    items.iter().flat_map(|it| view.events(thread.id(), it)).collect()
}

/// Returns events one by line, deltas of one text merged, the token of an approval left out.
fn lines(events: Vec<Event>) -> Vec<String> {
    let (mut lines, mut text) = (Vec::new(), String::new());
    for event in events {
        if let Event::TextDelta { text: more } = &event {
            text.push_str(more);
            continue;
        }
        lines.extend(Some(std::mem::take(&mut text)).filter(|it| !it.is_empty()));
        let mut value = json!(event);
        value.get_mut("approval").and_then(|it| it.as_object_mut()).map(|it| it.remove("token"));
        lines.push(value.to_string());
    }
    lines.extend(Some(text).filter(|it| !it.is_empty()));
    // Usage is known before calls are told, and recorded behind the answer that has them.
    lines.sort();
    lines
}

#[tokio::test]
async fn a_turn_with_thinking_and_tools_is_told_alike() {
    let stage = Stage::new().await;
    let mut first = calls([("a", "free", json!({"n": 1})), ("b", "unknown", json!({}))]);
    let thinking = Part::Thinking(Thinking { text: "Hm.".to_owned(), ..Thinking::default() });
    first.message.content.splice(..0, [thinking, Part::text("One moment.")]);
    let agent = agent(&script([first, says("Done.")])).tool(echo("free")).build().unwrap();
    let told = agent.run(&prompt(), &stage.thread, hi()).collect::<Vec<_>>().await;
    assert_eq!(lines(view(&stage.thread).await), lines(told));
}

#[tokio::test]
async fn a_turn_that_waits_for_its_client_is_told_alike() {
    let stage = Stage::new().await;
    let agent = agent(&script([calls([("a", "clock", json!({}))])])).build().unwrap();
    let request =
        hi().client_tools(vec![contexture_message::ToolDefinition::new("clock", "Tells the time.")]);
    let told = agent.run(&prompt(), &stage.thread, request).collect::<Vec<_>>().await;
    assert_eq!(lines(view(&stage.thread).await), lines(told));
}

#[tokio::test]
async fn a_turn_that_fails_tells_why() {
    let stage = Stage::new().await;
    let agent = agent(&script([])).build().unwrap();
    let told = agent.run(&prompt(), &stage.thread, hi()).collect::<Vec<_>>().await;
    let view = view(&stage.thread).await;
    let [.., error, Event::TurnEnd { reason, .. }] = &view[..] else { panic!("{view:?}") };
    assert_eq!(Some(error), told.last(), "its end is in the log alone");
    assert!(matches!(error, Event::Error { message, .. } if Some(message) == reason.as_ref()), "{error:?}");
}
