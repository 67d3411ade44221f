//! Capabilities: named bundles of entries, tools, values, transforms and checks.

use std::fmt;
use std::sync::Arc;

use contexture_history::{Transform, Transforms};
use indexmap::IndexMap;

use super::{Context, Entry};
use crate::define::checks::{Constraint, Guardrail, ToolMiddleware};
use crate::define::{Predicate, Schema, TagValue, Text};
use crate::segment::SharedTool;

/// The preset that is used if none is named.
pub const DEFAULT_PRESET: &str = "defaults";

/// A named bundle of entries, tools, values, transforms and checks, in one or more variants.
///
/// It is included like any other entry. Its parts keep their own sources; its instructions, tools and checks belong to
/// `capability:<name>`. Texts, conditions and functions read its values as `ctx.cap.<name>`.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_compose::{Capability, Context, Prompt, ResolveOptions, Text};
/// use serde_json::json;
///
/// let research = Capability::builder("research")
///     .instructions(Text::template("Read at most {{ ctx.cap.research.limit }} sources.")?)
///     .include(Context::text("sources", "Prefer primary sources."))
///     .value("limit", json!(5))
///     .preset("deep", |it| it.value("limit", json!(20)))
///     .build();
/// let prompt = Prompt::builder("p").include(research.preset("deep")).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await?;
/// assert_eq!(pass.system(), Some("Prefer primary sources.\n\nRead at most 20 sources."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Capability {
    defaults: CapabilityVariant,
    presets: IndexMap<String, CapabilityVariant>,
}

/// One variant of a [`Capability`], as a prompt includes it. A clone is the same variant: included twice, it is rendered
/// once.
#[derive(Clone)]
pub struct CapabilityVariant(pub(crate) Arc<CapabilityParts>);

#[derive(Clone, Debug)]
pub(crate) struct CapabilityParts {
    pub(crate) name: String,
    pub(crate) preset: Option<String>,
    /// The presets that exist, if the requested one is not among them.
    pub(crate) known_presets: Option<Vec<String>>,
    /// The instructions, entries, tools and checks.
    pub(crate) context: Context,
    pub(crate) values: IndexMap<String, TagValue>,
    pub(crate) transforms: Transforms,
    pub(crate) tool_middleware: Vec<ToolMiddleware>,
}

type Change = Box<dyn FnOnce(CapabilityBuilder) -> CapabilityBuilder>;

/// Builds a [`Capability`]. Names and values are checked when a prompt that includes it is built.
#[must_use]
pub struct CapabilityBuilder {
    parts: CapabilityParts,
    presets: Vec<(String, Change)>,
}

impl Capability {
    /// Starts the definition of a capability.
    pub fn builder(name: impl Into<String>) -> CapabilityBuilder {
        let name = name.into();
        CapabilityBuilder::of(CapabilityParts {
            context: Context::new(name.clone()),
            name,
            preset: None,
            known_presets: None,
            values: IndexMap::new(),
            transforms: Transforms::default(),
            tool_middleware: Vec::new(),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.defaults.0.name
    }

    /// Returns the variant that is included if no preset is named: the preset `defaults`, or the bundle without any
    /// preset.
    pub fn defaults(&self) -> CapabilityVariant {
        self.defaults.clone()
    }

    /// Returns the variant with that name. A prompt that includes an unknown one can't be built.
    pub fn preset(&self, name: &str) -> CapabilityVariant {
        if name == DEFAULT_PRESET {
            return self.defaults();
        }
        self.presets.get(name).cloned().unwrap_or_else(|| {
            let known = std::iter::once(DEFAULT_PRESET.to_owned()).chain(self.presets.keys().cloned());
            CapabilityVariant(Arc::new(CapabilityParts {
                preset: Some(name.to_owned()),
                known_presets: Some(known.collect()),
                ..(*self.defaults.0).clone()
            }))
        })
    }

    /// Returns the names of its presets, in order; `defaults` is not among them.
    pub fn presets(&self) -> impl Iterator<Item = &str> {
        self.presets.keys().map(String::as_str)
    }
}

impl CapabilityVariant {
    /// Returns the name of the capability.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name of the preset, unless it is the default one.
    pub fn preset(&self) -> Option<&str> {
        self.0.preset.as_deref()
    }

    /// Returns the names of its values, in order.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.values.keys().map(String::as_str)
    }
}

impl CapabilityBuilder {
    fn of(parts: CapabilityParts) -> Self {
        Self { parts, presets: Vec::new() }
    }

    /// Sets its instruction text, which follows its entries.
    pub fn instructions(self, text: impl Into<Text>) -> Self {
        let text = text.into();
        self.context(|it| it.with_text(text))
    }

