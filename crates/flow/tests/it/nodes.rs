//! What each node does.

use contexture_flow::{CompileInputs, FlowDefinition, RunEvent, RunStart, RunStatus, lower};
use contexture_message::Message;
use contexture_session::SessionId;
use serde_json::json;

use crate::scene::{Scene, text_of};

#[tokio::test]
async fn a_chat_loop_grows_the_main_thread() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "ask": {"type": "user_input", "message": "You?"},
            "answer": {"type": "llm_request", "prompt": "chat"},
        },
        "edges": ["start -> ask", "ask.value -> answer.user", "answer -> ask"],
        "outputs": {"text": "answer.text"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.status, info.waits[0].id.as_str()), (RunStatus::Waiting, "ask.1"));
    let info = scene.say(&info, "one").await;
    let info = scene.say(&info, "two").await;
    assert_eq!(info.waits[0].id, "ask.3");
    assert_eq!(scene.says("s").await, ["user: one", "assistant: re: one", "user: two", "assistant: re: two"]);
    insta::assert_snapshot!(scene.log(&info.run).await.join("\n"), @r#"
    run.start
    start start 1
    end start 1
    start ask 1
    wait ask.1
    run.wait
    answer ask.1 "one"
    resume ask
    end ask 1
    start answer 1
    end answer 1
    start ask 2
    wait ask.2
    run.wait
    answer ask.2 "two"
    resume ask
    end ask 2
    start answer 2
    end answer 2
    start ask 3
    wait ask.3
    run.wait
    "#);
}

#[tokio::test]
async fn an_isolated_branch_leaves_main_as_it_is() {
    let scene = Scene::new();
    let session = scene.sessions.open_or_create(&SessionId::parse("s").unwrap()).await.unwrap();
    session.main().add_message(Message::user("before")).await.unwrap();
    let before = items(&scene, "s").await;
    let flow = scene.flow(json!({
        "inputs": {"question": "string"},
        "nodes": {
            "side": {"type": "new_thread", "label": "expert", "instructions": "Be brief."},
            "answer": {"type": "llm_request", "prompt": "expert"},
        },
        "edges": ["start -> side", "side.thread -> answer.thread", "start.question -> answer.user"],
        "outputs": {"text": "answer.text", "thread": "answer.thread"},
    }));
    let info = scene.run(&flow, "s", json!({"question": "why?"})).await;
    assert_eq!((info.status, &info.outputs["text"]), (RunStatus::Completed, &json!("re: why?")));
    assert_eq!(items(&scene, "s").await, before);
    let side = info.outputs["thread"].as_str().unwrap();
    assert_eq!(scene.says(side).await, ["user: why?", "assistant: re: why?"]);
    assert_eq!(scene.thread(side).await.get().instructions(), Some("Be brief."));
}

/// Everything that is stored of a thread, as it is stored.
async fn items(scene: &Scene, thread: &str) -> Vec<String> {
    let items = scene.thread(thread).await.all(None).await.unwrap();
    items.iter().map(|it| serde_json::to_string(&it.document(thread)).unwrap()).collect()
}

#[tokio::test]
async fn input_is_added_to_the_given_thread() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "side": {"type": "new_thread"},
            "greet": {"type": "manual_input", "text": "Hello {{ data }}!", "role": "assistant", "with": {"data": "you"}},
            "ask": {"type": "user_input"},
            "here": {"type": "user_input", "append": true},
            "quiet": {"type": "user_input"},
        },
        "edges": [
            "start -> side", "side.thread -> greet.thread", "greet.thread -> ask.thread",
            "ask -> here", "here -> quiet",
        ],
        "outputs": {"thread": "ask.thread", "said": "quiet.value"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    let info = scene.say(&info, "to the side").await;
    let info = scene.say(&info, "to main").await;
    let info = scene.say(&info, "to nobody").await;
    assert_eq!((info.status, &info.outputs["said"]), (RunStatus::Completed, &json!("to nobody")));
    let side = info.outputs["thread"].as_str().unwrap();
    assert_eq!(scene.says(side).await, ["assistant: hello you!", "user: to the side"]);
    assert_eq!(scene.says("s").await, ["user: to main"]);
}

