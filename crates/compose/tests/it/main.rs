//! Tests of the composition engine: text in, text out.

mod adapt;
mod blocks;
mod budget;
mod cache;
mod capabilities;
mod concurrency;
mod entries;
mod errors;
mod forecast;
mod history;
mod messages;
mod owned;
mod planner;
mod properties;
mod providers;
mod schemas;
mod slot;
mod steps;
mod tags;
mod tools;
mod transforms;
mod typed;
mod types;
