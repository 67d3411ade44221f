//! The entries `skill` and `skills`.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_agent::{SkillInject, Tool};
use contexture_compose::ports::{FixedSkill, FixedSkills, SkillSource, SkillSummary};
use contexture_compose::{
    BoxError, BoxFuture, Call, Contribution, Contributor, ConversationUse, Declaration, Entry, Joint, Piece,
    Placement, Priority, Profile, SharedTool, Source,
};
use contexture_message::{TokenCounter, Tokens, counter_for};
use serde_json::json;

use super::catalogue::{self, SkillIndexForm};
use super::index::SkillIndex;
use super::set::{Selection, SkillSet, UnknownSkill};
use super::tools;

/// Below so many tokens the frozen prefix has the descriptions of all skills.
const FULL_INDEX_TOKENS: Tokens = Tokens(2_000);
/// How many skills a turn is reminded of at most.
const MAX_HINTS: usize = 10;

/// An entry that lists skills and lets the model load them. Make it with [`skills`] or [`skill`].
///
/// Several such entries in a prompt make one list.
#[derive(Clone)]
pub struct Skills {
    selection: Selection,
    options: Options,
}

#[derive(Clone)]
struct Options {
    full_index_tokens: Tokens,
    max_hints: usize,
    inject: SkillInject,
    counter: Arc<dyn TokenCounter>,
    /// Whether the model gets the tools.
    has_tools: bool,
    /// The order of the list in the frozen prefix.
    order: i32,
}

/// Returns an entry for all skills of a source.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::sync::Arc;
///
/// use contexture_capabilities::skills;
/// use contexture_compose::ports::{FixedSkill, FixedSkills};
/// use contexture_compose::{Prompt, ResolveOptions};
///
/// let refunds = FixedSkill::new("refunds", "Pays back money.", "Ask for the order number.");
/// let prompt = Prompt::builder("support").include(skills(Arc::new(FixedSkills(vec![refunds])))).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await?;
/// assert_eq!(pass.system(), Some("<available-skills>\n- refunds: Pays back money.\n</available-skills>"));
/// let tools: Vec<_> = pass.request().tools.iter().map(|it| it.name.as_str()).collect();
/// assert_eq!(tools, ["LoadReference", "LoadSkill", "UnloadSkill"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn skills(source: Arc<dyn SkillSource>) -> Skills {
    let options = Options {
        full_index_tokens: FULL_INDEX_TOKENS,
        max_hints: MAX_HINTS,
        inject: SkillInject::Auto,
        counter: counter_for(None),
        has_tools: true,
        order: 0,
    };
    Skills { selection: Selection { source, names: None }, options }
}

/// Returns an entry for one skill that is defined in Rust.
pub fn skill(skill: FixedSkill) -> Skills {
    let name = skill.version.name.clone();
    let all = skills(Arc::new(FixedSkills(vec![skill])));
    let selection = Selection { names: Some([name].into()), ..all.selection };
    Skills { selection, ..all }
}

impl Skills {
    /// Lists these skills only, or returns the first name that is not one of a skill.
    pub fn only<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Result<Self, UnknownSkill> {
        let known: Vec<String> = self.selection.source.list().into_iter().map(|it| it.name).collect();
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        if let Some(name) = names.iter().find(|it| !known.contains(it)).cloned() {
            return Err(UnknownSkill { name, known });
        }
        self.selection.names = Some(names);
        Ok(self)
    }

    /// Sets how many tokens the descriptions of all skills may take in the frozen prefix. If they take more, it has the
    /// names, and each turn is reminded of the skills that match.
    #[must_use]
    pub fn full_index_tokens(mut self, tokens: Tokens) -> Self {
        self.options.full_index_tokens = tokens;
        self
    }

    /// Sets how many skills a turn is reminded of at most.
    #[must_use]
    pub fn max_hints(mut self, max: usize) -> Self {
        self.options.max_hints = max;
        self
    }

    /// Sets where the instructions of a loaded skill stand.
    #[must_use]
    pub fn inject(mut self, inject: SkillInject) -> Self {
        self.options.inject = inject;
        self
    }

