//! Both sides of a job give the same answer, and the program says what is wrong with a call.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod replay;

use std::path::PathBuf;
use std::process::Command;

use contexture_bench::data::StorePlace;
use contexture_bench::measure::measure;
use contexture_bench::{Data, Job, Side};

/// Runs one side of a job once and returns its answer as text.
fn answer(job: Job, side: Side, data: &Data) -> String {
    let answer = job.runner(side, data).unwrap()().unwrap();
    let tokens = answer.tokens().map(|it| format!("{it} tokens"));
    let ids = answer.ids().map(|it| it.join(" "));
    let items = answer.items().map(|it| format!("{it} items"));
    tokens.or(ids).or(items).or_else(|| answer.text().map(str::to_owned)).unwrap()
}

/// Where stores are put.
fn place() -> StorePlace {
    StorePlace { scratch: PathBuf::from(env!("CARGO_TARGET_TMPDIR")), url: None }
}

fn assert_same(job: Job, data: &Data) -> String {
    let (ours, floor) = (answer(job, Side::Contexture, data), answer(job, Side::Floor, data));
    assert!(ours == floor, "{} differs from its floor:\n{}", job.name(), first_difference(&ours, &floor));
    ours
}

fn first_difference(ours: &str, floor: &str) -> String {
    let differs = ours.lines().zip(floor.lines()).find(|(a, b)| a != b);
    differs.map_or_else(|| "one is longer".to_owned(), |(a, b)| format!("ours:  {a}\nfloor: {b}"))
}

#[test]
fn both_sides_give_the_same_bytes() {
    for job in Job::ALL {
        for n in [1, 12, 30] {
            assert!(!assert_same(job, &job.sample(n, &place())).is_empty());
        }
    }
}

#[test]
fn both_sides_give_the_same_bytes_on_the_files_if_they_are_there() {
    let Some(folder) = std::env::var_os("PEERS_DATA").map(PathBuf::from) else { return };
    for job in Job::ALL {
        let n = job.sizes()[0];
        assert_same(job, &job.read(&folder, n, &place()).unwrap());
    }
}

#[test]
fn a_warm_composition_equals_a_cold_one() {
    let data = Job::Compose.sample(12, &place());
    let cold = answer(Job::Compose, Side::Contexture, &data);
    let mut warm = Job::ComposeWarm.runner(Side::Contexture, &data).unwrap();
    for _ in 0..3 {
        assert_eq!(warm().unwrap().text(), Some(cold.as_str()));
    }
}

#[test]
fn the_budget_forces_contexts_out_and_keeps_their_order() {
    let data = Job::Compose.sample(20, &place());
    let Data::Composition(composition) = &data else { panic!("compose runs on compositions") };
    let text = answer(Job::Compose, Side::Contexture, &data);
    let places: Vec<_> = composition.contexts.iter().filter_map(|it| text.find(&it.section())).collect();
    assert!((5..17).contains(&places.len()), "{} of 20 are kept", places.len());
    assert!(places.is_sorted());
}

#[test]
fn a_measurement_has_at_least_three_runs() {
    let data = Job::RenderXml.sample(50, &place());
    let mut runners = [Job::RenderXml.runner(Side::Contexture, &data).unwrap()];
    let timings = measure(std::time::Duration::ZERO, &mut runners).unwrap();
    assert_eq!(timings[0].runs, 3);
    assert!(timings[0].min_us <= timings[0].median_us && timings[0].median_us <= timings[0].p99_us);
}

/// Runs the program on an empty folder and returns its exit code and what it says, without the folder's name.
fn program(arguments: &[&str]) -> String {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut command = Command::new(env!("CARGO_BIN_EXE_contexture-bench"));
    let command = command.args(arguments).env("PEERS_DATA", folder).env("PEERS_CELL_SECONDS", "0");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap().replace(folder, "DATA");
    let said = said.split(" (os error").next().unwrap().trim_end();
    format!("{} {said}", output.status.code().unwrap())
}

#[test]
fn a_wrong_call_gets_a_helpful_error() {
    insta::assert_snapshot!(program(&["knit", "1"]), @"2 contexture-bench: unknown job `knit`; the jobs are tokenize, compose, compose.warm, render.xml, trim.cold, trim.warm, window.count, store.append, store.append.many, store.load, store.tail, turn, serve, flow, waiting-runs");
    insta::assert_snapshot!(program(&["serve"]), @"2 contexture-bench: say how many sessions");
    insta::assert_snapshot!(program(&["serve", "many"]), @"2 contexture-bench: `many` is not a number of sessions");
    insta::assert_snapshot!(program(&["serve", "2", "many"]), @"2 contexture-bench: `many` is not a number of turns");
    insta::assert_snapshot!(program(&["compose", "many"]), @"2 contexture-bench: `many` is not a number of contexts");
    insta::assert_snapshot!(program(&["compose"]), @"2 contexture-bench: say how many contexts");
    insta::assert_snapshot!(program(&["compose", "25"]), @"2 contexture-bench: DATA/compose-25.json can't be read: No such file or directory");
    insta::assert_snapshot!(program(&["cache"]), @"2 contexture-bench: say how many turns");
    insta::assert_snapshot!(program(&["cache", "25"]), @"2 contexture-bench: DATA/conv-25.json can't be read: No such file or directory");
    insta::assert_snapshot!(program(&["cache", "25", "wide"]), @"2 contexture-bench: `wide` is not a number of tokens");
    insta::assert_snapshot!(program(&[]), @"2 contexture-bench: say a job and a number; `--help` lists the jobs");
}

#[test]
fn help_lists_the_jobs() {
    let output = Command::new(env!("CARGO_BIN_EXE_contexture-bench")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(Job::ALL.iter().all(|it| help.contains(it.name())), "{help}");
}

#[test]
fn many_sessions_are_served_without_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contexture-bench"));
    command.args(["serve", "12", "60"]).env("CONTEXTURE_BENCH_PIECE_MS", "1");
    let output = command.env("PEERS_SCRATCH", env!("CARGO_TARGET_TMPDIR")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!((&report["errors"], &report["turns"]), (&0.into(), &60.into()), "{report}");
}
