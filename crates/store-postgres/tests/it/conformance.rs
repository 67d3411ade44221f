//! The suite that every store passes.

use std::sync::Arc;

use contexture_session::conformance::{
    Open, OpenDocuments, OpenSources, Opened, documents_conformance, sources_conformance, store_conformance,
};
use contexture_session::{SourceIndex, Store};

use crate::support::{config, store_in};

/// Opens one schema for all checks: each has names of its own. The first to come makes the tables.
async fn opener() -> Open {
    Arc::new(|| Box::pin(async { Arc::new(store_in(config("conformance")).await) as Arc<dyn Store> }))
}

store_conformance!(opener);

async fn documents_opener() -> OpenDocuments {
    Arc::new(|| Box::pin(async { Opened::new(store_in(config("conformance")).await) }))
}

documents_conformance!(documents_opener);

async fn sources_opener() -> OpenSources {
    Arc::new(|| Box::pin(async { Arc::new(store_in(config("conformance")).await) as Arc<dyn SourceIndex> }))
}

sources_conformance!(sources_opener);

/// The same without notifications, as on engines that have none.
mod without_notifications {
    use super::{Arc, Open, Store, config, store_in};
    use contexture_session::conformance::{
        a_session_wakes_who_waits, changes_are_noticed, runtime, subscriptions_have_no_gap_and_no_repeat,
    };
    use contexture_store_postgres::PostgresConfig;

    fn opener() -> Open {
        let silent = || PostgresConfig { listen: false, ..config("conformance") };
        Arc::new(move || Box::pin(async move { Arc::new(store_in(silent()).await) as Arc<dyn Store> }))
    }

    #[test]
    fn changes_are_noticed_by_polling() {
        runtime().block_on(changes_are_noticed(opener()));
    }

    #[test]
    fn a_session_wakes_who_waits_by_polling() {
        runtime().block_on(a_session_wakes_who_waits(opener()));
    }

    #[test]
    fn subscriptions_work_by_polling() {
        runtime().block_on(subscriptions_have_no_gap_and_no_repeat(opener()));
    }
}

/// The same on a server whose transactions are serialisable: they fail now and then, and are tried again.
mod serialisable {
    use super::{Arc, Open, OpenDocuments, Opened, Store, config};
    use crate::support::url;
    use contexture_session::conformance::{
        deleting_removes_everything, forks_are_independent, items_are_numbered, many_writers_lose_nothing,
        nothing_stays_behind_a_deleted_session, raw_writers_never_both_succeed, runtime,
    };
    use contexture_store_postgres::PostgresStore;

    fn strict_url() -> String {
        format!("{}?options=-c%20default_transaction_isolation=serializable", url())
    }

    fn documents_opener() -> OpenDocuments {
        Arc::new(|| {
            Box::pin(async {
                Opened::new(PostgresStore::connect(&strict_url(), config("conformance")).await.unwrap())
            })
        })
    }

    #[test]
    fn documents_still_go_with_their_session() {
        runtime().block_on(nothing_stays_behind_a_deleted_session(documents_opener()));
    }

    #[test]
    fn items_are_still_numbered() {
        runtime().block_on(items_are_numbered(opener()));
    }

    fn opener() -> Open {
        let url = strict_url();
        Arc::new(move || {
            let url = url.clone();
            Box::pin(async move {
                Arc::new(PostgresStore::connect(&url, config("conformance")).await.unwrap()) as Arc<dyn Store>
            })
        })
    }

    #[test]
    fn many_writers_still_lose_nothing() {
        runtime().block_on(many_writers_lose_nothing(opener()));
    }

    #[test]
    fn raw_writers_still_never_both_succeed() {
        runtime().block_on(raw_writers_never_both_succeed(opener()));
    }

    #[test]
    fn threads_still_come_and_go() {
        runtime().block_on(forks_are_independent(opener()));
        runtime().block_on(deleting_removes_everything(opener()));
    }
}
