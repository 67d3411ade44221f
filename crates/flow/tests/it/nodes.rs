//! What each node does.

use contexture_flow::RunStatus;
use serde_json::json;

use crate::scene::Scene;

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
    end ask 1
    start answer 1
    end answer 1
    start ask 2
    wait ask.2
    run.wait
    answer ask.2 "two"
    end ask 2
    start answer 2
    end answer 2
    start ask 3
    wait ask.3
    run.wait
    "#);
}
