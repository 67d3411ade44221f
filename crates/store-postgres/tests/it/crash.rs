//! Writers and the server itself are killed (`kill -9`) at random moments. What was acknowledged is there, in order,
//! once; nothing half-written is visible; the next append works.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use contexture_pgtest::Postgres;
use contexture_session::{Guard, Log as _, SessionId, SessionKey, State, Store, StoreError, Tenant};
use contexture_store_postgres::{PostgresConfig, PostgresStore};

use crate::support::{Log, admin, append, new_session, texts, unique, url};

const URL: &str = "CONTEXTURE_CRASH_URL";
const TENANT: &str = "CONTEXTURE_CRASH_TENANT";

/// A process that appends until it is killed.
struct Writer {
    process: Child,
    acknowledged: Arc<AtomicU64>,
}

impl Writer {
    fn start(url: &str, tenant: &Tenant) -> Writer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::the_writer_to_be_killed", "--nocapture"])
            .env(URL, url)
            .env(TENANT, tenant.as_str())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&acknowledged);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(end) = line.strip_prefix("acknowledged ") {
                    heard.store(end.parse().unwrap(), Ordering::SeqCst);
                }
            }
        });
        Writer { process, acknowledged }
    }

    /// Returns the last position that was acknowledged.
    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until something beyond `position` is acknowledged.
    fn wait_beyond(&mut self, position: u64) {
        while self.acknowledged() <= position {
            assert_eq!(self.process.try_wait().unwrap(), None, "the writer gave up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(mut self) -> u64 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // What it said last is still in the pipe.
        std::thread::sleep(Duration::from_millis(5));
        self.acknowledged()
    }
}

/// What the process runs; in a test run of its own it has nothing to do.
#[test]
fn the_writer_to_be_killed() {
    let (Ok(url), Ok(tenant)) = (std::env::var(URL), std::env::var(TENANT)) else { return };
    println!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(write_forever(&url, Tenant::parse(tenant).unwrap()));
}

async fn write_forever(url: &str, tenant: Tenant) {
    let mut log = connect(url, &tenant).await;
    let mut is_first = true;
    loop {
        let count = log.state.end.0 % 5 + 1;
        let texts: Vec<String> = (1..=count).map(|n| text_at(log.state.end.0 + n)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match log.say(&texts).await {
            Ok(_) => is_first = false,
            // The last words of the writer before, which the server was still about to write. Later on nobody else
            // writes, and a conflict with oneself is a failure.
            Err(StoreError::Conflict { .. }) if is_first => {
                log.state = log.head().await.state;
                continue;
            }
            Err(err) => panic!("{err}"),
        }
        let mut out = std::io::stdout();
        writeln!(out, "acknowledged {}", log.state.end).unwrap();
        out.flush().unwrap();
    }
}

/// Returns what is said at a position; every 50th is a large text.
fn text_at(position: u64) -> String {
    let text = format!("m{position} ");
    if position.is_multiple_of(50) { text.repeat(3_000) } else { text }
}

async fn connect(url: &str, tenant: &Tenant) -> Log {
    let config = PostgresConfig {
        schema: "crash".to_owned(),
        connections: 2,
        retry_for: Duration::from_secs(120),
        listen: false,
        ..PostgresConfig::default()
    };
    let store = PostgresStore::connect(url, config).await.unwrap();
    let session = SessionKey { tenant: tenant.clone(), session: SessionId::parse("s").unwrap() };
    match store.create_session(new_session(&session)).await {
        Ok(()) | Err(StoreError::Exists { .. }) => {}
        Err(err) => panic!("{err}"),
    }
    let mut log = Log { store, key: session.main(), session, state: State::default() };
    log.state = log.head().await.state;
    log
}

/// Checks that everything up to `acknowledged` is there, and that the log goes on.
async fn assert_survived(url: &str, tenant: &Tenant, acknowledged: u64) {
    let mut log = connect(url, tenant).await;
    // The server may still be about to write the last words of a killed writer. Once something stands behind them, it
    // can't any more.
    while let Err(err) = log.say(&["after"]).await {
        assert!(matches!(err, StoreError::Conflict { .. }), "{err}");
        log.state = log.head().await.state;
    }
    let survived = log.state.end.0 - 1;
    assert!(survived >= acknowledged, "{survived} of {acknowledged} are there");
    let expected: Vec<String> = (1..=survived).map(text_at).chain(["after".to_owned()]).collect();
    assert!(log.texts().await == expected, "all items, in order, once");
    log.assert_whole().await;
    assert_eq!(State::replay(&log.items().await), log.state);
}

fn random_millis(random: &mut u64, most: u64) -> Duration {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    Duration::from_micros((*random >> 33) % (most * 1_000))
}

#[test]
fn acknowledged_items_survive_the_death_of_their_writer() {
    let (url, tenant) = (url(), Tenant::parse(unique("killed")).unwrap());
    let (mut random, mut acknowledged) = (u64::from(std::process::id()), 0);
    for _ in 0..50 {
        let mut writer = Writer::start(&url, &tenant);
        writer.wait_beyond(acknowledged);
        std::thread::sleep(random_millis(&mut random, 40));
        acknowledged = writer.kill();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(assert_survived(&url, &tenant, acknowledged));
}

#[test]
fn acknowledged_items_survive_the_death_of_the_server() {
    let (mut server, tenant) = (Postgres::start().unwrap(), Tenant::parse("killed").unwrap());
    let mut random = u64::from(std::process::id());
    let mut writer = Writer::start(&server.url(), &tenant);
    for _ in 0..12 {
        writer.wait_beyond(writer.acknowledged());
        std::thread::sleep(random_millis(&mut random, 150));
        server.kill();
        std::thread::sleep(random_millis(&mut random, 50));
        server.restart().unwrap();
    }
    writer.wait_beyond(writer.acknowledged());
    let acknowledged = writer.kill();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(assert_survived(&server.url(), &tenant, acknowledged));
}

/// Appends to a log that another store writes too, until it is told to stop. An append whose outcome is unknown is
/// repeated as it is. Returns what was said and which number it got, and how often something was repeated.
async fn write_surely(mut log: Log, name: &str, is_over: &AtomicBool) -> (Vec<(u64, String)>, u64) {
    let (mut said, mut n_repeated) = (Vec::new(), 0);
    while !is_over.load(Ordering::SeqCst) {
        let text = format!("{name} {}", said.len());
        let mut next = append(&log.state, Guard::Any, &[&text]);
        let number = loop {
            match log.store.append(log.key.clone(), next.clone()).await {
                Ok(appended) => break appended.number,
                Err(StoreError::Conflict { .. }) => match log.store.head(log.key.clone()).await {
                    Ok(head) => {
                        log.state = head.unwrap().state().unwrap();
                        next = append(&log.state, Guard::Any, &[&text]);
                    }
                    Err(err) => assert_eq!(err.code(), "store_unavailable"),
                },
                Err(err) => {
                    assert_eq!(err.code(), "store_unavailable", "{err}");
                    n_repeated += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        };
        said.push((number, text));
    }
    (said, n_repeated)
}

/// Two stores write one log while the server dies and connections are cut. Whoever gets no answer repeats the append.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_appends_land_once() {
    let mut server = Postgres::start().unwrap();
    let (server_url, tenant) = (server.url(), Tenant::parse("twice").unwrap());
    let config = PostgresConfig {
        schema: "crash".to_owned(),
        connections: 2,
        retry_for: Duration::ZERO,
        listen: false,
        ..PostgresConfig::default()
    };
    let logs = [connect(&server_url, &tenant).await, connect(&server_url, &tenant).await];
    let mut impatient = Vec::new();
    for log in logs {
        let store = PostgresStore::connect(&server_url, config.clone()).await.unwrap();
        impatient.push(Log { store, ..log });
    }
    let log = impatient[0].clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = impatient
        .into_iter()
        .zip(["one", "other"])
        .map(|(log, name)| {
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move { write_surely(log, name, &is_over).await })
        })
        .collect();
    let mut random = u64::from(std::process::id());
    for round in 0..12 {
        tokio::time::sleep(Duration::from_millis(100) + random_millis(&mut random, 50)).await;
        if round % 3 == 0 {
            tokio::task::block_in_place(|| {
                server.kill();
                server.restart().unwrap();
            });
        } else {
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'contexture'";
            admin(&server_url).await.query_one(cut, &[]).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    is_over.store(true, Ordering::SeqCst);
    let mut said = Vec::new();
    for writer in writers {
        let (own, n_repeated) = writer.await.unwrap();
        assert!(n_repeated > 0 && own.is_sorted(), "{n_repeated}");
        said.extend(own);
    }
    said.sort_unstable();
    let mut log = Log { store: connect(&server_url, &tenant).await.store, ..log };
    log.state = log.head().await.state;
    let feed = log.store.feed(log.session.clone(), 0, usize::MAX).await.unwrap();
    let told: Vec<(u64, String)> =
        feed.into_iter().map(|it| (it.number, texts(&[it.item]).remove(0))).collect();
    assert_eq!(told, said, "everything that was acknowledged is there, in its place, and nothing else");
    log.assert_whole().await;
}
