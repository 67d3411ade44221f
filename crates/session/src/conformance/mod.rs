//! The suite that every store passes.
//!
//! A store's tests say how to open it, each time as another process would, on the same data:
//!
//! ```
//! use std::sync::Arc;
//! use contexture_session::conformance::{SystemTime, store_conformance};
//! use contexture_session::{MemoryStore, Store};
//!
//! async fn opener() -> contexture_session::conformance::Open {
//!     let store = MemoryStore::new(Arc::new(SystemTime));
//!     Arc::new(move || {
//!         let store = store.clone();
//!         Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
//!     })
//! }
//!
//! store_conformance!(opener);
//! # fn main() {}
//! ```
//!
//! Each check uses unique session names, so the checks can share a database and run concurrently.

mod archives;
mod contract;
mod documents;
mod layered;
mod life;
mod logs;
mod once;
mod search;
mod sources;
mod support;
mod writers;

pub use archives::{
    archives_of_others_are_seen, archives_read_the_same_everywhere, copies_keep_archives,
    rewritten_items_are_gone,
};
pub use contract::{
    appends_are_checked, blobs_are_stored_once, changes_are_noticed, deleting_removes_everything,
    forks_are_independent, guards_hold, items_come_back_as_they_were,
    nothing_of_a_tenant_is_visible_to_another, sessions_are_listed, spans_return_what_they_say,
};
pub use documents::{
    OpenDocuments, Opened, documents_are_created_once, documents_are_listed, documents_are_written,
    documents_have_any_name, nothing_stays_behind_a_deleted_session, old_documents_are_forgotten,
    what_belongs_to_a_session_goes_with_it,
};
pub use layered::{Interference, Layered, Operation};
pub use life::{
    a_dropped_turn_was_interrupted, a_replay_gives_the_live_state, a_session_moves_between_stores,
    a_suspended_turn_resumes_elsewhere, a_turn_with_the_same_key_is_the_same_turn,
    isolated_threads_never_leak, policies_decide_who_writes, turns_end_as_they_say,
};
pub use logs::{
    a_session_wakes_who_waits, a_waiter_is_handed_what_it_would_read, an_append_lands_once,
    deleted_items_wake_nobody, items_are_numbered, journals_are_pruned, runs_are_no_threads,
    saved_text_is_replaced, start_keys_are_unique, who_needs_a_writer_is_due,
};
pub use once::{a_lost_turn_is_resumed, a_scratch_thread_leaves_no_trace, what_is_done_once_is_done_once};
pub use search::{
    archived_items_are_found, copies_are_searched_by_themselves, deleting_ends_searching,
    every_kind_of_text_is_found, hostile_queries_find_nothing, huge_items_are_archived,
    nested_archives_find_items_once, searches_are_ranked, searches_stay_in_their_thread,
    threads_search_their_archives,
};
pub use sources::{
    OpenSources, bases_are_apart, changes_of_one_version_lose_nothing, frequent_terms_rank_alike,
    missing_bases_are_told, replacing_leaves_nothing_behind, sources_and_bases_are_listed,
    sources_come_back_as_they_were, stale_changes_are_refused, stores_rank_alike,
    vectors_go_with_their_chunks, writers_of_a_base_lose_nothing,
};
pub use support::{Open, SystemTime, TestNames, sessions_in_memory, test_ports};
pub use writers::{
    a_fenced_writer_never_writes_again, a_lost_turn_is_closed, a_lost_writer_is_fenced_out,
    many_writers_lose_nothing, raw_writers_never_both_succeed, subscriptions_have_no_gap_and_no_repeat,
    what_a_lost_turn_said_is_kept,
};

/// Makes one test of each check. The argument is an `async fn() -> Open`.
#[macro_export]
macro_rules! store_conformance {
    ($opener:path) => {
        $crate::store_conformance!(@each $opener:
            appends_are_checked, blobs_are_stored_once, changes_are_noticed, deleting_removes_everything,
            forks_are_independent, guards_hold, items_come_back_as_they_were,
            nothing_of_a_tenant_is_visible_to_another, sessions_are_listed, spans_return_what_they_say,
            a_dropped_turn_was_interrupted, a_replay_gives_the_live_state, a_session_moves_between_stores,
            a_suspended_turn_resumes_elsewhere, a_turn_with_the_same_key_is_the_same_turn,
            isolated_threads_never_leak, policies_decide_who_writes, turns_end_as_they_say,
            a_fenced_writer_never_writes_again, a_lost_turn_is_closed, a_lost_writer_is_fenced_out, many_writers_lose_nothing,
            raw_writers_never_both_succeed, subscriptions_have_no_gap_and_no_repeat,
            what_a_lost_turn_said_is_kept,
            archived_items_are_found, copies_are_searched_by_themselves, deleting_ends_searching,
            every_kind_of_text_is_found, hostile_queries_find_nothing, huge_items_are_archived,
            nested_archives_find_items_once, searches_are_ranked, searches_stay_in_their_thread,
            threads_search_their_archives,
            a_lost_turn_is_resumed, a_scratch_thread_leaves_no_trace, what_is_done_once_is_done_once,
            archives_of_others_are_seen, archives_read_the_same_everywhere, copies_keep_archives,
            rewritten_items_are_gone,
            a_session_wakes_who_waits, a_waiter_is_handed_what_it_would_read, an_append_lands_once,
            deleted_items_wake_nobody, items_are_numbered, journals_are_pruned,
            runs_are_no_threads, saved_text_is_replaced, start_keys_are_unique, who_needs_a_writer_is_due
        );
    };
    (@each $opener:path: $($check:ident),*) => {
        $(
            #[test]
            fn $check() {
                let runtime = $crate::conformance::runtime();
                runtime.block_on(async { $crate::conformance::$check($opener().await).await });
            }
        )*
    };
}

/// Makes one test of each check of [`Documents`](crate::Documents). The argument is an
/// `async fn() -> OpenDocuments`.
#[macro_export]
macro_rules! documents_conformance {
    ($opener:path) => {
        $crate::store_conformance!(@each $opener:
            documents_are_created_once, documents_are_listed, documents_are_written, documents_have_any_name,
            nothing_stays_behind_a_deleted_session, old_documents_are_forgotten,
            what_belongs_to_a_session_goes_with_it
        );
    };
}

/// Makes one test of each check of [`SourceIndex`](crate::SourceIndex). The argument is an `async fn() -> OpenSources`.
#[macro_export]
macro_rules! sources_conformance {
    ($opener:path) => {
        $crate::store_conformance!(@each $opener:
            bases_are_apart, changes_of_one_version_lose_nothing, frequent_terms_rank_alike, missing_bases_are_told, replacing_leaves_nothing_behind,
            sources_and_bases_are_listed, sources_come_back_as_they_were, stale_changes_are_refused,
            stores_rank_alike, vectors_go_with_their_chunks, writers_of_a_base_lose_nothing
        );
    };
}

pub use crate::{documents_conformance, sources_conformance, store_conformance};

/// Returns a runtime with threads, as servers have.
pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime can be started in a test")
}
