//! Leases, checked in SQL by the database's clock.
//!
//! The rules are those of [`contexture_session::LeaseRow::admit`]. A guard is passed as three parameters; those that
//! it does not have are null:
//!
//! | guard | `$3` owner | `$4` fence | `$5` time to live, µs |
//! |---|---|---|---|
//! | any, call | | -1 | |
//! | free | | | |
//! | acquire | who | | how long |
//! | hold | | which | how long |
//! | release | | which | |

use contexture_session::{Fence, Guard, StoreError, ThreadKey};
use deadpool_postgres::Client;

use crate::database::{Attempt, Database};
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{duration_to_sql, from_sql, to_sql};

/// Whether the guard lets the writer in.
pub(crate) const ALLOWED: &str = "\
    CASE WHEN $4::bigint IS NULL
        THEN lease_owner IS NULL OR lease_until <= clock_timestamp() OR lease_owner = $3::text
        ELSE $4::bigint < 0 OR (lease_owner IS NOT NULL AND lease_fence = $4::bigint)
    END";

/// The lease after the writer is admitted, and its number.
pub(crate) const LEASE: &str = "\
    lease_owner = CASE
        WHEN $3::text IS NOT NULL THEN $3::text
        WHEN $5::bigint IS NULL AND coalesce($4::bigint, 0) >= 0 THEN NULL
        ELSE lease_owner
    END,
    lease_fence = lease_fence + CASE WHEN $4::bigint IS NULL THEN 1 ELSE 0 END,
    lease_until = CASE
        WHEN $5::bigint IS NULL THEN lease_until
        ELSE clock_timestamp() + $5::bigint * interval '1 microsecond'
    END";

const TAKE: &str = "\
    UPDATE {schema}.logs SET {lease}
    WHERE tenant = $1 AND thread = $2 AND {allowed} AND {current}
    RETURNING lease_fence";

const WHY: &str = "\
    SELECT end_seq, lease_owner IS NULL AND lease_fence = $4::bigint, {allowed}
    FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

/// A guard as parameters.
#[derive(Debug)]
pub(crate) struct GuardParams<'a> {
    pub(crate) owner: Option<&'a str>,
    pub(crate) fence: Option<i64>,
    pub(crate) ttl: Option<i64>,
}

impl<'a> GuardParams<'a> {
    pub(crate) fn new(guard: &'a Guard) -> Self {
        let none = GuardParams { owner: None, fence: None, ttl: None };
        match guard {
            Guard::Any | Guard::Call => GuardParams { fence: Some(-1), ..none },
            Guard::Free => none,
            Guard::Acquire { owner, ttl } => {
                GuardParams { owner: Some(owner), ttl: Some(duration_to_sql(*ttl)), ..none }
            }
            Guard::Hold { fence, ttl } => {
                GuardParams { fence: Some(to_sql(fence.0)), ttl: Some(duration_to_sql(*ttl)), ..none }
            }
            Guard::Release { fence } => GuardParams { fence: Some(to_sql(fence.0)), ..none },
        }
    }
}

/// A log as a refused writer finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentLease {
    /// Its end.
    pub(crate) end: i64,
    /// Whether the writer's lease is the last one and was given back.
    pub(crate) is_released: bool,
    /// Whether the guard lets the writer in by now.
    pub(crate) is_allowed: bool,
}

impl Database {
    /// Returns the text of a statement with the schema and the lease rules filled in.
    pub(crate) fn guarded_sql(&self, text: &str) -> String {
        self.current_sql(&text.replace("{lease}", LEASE).replace("{allowed}", ALLOWED))
    }

    pub(crate) async fn lease(&self, key: &ThreadKey, guard: &Guard) -> Result<Option<Fence>, StoreError> {
        check_owner(key, guard)?;
        self.run(|client, attempt| async move {
            let params = GuardParams::new(guard);
            let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
            let statement = client.prepare_cached(&self.guarded_sql(TAKE)).await?;
            let row = client
                .query_opt(&statement, &[&tenant, &thread, &params.owner, &params.fence, &params.ttl])
                .await?;
            let Some(row) = row else {
                let current_lease = self.current_lease(&client, key, guard).await?;
                // Given back by the attempt that got no answer.
                let is_given_back = matches!(guard, Guard::Release { .. }) && current_lease.is_released;
                let is_done = attempt == Attempt::AfterLoss && is_given_back;
                return if is_done { Ok(None) } else { Err(refused(key, guard, current_lease)) };
            };
            Ok(guard.fence(Fence(from_sql(row.try_get(0)?))))
        })
        .await
    }

    /// Looks at a log that refused a writer.
    pub(crate) async fn current_lease(
        &self,
        client: &Client,
        key: &ThreadKey,
        guard: &Guard,
    ) -> Result<CurrentLease, Failure> {
        self.check_current(client).await?;
        let params = GuardParams::new(guard);
        let log = LogClient { database: self, client, key };
        let rows = log.query(&WHY.replace("{allowed}", ALLOWED), &[&params.owner, &params.fence]).await?;
        let row = rows.first().ok_or_else(|| StoreError::no_thread(&key.thread))?;
        let is = |column: usize| Ok::<_, Failure>(row.try_get::<_, Option<bool>>(column)?.unwrap_or(false));
        Ok(CurrentLease { end: row.try_get(0)?, is_released: is(1)?, is_allowed: is(2)? })
    }
}

/// Returns why the guard refuses a writer, or [`Failure::Raced`] if it no longer does.
pub(crate) fn refused(key: &ThreadKey, guard: &Guard, current_lease: CurrentLease) -> Failure {
    if current_lease.is_allowed { Failure::Raced } else { guard.refusal(key).into() }
}

pub(crate) fn check_owner(key: &ThreadKey, guard: &Guard) -> Result<(), StoreError> {
    match guard {
        Guard::Acquire { owner, .. } => check_text(key, "the lease's owner", owner),
        _ => Ok(()),
    }
}

/// Refuses what a text of PostgreSQL can't hold.
pub(crate) fn check_text(key: &ThreadKey, what: &str, text: &str) -> Result<(), StoreError> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(StoreError::malformed(key, format!("{what} has a NUL character, which PostgreSQL can't hold")))
}