    /// Changes the options of its instruction text, such as the priority.
    pub fn context(mut self, change: impl FnOnce(Context) -> Context) -> Self {
        self.parts.context = change(self.parts.context);
        self
    }

    /// Includes it only if the predicate holds.
    pub fn when_predicate(self, predicate: Predicate) -> Self {
        self.context(|it| it.when_predicate(predicate))
    }

    /// Adds an entry: a context, a block, a provider, another capability, or any other.
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.context(|it| it.include(entry))
    }

    /// Replaces all entries, for a preset that has others.
    pub fn entries(self, entries: Vec<Entry>) -> Self {
        self.context(|it| it.with_entries(entries))
    }

    /// Adds a tool, with the code that runs it.
    pub fn tool(self, tool: impl Into<SharedTool>) -> Self {
        self.context(|it| it.tool(tool))
    }

    /// Adds a check of the answer.
    pub fn constraint(self, constraint: Constraint) -> Self {
        self.context(|it| it.constraint(constraint))
    }

    /// Adds a guardrail.
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.context(|it| it.guardrail(guardrail))
    }

    /// Declares the schema of the input that it reads.
    pub fn input_schema(self, schema: Schema) -> Self {
        self.context(|it| it.input_schema(schema))
    }

    /// Sets a value, which texts and functions read as `ctx.cap.<name>.<key>`. A function gets the input and the scope,
    /// but no values of capabilities; it must not wait.
    ///
    /// ```
    /// use contexture_compose::{Capability, TagValue};
    /// use serde_json::{Value, json};
    ///
    /// let research = Capability::builder("research")
    ///     .value("limit", json!(5))
    ///     .value("reader", TagValue::of_scoped(|_: &Value, ctx| json!(ctx.user)));
    /// ```
    pub fn value(mut self, key: impl Into<String>, value: impl Into<TagValue>) -> Self {
        self.parts.values.insert(key.into(), value.into());
        self
    }

    /// Adds a transform of the history. A capability with transforms can't depend on a condition.
    pub fn transform(mut self, transform: impl Transform + 'static) -> Self {
        self.parts.transforms = std::mem::take(&mut self.parts.transforms).then(transform);
        self
    }

    /// Adds transforms of the history, in order.
    pub fn transforms(mut self, transforms: &Transforms) -> Self {
        self.parts.transforms = std::mem::take(&mut self.parts.transforms).chain(transforms);
        self
    }

    /// Adds middleware that wraps tool calls. A capability with middleware can't depend on a condition.
    pub fn tool_middleware(mut self, middleware: ToolMiddleware) -> Self {
        self.parts.tool_middleware.push(middleware);
        self
    }

    /// Adds a named variant: the whole bundle, changed. The preset `defaults` is used if none is named.
    pub fn preset(
        mut self,
        name: impl Into<String>,
        change: impl FnOnce(CapabilityBuilder) -> CapabilityBuilder + 'static,
    ) -> Self {
        self.presets.push((name.into(), Box::new(change)));
        self
    }

    /// Returns the capability with all its variants.
    pub fn build(self) -> Capability {
        let Self { parts, presets } = self;
        let mut defaults = CapabilityVariant(Arc::new(parts.clone()));
        let mut made = IndexMap::new();
        for (name, change) in presets {
            let is_default = name == DEFAULT_PRESET;
            let preset = (!is_default).then(|| name.clone());
            let changed = change(CapabilityBuilder::of(CapabilityParts { preset, ..parts.clone() })).parts;
            let variant = CapabilityVariant(Arc::new(changed));
            match is_default {
                true => defaults = variant,
                false => {
                    made.insert(name, variant);
                }
            }
        }
        Capability { defaults, presets: made }
    }

    /// Returns one variant alone, under the name of a preset.
    pub fn build_variant(self, preset: Option<String>) -> CapabilityVariant {
        CapabilityVariant(Arc::new(CapabilityParts { preset, ..self.parts }))
    }
}

impl fmt::Debug for CapabilityVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapabilityVariant")
            .field("name", &self.0.name)
            .field("preset", &self.0.preset)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CapabilityBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CapabilityBuilder").field(&self.parts).finish()
    }
}

impl From<CapabilityVariant> for Entry {
    fn from(variant: CapabilityVariant) -> Self {
        Entry::Capability(variant)
    }
}

impl From<Capability> for Entry {
    fn from(capability: Capability) -> Self {
        Entry::Capability(capability.defaults)
    }
}

impl From<&Capability> for Entry {
    fn from(capability: &Capability) -> Self {
        Entry::Capability(capability.defaults())
    }
}
