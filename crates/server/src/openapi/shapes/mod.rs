//! Documents whose types belong to other crates, described: those crates know nothing of HTTP. Nothing here is ever made;
//! the tests compare what the server gives with these descriptions.

mod chat;
mod event;
mod explanation;
mod item;
mod message;
mod part;
mod run;

pub(crate) use chat::{ChatBody, ChatCompletion, ChatFrame};
pub(crate) use event::{CompactionReport, EventFrame, SessionEvent};
pub(crate) use explanation::{Explanation, PassDiff, PassResult};
pub(crate) use item::{ItemOrTurn, LogItem, TurnStatus};
pub(crate) use message::{
    Answer, ApprovalRequest, ClientResult, ClientTool, InlineBlock, Message, PendingApproval, Policy,
    Request, Said, Settings, ToolCall, Usage,
};
pub(crate) use run::{AskedKind, RunEvent, RunFrame, RunStatus};
