//! Collects a model's answer: forwards its deltas, and returns the whole answer or the text before a failure.

use contexture_message::{Answer, Delta};
use contexture_model::{Deltas, ModelError, ModelErrorKind};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::run::Sink;
use crate::running::Break;
use crate::words::spoken;
use crate::{AgentError, Event};

/// Collects the answer of a model. If the stream breaks off, the streamed text is kept.
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
            // Thinking may reveal what the answer must not.
            Ok(Delta::Thinking(_)) if holds_back => {}
            Ok(Delta::Thinking(text)) => sink.send(Event::ThinkingDelta { text }),
            // Calls are reported once they are complete.
            Ok(Delta::Call { .. } | Delta::Arguments { .. }) => {}
            Ok(Delta::Done(answer)) => {
                // Some models send no text deltas before the complete answer.
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