    /// Sets the counter that measures the list.
    #[must_use]
    pub fn counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.options.counter = counter;
        self
    }

    /// Sets the order of the list in the frozen prefix: lower first, then by name.
    #[must_use]
    pub fn order(mut self, order: i32) -> Self {
        self.options.order = order;
        self
    }

    /// Returns the part that lists skills, for prompts that are composed by hand.
    pub fn as_context(&self) -> Entry {
        let options = Options { has_tools: false, ..self.options.clone() };
        Self { options, ..self.clone() }.into()
    }

    /// Returns the tools, for prompts and agents that are composed by hand.
    pub fn as_tools(&self) -> Vec<Tool> {
        tools::tools(&SkillSet::new([self.selection.clone()]), self.options.inject)
    }

    /// Returns the list and how it is written.
    pub fn list(&self) -> (Vec<SkillSummary>, SkillIndexForm) {
        let list = SkillSet::new([self.selection.clone()]).list();
        let form = catalogue::form(&list, self.options.full_index_tokens, &*self.options.counter);
        (list, form)
    }

    /// Returns the only name, if the entry lists one skill.
    fn only_name(&self) -> Option<&String> {
        self.selection.names.as_ref().filter(|it| it.len() == 1)?.first()
    }
}

impl std::fmt::Debug for Skills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Skills").field(&self.selection.names).finish()
    }
}

/// One list of skills, with everything that is made of it once.
struct Listed {
    id: String,
    parts: Vec<Skills>,
    options: Options,
    catalogue: Entry,
    /// The index for hints, if the turn gets any.
    index: Option<SkillIndex>,
    tools: Vec<SharedTool>,
}

impl Listed {
    /// Makes one list of several entries. The options of the first one count, and a skill that any of them lists is
    /// listed.
    fn new(parts: Vec<Skills>) -> Self {
        let set = SkillSet::new(parts.iter().map(|it| it.selection.clone()));
        let mut options = parts
            .first()
            .map_or_else(|| skills(Arc::new(FixedSkills::default())).options, |it| it.options.clone());
        options.has_tools = parts.iter().any(|it| it.options.has_tools);
        let list = set.list();
        let form = catalogue::form(&list, options.full_index_tokens, &*options.counter);
        let tools = match options.has_tools && !list.is_empty() {
            true => tools::tools(&set, options.inject).into_iter().map(SharedTool::from).collect(),
            false => Vec::new(),
        };
        let catalogue = catalogue::block(&list, form).order(options.order).into();
        let index = (form == SkillIndexForm::Names && options.max_hints > 0).then(|| SkillIndex::new(list));
        let named = parts.first().and_then(Skills::only_name).map(|it| format!("skill:{it}"));
        Self { id: named.unwrap_or_else(|| "skills".to_owned()), parts, options, catalogue, index, tools }
    }

    fn hints(&self, call: &Call) -> Option<Piece> {
        // A recorded turn has its hints; nothing of what is found now would be sent.
        let index = self.index.as_ref().filter(|_| !call.has_envelope())?;
        let found = index.search(call.user_text(), self.options.max_hints);
        let scores: Vec<_> = found.iter().map(|it| json!({"skill": it.name, "score": it.score})).collect();
        let piece = Piece::new(catalogue::hints(&found));
        (!found.is_empty()).then(|| Piece { detail: Some(Arc::new(json!({"hints": scores}))), ..piece })
    }
}

impl Contributor for Listed {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        let contribution = Contribution {
            pieces: self.hints(&call).into_iter().collect(),
            tools: self.tools.clone(),
            entries: vec![self.catalogue.clone()],
            ..Contribution::default()
        };
        Box::pin(std::future::ready(Ok(contribution)))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let profile = Profile {
            priority: Priority::SKILL_INDEX,
            placement: Placement::Reminders,
            ..Profile::default()
        };
        let named = self.parts.first().and_then(Skills::only_name);
        let part: Arc<dyn Any + Send + Sync> = Arc::new(self.parts.clone());
        Declaration {
            profile,
            family: Some("skills".to_owned()),
            conversation: ConversationUse::AtTurnStart,
            source: named.map(|it| Source::Skill(it.as_str().into())),
            joint: Some(Joint { kind: "skills", part, join }),
            ..Declaration::default()
        }
    }
}

/// Makes one list of the parts of several.
fn join(parts: &[Arc<dyn Any + Send + Sync>]) -> Arc<dyn Contributor> {
    let parts = parts.iter().filter_map(|it| it.downcast_ref::<Vec<Skills>>()).flatten().cloned().collect();
    Arc::new(Listed::new(parts))
}

impl From<Skills> for Entry {
    fn from(skills: Skills) -> Self {
        Entry::Contributor(Arc::new(Listed::new(vec![skills])))
    }
}
