//! `contexture-bench`: runs one job and prints one line of JSON, or compares all jobs with their floors.
#![allow(clippy::print_stdout, clippy::print_stderr)] // Printing is what this program is for.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use contexture_bench::data::{StorePlace, read};
use contexture_bench::measure::{Timing, measure, peak_rss_mb};
use contexture_bench::replay::{ReplayConfig, Scene, replay};
use contexture_bench::serve::{ServeConfig, instance};
use contexture_bench::{BenchError, Job, Side, flows, sample};
use contexture_message::Tokens;
use serde_json::{Value, json};

const HELP: &str = "\
Runs benchmark jobs on the library, and on the shortest loop that does the same (the floor).

usage:
  contexture-bench JOB N             run a job, print one line of JSON
  contexture-bench floor JOB N       run its floor
  contexture-bench compare [--json]  run all jobs and floors in turns, print a table
  contexture-bench serve N [TURNS [OTHERS]]   let N sessions run TURNS turns together (default 5000) over HTTP, in a
                                     store with OTHERS more sessions (default 0), print one line of JSON
  contexture-bench recall N           what auto recall over N records and core memory add to a pass
  contexture-bench quality [FOLDER]  measure search on the public sets in a folder (default ../shared/data), beside FTS5
  contexture-bench knowledge N       index about N chunks on SQLite and search them, beside FTS5
  contexture-bench flow N            run flows of N trivial nodes in memory, print what a node costs
  contexture-bench waiting-runs N [sqlite]   let N runs of a chat wait, in memory or on SQLite, print what they hold
  contexture-bench cache N [WINDOW]  replay N turns on simulated provider caches, with requests of at most WINDOW
                                     tokens (default 128000): a table, and one line of JSON

jobs:
  tokenize      N turns     count every message once, nothing remembered
  compose       N contexts  count, drop and render under a budget, nothing remembered
  compose.warm  N contexts  the same again, counts remembered
  render.xml    N leaves    a tree as tagged text, escaped
  trim.cold     N turns     the newest turns that fit 20,000 tokens, no count known
  trim.warm     N turns     the same in a session, counts known since the append
  window.count  N turns     the newest 64 messages, calls with their results
  store.append  N messages  four more messages of a session, durable
  store.append.many  N sessions  four more messages of each, at once
  store.load    N messages  a whole session back into memory
  store.tail    N messages  the newest 64 messages of a session
  turn          N turns     everything around a model call: resolve, encode, append question and answer
  serve         N sessions  turns over HTTP with events, against a mock model; needs no data

environment:
  PEERS_DATA          the folder with conv-N.json, compose-N.json and tree-N.json;
                      without it `compare` generates its data
  PEERS_SCRATCH       where the rendered text goes (else PEERS_DATA, else the system's temporary folder), and where
                      the stores are (else the system's temporary folder): a folder on a real disk
  CONTEXTURE_BENCH_STORE_URL  a PostgreSQL database for the store jobs and `serve`, instead of an SQLite file
  CONTEXTURE_BENCH_SERVER     another build of this program whose server `serve` measures, to compare two versions
  CONTEXTURE_BENCH_PIECE_MS   how long the model of `serve` waits between the 40 pieces of an answer (default 5)
  PEERS_CELL_SECONDS  about how long to repeat a job (default 3)
";

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["-h" | "--help" | "help"] => {
            print!("{HELP}");
            Ok(())
        }
        ["cache"] => Err("say how many turns".into()),
        ["cache", n] => cache(n, None),
        ["cache", n, window] => cache(n, Some(window)),
        ["quality"] => quality(None),
        ["quality", folder] => quality(Some(folder)),
        ["knowledge", n] => knowledge(n),
        ["recall", n] => recall(n),
        ["flow", n] => flow(n),
        ["waiting-runs", n] => waiting_runs(n, None),
        ["waiting-runs", n, "sqlite"] => waiting_runs(n, Some(&store_place())),
        ["serve", n] => serve(n, "5000", "0"),
        ["serve", n, turns] => serve(n, turns, "0"),
        ["serve", n, turns, others] => serve(n, turns, others),
        // The server of `serve`, which it starts itself.
        ["instance", folder] => {
            instance(Path::new(folder), store_place().url.as_deref(), std::io::stdin(), std::io::stdout())
        }
        ["compare"] => compare(false),
        ["compare", "--json"] => compare(true),
        ["floor", job, n] | ["--floor", job, n] | [job, n, "--floor"] => run(Side::Floor, job, n),
        [job, n] => run(Side::Contexture, job, n),
        ["serve"] => Err("say how many sessions".into()),
        [job] => {
            Err(Job::parse(job).map_or_else(Into::into, |it| format!("say how many {}", it.unit()).into()))
        }
        _ => Err("say a job and a number; `--help` lists the jobs".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("contexture-bench: {err}");
            ExitCode::from(2)
        }
    }
}

