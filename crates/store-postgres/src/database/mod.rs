//! The way to the database: connections, statements and second attempts.

mod tls;

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use contexture_session::rank::AnalyzerPool;
use deadpool_postgres::{
    Client, ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
    Transaction,
};
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, IsolationLevel, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::PostgresConfig;
use crate::failure::{Failure, Remedy, unavailable};

/// A pool of connections to one schema of one database.
pub(crate) struct Database {
    pub(crate) config: PostgresConfig,
    /// The database without user and password, for messages.
    pub(crate) place: String,
    pub(crate) postgres: Config,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) analyzers: AnalyzerPool,
    pool: Pool,
}

/// Whether an operation is tried for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Nothing was done so far.
    Fresh,
    /// An earlier attempt got no answer, and may have been carried out.
    AfterLoss,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the connection's own settings: there is a password among them.
        f.debug_struct("Database").field("place", &self.place).field("config", &self.config).finish()
    }
}

impl Database {
    /// Prepares connections; none is made yet.
    pub(crate) fn new(url: &str, config: PostgresConfig) -> Result<Database, StoreError> {
        config.check()?;
        let postgres = parse(url, &config)?;
        let place = place(&postgres);
        let unavailable = |detail: String| StoreError::Unavailable { place: place.clone(), detail };
        let tls = tls::connector(postgres.get_ssl_mode(), config.root_certificates.as_deref());
        let tls = tls.map_err(unavailable)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(postgres.clone(), tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(config.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(config.wait_timeout))
            .create_timeout(Some(config.connect_timeout.saturating_mul(2)))
            .post_create(Hook::async_fn(|client, _| Box::pin(apply_settings(client))))
            .build()
            .map_err(|err| unavailable(err.to_string()))?;
        Ok(Database { config, place, postgres, tls, analyzers: AnalyzerPool::default(), pool })
    }

    /// Returns the text of a statement with the schema filled in.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", &self.config.schema)
    }

    /// Runs an operation on a connection, again and again while that makes sense and there is time.
    pub(crate) async fn run<T, Fut>(
        &self,
        operation: impl Fn(Client, Attempt) -> Fut,
    ) -> Result<T, StoreError>
    where
        Fut: Future<Output = Result<T, Failure>>,
    {
        self.repeat(operation, |failure| failure.remedy() != Remedy::None).await
    }

    /// Runs an operation on a connection, again after failures that may pass while there is time.
    pub(crate) async fn repeat<T, Fut>(
        &self,
        operation: impl Fn(Client, Attempt) -> Fut,
        may_pass: impl Fn(&Failure) -> bool,
    ) -> Result<T, StoreError>
    where
        Fut: Future<Output = Result<T, Failure>>,
    {
        let mut attempt = Attempt::Fresh;
        let mut backoff = Backoff::new(self.config.retry_for);
        loop {
            let done = async { operation(self.pool.get().await?, attempt).await };
            let failure = match done.await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            if failure.remedy() == Remedy::RetryAfterLoss {
                attempt = Attempt::AfterLoss;
            }
            if !may_pass(&failure) || !backoff.take().await {
                return Err(failure.into_store_error(&self.place));
            }
        }
    }

    /// Reads the rows that a statement selects.
    pub(crate) async fn select<T: Send>(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
        read: impl Fn(&Row) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, StoreError> {
        let (text, read) = (&self.sql(text), &read);
        self.run(|client, _| async move {
            let rows = client.query(&client.prepare_cached(text).await?, params).await?;
            rows.iter().map(read).collect()
        })
        .await
    }
}

/// Begins a transaction in which each statement sees what was committed before it, whatever the server's default is.
/// Code that waits for a lock relies on that.
pub(crate) async fn begin(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await
}

/// The settings of a new connection, as far as the server knows them. Every statement here uses an index whatever its
/// parameters are, so one plan is enough, and a plan made while a table was small must not scan it when it has grown.
/// Acknowledged writes are on disk.
const SETTINGS: &str = "\
    SELECT set_config(setting.name, wanted.value, false)
    FROM pg_settings AS setting
    JOIN (VALUES
        ('enable_seqscan', 'off'),
        ('enable_bitmapscan', 'off'),
        ('jit', 'off'),
        ('plan_cache_mode', 'force_generic_plan'),
        ('synchronous_commit', 'on')
    ) AS wanted (name, value) ON wanted.name = setting.name
    WHERE setting.name <> 'synchronous_commit' OR setting.setting = 'off'";

async fn apply_settings(client: &ClientWrapper) -> Result<(), HookError> {
    client.simple_query(SETTINGS).await.map(|_| ()).map_err(HookError::Backend)
}

/// Waits between attempts, longer and longer.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    until: Instant,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(500);

    /// Allows attempts for so long from now on.
    pub(crate) fn new(total: Duration) -> Backoff {
        let now = Instant::now();
        Backoff { next: Self::FIRST, until: now.checked_add(total).unwrap_or(now) }
    }

    /// Waits; returns false if there is no time left.
    pub(crate) async fn take(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = self.next.saturating_mul(2).min(Self::LONGEST);
        true
    }
}

fn parse(url: &str, config: &PostgresConfig) -> Result<Config, StoreError> {
    // Ours is always verified in full; see `tls`.
    let url =
        url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
    // The parser's message may quote the URL, which may contain a password.
    let mut postgres: Config = url.parse().map_err(|_| {
        unavailable(
            "its URL can't be understood; `postgres://user:password@host:port/database?sslmode=require` can",
        )
    })?;
    if postgres.get_application_name().is_none() {
        postgres.application_name("contexture");
    }
    if postgres.get_connect_timeout().is_none() {
        postgres.connect_timeout(config.connect_timeout);
    }
    // A machine that vanished is noticed within a minute, not within hours.
    if postgres.get_tcp_user_timeout().is_none() {
        postgres.tcp_user_timeout(Duration::from_secs(30));
    }
    if postgres.get_keepalives_interval().is_none() {
        postgres.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(10));
        postgres.keepalives_retries(3);
    }
    Ok(postgres)
}

fn place(postgres: &Config) -> String {
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<String> = postgres.get_hosts().iter().map(host).collect();
    let port = postgres.get_ports().first().map_or(String::new(), |it| format!(":{it}"));
    let database = postgres.get_dbname().or(postgres.get_user()).unwrap_or_default();
    format!("postgres://{}{port}/{database}", hosts.join(","))
}