#[tokio::test]
async fn a_request_without_history_reads_the_thread_and_writes_nothing() {
    let scene = Scene::new();
    let session = scene.sessions.open_or_create(&SessionId::parse("s").unwrap()).await.unwrap();
    session.main().add_messages(vec![Message::user("a"), Message::assistant("b")]).await.unwrap();
    let before = items(&scene, "s").await;
    let flow = scene.flow(json!({
        "nodes": {"look": {
            "type": "llm_request", "prompt": "chat", "skip_history": true, "with": {"user": "c"},
            "overrides": {"model": "other/model", "instructions": "Only now.", "settings": {"temperature": 0}},
        }},
        "edges": ["start -> look"],
        "outputs": {"text": "look.text"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(info.outputs["text"], json!("re: c"));
    assert_eq!(items(&scene, "s").await, before);
    let requests = scene.parrot.requests.lock().unwrap().clone();
    let said: Vec<String> = requests[0].messages.iter().map(|it| text_of(it)).collect();
    assert_eq!(said[1..], ["a", "b", "c"], "{said:?}");
    assert!(said[0].contains("Only now."), "{said:?}");
    let request = serde_json::to_value(&*requests[0]).unwrap();
    assert_eq!((&request["model"], &request["settings"]["temperature"]), (&json!("other/model"), &json!(0)));
}

/// What is told of a model call names its turn, and a turn that nobody keeps has no name.
#[tokio::test]
async fn events_name_their_turn() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "say": {"type": "llm_request", "prompt": "chat", "with": {"user": "a"}},
            "look": {"type": "llm_request", "prompt": "chat", "skip_history": true, "with": {"user": "b"}},
        },
        "edges": ["start -> say", "say -> look"],
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    let turns = scene.events(&info.run).await.into_iter().filter_map(|it| match it {
        RunEvent::NodeTurn { node, firing, turn } => {
            Some(format!("{node} {firing} {}/{}", turn.thread, turn.turn))
        }
        RunEvent::NodeEvent { .. } => panic!("the words of a turn are in its thread"),
        _ => None,
    });
    assert_eq!(turns.collect::<Vec<_>>(), ["say 1 s/t1"]);
    let told = std::mem::take(&mut *scene.library.told.lock().unwrap());
    let recorded: Vec<(u64, RunEvent)> =
        told.iter().filter_map(|(number, event)| Some(((*number)?, event.clone()))).collect();
    assert_eq!(recorded, scene.runtime.events(&info.run, 0, 100).await.unwrap());
    let told = told.into_iter().filter_map(|(_, it)| match it {
        RunEvent::NodeEvent { node, turn, event } => {
            let turn = turn.map(|it| format!("{}/{}", it.thread, it.turn)).unwrap_or_default();
            let event = serde_json::to_value(event).unwrap();
            Some(format!("{node} {turn} {}", event["type"].as_str().unwrap()))
        }
        _ => None,
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
    say s/t1 turn.start
    say s/t1 warning
    say s/t1 text.delta
    say s/t1 context_usage
    say s/t1 turn.end
    look  turn.start
    look  text.delta
    look  context_usage
    look  turn.end
    ");
}

#[tokio::test]
async fn overrides_hold_for_one_call_only() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "one": {
                "type": "llm_request", "prompt": "chat", "with": {"user": "one"},
                "overrides": {"model": "other/model", "instructions": "Only now."},
            },
            "two": {"type": "llm_request", "prompt": "chat", "with": {"user": "two"}},
        },
        "edges": ["start -> one", "one -> two"],
    }));
    scene.run(&flow, "s", json!({})).await;
    let requests = scene.parrot.requests.lock().unwrap().clone();
    assert!(text_of(&requests[0].messages[0]).contains("Only now."));
    assert!(!text_of(&requests[1].messages[0]).contains("Only now."));
    let snapshot = scene.thread("s").await.get();
    assert_eq!((snapshot.instructions(), snapshot.model()), (None, None));
}

