//! The table of kinds: the name of each, and what is configured for it. A kind is added here and in `kind.rs`.

use contexture_message::ErrorCode;
use serde_json::Value;

use super::kind::{
    BlackboardWaitConfig, BranchConfig, CacheConfig, CustomConfig, InjectConfig, IntentConfig, JoinConfig,
    LlmConfig, ManualInputConfig, NewThreadConfig, NodeKind, ParallelConfig, PortalConfig, SubFlowConfig,
    ToolCallConfig, ToolsConfig, TransformConfig, UserInputConfig,
};
use super::read::{kinds, typed};
use crate::FlowFault;

/// A kind that has nothing to configure.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

macro_rules! kinds {
    ($($name:literal => $kind:ident $(($config:ty))?),+ $(,)?) => {
        impl NodeKind {
            /// The names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name of the kind, as in `type`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(kinds!(@pattern $kind $(($config))?) => $name),+
                }
            }

            /// Reads what is configured for a kind.
            pub(crate) fn read(name: &str, config: &Value) -> Result<NodeKind, FlowFault> {
                match name {
                    $($name => kinds!(@read config $kind $(($config))?),)+
                    _ => {
                        let shown: String = name.chars().take(40).collect();
                        let fault = FlowFault::new(ErrorCode::FlowUnknownType, format!("there is no type `{shown}`"));
                        Err(fault.at(["type"]).hint(Some(kinds())))
                    }
                }
            }
        }
    };
    (@pattern $kind:ident) => { NodeKind::$kind };
    (@pattern $kind:ident ($config:ty)) => { NodeKind::$kind(_) };
    (@read $value:ident $kind:ident) => { typed::<NoConfig>($value).map(|_| NodeKind::$kind) };
    (@read $value:ident $kind:ident ($config:ty)) => { typed::<$config>($value).map(NodeKind::$kind) };
}

kinds! {
    "start" => Start,
    "llm_request" => LlmRequest(LlmConfig),
    "user_input" => UserInput(UserInputConfig),
    "manual_input" => ManualInput(ManualInputConfig),
    "new_thread" => NewThread(NewThreadConfig),
    "inject_messages" => InjectMessages(InjectConfig),
    "release_thread" => ReleaseThread,
    "tools" => Tools(ToolsConfig),
    "tool_call" => ToolCall(ToolCallConfig),
    "intent_router" => IntentRouter(IntentConfig),
    "branch" => Branch(BranchConfig),
    "parallel" => Parallel(ParallelConfig),
    "join" => Join(JoinConfig),
    "cache" => Cache(CacheConfig),
    "blackboard_wait" => BlackboardWait(BlackboardWaitConfig),
    "portal_in" => PortalIn(PortalConfig),
    "portal_out" => PortalOut(PortalConfig),
    "sub_flow" => SubFlow(SubFlowConfig),
    "transform" => Transform(TransformConfig),
    "custom" => Custom(CustomConfig),
}
