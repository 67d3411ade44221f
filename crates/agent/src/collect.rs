//! Hears a model out: hands on what it says, and gives the whole answer or what was said before it broke off.

use contexture_message::{Answer, Delta};
use contexture_model::{Deltas, ModelError, ModelErrorKind};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::run::Sink;
use crate::running::Break;
use crate::words::spoken;
use crate::{AgentError, Event};

/// Hears a model out. What was said before it broke off is kept.
pub(crate) async fn collect_answer(
    stream: Deltas,
    sink: Sink,
    cancel: CancellationToken,
    holds_back: bool,
) -> Result<Answer, Break> {
    let mut said_so_far = String::new();
    let mut deltas = std::pin::pin!(stream.take_until(cancel.cancelled()));
    while let Some(delta) = deltas.next().await {
        match delta {
            Ok(Delta::Text(text)) => {
                said_so_far.push_str(&text);
                if !holds_back {
                    sink.send(Event::TextDelta { text });
                }
            }
            // Thinking may say what the answer must not.
            Ok(Delta::Thinking(_)) if holds_back => {}
            Ok(Delta::Thinking(text)) => sink.send(Event::ThinkingDelta { text }),
            // Calls are told when they are whole.
            Ok(Delta::Call { .. } | Delta::Arguments { .. }) => {}
            Ok(Delta::Done(answer)) => {
                // Not every model tells its words before the whole.
                let untold = Some(answer.joined_text()).filter(|it| said_so_far.is_empty() && !it.is_empty());
                if let Some(text) = untold.filter(|_| !holds_back) {
                    sink.send(Event::TextDelta { text });
                }
                return Ok(*answer);
            }
            Err(err) => {
                let kept = if holds_back { String::new() } else { said_so_far };
                return Err(Break { err: err.into(), items: spoken(kept) });
            }
        }
    }
    let kept = if holds_back { String::new() } else { said_so_far };
    if cancel.is_cancelled() {
        return Err(Break { err: AgentError::Cancelled, items: spoken(kept) });
    }
    let err = ModelError::new(ModelErrorKind::Malformed, "the stream ended before the answer was whole");
    Err(Break { err: err.into(), items: spoken(kept) })
}
