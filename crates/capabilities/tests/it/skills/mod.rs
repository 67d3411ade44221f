//! Skills: the catalogue and its hints, the tools, and what a thread keeps of loading them.

mod always_once;
mod listing;
mod loading;
mod scene;
