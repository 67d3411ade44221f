//! Times runs.
//!
//! Whatever is compared is run in turns, so that a busy machine is busy for all alike.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use crate::{Answer, Runner};

/// How long the runs of one [`Runner`] took.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Half of the runs took longer, in microseconds.
    pub median_us: f64,
    /// One in a hundred took longer.
    pub p99_us: f64,
    /// The quickest.
    pub min_us: f64,
    /// How many there were.
    pub runs: usize,
    /// What the first run gave.
    pub answer: Answer,
    /// What a turn takes on the disk, by the last run that looked.
    pub disk_mb_per_turn: Option<f64>,
    /// What the phases of a turn took, by the last run that looked.
    pub phases: Option<BTreeMap<&'static str, f64>>,
}

/// No figure is made of fewer runs.
const MIN_RUNS: usize = 3;

/// Runs each of `runners` once untimed, then all in turns for about `time`.
pub fn measure(time: Duration, runners: &mut [Runner<'_>]) -> Result<Vec<Timing>, Box<dyn Error>> {
    let mut answers = Vec::new();
    for run in runners.iter_mut() {
        answers.push(run()?);
    }
    let mut samples = vec![Vec::new(); runners.len()];
    let mut disk = vec![None; runners.len()];
    let mut phases = vec![None; runners.len()];
    let start = Instant::now();
    while samples.iter().any(|it| it.len() < MIN_RUNS) || start.elapsed() < time {
        for (idx, run) in runners.iter_mut().enumerate() {
            let began = Instant::now();
            let answer = run()?;
            samples[idx].push(began.elapsed());
            disk[idx] = answer.disk_mb_per_turn().or(disk[idx]);
            phases[idx] = answer.phases().cloned().or_else(|| phases[idx].take());
        }
    }
    let looked = disk.into_iter().zip(phases);
    let timings = samples.into_iter().zip(answers).zip(looked);
    let each = timings.map(|((samples, answer), (disk_mb_per_turn, phases))| Timing {
        disk_mb_per_turn,
        phases,
        ..timing(samples, answer)
    });
    Ok(each.collect())
}

fn timing(mut samples: Vec<Duration>, answer: Answer) -> Timing {
    samples.sort();
    let at = |percent: usize| micros(samples[(samples.len() - 1) * percent / 100]);
    let (median_us, p99_us, min_us, runs) = (at(50), at(99), at(0), samples.len());
    Timing { median_us, p99_us, min_us, runs, answer, disk_mb_per_turn: None, phases: None }
}

/// Rounded to what a clock can tell.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 1e2
}

/// Returns the most memory that this process has held, in megabytes, where the system says it.
pub fn peak_rss_mb() -> Option<f64> {
    status_mb("VmHWM:")
}

/// Returns the memory that this process holds now, in megabytes, where the system says it.
pub fn rss_mb() -> Option<f64> {
    status_mb("VmRSS:")
}

fn status_mb(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix(name))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kilobytes / 1024.0 * 10.0).round() / 10.0)
}