/// Runs one job on one side.
fn run(side: Side, job: &str, n: &str) -> Result<(), Box<dyn Error>> {
    let job = Job::parse(job)?;
    let n: usize = n.parse().map_err(|_| format!("`{n}` is not a number of {}", job.unit()))?;
    let folder = data_folder().ok_or(BenchError::NoData)?;
    let data = job.read(&folder, n, &store_place())?;
    let timings = measure(cell_time(), &mut [job.runner(side, &data)?])?;
    for timing in timings {
        println!("{}", line(side, job, n, &timing)?);
    }
    Ok(())
}

/// Runs all jobs on both sides, in turns.
fn compare(as_json: bool) -> Result<(), Box<dyn Error>> {
    if !as_json {
        let from = data_folder().map_or("made here".to_owned(), |it| it.display().to_string());
        println!("median of runs in turns, µs; data: {from}\n");
        println!("{:<14}{:>6}{:>14}{:>12}{:>8}", "job", "n", "contexture", "floor", "ratio");
    }
    for job in Job::ALL {
        for &n in job.sizes() {
            let data = match data_folder() {
                Some(folder) => job.read(&folder, n, &store_place())?,
                None => job.sample(n, &store_place()),
            };
            let mut runners = [job.runner(Side::Contexture, &data)?, job.runner(Side::Floor, &data)?];
            let timings = measure(cell_time(), &mut runners)?;
            let [ours, floor] = &timings[..] else { continue };
            if !ours.answer.is_same(&floor.answer) {
                return Err(format!("{} {n}: the floor gives another answer", job.name()).into());
            }
            if as_json {
                println!("{}", line(Side::Contexture, job, n, ours)?);
                println!("{}", line(Side::Floor, job, n, floor)?);
            } else {
                let (a, b) = (ours.median_us, floor.median_us);
                println!("{:<14}{n:>6}{a:>14.1}{b:>12.1}{:>8.2}", job.name(), a / b);
            }
        }
    }
    Ok(())
}

/// Replays a conversation on simulated provider caches.
fn cache(n: &str, window: Option<&str>) -> Result<(), Box<dyn Error>> {
    let n: usize = n.parse().map_err(|_| format!("`{n}` is not a number of turns"))?;
    let mut config = ReplayConfig::default();
    if let Some(window) = window {
        let tokens = window.parse().map_err(|_| format!("`{window}` is not a number of tokens"))?;
        config.window = Tokens(tokens);
    }
    let conversation = match data_folder() {
        Some(folder) => read(&folder, &format!("conv-{n}.json"))?,
        None => sample::conversation(n),
    };
    let report = replay(&Scene::new(&conversation), &config)?;
    eprint!("{report}");
    println!("{}", report.to_json());
    Ok(())
}

/// Measures how good search is.
fn quality(folder: Option<&str>) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(folder.unwrap_or("../shared/data"));
    let quality = contexture_bench::knowledge::quality(folder, &store_place().scratch)?;
    eprint!("{quality}");
    println!("{}", quality.to_json());
    match &quality.too_low()[..] {
        [] => Ok(()),
        low => Err(low.join("\n").into()),
    }
}

/// Measures how fast indexing and searching are.
fn knowledge(n: &str) -> Result<(), Box<dyn Error>> {
    let n = n.parse().map_err(|_| format!("`{n}` is not a number of chunks"))?;
    println!("{}", contexture_bench::knowledge::speed(n, &store_place().scratch)?);
    Ok(())
}

/// Measures what auto recall and core memory add to a pass.
fn recall(n: &str) -> Result<(), Box<dyn Error>> {
    let n = n.parse().map_err(|_| format!("`{n}` is not a number of records"))?;
    println!("{}", contexture_bench::knowledge::recall(n, &store_place().scratch)?);
    Ok(())
}

