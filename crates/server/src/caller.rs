//! Who calls: the tenant that a key belongs to.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use contexture_session::Tenant;

use crate::Problem;

/// Who makes a request. The gate puts it beside the request; every route that touches data takes it from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose data the request may see.
    pub tenant: Tenant,
    /// The name of the key it came with; nobody has one where none is needed.
    pub key: Option<String>,
    /// Whether they may look after the server: metrics and the audit log.
    pub admin: bool,
}

impl Caller {
    /// Refuses whoever may not look after the server.
    pub(crate) fn check_admin(&self) -> Result<(), Problem> {
        match self.admin {
            true => Ok(()),
            false => Err(Problem::new("forbidden", "this needs an administrator's key")
                .hint("`contexture keys create --admin` makes one")),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // A route without the gate would be open to everybody: it is closed instead.
        let nobody = || Problem::new("unauthorized", "nobody is known to call");
        parts.extensions.get::<Caller>().cloned().ok_or_else(nobody)
    }
}
