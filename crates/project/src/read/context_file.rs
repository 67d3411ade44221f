//! Reads a file of `contexts/`.

use contexture_compose::Context;

use crate::error::{Place, Problem};
use crate::read::context::{Content, ContextFields, context};
use crate::read::entries::entries;
use crate::read::facts::{Remark, Spot};
use crate::read::index::default_id;
use crate::read::reader::Reader;
use crate::source::decode::Cursor;
use crate::source::front::Document;
use crate::source::sections::stripped;
use contexture_message::ErrorCode;

/// Reads a context file.
pub(crate) fn context_file<'a>(reader: &mut Reader<'a>, document: &'a Document) -> (Context, Spot) {
    reader.problems(document.problems.clone());
    let fields: ContextFields = reader.decode(Cursor::root(&document.front));
    if let Some(at) = reader.given(fields.text) {
        let problem = Problem::new(
            ErrorCode::UnknownField,
            "unknown field `text`: the text of a context file is its body",
        );
        reader.problem(problem.at(at.key));
    }
    let noted = reader.facts.variables.len();
    let begin = Place { line: document.body_line, column: 1 };
    let body = Some(stripped(&document.body, begin)).filter(|it| !it.text.is_empty());
    let text = body.as_ref().and_then(|it| reader.section(&it.text, it.place));
    let is_blank = body.is_none_or(|it| it.text.trim().is_empty());
    let gives = ["values", "tools", "use", "constraints", "guardrails"];
    if is_blank && gives.iter().all(|it| document.front.get(it).is_none_or(|it| it.value.is_null())) {
        reader.remark(Remark {
            code: "empty_context",
            message: "the context says nothing: it has no text, values, tools or entries".to_owned(),
            place: Place::START,
            hint: None,
        });
    }
    let id = reader.id(&fields.id).map(|(id, _)| id).unwrap_or_else(|| default_id(reader.file).to_owned());
    let content = Content { kind: "context", id: Some(id), text, noted };
    let entries = reader.given(fields.entries).map(|it| entries(reader, &it)).unwrap_or_default();
    let (context, spot) = context(reader, fields, content, entries, document.front.place);
    (context.file(reader.file), spot)
}
