//! The skills that a thread has loaded.
//!
//! Loading is a record of the thread (`record`): the version's hash and text, so that an edited skill stays as it was
//! loaded, and the place where its instructions stand. What a request shows of them is a `view`. The rules:
//!
//! 1. The instructions of a skill stand where it was loaded: in the result of the call, or in the envelope of the
//!    message whose request named it. When the provider's cache is lost anyway (see `request/frozen.rs`) they move to
//!    the system message, behind the frozen prefix. So nothing else changes bytes that were sent.
//! 2. Where that place is not part of a request (outside the window, left out, cut), they stand before the history.
//! 3. A skill that takes more than its share of the window is shown as a stub: its name, a reason, and how to read it.
//! 4. A skill that was unloaded stays where it stands until the next such moment; the model is told to ignore it.
//!
//! So the instructions of every active skill, or its stub, are in every request exactly once.

mod narrowing;
mod record;
mod view;

pub(crate) use narrowing::Narrowing;
pub(crate) use record::{Epoch, Place, SkillRoom, SkillShare, key, load, loaded, name_of, unload};
pub use record::{LoadedSkill, SkillInject, SkillLoad, is_skill_record};
pub(crate) use view::{NewSkills, SkillMoment, SkillView};
