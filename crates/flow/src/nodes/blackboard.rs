//! `blackboard_wait` waits until a blackboard fits a condition.
//!
//! It writes nothing, so a run that lost its driver repeats it. A board is looked at again and again: other processes
//! write it.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::BoxFuture;
use contexture_template::Condition;
use futures::FutureExt as _;

use super::text::{Scope, fault_of};
use crate::{BlackboardWaitConfig, FlowFault, Node, NodeContext, NodeError, Port, PortType, PortValue, Step};

/// How long to wait before the board is looked at again.
const POLL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct BlackboardWaitNode {
    board: String,
    condition: Condition,
    timeout: Option<Duration>,
}

impl BlackboardWaitNode {
    pub(crate) fn new(config: &BlackboardWaitConfig) -> Result<Self, Vec<FlowFault>> {
        let condition =
            Condition::parse(&config.condition).map_err(|err| vec![fault_of(&err).at(["condition"])])?;
        let timeout = config.wait_seconds.map(Duration::from_secs);
        Ok(Self { board: config.board.clone(), condition, timeout })
    }

    /// Whose board it is. Boards of a user are those of the input `user`, or else of the run's.
    fn scope(cx: &NodeContext) -> contexture_compose::Scope {
        contexture_compose::Scope {
            tenant: Some(cx.services.tenant.to_string()),
            session: Some(cx.services.session.id().to_string()),
            thread: Some(cx.thread.id().to_string()),
            user: cx.text("user").map(str::to_owned).or_else(|| cx.services.user.clone()),
            ..contexture_compose::Scope::default()
        }
    }

    async fn wait(&self, cx: &NodeContext) -> Result<PortValue, NodeError> {
        loop {
            let value = cx.services.library.blackboard(self.board.clone(), Self::scope(cx)).await?;
            if Scope::of(cx).with("board", value.clone()).holds(&self.condition)? {
                return Ok(PortValue::data(value));
            }
            cx.services.time.sleep(POLL).await;
        }
    }
}

impl Node for BlackboardWaitNode {
    fn inputs(&self) -> Vec<Port> {
        vec![
            Port::new("thread", PortType::Thread),
            Port::new("data", PortType::ANY),
            Port::new("user", PortType::STRING),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("board", PortType::ANY), Port::new("timeout", PortType::ANY)]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let late: BoxFuture<'static, ()> = match self.timeout {
                Some(timeout) => cx.services.time.sleep(timeout),
                None => Box::pin(std::future::pending()),
            };
            let cancel = cx.cancel.clone();
            // The board first: what it holds when the time is over counts.
            futures::select_biased! {
                value = self.wait(&cx).fuse() => Ok(Step::done([("board", value?)])),
                () = late.fuse() => Ok(Step::done([("timeout", PortValue::data(true))])),
                () = cancel.cancelled_owned().fuse() => Err(NodeError::cancelled()),
            }
        })
    }
}
