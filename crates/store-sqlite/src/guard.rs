//! Leases, checked in the transaction of the write that they guard.

use contexture_history::Timestamp;
use contexture_session::{Fence, Guard, ThreadKey};
use rusqlite::{Connection, params};

use crate::failure::Failure;
use crate::head::find;
use crate::numbers::to_sql;

/// Changes a lease alone.
pub(crate) fn change_lease(
    conn: &Connection,
    key: &ThreadKey,
    guard: &Guard,
    now: Timestamp,
) -> Result<Option<Fence>, Failure> {
    let log = find(conn, key)?;
    let lease = log.lease.admit(key, guard, now)?;
    if lease != log.lease {
        let sql = "UPDATE logs SET owner = ?2, fence = ?3, until = ?4 WHERE no = ?1";
        let values = params![log.no, lease.owner.as_deref(), to_sql(lease.fence.0), lease.until.0];
        conn.prepare_cached(sql)?.execute(values)?;
    }
    Ok(guard.fence(lease.fence))
}
