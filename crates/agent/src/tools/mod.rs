//! Tools: what they are, how they are called, and what the model sees of their results.
//!
//! A [`tool`] has a definition and a function; `http` makes one from a description. [`round`] runs the calls of one
//! answer, each through its [`middleware`] (`invoke`), and bounds their outputs (`answered`). [`own`] has the engine's
//! own tools. The [`toolbox`] is what an agent has of all this.

mod answered;
mod bounded;
mod declared;
mod depth;
mod http;
mod invoke;
mod middleware;
mod notes;
mod own;
mod round;
mod skills;
mod tool;
mod toolbox;

pub(crate) use answered::{Answered, result_items};
pub(crate) use depth::{is_too_deep, take_apart, too_deep};
pub use http::{HttpCaller, HttpReply, HttpRequest, HttpTool, HttpToolInvalid};
pub(crate) use invoke::{CallFailure, CallLimits, Site, span, timed_out};
pub use middleware::{Before, Middleware, Next, check_middleware, tool_middleware};
pub(crate) use middleware::{Denied, Layer, LayerKind, layer};
pub(crate) use notes::RoundNotes;
pub use own::ENGINE_TOOLS;
pub(crate) use own::OwnTools;
pub(crate) use round::Round;
pub(crate) use tool::check_name;
pub use tool::{Invocation, Tool, ToolRefused, Tools, tool};
pub(crate) use toolbox::Toolbox;