#[tokio::test]
async fn messages_are_injected_once_by_their_id() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "say": {"type": "llm_request", "prompt": "chat", "with": {"user": "hi"}},
            "behind": {"type": "inject_messages", "messages": [{"id": "m1", "role": "assistant", "content": "behind"}]},
            "before": {
                "type": "inject_messages", "position": "prepend",
                "messages": [{"id": "m2", "role": "user", "content": "first"}, {"id": "m3", "role": "assistant", "content": "second"}],
            },
        },
        "edges": ["start -> say", "say -> behind", "behind -> before"],
        "outputs": {"behind": "behind.injected", "before": "before.injected"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((&info.outputs["behind"], &info.outputs["before"]), (&json!(1), &json!(2)));
    let first = scene.says("s").await;
    assert_eq!(
        first,
        ["user: first", "assistant: second", "user: hi", "assistant: re: hi", "assistant: behind"]
    );
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((&info.outputs["behind"], &info.outputs["before"]), (&json!(0), &json!(0)));
    assert_eq!(scene.says("s").await[..5], first[..]);
}

#[tokio::test]
async fn a_router_takes_exactly_one_way() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"text": "string"},
        "nodes": {
            "route": {"type": "intent_router", "intents": {"billing": "Money.", "tech": "Machines."}},
            "money": {"type": "transform", "inputs": {"it": "string"}, "template": "money: {{ it }}"},
            "machine": {"type": "transform", "inputs": {"it": "string"}, "template": "machine: {{ it }}"},
            "other": {"type": "transform", "inputs": {"it": "string"}, "template": "other: {{ it }}"},
        },
        "edges": [
            "start.text -> route.text", "route.billing -> money.it", "route.tech -> machine.it", "route.otherwise -> other.it",
        ],
        "outputs": {"money": "money.value", "machine": "machine.value", "other": "other.value", "intent": "route.intent"},
    }));
    let cases = [
        ("a billing thing", "billing", "money"),
        ("a tech thing", "tech", "machine"),
        ("cats", "otherwise", "other"),
        ("!bare Tech.", "tech", "machine"),
        ("!bare I would rather not say", "otherwise", "other"),
    ];
    for (text, intent, way) in cases {
        let info = scene.run(&flow, "s", json!({"text": text})).await;
        let expected = json!({"intent": intent, way: format!("{way}: {text}")});
        assert_eq!(serde_json::to_value(&info.outputs).unwrap(), expected);
    }
    assert!(scene.says("s").await.is_empty());
}

#[tokio::test]
async fn a_branch_takes_the_first_way_whose_condition_holds() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"n": "integer"},
        "nodes": {
            "which": {"type": "branch", "cases": {"small": "value < 10", "big": "value > 5"}},
            "small": {"type": "transform", "template": "small"},
            "big": {"type": "transform", "template": "big"},
            "none": {"type": "transform", "template": "none"},
        },
        "edges": ["start.n -> which.value", "which.small -> small.after", "which.big -> big.after", "which.else -> none.after"],
        "outputs": {"small": "small.value", "big": "big.value", "none": "none.value"},
    }));
    for (n, expected) in [(7, json!({"small": "small"})), (12, json!({"big": "big"}))] {
        let info = scene.run(&flow, "s", json!({"n": n})).await;
        assert_eq!(serde_json::to_value(&info.outputs).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_cache_asks_only_for_what_it_does_not_know() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"q": "string"},
        "nodes": {
            "known": {"type": "cache"},
            "find": {"type": "tool_call", "tool": "look", "repeat": true},
            "args": {"type": "transform", "inputs": {"q": "string"}, "template": "{\"q\": \"{{ q }}\"}", "output": "object"},
        },
        "edges": ["start.q -> known.key", "start.q -> args.q", "args.value -> find.arguments", "find.result -> known.value"],
        "outputs": {"value": "known.value", "hit": "known.hit"},
    }));
    let info = scene.run(&flow, "s", json!({"q": "a"})).await;
    assert_eq!(info.outputs["hit"], json!(false), "{info:?}");
    assert_eq!(scene.run(&flow, "s", json!({"q": "a"})).await.outputs["hit"], json!(true));
    assert_eq!(scene.run(&flow, "s", json!({"q": "b"})).await.outputs["hit"], json!(false));
    assert_eq!(scene.run(&flow, "other", json!({"q": "a"})).await.outputs["hit"], json!(false));
    assert_eq!(
        *scene.calls.lock().unwrap(),
        [json!(["look", {"q": "a"}]), json!(["look", {"q": "b"}]), json!(["look", {"q": "a"}])]
    );
}

