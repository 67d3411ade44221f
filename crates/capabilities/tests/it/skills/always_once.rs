//! Whatever happens to a thread, every active skill is in its requests exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_compose::ports::{FixedSkill, SkillVersion};
use contexture_compose::{HistoryConfig, HistoryLimit, Prompt};
use contexture_message::{Answer, Request};
use proptest::prelude::*;
use serde_json::json;

use super::scene::{Edited, Scene, calls, everything, said, system};

const NAMES: [&str; 3] = ["ant", "bee", "cow"];
const MODELS: [&str; 3] = ["test/m", "test/n", "test/small"];

#[derive(Clone, Debug)]
enum Event {
    /// The model loads a skill.
    Load(usize),
    /// The model unloads a skill.
    Unload(usize),
    /// The model unloads a skill and loads it again, in one round.
    Reload(usize),
    /// A request names a skill.
    Named(usize),
    Turn,
    /// A turn of another model.
    Model(usize),
    Compact,
    /// A turn that asks for a new prefix.
    Refresh,
    /// Another process takes over.
    Restart,
    /// Nothing happens for longer than the provider keeps its cache.
    Pause,
    /// A skill is edited.
    Edit(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let skill = 0..NAMES.len();
    let event = prop_oneof![
        4 => skill.clone().prop_map(Event::Load),
        2 => skill.clone().prop_map(Event::Unload),
        1 => skill.clone().prop_map(Event::Reload),
        2 => skill.clone().prop_map(Event::Named),
        4 => Just(Event::Turn),
        1 => (0..MODELS.len()).prop_map(Event::Model),
        2 => Just(Event::Compact),
        1 => Just(Event::Refresh),
        1 => Just(Event::Restart),
        1 => Just(Event::Pause),
        1 => skill.prop_map(Event::Edit),
    ];
    prop::collection::vec(event, 1..16)
}

/// What the thread should be like.
struct Expected {
    /// The current version of each skill.
    versions: BTreeMap<&'static str, u32>,
    /// The active skills, at the version that is loaded.
    active: BTreeMap<&'static str, u32>,
    model: usize,
    /// The latest system message, and whether the next may differ from it.
    system: Option<String>,
    may_change: bool,
}

/// The instructions of a version. Those of the last skill are long, so that they do not fit every model.
fn instructions(name: &str, version: u32) -> String {
    let more = if name == "cow" { "and so on, ".repeat(450) } else { String::new() };
    format!("{more}The instructions of {name}, version {version}.")
}

impl Expected {
    fn check(&mut self, request: &Arc<Request>) -> Result<(), TestCaseError> {
        let text = everything(request);
        for (name, version) in &self.active {
            let whole = text.matches(&format!("The instructions of {name}, version {version}.")).count();
            // Another version that is no longer active may have a stub where the bytes must not change.
            let hash = SkillVersion::hash_of(&instructions(name, *version));
            let stub = format!("version=\"{hash}\">\nThe instructions of this skill are not shown");
            prop_assert_eq!(whole + text.matches(&stub).count(), 1, "{} in {}", name, text);
        }
        let system = system(request);
        if let Some(before) = self.system.replace(system.clone())
            && !std::mem::take(&mut self.may_change)
        {
            prop_assert_eq!(before, system);
        }
        Ok(())
    }
}

/// Plays the events, and checks every request that is sent.
async fn played(events: Vec<Event>, turns: Option<usize>) -> Result<(), TestCaseError> {
    let skills = NAMES.map(|it| FixedSkill::new(it, format!("About {it}s."), instructions(it, 1)));
    let prompt = |skills| {
        let limit = turns.map(HistoryLimit::Turns);
        let history = HistoryConfig { limit };
        Prompt::builder("p").system("Be brief.").include(skills).history(history)
    };
    let mut scene = Scene::with(Edited::new(skills), prompt).await;
    let mut expected = Expected {
        versions: NAMES.map(|it| (it, 1)).into(),
        active: BTreeMap::new(),
        model: 0,
        system: None,
        may_change: true,
    };
    for event in events {
        let mut request = said("Go on.");
        let mut called = Vec::new();
        match event {
            Event::Load(idx) => called.push(("LoadSkill", NAMES[idx])),
            Event::Unload(idx) => called.push(("UnloadSkill", NAMES[idx])),
            Event::Reload(idx) => called.extend([("UnloadSkill", NAMES[idx]), ("LoadSkill", NAMES[idx])]),
            Event::Named(idx) => {
                request = request.skills([NAMES[idx]]);
                expected.active.entry(NAMES[idx]).or_insert(expected.versions[NAMES[idx]]);
            }
            Event::Model(idx) => {
                expected.may_change |= expected.model != idx;
                expected.model = idx;
            }
            Event::Refresh => {
                request.refresh = true;
                expected.may_change = true;
                let versions = expected.versions.clone();
                expected.active.iter_mut().for_each(|(name, version)| *version = versions[name]);
            }
            Event::Compact => {
                expected.may_change |= scene.compact().await;
                continue;
            }
            Event::Restart => {
                scene.restart().await;
                continue;
            }
            Event::Pause => {
                scene.wait(3_600);
                expected.may_change = true;
                continue;
            }
            Event::Edit(idx) => {
                let version = expected.versions.get_mut(NAMES[idx]).unwrap();
                *version += 1;
                scene.skills.edit(NAMES[idx], &instructions(NAMES[idx], *version));
                continue;
            }
            Event::Turn => {}
        }
        let round = called
            .iter()
            .enumerate()
            .map(|(idx, (tool, name))| calls([(format!("c{idx}").as_str(), tool, json!({"name": name}))]));
        let answers: Vec<Answer> = round.chain([Answer::text("Fine.")]).collect();
        let (requests, _) = scene.run(request.model(MODELS[expected.model]), answers).await;
        prop_assert_eq!(requests.len(), called.len() + 1);
        for (request, call) in requests.iter().zip(called.into_iter().map(Some).chain([None])) {
            expected.check(request)?;
            match call {
                Some(("LoadSkill", name)) => {
                    let version = expected.versions[name];
                    expected.active.entry(name).or_insert(version);
                }
                Some((_, name)) => drop(expected.active.remove(name)),
                None => {}
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_active_skill_is_in_every_request_once_and_the_system_message_is_stable(
        events in events(),
        turns in prop::option::of(1_usize..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(played(events, turns))?;
    }
}
