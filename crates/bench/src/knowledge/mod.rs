//! Search: how good it is on public sets, and how fast on synthetic ones, beside what SQLite does by itself.

mod fts5;
mod quality;
mod recall;
mod remembered;
mod sets;
mod speed;
mod words;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use contexture::SystemTime;
use contexture_history::Timestamp;
use contexture_session::sources::SourceIndex;
use contexture_session::{BaseId, BaseKey, Tenant};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

pub use quality::{Quality, quality};
pub use recall::recall;
pub use speed::speed;

/// Opens a store with one empty base.
fn store_with_base(path: &Path) -> Result<(Arc<dyn SourceIndex>, BaseKey), Box<dyn Error>> {
    let store: Arc<dyn SourceIndex> =
        Arc::new(SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime)))?);
    let base = BaseKey { tenant: Tenant::default(), base: BaseId::parse("bench")? };
    futures::executor::block_on(store.put_base(base.clone(), Default::default(), Timestamp(0)))?;
    Ok((store, base))
}