#[tokio::test]
async fn tools_are_offered_where_they_are_connected() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "kit": {"type": "tools", "names": ["look"]},
            "with": {"type": "llm_request", "prompt": "chat", "with": {"user": "!tool look {\"at\":1}"}},
            "without": {"type": "llm_request", "prompt": "chat", "with": {"user": "plain"}},
        },
        "edges": ["start -> with", "kit.tools -> with.tools", "with -> without"],
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(info.status, RunStatus::Completed, "{info:?}");
    let requests = scene.parrot.requests.lock().unwrap().clone();
    let offered: Vec<usize> = requests.iter().map(|it| it.tools.len()).collect();
    assert_eq!(offered, [1, 1, 0]);
    assert_eq!(scene.calls.lock().unwrap().len(), 1);
    insta::assert_snapshot!(scene.says("s").await.join("\n"), @r#"
    user: !tool look {"at":1}
    assistant: <call look {"at":1}>
    tool: <result {"type":"json","value":{"did":"look"}}>
    assistant: re: !tool look {"at":1}
    user: plain
    assistant: re: plain
    "#);
    insta::assert_snapshot!(scene.log(&info.run).await.join("\n"), @r"
    run.start
    start start 1
    end start 1
    start with 1
    pull with tools
    start kit 1
    end kit 1
    end with 1
    start without 1
    end without 1
    over completed
    ");
}

#[tokio::test]
async fn a_call_that_needs_approval_is_a_wait() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "kit": {"type": "tools", "names": ["pay"]},
            "buy": {"type": "llm_request", "prompt": "chat", "with": {"user": "!tool pay {\"euros\":5}"}},
        },
        "edges": ["start -> buy", "kit.tools -> buy.tools"],
        "outputs": {"text": "buy.text"},
    }));
    for (approve, n_calls) in [(false, 0), (true, 1)] {
        let info = scene.run(&flow, &format!("s-{approve}"), json!({})).await;
        let about = &info.waits[0].asked.about;
        assert_eq!((&about["tool"], &about["arguments"]), (&json!("pay"), &json!({"euros": 5})));
        let events = serde_json::to_string(&scene.events(&info.run).await).unwrap();
        assert!(!events.contains("secret"), "the token is told nobody: {events}");
        let wrong = scene.runtime.answer(&info.run, &info.waits[0].id, json!("yes")).await.unwrap_err();
        assert_eq!(wrong.code(), "answer_invalid");
        let info = scene.say(&info, json!({"approve": approve})).await;
        assert_eq!(info.status, RunStatus::Completed, "{info:?}");
        assert_eq!(scene.calls.lock().unwrap().len(), n_calls);
    }
}

