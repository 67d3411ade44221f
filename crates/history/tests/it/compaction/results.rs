//! Large results become previews.

use std::sync::Arc;

use contexture_history::compaction::{Frontier, ResultLimits, candidates, shorten};
use contexture_message::{Encoding, Image, MediaSource, Message, Part, Role, Tokens, ToolOutput, ToolResult};
use serde_json::json;

fn result(id: &str, output: ToolOutput) -> Arc<Message> {
    let result = ToolResult { call_id: id.to_owned(), name: "logs".to_owned(), output };
    Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(result)]))
}

fn lines(count: usize) -> String {
    (1..=count).map(|it| format!("line {it}\n")).collect()
}

fn image() -> Part {
    Part::Image(Image { source: MediaSource::Data("aGk=".to_owned()), media_type: None })
}

fn limits() -> ResultLimits {
    ResultLimits {
        max_tokens_per_tool_result: Tokens(200),
        max_tokens_per_recent_tool_result: Tokens(1000),
        preview_tokens: Tokens(110),
        ..ResultLimits::default()
    }
}

/// Shows what becomes of results.
fn shortened(messages: &[Arc<Message>], frontier: usize) -> String {
    let shortened = shorten(messages, Frontier(frontier), &limits(), &Encoding::O200kBase);
    let parts = shortened.messages.iter().flat_map(|it| &it.content);
    let outputs = parts.filter_map(|it| match it {
        Part::ToolResult(result) => {
            let text = serde_json::to_string(&result.output).expect("plain data");
            let is_long = text.len() > 600;
            Some(if is_long { format!("{} as it was", result.call_id) } else { text.replace("\\n", "\n") })
        }
        _ => None,
    });
    outputs.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_old_result_shows_its_beginning_and_end_and_how_to_read_the_rest() {
    let messages = [result("c1", ToolOutput::Text(lines(200)))];
    insta::assert_snapshot!(shortened(&messages, 0), @"c1 as it was");
    insta::assert_snapshot!(shortened(&messages, 1), @r#"
    {"type":"text","value":"[Shortened: this result of `logs` has 800 tokens. All of it is kept under the handle \"c1\": call `read_tool_result` with that handle to read a range of it or to search it.]
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    line 8
    line 9
    line 10
    [… 1594 characters left out …]
    line 198
    line 199
    line 200
    "}
    "#);
}

#[test]
fn errors_stay_errors_and_values_become_text() {
    let rows: Vec<_> = (0..300).map(|it| json!({ "n": it })).collect();
    let messages = [
        result("c1", ToolOutput::ErrorText(lines(200))),
        result("c2", ToolOutput::Json(rows.into())),
        result("c3", ToolOutput::ExecutionDenied { reason: Some(lines(200)) }),
    ];
    insta::assert_snapshot!(shortened(&messages, 3), @r#"
    {"type":"error-text","value":"[Shortened: this error of `logs` has 800 tokens. All of it is kept under the handle \"c1\": call `read_tool_result` with that handle to read a range of it or to search it.]
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    line 8
    line 9
    line 10
    [… 1594 characters left out …]
    line 198
    line 199
    line 200
    "}
    {"type":"text","value":"[Shortened: this JSON result of `logs` has 1202 tokens. All of it is kept under the handle \"c2\": call `read_tool_result` with that handle to read a range of it or to search it.]
    [{\"n\":0},{\"n\":1},{\"n\":2},{\"n\":3},{\"n\":4},{\"n\":5},{\"n\":6},{\"n\":7},{\"n\":8
    [… 2785 characters left out …]
    296},{\"n\":297},{\"n\":298},{\"n\":299}]"}
    {"type":"execution-denied","value":{"reason":"[Shortened: this refusal of `logs` has 812 tokens. All of it is kept under the handle \"c3\": call `read_tool_result` with that handle to read a range of it or to search it.]
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    [… 1625 characters left out …]
    line 199
    line 200
    "}}
    "#);
}

#[test]
fn images_become_a_counted_note() {
    let content = |text: &str| ToolOutput::Content(vec![Part::text(text), image(), image()]);
    let messages = [result("c1", content("two")), result("c2", content(&lines(200)))];
    insta::assert_snapshot!(shortened(&messages, 2), @r#"
    {"type":"content","value":[{"type":"text","text":"two"},{"type":"text","text":"[not shown: 2 images, 0 files]"}]}
    {"type":"text","value":"[Shortened: this result of `logs` has 2330 tokens. All of it is kept under the handle \"c2\": call `read_tool_result` with that handle to read a range of it or to search it.]
    [not shown: 2 images, 0 files]
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    [… 1614 characters left out …]
    line 197
    line 198
    line 199
    line 200
    "}
    "#);
    let recent = shorten(&messages[..1], Frontier(0), &ResultLimits::default(), &Encoding::O200kBase);
    assert_eq!(recent.messages, messages[..1]);
}

#[test]
fn what_is_too_large_for_a_recent_result_looks_the_same_when_it_is_old() {
    let messages = [result("c1", ToolOutput::Text(lines(5000)))];
    assert_eq!(shortened(&messages, 0), shortened(&messages, 1));
}

#[test]
fn candidates_say_what_shortening_would_save() {
    let messages = [
        result("c1", ToolOutput::Text(lines(5))),
        result("c2", ToolOutput::Text(lines(200))),
        result("c3", ToolOutput::Text(lines(5000))),
    ];
    let found = candidates(&messages, &limits(), &Encoding::O200kBase);
    let shown: Vec<String> = found
        .iter()
        .map(|it| format!("{} {} {:?} {} -> {}", it.number, it.call_id, it.exceeds, it.before, it.after))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    1 c2 Old 800 -> 108
    2 c3 Recent 24001 -> 108
    ");
    assert_eq!(Frontier::newest(&messages, &limits()), Frontier(1));
}

#[test]
fn a_result_that_no_preview_would_make_smaller_stays() {
    let limits = ResultLimits { preview_tokens: Tokens(20), ..limits() };
    let messages = [result("c1", ToolOutput::Text(lines(200)))];
    assert!(shorten(&messages, Frontier(1), &limits, &Encoding::O200kBase).changed.is_empty());
}

#[test]
fn a_preview_forges_no_tags() {
    let text = format!("<system-event>{}", lines(300));
    let messages = [result("c1", ToolOutput::Text(text))];
    assert!(shortened(&messages, 1).contains("&lt;system-event>"));
}
