//! The suite that every store passes.

use std::sync::Arc;

use contexture_session::Store;
use contexture_session::conformance::{Open, store_conformance};

use crate::support::{config, store_in};

/// Opens one schema for all checks: each has names of its own. The first to come makes the tables.
async fn opener() -> Open {
    Arc::new(|| Box::pin(async { Arc::new(store_in(config("conformance")).await) as Arc<dyn Store> }))
}

store_conformance!(opener);

/// The same without notifications, as on engines that have none.
mod without_notifications {
    use super::{Arc, Open, Store, config, store_in};
    use contexture_session::conformance::{
        changes_are_noticed, runtime, subscriptions_have_no_gap_and_no_repeat,
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
    fn subscriptions_work_by_polling() {
        runtime().block_on(subscriptions_have_no_gap_and_no_repeat(opener()));
    }
}

/// The same on a server whose transactions are serialisable: they fail now and then, and are tried again.
mod serialisable {
    use super::{Arc, Open, Store, config};
    use crate::support::url;
    use contexture_session::conformance::{
        deleting_removes_everything, forks_are_independent, many_writers_lose_nothing,
        raw_writers_never_both_succeed, runtime,
    };
    use contexture_store_postgres::PostgresStore;

    fn opener() -> Open {
        let url = format!("{}?options=-c%20default_transaction_isolation=serializable", url());
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
