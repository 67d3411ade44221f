//! Counters and histograms, and how Prometheus reads them (text format 0.0.4).
//!
//! The names, labels and buckets are ours; there is no global registry, only the [`Registry`] that is passed in.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A metric: its name, help text and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Meter {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
}

/// Upper bounds of what is timed, in seconds: from a read of the store to a long turn.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The values of a meter's labels.
type Labels = Vec<String>;

/// All counters and histograms.
#[derive(Debug, Default)]
pub(super) struct Registry {
    counters: BTreeMap<Meter, BTreeMap<Labels, u64>>,
    timings: BTreeMap<Meter, BTreeMap<Labels, Timing>>,
}

#[derive(Debug, Default)]
struct Timing {
    /// How many fell into each bucket; the last is what is longer than all bounds.
    buckets: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Registry {
    /// Adds to a counter.
    pub(super) fn add(&mut self, meter: Meter, labels: &[&str], n: u64) {
        let value = self.counters.entry(meter).or_default().entry(owned(labels)).or_default();
        *value = value.saturating_add(n);
    }

    /// Records a duration.
    pub(super) fn time(&mut self, meter: Meter, labels: &[&str], seconds: f64) {
        let timing = self.timings.entry(meter).or_default().entry(owned(labels)).or_default();
        let bucket = BOUNDS.iter().position(|it| seconds <= *it).unwrap_or(BOUNDS.len());
        timing.buckets[bucket] += 1;
        timing.sum += seconds;
    }

    /// Writes all of it down.
    pub(super) fn write(&self, text: &mut String) {
        for (meter, values) in &self.counters {
            head(text, *meter, "counter");
            for (labels, value) in values {
                line(text, meter.name, &pairs(*meter, labels), &value.to_string());
            }
        }
        for (meter, values) in &self.timings {
            head(text, *meter, "histogram");
            for (labels, timing) in values {
                timing.write(text, *meter, &pairs(*meter, labels));
            }
        }
    }
}

impl Timing {
    fn write(&self, text: &mut String, meter: Meter, labels: &[(&str, &str)]) {
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut below = 0;
        for (bound, n) in bounds.zip(self.buckets) {
            below += n;
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            line(text, &format!("{}_bucket", meter.name), &labels, &below.to_string());
        }
        line(text, &format!("{}_sum", meter.name), labels, &self.sum.to_string());
        line(text, &format!("{}_count", meter.name), labels, &below.to_string());
    }
}

/// Writes a value of this moment.
pub(super) fn gauge(text: &mut String, meter: Meter, value: u64) {
    head(text, meter, "gauge");
    line(text, meter.name, &[], &value.to_string());
}

fn owned(labels: &[&str]) -> Labels {
    labels.iter().map(|it| (*it).to_owned()).collect()
}

fn pairs(meter: Meter, values: &[String]) -> Vec<(&'static str, &str)> {
    meter.labels.iter().copied().zip(values.iter().map(String::as_str)).collect()
}

fn head(text: &mut String, meter: Meter, kind: &str) {
    // Writing to a text can't fail.
    let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {kind}", meter.name, meter.help, meter.name);
}

fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: &str) {
    let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    let _ = match pairs.is_empty() {
        true => writeln!(text, "{name} {value}"),
        false => writeln!(text, "{name}{{{pairs}}} {value}"),
    };
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{Meter, Registry};

    const COUNTED: Meter = Meter { name: "things_total", help: "Things.", labels: &["kind"] };
    const TIMED: Meter = Meter { name: "wait_seconds", help: "Waits.", labels: &[] };

    #[test]
    fn a_book_is_written_as_prometheus_reads_it() {
        let mut registry = Registry::default();
        registry.add(COUNTED, &["b"], 2);
        registry.add(COUNTED, &["a \"q\"\n"], 1);
        registry.add(COUNTED, &["b"], 1);
        registry.time(TIMED, &[], 0.02);
        registry.time(TIMED, &[], 400.0);
        let mut text = String::new();
        registry.write(&mut text);
        let lines: Vec<&str> =
            text.lines().filter(|it| !it.contains("_bucket") || it.contains("Inf")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        # HELP things_total Things.
        # TYPE things_total counter
        things_total{kind="a \"q\"\n"} 1
        things_total{kind="b"} 3
        # HELP wait_seconds Waits.
        # TYPE wait_seconds histogram
        wait_seconds_bucket{le="+Inf"} 2
        wait_seconds_sum 400.02
        wait_seconds_count 2
        "#);
        assert!(text.contains("wait_seconds_bucket{le=\"0.025\"} 1"), "{text}");
    }
}
