//! Which runs need a driver.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{Flow, Node, NodeContext, NodeError, Port, RunId, Step};
use contexture_session::Tenant;
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
        let due = scene.runtime.due(None, 1).await.unwrap();
        due.into_iter().map(|(_, run)| run).collect::<Vec<_>>()
    };
    while !due().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = scene.start(&flow, "c", json!({})).await;
    assert_eq!(due().await, [run]);
    driven.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn runs_that_are_due_stand_in_a_circle() {
    let scene = Scene::new();
    let flow = scene.flow(json!({"nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]}));
    let mut all = Vec::new();
    for session in ["a", "b", "c", "d", "e"] {
        all.push((Tenant::default(), scene.start(&flow, session, json!({})).await));
        // Its mark stands behind it, and makes no second run of it.
        scene.runtime.cancel(&all.last().unwrap().1).await.unwrap();
    }
    for max in 0..=all.len() + 1 {
        for idx in 0..all.len() {
            let circle: Vec<_> = all.iter().cycle().skip(idx + 1).take(max.min(all.len())).cloned().collect();
            let due = scene.runtime.due(Some(&all[idx]), max).await.unwrap();
            assert_eq!(due, circle, "{max} behind {idx}");
        }
    }
    // Where a run was that is gone is a place all the same.
    let gone = (Tenant::default(), RunId::parse("b.zzz").unwrap());
    let due = scene.runtime.due(Some(&gone), 2).await.unwrap();
    assert_eq!(due, all[2..4]);
}

#[tokio::test]
async fn each_run_has_its_turn_while_those_before_it_are_due_again_and_again() {
    let scene = Scene::new();
    let flow = scene.flow(json!({"nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]}));
    for session in ["a", "b", "c", "d", "e"] {
        scene.start(&flow, session, json!({})).await;
    }
    // Nobody drives what is taken here, so that all of them are always due; there are two places.
    let (mut taken, mut after) = (String::new(), None);
    for _ in 0..5 {
        for run in scene.runtime.due(after.as_ref(), 2).await.unwrap() {
            taken.push_str(run.1.session().as_str());
            after = Some(run);
        }
    }
    assert_eq!(taken, "abcdeabcde");
}
