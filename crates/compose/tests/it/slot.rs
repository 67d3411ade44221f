//! The user slot beside what the user says.

use std::sync::Arc;

use contexture_compose::{Adaptation, Prompt, PromptBuilder, ResolveOptions, Text, UserMessage};
use contexture_message::{Image, MediaSource, Message, Part, Role, ToolCall, ToolOutput, ToolResult};
use contexture_testkit::{request, resolve};
use serde_json::json;

fn resolved(prompt: PromptBuilder, options: ResolveOptions) -> String {
    request(&resolve(&prompt.build().expect("it builds"), options).expect("it resolves"))
}

fn slot() -> PromptBuilder {
    Prompt::builder("p").user(Text::template("{{ input.message }}").expect("a template"))
}

fn image(url: &str) -> Part {
    Part::Image(Image { source: MediaSource::Url(url.to_owned()), media_type: None })
}

fn said(message: &str, user: Message) -> ResolveOptions {
    let mut options = ResolveOptions::new(json!({"message": message}));
    options.conversation.in_flight.push(Arc::new(user));
    options
}

#[test]
fn a_text_that_the_user_says_is_sent_once_with_the_attachments() {
    let user = Message::parts(Role::User, vec![Part::text("look"), image("https://a.example/1.png")]);
    insta::assert_snapshot!(resolved(slot(), said("look", user)), @r#"
    [user]
    [{"type":"text","text":"look"},{"type":"image","url":"https://a.example/1.png"}]
    "#);
}

#[test]
fn where_they_differ_the_slot_stands_behind_the_durable_item() {
    let call = ToolCall { id: "c1".into(), name: "find".into(), arguments: json!({}) };
    let output = ToolOutput::Text("found".into());
    let result = ToolResult { call_id: "c1".into(), name: "find".into(), output };
    let mut options = said("look at the left side", Message::user("look"));
    options
        .conversation
        .in_flight
        .push(Arc::new(Message::parts(Role::Assistant, vec![Part::ToolCall(call)])));
    options.conversation.in_flight.push(Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(result)])));
    insta::assert_snapshot!(resolved(slot(), options.block("page", "7")), @r#"
    [user]
    [{"type":"text","text":"look"},{"type":"text","text":"<system-context>\n<page>\n7\n</page>\n</system-context>"}]
    [user]
    look at the left side
    [assistant]
    [{"type":"tool_call","id":"c1","name":"find","arguments":{}}]
    [tool]
    [{"type":"tool_result","call_id":"c1","name":"find","output":{"type":"text","value":"found"}}]
    "#);
}

#[test]
fn the_slot_takes_messages_and_lists() {
    let text = Text::template("{{ input.message }}").expect("a template");
    let prompt = Prompt::builder("p")
        .user_message(UserMessage::text(text))
        .user_message(UserMessage::text("And this.").part(image("https://a.example/2.png")));
    insta::assert_snapshot!(resolved(prompt.clone(), ResolveOptions::new(json!({"message": "look"}))), @r#"
    [user]
    look
    [user]
    [{"type":"text","text":"And this."},{"type":"image","url":"https://a.example/2.png"}]
    "#);
    // What the user says already is left out of the list.
    insta::assert_snapshot!(resolved(prompt, said("look", Message::user("look"))), @r#"
    [user]
    look
    [user]
    [{"type":"text","text":"And this."},{"type":"image","url":"https://a.example/2.png"}]
    "#);
}

#[test]
fn the_text_for_calls_without_a_message_is_left_out_where_there_is_one() {
    let prompt = || Prompt::builder("p").prompt("What is new?");
    assert_eq!(resolved(prompt(), ResolveOptions::default()), "[user]\nWhat is new?");
    let options = ResolveOptions::default().user_message("Tell me a joke.");
    assert_eq!(resolved(prompt(), options.clone()), "[user]\nTell me a joke.");
    let listed = Prompt::builder("p").message(Role::User, "What is new?");
    assert_eq!(resolved(listed, options.clone()), "[user]\nTell me a joke.");
    let pass = resolve(&prompt().build().expect("it builds"), options).expect("it resolves");
    let excluded: Vec<_> = pass.explain().excluded.into_iter().map(|it| it.reason).collect();
    assert_eq!(excluded, ["the call has a user message; `prompt` is for calls without one"]);
}

#[test]
fn adaptations_do_not_say_the_users_text_again() {
    let append_prompt = Some("Be brief.".into());
    let prompt = slot().adapt("*", Adaptation { append_prompt, ..Adaptation::default() });
    let shown = resolved(prompt, said("look", Message::user("look")));
    assert_eq!(shown, "[user]\nlook\n[user]\nBe brief.");
}

#[test]
fn calls_in_messages_of_the_context_slot_have_their_results() {
    let call = json!({"role": "assistant", "content": [
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {}},
        {"type": "tool_call", "id": "c2", "name": "find", "arguments": {}},
    ]});
    let output = json!({"type": "text", "value": "found"});
    let result = json!({"role": "tool", "content": [
        {"type": "tool_result", "call_id": "c2", "name": "find", "output": output},
        {"type": "tool_result", "call_id": "c9", "name": "find", "output": output},
    ]});
    let prompt = Prompt::builder("p").context(call).context("Between.").context(result).build();
    let pass = resolve(&prompt.expect("it builds"), ResolveOptions::default()).expect("it resolves");
    insta::assert_snapshot!(request(&pass), @r#"
    [assistant]
    [{"type":"tool_call","id":"c1","name":"find","arguments":{}},{"type":"tool_call","id":"c2","name":"find","arguments":{}}]
    [tool]
    [{"type":"tool_result","call_id":"c2","name":"find","output":{"type":"text","value":"found"}}]
    [tool]
    [{"type":"tool_result","call_id":"c1","name":"find","output":{"type":"error-text","value":"interrupted"}}]
    [system]
    Between.
    "#);
    insta::assert_snapshot!(format!("{:?}", pass.explain().repairs), @r#"[RepairInfo { turn: "prompt", call_id: "c2", name: "find", what: Moved }, RepairInfo { turn: "prompt", call_id: "c1", name: "find", what: Completed }, RepairInfo { turn: "prompt", call_id: "c9", name: "find", what: LeftOut }]"#);
}
