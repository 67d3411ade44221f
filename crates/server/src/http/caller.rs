//! The caller of a request: the tenant that its key belongs to.

use contexture_message::ErrorCode;
use contexture_session::Tenant;

use crate::Problem;

/// The caller of a request. The gate attaches it to the request; every route that touches data takes it from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose data the request may access.
    pub tenant: Tenant,
    /// The id of its key; `None` where no key is required.
    pub key: Option<String>,
    /// Whether the caller has admin rights: metrics and the audit log.
    pub admin: bool,
}

impl Caller {
    /// Refuses callers without admin rights.
    pub(crate) fn check_admin(&self) -> Result<(), Problem> {
        if self.admin {
            return Ok(());
        }
        let problem = Problem::new(ErrorCode::Forbidden, "this needs an administrator's key");
        Err(problem.hint("`contexture keys create --admin` makes one"))
    }
}
