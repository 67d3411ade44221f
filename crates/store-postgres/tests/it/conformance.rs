//! The suite that every store passes.

use std::sync::Arc;

use contexture_session::Store;
use contexture_session::conformance::{Open, OpenRecords, Opened, records_conformance, store_conformance};

use crate::support::{config, store_in};

/// Opens one schema for all checks: each has names of its own. The first to come makes the tables.
async fn opener() -> Open {
    Arc::new(|| Box::pin(async { Arc::new(store_in(config("conformance")).await) as Arc<dyn Store> }))
}

store_conformance!(opener);

async fn records_opener() -> OpenRecords {
    Arc::new(|| Box::pin(async { Opened::new(store_in(config("conformance")).await) }))
}

records_conformance!(records_opener);

/// The same without notifications, as on engines that have none.
mod without_notifications {
    use super::{Arc, Open, OpenRecords, Opened, Store, config, store_in};
    use contexture_session::conformance::{
        changes_are_noticed, growth_is_noticed, runtime, subscriptions_have_no_gap_and_no_repeat,
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
    fn growth_is_noticed_by_polling() {
        let silent = || PostgresConfig { listen: false, ..config("conformance") };
        let open: OpenRecords =
            Arc::new(move || Box::pin(async move { Opened::new(store_in(silent()).await) }));
        runtime().block_on(growth_is_noticed(open));
    }

    #[test]
    fn subscriptions_work_by_polling() {
        runtime().block_on(subscriptions_have_no_gap_and_no_repeat(opener()));
    }
}

/// The same on a server whose transactions are serialisable: they fail now and then, and are tried again.
mod serialisable {
    use super::{Arc, Open, OpenRecords, Opened, Store, config};
    use crate::support::url;
    use contexture_session::conformance::{
        deleting_removes_everything, forks_are_independent, many_writers_lose_nothing,
        nothing_stays_behind_a_deleted_session, raw_writers_never_both_succeed, record_writers_lose_nothing,
        runtime,
    };
    use contexture_store_postgres::PostgresStore;

    fn strict_url() -> String {
        format!("{}?options=-c%20default_transaction_isolation=serializable", url())
    }

    fn records_opener() -> OpenRecords {
        Arc::new(|| {
            Box::pin(async {
                Opened::new(PostgresStore::connect(&strict_url(), config("conformance")).await.unwrap())
            })
        })
    }

    #[test]
    fn record_writers_still_lose_nothing() {
        runtime().block_on(record_writers_lose_nothing(records_opener()));
        runtime().block_on(nothing_stays_behind_a_deleted_session(records_opener()));
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