/// Runs flows of trivial nodes.
fn flow(n: &str) -> Result<(), Box<dyn Error>> {
    let n = n.parse().map_err(|_| format!("`{n}` is not a number of nodes"))?;
    println!("{}", flows::flow(n, cell_time())?);
    Ok(())
}

/// Lets runs wait.
fn waiting_runs(n: &str, place: Option<&StorePlace>) -> Result<(), Box<dyn Error>> {
    let n = n.parse().map_err(|_| format!("`{n}` is not a number of runs"))?;
    println!("{}", flows::waiting_runs(n, place)?);
    Ok(())
}

/// Lets many sessions talk to a server at once.
fn serve(n: &str, turns: &str, others: &str) -> Result<(), Box<dyn Error>> {
    let number = |text: &str, what: &str| -> Result<usize, Box<dyn Error>> {
        text.parse().map_err(|_| format!("`{text}` is not a number of {what}").into())
    };
    let pause = env::var("CONTEXTURE_BENCH_PIECE_MS").ok().and_then(|it| it.trim().parse().ok());
    let config = ServeConfig {
        sessions: number(n, "sessions")?,
        turns: number(turns, "turns")?,
        others: number(others, "sessions")?,
        pause: Duration::from_millis(pause.unwrap_or(5)),
        program: env::var_os("CONTEXTURE_BENCH_SERVER").map_or_else(env::current_exe, |it| Ok(it.into()))?,
        place: store_place(),
    };
    let report = contexture_bench::serve::serve(&config)?;
    println!("{report}");
    match report["errors"] == 0 {
        true => Ok(()),
        false => Err(format!("{} sessions went wrong", report["errors"]).into()),
    }
}

/// Returns the line of JSON for one measurement; a rendered text is written to a file.
fn line(side: Side, job: Job, n: usize, timing: &Timing) -> Result<Value, Box<dyn Error>> {
    let mut line = json!({
        "name": side.name(),
        "job": job.name(),
        "n": n,
        "median_us": timing.median_us,
        "p99_us": timing.p99_us,
        "min_us": timing.min_us,
        "rss_mb": peak_rss_mb(),
        "runs": timing.runs,
    });
    if let Some(tokens) = timing.answer.tokens() {
        line["tokens"] = tokens.into();
    }
    if let (Some(ids), None) = (timing.answer.ids(), timing.answer.items()) {
        line["ids"] = ids.into();
    }
    if let Some(items) = timing.answer.items() {
        line["items"] = items.into();
    }
    if let Some(disk) = timing.disk_mb_per_turn {
        line["disk_mb_per_turn"] = disk.into();
    }
    if let Some(phases) = &timing.phases {
        line["phases"] = json!(phases);
    }
    if let Some(text) = timing.answer.text() {
        let path = out_folder().join(format!("{}-{}-{n}.txt", side.name(), job.name()));
        fs::write(&path, text).map_err(|err| format!("{} can't be written: {err}", path.display()))?;
        line["out_file"] = path.to_string_lossy().into();
        line["bytes"] = text.len().into();
    }
    Ok(line)
}

fn data_folder() -> Option<PathBuf> {
    env::var_os("PEERS_DATA").filter(|it| !it.is_empty()).map(PathBuf::from)
}

fn out_folder() -> PathBuf {
    let scratch = env::var_os("PEERS_SCRATCH").filter(|it| !it.is_empty()).map(PathBuf::from);
    scratch.or_else(data_folder).filter(|it| Path::is_dir(it)).unwrap_or_else(env::temp_dir)
}

fn store_place() -> StorePlace {
    let scratch = env::var_os("PEERS_SCRATCH").filter(|it| !it.is_empty()).map(PathBuf::from);
    let url = env::var("CONTEXTURE_BENCH_STORE_URL").ok().filter(|it| !it.is_empty());
    StorePlace { scratch: scratch.unwrap_or_else(env::temp_dir), url }
}

fn cell_time() -> Duration {
    let seconds = env::var("PEERS_CELL_SECONDS").ok().and_then(|it| it.trim().parse().ok());
    seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()).unwrap_or(Duration::from_secs(3))
}
