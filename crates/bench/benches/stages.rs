//! The stages one by one, and how they grow.
#![allow(missing_docs)] // The macros of criterion make public functions.

use std::hint::black_box;
use std::time::Duration;

use contexture_bench::data::Composition;
use contexture_bench::flows::{chain_of, run_once};
use contexture_bench::sample::{self, Kind};
use contexture_bench::{built_prompt, push_tree, resolve_options, tree_tag};
use contexture_compose::tags::{TagEntry, TagStyle, aggregate};
use contexture_compose::{Engine, Prompt};
use contexture_message::{Encoding, TokenCounter};
use contexture_template::{Globals, RenderConfig, Template};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use serde_json::{Value, json};

/// Contexts of the same short text: what is left is the cost of a context itself.
fn short_contexts(n_contexts: usize) -> Composition {
    let mut data = sample::composition(n_contexts);
    for context in &mut data.contexts {
        context.body.clear();
        context.body.push_str("Refunds take five days.");
    }
    data
}

fn prompt(data: &Composition) -> Prompt {
    built_prompt(data).expect("the samples are valid")
}

fn resolve_cold(prompt: &Prompt) {
    let pass = block_on(prompt.resolve(resolve_options().engine(&Engine::default())));
    black_box(pass.expect("the samples fit their budget"));
}

fn resolve_warm(prompt: &Prompt) {
    black_box(block_on(prompt.resolve(resolve_options())).expect("the samples fit their budget"));
}

fn lower(c: &mut Criterion) {
    let mut group = c.benchmark_group("lower");
    for n_contexts in [24, 240] {
        let data = sample::composition(n_contexts);
        group.bench_function(BenchmarkId::from_parameter(n_contexts), |b| b.iter(|| prompt(&data)));
    }
}

fn resolve(c: &mut Criterion) {
    for n_contexts in [24, 240] {
        let data = sample::composition(n_contexts);
        let prompt = prompt(&data);
        c.bench_function(&format!("resolve/cold/{n_contexts}"), |b| b.iter(|| resolve_cold(&prompt)));
        // A prompt knows the counts of the first engine that it was resolved with.
        let prompt = built_prompt(&data).expect("the samples are valid");
        resolve_warm(&prompt);
        c.bench_function(&format!("resolve/warm/{n_contexts}"), |b| b.iter(|| resolve_warm(&prompt)));
    }
}

fn explain(c: &mut Criterion) {
    let prompt = prompt(&sample::composition(24));
    let pass = block_on(prompt.resolve(resolve_options())).expect("the samples fit their budget");
    c.bench_function("explain/24", |b| b.iter(|| black_box(pass.explain())));
}

/// The time per context must stay the same.
fn growth(c: &mut Criterion) {
    let mut group = c.benchmark_group("growth");
    for n_contexts in [10, 100, 1000] {
        let prompt = prompt(&short_contexts(n_contexts));
        resolve_warm(&prompt);
        group.throughput(Throughput::Elements(n_contexts as u64));
        group.bench_function(BenchmarkId::from_parameter(n_contexts), |b| b.iter(|| resolve_warm(&prompt)));
    }
}

fn tags(c: &mut Criterion) {
    let mut group = c.benchmark_group("tags");
    let values: Vec<Value> = (0..200)
        .map(|at| {
            let text = sample::text(Kind::Logs, 400);
            json!({format!("section_{}", at % 20): {format!("record_{at}"): {"@id": at, "#text": text}}})
        })
        .collect();
    let entries: Vec<_> = values.iter().map(|value| TagEntry { source: "bench", value }).collect();
    group.bench_function("aggregate", |b| b.iter(|| aggregate(&entries)));
    let tree = aggregate(&entries).expect("the shapes go together").tree;
    group.bench_function("render", |b| b.iter(|| tree.render(TagStyle::default())));

    let tree = sample::tree(200);
    group.bench_function("by hand", |b| b.iter(|| tree_tag(&tree.root).map(|it| it.render())));
    group.bench_function("floor", |b| {
        b.iter(|| {
            let mut out = String::new();
            push_tree(&mut out, &tree.root);
            out
        });
    });
}

const TEMPLATE: &str = "\
Dear {{ input.name | capitalize }},
{% for item in input.items %}{% if item.open %}- {{ item.title }}: {{ item.amount | times: 2 }}
{% endif %}{% endfor %}{{ input.note | default: \"no note\" }}";

fn template(c: &mut Criterion) {
    let mut group = c.benchmark_group("template");
    group.bench_function("parse", |b| b.iter(|| Template::parse(TEMPLATE)));
    let template = Template::parse(TEMPLATE).expect("the template is valid");
    let items: Vec<_> =
        (0..50).map(|at| json!({"title": format!("item {at}"), "amount": at, "open": at % 3 > 0})).collect();
    let input = json!({"name": "ada", "items": items});
    let variables = [("input", &input)];
    let (globals, config) = (Globals::new(&variables), RenderConfig::strict());
    group.bench_function("render", |b| b.iter(|| template.render(&globals, &config)));
}

fn tokenize(c: &mut Criterion) {
    let mut group = c.benchmark_group("tokenize");
    for kind in Kind::ALL {
        let text = sample::text(kind, 10_000);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(kind.name(), |b| b.iter(|| Encoding::O200kBase.count(black_box(&text))));
    }
}

fn flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow");
    for n_nodes in [10, 100, 1000] {
        let flow = chain_of(n_nodes).expect("the sample is valid");
        group.throughput(Throughput::Elements(n_nodes as u64));
        group.bench_function(BenchmarkId::from_parameter(n_nodes), |b| {
            b.iter_custom(|n_runs| (0..n_runs).map(|_| run_once(&flow).expect("it comes to its end")).sum());
        });
    }
}

criterion_group! {
    name = stages;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = lower, resolve, explain, growth, tags, template, tokenize, flow
}
criterion_main!(stages);
