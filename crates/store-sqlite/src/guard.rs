//! Leases, checked in the transaction of the write that they guard.

use std::sync::Arc;

use contexture_history::{Seq, Timestamp};
use contexture_session::{Fence, Guard, LeaseRefusal, LeaseRow, StoreError, ThreadKey, Time};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::Failure;
use crate::file::commit::Change;
use crate::numbers::{from_sql, seq, to_sql};

/// A change of a lease alone.
#[derive(Debug)]
pub(crate) struct ChangeLease {
    pub(crate) key: ThreadKey,
    pub(crate) guard: Guard,
    pub(crate) time: Arc<dyn Time>,
}

impl Change for ChangeLease {
    type Output = Option<Fence>;

    fn is_small(&self) -> bool {
        true
    }

    fn make(&self, conn: &Connection) -> Result<Option<Fence>, Failure> {
        let thread = find(conn, &self.key)?;
        let lease = admit(&self.key, &thread.lease, &self.guard, self.time.now())?;
        if lease != thread.lease {
            let sql = "UPDATE threads SET owner = ?2, fence = ?3, until = ?4 WHERE no = ?1";
            let values = params![thread.no, lease.owner.as_deref(), to_sql(lease.fence.0), lease.until.0];
            conn.prepare_cached(sql)?.execute(values)?;
        }
        Ok(lease.fence_of(&self.guard))
    }
}

/// A thread as a writer finds it.
pub(crate) struct CurrentThread {
    pub(crate) no: i64,
    pub(crate) end: Seq,
    pub(crate) lease: LeaseRow,
}

pub(crate) const FIND_THREAD: &str =
    r#"SELECT no, "end", owner, fence, until FROM threads WHERE tenant = ?1 AND name = ?2"#;

pub(crate) fn find(conn: &Connection, key: &ThreadKey) -> Result<CurrentThread, Failure> {
    let found = |row: &rusqlite::Row<'_>| {
        let owner: Option<Arc<str>> = row.get(2)?;
        let lease = LeaseRow { owner, fence: Fence(from_sql(row.get(3)?)), until: Timestamp(row.get(4)?) };
        Ok(CurrentThread { no: row.get(0)?, end: seq(row.get(1)?), lease })
    };
    let mut statement = conn.prepare_cached(FIND_THREAD)?;
    let thread = statement.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()?;
    thread.ok_or_else(|| StoreError::no_thread(&key.thread).into())
}

pub(crate) fn admit(
    key: &ThreadKey,
    lease: &LeaseRow,
    guard: &Guard,
    now: Timestamp,
) -> Result<LeaseRow, StoreError> {
    lease.admit(guard, now).map_err(|refused| {
        let thread = key.thread.to_string();
        match refused {
            LeaseRefusal::Held => StoreError::Held { thread },
            LeaseRefusal::Fenced(fence) => StoreError::Fenced { thread, fence },
        }
    })
}
