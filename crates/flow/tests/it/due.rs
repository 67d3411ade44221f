//! Which runs need a driver.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{Flow, Node, NodeContext, NodeError, Port, Step};
use serde_json::json;

use crate::scene::Scene;

/// Never comes to an end.
#[derive(Debug)]
struct Endless;

impl Node for Endless {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn run(self: Arc<Self>, _: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn runs_that_are_driven_do_not_hide_those_that_are_not() {
    let scene = Scene::new();
    let flow = Flow::builder("endless").custom("work", Endless).edge("start -> work").build().unwrap();
    let flow = scene.add(flow);
    let mut driven = Vec::new();
    for session in ["a", "b"] {
        let run = scene.start(&flow, session, json!({})).await;
        let runtime = scene.runtime.clone();
        driven.push(tokio::spawn(async move { runtime.drive(&run, CancellationToken::new()).await }));
    }
    let due = async || {
        let due = scene.runtime.due(1).await.unwrap();
        due.into_iter().map(|(_, run)| run).collect::<Vec<_>>()
    };
    while !due().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = scene.start(&flow, "c", json!({})).await;
    assert_eq!(due().await, [run]);
    driven.iter().for_each(tokio::task::JoinHandle::abort);
}
