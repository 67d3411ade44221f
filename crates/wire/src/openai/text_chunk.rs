//! Reads the chunks that carry more text and nothing else.
//!
//! Nearly all chunks do. Reading them as a tree of values, as [`decode_stream`](super::decode_stream) reads the others,
//! takes several times as long and was a twentieth of a turn's processor time on the server. A chunk with any other
//! field is not read here.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Frame;

/// More text of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextChunk<'a> {
    pub(super) id: &'a str,
    pub(super) model: &'a str,
    #[serde(default)]
    object: &'a str,
    #[serde(borrow)]
    choices: [TextChoice<'a>; 1],
    // Only null is read as one of these.
    #[serde(rename = "usage")]
    _usage: Option<()>,
    #[serde(rename = "created")]
    _created: Option<IgnoredAny>,
    #[serde(rename = "system_fingerprint")]
    _system_fingerprint: Option<IgnoredAny>,
    #[serde(rename = "service_tier")]
    _service_tier: Option<IgnoredAny>,
    #[serde(rename = "obfuscation")]
    _obfuscation: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextChoice<'a> {
    index: u64,
    #[serde(borrow)]
    delta: TextDelta<'a>,
    #[serde(rename = "finish_reason")]
    _finish_reason: Option<()>,
    #[serde(rename = "logprobs")]
    _logprobs: Option<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextDelta<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(rename = "role")]
    _role: Option<IgnoredAny>,
    #[serde(rename = "refusal")]
    _refusal: Option<()>,
}

impl<'a> TextChunk<'a> {
    /// Reads a frame that carries text; `None` if it carries anything else.
    pub(super) fn read(frame: &'a Frame) -> Option<Self> {
        if frame.event.is_some() {
            return None;
        }
        let chunk: Self = serde_json::from_str(frame.data.trim()).ok()?;
        (chunk.object != "error" && chunk.choices[0].index == 0).then_some(chunk)
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.choices[0].delta.content
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::{Value, json};

    use super::TextChunk;
    use crate::openai::StreamDecoder;
    use crate::{Dialect, Frame, Target};

    fn chunk(id: &str, content: &Value, choice: &Value, rest: &Value) -> Value {
        let mut choice_of = json!({"index": 0, "delta": {"role": "assistant", "content": content}});
        let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": 1, "model": "m"});
        choice_of.as_object_mut().unwrap().extend(choice.as_object().unwrap().clone());
        chunk["choices"] = json!([choice_of]);
        chunk.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        chunk
    }

    /// Decodes chunks, with an additional null field if one is given: an unknown field sends a chunk down the slow path.
    fn decoded(chunks: &[Value], extra: Option<&str>) -> String {
        let mut decoder = StreamDecoder::new(&Target::new(Dialect::Openai, "p", "m"));
        let mut all = Vec::new();
        for chunk in chunks {
            let mut chunk = chunk.clone();
            if let Some(extra) = extra {
                chunk[extra] = Value::Null;
            }
            let frame = Frame::data(chunk.to_string());
            assert!(extra.is_none() || TextChunk::read(&frame).is_none());
            all.push(format!("{:?}", decoder.push(&frame)));
        }
        format!("{all:?} {:?} {:?}", decoder.partial(), decoder.finish())
    }

    fn any_chunk() -> impl Strategy<Value = Value> {
        let content = prop_oneof![
            8 => "[a\"\\\\\n é😀]{0,4}".prop_map(Value::String),
            1 => Just(Value::Null),
            1 => Just(json!([{"type": "text", "text": "part"}])),
        ];
        let choice = prop_oneof![
            6 => Just(json!({})),
            1 => Just(json!({"finish_reason": null, "logprobs": null})),
            1 => Just(json!({"finish_reason": "stop"})),
            1 => Just(json!({"index": 1})),
            1 => Just(json!({"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "t"}}]}})),
        ];
        let rest = prop_oneof![
            6 => Just(json!({})),
            1 => Just(json!({"usage": null, "service_tier": "x"})),
            1 => Just(json!({"usage": {"prompt_tokens": 3, "completion_tokens": 4}})),
            1 => Just(json!({"object": "error"})),
            1 => Just(json!({"error": {"message": "no"}})),
            1 => Just(json!({"choices": []})),
        ];
        (any::<bool>(), content, choice, rest).prop_map(|(named, content, choice, rest)| {
            chunk(if named { "a" } else { "" }, &content, &choice, &rest)
        })
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_a_chunk_is_read(chunks in proptest::collection::vec(any_chunk(), 0..6)) {
            assert_eq!(decoded(&chunks, None), decoded(&chunks, Some("unknown")));
        }
    }

    #[test]
    fn text_is_read_here() {
        let plain = chunk("a", &json!("hi\n"), &json!({"finish_reason": null}), &json!({"usage": null}));
        let frame = Frame::data(plain.to_string());
        assert_eq!(TextChunk::read(&frame).map(|it| it.text().to_owned()), Some("hi\n".to_owned()));
    }
}
