//! A short replay: the totals are consistent for every strategy.

use std::sync::LazyLock;

use contexture_bench::replay::{Provider, ReplayConfig, Report, Scene, Strategy, Tally, replay};
use contexture_bench::sample;
use contexture_message::Tokens;

fn scene(n_turns: usize) -> Scene {
    Scene::new(&sample::conversation(n_turns))
}

/// 60 turns under a window that is full several times, replayed once for all tests.
static REPLAYED: LazyLock<(Scene, Report)> = LazyLock::new(|| {
    let scene = scene(60);
    let report = replay(&scene, &ReplayConfig { window: Tokens(20_000) }).unwrap();
    (scene, report)
});

fn tally(report: &Report, provider: Provider, strategy: Strategy) -> Tally {
    let row = report.rows.iter().find(|it| it.provider == provider && it.strategy == strategy);
    row.unwrap().tally
}

#[test]
fn the_accounts_of_a_replay_are_right() {
    let (scene, report) = &*REPLAYED;
    assert_eq!(report.rows.len(), Provider::ALL.len() * Strategy::ALL.len());
    for row in &report.rows {
        let (usage, who) = (row.tally.usage, format!("{:?} {:?}", row.provider, row.strategy));
        let uncached = usage.input_tokens.checked_sub(usage.cached());
        assert!(uncached.is_some(), "{who}: more was read and written than was sent");
        assert!((0.0..1.0).contains(&row.tally.share()), "{who}");
        assert!(row.tally.cost > 0.0, "{who}");
        // One call for each recorded answer; a strategy that summarises makes additional calls.
        let rounds = scene.n_rounds() as u64;
        match row.strategy {
            Strategy::SlidingWindow => assert_eq!(row.tally.calls, rounds, "{who}"),
            _ => assert!(row.tally.calls >= rounds, "{who}"),
        }
        match row.provider {
            Provider::Anthropic => assert!(usage.cache_write_tokens > Some(0), "{who}"),
            _ => assert_eq!(usage.cache_write_tokens.unwrap_or_default(), 0, "{who}: writing is not billed"),
        }
    }
}

#[test]
fn a_replay_gives_the_same_numbers_again() {
    let config = ReplayConfig { window: Tokens(12_000) };
    let scene = scene(12);
    assert_eq!(replay(&scene, &config).unwrap(), replay(&scene, &config).unwrap());
}

#[test]
fn a_stable_prompt_reads_more_from_the_cache_than_a_volatile_one() {
    let (_, report) = &*REPLAYED;
    for provider in Provider::ALL {
        let share = |strategy| tally(report, provider, strategy).share();
        assert!(share(Strategy::Summarise) > share(Strategy::VolatileSystem), "{provider:?}\n{report}");
        assert!(share(Strategy::Summarise) > share(Strategy::SlidingWindow), "{provider:?}\n{report}");
    }
}

#[test]
fn a_scene_is_the_recording_with_its_tools() {
    let scene = scene(20);
    let names: Vec<_> = scene.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["search"]);
    assert_eq!(scene.turns.len(), 20);
    assert!(scene.turns.windows(2).all(|it| it[0].inline != it[1].inline));
    let [first, ..] = &scene.turns[..] else { panic!("there are turns") };
    assert_eq!((first.rounds.len(), first.rounds[0].results.len()), (2, 1));
}