#[tokio::test]
async fn a_tool_call_waits_for_approval_and_says_what_was_denied() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {"pay": {"type": "tool_call", "tool": "pay", "with": {"arguments": {"euros": 5}}, "on_error": "emit"}},
        "edges": ["start -> pay"],
        "outputs": {"result": "pay.result", "error": "pay.error"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    let info = scene.say(&info, json!({"approve": true})).await;
    assert_eq!(info.outputs["result"], json!({"did": "pay"}));
    let info = scene.run(&flow, "s", json!({})).await;
    let info = scene.say(&info, json!({"approve": false, "reason": "too much"})).await;
    assert_eq!((info.status, &info.outputs["error"]["code"]), (RunStatus::Completed, &json!("tool_denied")));
    let ends = scene.log(&info.run).await;
    assert!(ends.contains(&"end pay: tool_denied".to_owned()), "{ends:?}");
    assert_eq!(scene.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_sub_flow_works_on_the_given_thread() {
    let scene = Scene::new();
    let inner = json!({
        "id": "expert",
        "inputs": {"question": "string"},
        "nodes": {
            "note": {"type": "manual_input", "text": "Think.", "role": "user"},
            "answer": {"type": "llm_request", "prompt": "expert"},
        },
        "edges": ["start -> note", "note -> answer", "start.question -> answer.user"],
        "outputs": {"text": "answer.text"},
    });
    let outer = json!({
        "id": "outer",
        "inputs": {"question": "string"},
        "nodes": {
            "side": {"type": "new_thread"},
            "help": {"type": "sub_flow", "flow": "expert"},
            "in": {"type": "portal_in", "portal": "found"},
            "out": {"type": "portal_out", "portal": "found"},
            "say": {"type": "llm_request", "prompt": "chat"},
        },
        "edges": [
            "start -> side", "side.thread -> help.thread", "start.question -> help.question",
            "help.text -> in.value", "out.value -> say.user",
        ],
        "outputs": {"text": "say.text", "thread": "side.thread"},
    });
    let mut compile_inputs = CompileInputs::default();
    compile_inputs.flows.insert("expert".to_owned(), FlowDefinition::read("expert", &inner).unwrap().into());
    let flow = scene.add(lower(&FlowDefinition::read("outer", &outer).unwrap(), &compile_inputs).unwrap());
    let info = scene.run(&flow, "s", json!({"question": "why?"})).await;
    assert_eq!(info.outputs["text"], json!("re: re: why?"), "{info:?}");
    assert_eq!(scene.says("s").await, ["user: re: why?", "assistant: re: re: why?"]);
    let side = info.outputs["thread"].as_str().unwrap();
    assert_eq!(scene.says(side).await, ["user: think.", "user: why?", "assistant: re: why?"]);
    insta::assert_snapshot!(scene.log(&info.run).await.join("\n"), @r"
    run.start
    start start 1
    end start 1
    start side 1
    end side 1
    start help 1
    end help 1
    start help/note 1
    end help/note 1
    start help/answer 1
    end help/answer 1
    start say 1
    end say 1
    over completed
    ");
}

#[tokio::test]
async fn a_released_thread_is_gone_and_main_never_is() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "side": {"type": "new_thread"},
            "gone": {"type": "release_thread"},
            "main": {"type": "release_thread"},
        },
        "edges": ["start -> side", "side.thread -> gone.thread", "gone -> main", "start.thread -> main.thread"],
        "outputs": {"gone": "gone.was_there", "main": "main.was_there"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(serde_json::to_value(&info.outputs).unwrap(), json!({"gone": true, "main": false}));
    let session = scene.sessions.open(&SessionId::parse("s").unwrap()).await.unwrap();
    assert_eq!(session.threads().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_run_is_given_is_checked_and_filled_in() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"n": {"type": "integer", "minimum": 1, "default": 7}, "who": "string"},
        "nodes": {"say": {
            "type": "transform", "inputs": {"n": "integer", "who": "string"}, "template": "{{ who }} {{ n }}",
        }},
        "edges": ["start.n -> say.n", "start.who -> say.who"],
        "outputs": {"text": "say.value"},
    }));
    let info = scene.run(&flow, "s", json!({"who": "Ada"})).await;
    assert_eq!(info.outputs["text"], json!("Ada 7"));
    let refused = |input| {
        let start = RunStart { input, ..RunStart::default() };
        let (scene, flow) = (scene.clone(), flow.clone());
        async move { scene.runtime.start(&flow, start).await.unwrap_err().to_string() }
    };
    assert_eq!(refused(json!({})).await, "input of flow `flow`: `who` is missing");
    assert_eq!(
        refused(json!({"who": 1})).await,
        "input of flow `flow`: `who`: string is expected, not a number"
    );
    assert_eq!(
        refused(json!({"who": "", "n": 0})).await,
        "input of flow `flow`: `n`: 0 is less than the minimum of 1"
    );
    assert_eq!(
        refused(json!({"who": "", "m": 0})).await,
        "input of flow `flow`: there is no `m`; there are: n, who"
    );
    assert_eq!(refused(json!([1])).await, "input of flow `flow`: it must be an object");
}

#[tokio::test]
async fn a_model_call_gives_its_readable_thinking_apart_from_its_text() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"question": "string"},
        "nodes": {"answer": {"type": "llm_request", "prompt": "chat"}},
        "edges": ["start.question -> answer.user"],
        "outputs": {"text": "answer.text", "why": "answer.reasoning"},
    }));
    let info = scene.run(&flow, "s", json!({"question": "!think hard"})).await;
    assert_eq!(
        (&info.outputs["text"], &info.outputs["why"]),
        (&json!("re: !think hard"), &json!("First this.\n\nThen that."))
    );
    let info = scene.run(&flow, "s2", json!({"question": "plain"})).await;
    assert_eq!((&info.outputs["text"], &info.outputs["why"]), (&json!("re: plain"), &json!("")));
}
