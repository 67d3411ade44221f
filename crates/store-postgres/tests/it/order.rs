//! A write is done in its order, whatever its connection has done before.

use contexture_history::Timestamp;
use contexture_session::Tenant;
use contexture_session::documents::{Document, DocumentKey, Documents, Writes};
use contexture_store_postgres::PostgresStore;

use crate::support::{config, store_in, unique};

/// The parts of a write, as bits.
const PARTS: u32 = 4;

/// Documents of one round.
struct Names<'a> {
    tenant: &'a Tenant,
    round: &'a str,
}

impl Names<'_> {
    fn key(&self, name: &str) -> DocumentKey {
        DocumentKey::of_tenant(self.tenant, "kind", format!("{}-{name}", self.round))
    }

    fn document(&self, name: &str) -> Document {
        Document { key: self.key(name), at: Timestamp(1), data: name.to_owned() }
    }

    /// Returns a write of some parts, in which each part needs those before it: what is required, put and created is
    /// deleted at the end.
    fn writes(&self, parts: u32) -> Writes {
        let has = |part: u32| parts & (1 << part) != 0;
        let deletes = ["required", "put", "created"];
        Writes {
            requires: has(0).then(|| self.key("required")).into_iter().collect(),
            puts: has(1).then(|| self.document("put")).into_iter().collect(),
            creates: has(2).then(|| self.document("created")).into_iter().collect(),
            deletes: deletes.into_iter().filter(|_| has(3)).map(|it| self.key(it)).collect(),
        }
    }

    async fn prepare(&self, store: &PostgresStore) {
        let puts = vec![self.document("required")];
        store.write(Writes { puts, ..Writes::default() }).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_connection_has_prepared_changes_no_order() {
    let schema = unique("order");
    let one_connection =
        || store_in(contexture_store_postgres::PostgresConfig { connections: 1, ..config(&schema) });
    let tenant = Tenant::parse("t").unwrap();
    let other = one_connection().await;
    let all = (1 << PARTS) - 1;
    for before in 0..=all {
        // It has prepared nothing yet, and after the first write some statements.
        let store = one_connection().await;
        let round = format!("before-{before}");
        let warm = Names { tenant: &tenant, round: &round };
        warm.prepare(&other).await;
        store.write(warm.writes(before)).await.unwrap();
        let round = format!("after-{before}");
        let names = Names { tenant: &tenant, round: &round };
        names.prepare(&other).await;
        let written = store.write(names.writes(all)).await.map_err(|err| err.to_string());
        assert_eq!(written, Ok(()), "after {before:04b}");
        let keys = ["required", "put", "created"].map(|it| names.key(it));
        assert_eq!(store.documents(keys.to_vec()).await.unwrap(), [], "after {before:04b}");
    }
}
