//! Reads the entries `injectable`, which declares what it adds, and `contributor`, which names one of the application.

use std::collections::BTreeMap;

use contexture_agent::{check_constraint, check_guardrail};
use contexture_compose::{
    BoxError, Call, Constraint, Contribution, Entry, Guardrail, SharedTool, TagValue, Text, injectable,
};
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Problem;
use crate::read::reader::Reader;
use crate::read::tools::DeclaredTool;
use crate::source::decode::{Cursor, Each, Field, Many, Raw, Word};

#[derive(Default, Deserialize)]
#[serde(default)]
struct InjectableEntry {
    injectable: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InjectableFields {
    id: Field<Word>,
    text: Field<Many<Raw>>,
    values: Option<Raw>,
    input: Option<Raw>,
    tools: Each<DeclaredTool>,
    constraints: Each<Constraint>,
    guardrails: Each<Guardrail>,
    metadata: Option<Raw>,
}

/// What an injectable adds to each pass.
#[derive(Clone)]
struct Injected {
    texts: Vec<Text>,
    values: Option<TagValue>,
    metadata: BTreeMap<String, TagValue>,
    tools: Vec<SharedTool>,
    constraints: Vec<Constraint>,
    guardrails: Vec<Guardrail>,
}

impl Injected {
    async fn contribution(self, call: Call) -> Result<Contribution, BoxError> {
        let mut made = Contribution {
            tools: self.tools,
            constraints: self.constraints,
            guardrails: self.guardrails,
            ..Contribution::default()
        };
        for text in &self.texts {
            let text = text.resolve(&call).await?;
            if !text.trim().is_empty() {
                made = made.and_text(text);
            }
        }
        if let Some(values) = &self.values {
            made = made.and_values(values.resolve(&call).await?);
        }
        for (key, value) in &self.metadata {
            made = made.and_metadata(key.clone(), value.resolve(&call).await?);
        }
        Ok(made)
    }
}

/// Reads `injectable: {id, …}`: texts, tag values, tools, checks and metadata that belong together.
pub(super) fn injectable_entry<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: InjectableEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(fields.injectable) else { return Entry::Nothing };
    let fields: InjectableFields = reader.decode(inner.clone());
    let Some((id, place)) = reader.id(&fields.id) else {
        reader.problem(inner.invalid("`id` is missing"));
        return Entry::Nothing;
    };
    let owner = format!("injectable:{id}");
    reader.places.owner(&owner, place);
    let texts = fields.text.many().into_iter().filter_map(|it| reader.text_of(Some(it))).collect();
    let values = reader.given(fields.values).and_then(|it| {
        reader.take(it.pairs())?;
        reader.places.tags(&owner, it.node);
        reader.slot_keys(it.node);
        reader.tag_value(it.node)
    });
    let metadata = reader.given(fields.metadata).and_then(|it| reader.take(it.pairs())).unwrap_or_default();
    let metadata =
        metadata.into_iter().filter_map(|(key, it)| Some((key.to_owned(), reader.tag_value(it.node)?)));
    let metadata = metadata.collect();
    let schema = reader.given(fields.input).and_then(|it| reader.schema(&owner, &it));
    let injected = Injected {
        texts,
        values,
        metadata,
        tools: reader.tools(fields.tools),
        constraints: reader.checked(fields.constraints, check_constraint),
        guardrails: reader.checked(fields.guardrails, check_guardrail),
    };
    let made = injectable(id, move |call| injected.clone().contribution(call));
    match schema {
        Some(schema) => {
            let declared: &Value = schema.value();
            reader.facts.schemas.push(declared.clone());
            made.input_schema(schema).into()
        }
        None => made.into(),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContributorEntry {
    contributor: Field<Word>,
}

/// Reads `contributor: NAME`, which the application registered.
pub(super) fn contributor<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: ContributorEntry = reader.decode(at.clone());
    let Some((name, place)) = reader.id(&fields.contributor) else { return Entry::Nothing };
    let known = reader.lookup.contributors;
    if let Some(contributor) = known.get(&name) {
        return Entry::from(std::sync::Arc::clone(contributor));
    }
    let hint = did_you_mean(&name, known.keys().map(String::as_str)).unwrap_or_else(|| {
        "an application registers contributors in Rust with `Project::with_contributors`; the command line has none"
            .to_owned()
    });
    let problem = Problem::new(ErrorCode::UnknownEntry, format!("there is no contributor `{name}`"));
    reader.problem(problem.at(place).hint(Some(hint)));
    Entry::Nothing
}
