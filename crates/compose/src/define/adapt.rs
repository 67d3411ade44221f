//! Changes for particular models.

use contexture_message::{Settings, ToolChoice};

use super::Text;

/// Changes for a model, a provider or all models (`*`).
#[derive(Clone, Debug, Default)]
pub struct Adaptation {
    /// Text before the prompt's own system text.
    pub prepend_system: Option<Text>,
    /// Text after the prompt's own system text.
    pub append_system: Option<Text>,
    /// Text before the prompt's user text.
    pub prepend_prompt: Option<Text>,
    /// Text after the prompt's user text.
    pub append_prompt: Option<Text>,
    /// Settings that override the prompt's.
    pub settings: Settings,
    /// Replaces the prompt's tool choice.
    pub tool_choice: Option<ToolChoice>,
}

impl Adaptation {
    /// Returns an adaptation that changes nothing.
    ///
    /// ```
    /// use contexture_compose::{Adaptation, Prompt};
    /// use contexture_message::Settings;
    ///
    /// let terse = Adaptation::new().append_system("Answer in one line.").settings(Settings::new().temperature(0.0));
    /// let prompt = Prompt::builder("p").system("You answer questions.").adapt("anthropic", terse).build()?;
    /// # Ok::<(), contexture_compose::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a text before the prompt's own system text.
    #[must_use]
    pub fn prepend_system(self, text: impl Into<Text>) -> Self {
        Self { prepend_system: Some(text.into()), ..self }
    }

    /// Puts a text after the prompt's own system text.
    #[must_use]
    pub fn append_system(self, text: impl Into<Text>) -> Self {
        Self { append_system: Some(text.into()), ..self }
    }

    /// Puts a text before the prompt's user text.
    #[must_use]
    pub fn prepend_prompt(self, text: impl Into<Text>) -> Self {
        Self { prepend_prompt: Some(text.into()), ..self }
    }

    /// Puts a text after the prompt's user text.
    #[must_use]
    pub fn append_prompt(self, text: impl Into<Text>) -> Self {
        Self { append_prompt: Some(text.into()), ..self }
    }

    /// Sets settings that override the prompt's.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Replaces the prompt's tool choice.
    #[must_use]
    pub fn tool_choice(self, choice: ToolChoice) -> Self {
        Self { tool_choice: Some(choice), ..self }
    }
}

/// Returns the adaptation keys that apply to a model, the least specific first.
///
/// A model is named `model` or `provider/model`; the provider may also be given separately. `full` is the model name
/// in the request.
pub(crate) fn matching_keys<'a>(
    provider: Option<&'a str>,
    model: Option<&'a str>,
    full: Option<&'a str>,
) -> Vec<&'a str> {
    let mut keys = vec!["*"];
    // The provider may route to another one, whose name then prefixes the model id: `openai/gpt-4o`.
    let id = full.and_then(|it| it.split_once('/'));
    keys.extend(id.and_then(|(_, id)| id.split_once('/')).map(|(prefix, _)| prefix));
    keys.extend(id.map(|(provider, _)| provider));
    keys.extend(provider);
    // `openai/gpt-5` given as one name also matches the model `gpt-5` of `openai`.
    keys.extend(id.and_then(|(_, id)| id.rsplit_once('/')).map(|(_, name)| name));
    keys.extend(id.map(|(_, id)| id));
    keys.extend(model);
    keys.extend(full);
    let mut seen = Vec::new();
    keys.retain(|it| {
        !seen.contains(it) && {
            seen.push(*it);
            true
        }
    });
    keys
}
