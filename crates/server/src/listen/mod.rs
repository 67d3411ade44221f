//! Listens: accepts connections, disconnects slow clients, and shuts connections down gracefully.
//!
//! A connection must send its first request and every request head in time; the routes limit bodies and responses. The
//! number of connections leaves enough file descriptors for model calls (`connections.rs`). On shutdown no new
//! connections are accepted, open ones finish their requests, and those that take too long are closed. Each connection
//! is served by one thread (`threads.rs`).

mod connections;
mod error;
mod threads;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use contexture_project::ServerConfig;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::Server;
use crate::http::guarded;

use connections::{Connection, OpenConnections};
pub use error::ListenError;
use threads::ServingThreads;

/// How large the head of a request may be.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long connections may take to end once nothing runs any more.
const LAST_GRACE: Duration = Duration::from_secs(2);
/// The pause when no connection can be accepted, for lack of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    threads: ServingThreads,
    /// Ends the threads when it is dropped.
    end: DropGuard,
    address: SocketAddr,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("url", &self.url()).finish()
    }
}

impl Listener {
    /// Listens on the configured address. Addresses beyond this machine require a key. File paths are relative to
    /// `folder`.
    pub async fn bind(server: &Server, folder: &Path) -> Result<Self, ListenError> {
        let config = server.config();
        let tls = tls::acceptor(config, folder)?;
        let addresses = addresses(&config.listen).await?;
        // Unreadable keys are reported at startup, not at the first request.
        let has_keys = server.has_keys().await?;
        if let Some(open) = addresses.iter().find(|it| !it.ip().is_loopback()) {
            server.require_keys();
            if !has_keys {
                return Err(ListenError::NoKeys { address: open.to_string() });
            }
        }
        let failed = |source| ListenError::Bind { address: config.listen.clone(), source };
        let socket = TcpListener::bind(addresses.as_slice()).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let (threads, end) = ServingThreads::start().map_err(|source| ListenError::Threads { source })?;
        Ok(Self { socket, tls, threads, end, address })
    }

    /// Returns where it listens; a port that was left open is known here.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stop` resolves, and then shuts down gracefully.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let url = self.url();
        let server_side =
            Arc::new(ConnectionServer::new(server.config(), server.router(), self.tls, self.threads));
        let work = async {
            server.note("server.started", &url);
            server_side.accept(&self.socket, stop).await;
            server.note("server.stopped", &url);
            drop(self.socket);
            server_side.finish.cancel();
            server.stop().await;
            server_side.close().await;
        };
        tokio::join!(server.background(), work);
        server_side.threads.end().await;
        drop(self.end);
    }
}

async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, ListenError> {
    let wrong = |why: String| ListenError::Address { address: listen.to_owned(), why };
    let found = tokio::net::lookup_host(listen).await.map_err(|err| wrong(err.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(wrong("there is no such host".to_owned())) } else { Ok(found) }
}

/// State shared by all connections.
struct ConnectionServer {
    protocol: auto::Builder<ServingThreads>,
    threads: ServingThreads,
    service: TowerToHyperService<Router>,
    tls: Option<TlsAcceptor>,
    first_request: Duration,
    open: OpenConnections,
    connections: TaskTracker,
    /// Connections finish what they are at, and take nothing more.
    finish: CancellationToken,
    /// Closes connections immediately.
    cut: CancellationToken,
}

impl ConnectionServer {
    fn new(config: &ServerConfig, router: Router, tls: Option<TlsAcceptor>, threads: ServingThreads) -> Self {
        let timeout = Duration::from_secs(config.request_timeout_seconds.max(1));
        Self {
            protocol: protocol(threads.clone(), timeout),
            threads,
            service: TowerToHyperService::new(router),
            tls,
            first_request: timeout,
            open: OpenConnections::new(connections::max_connections(
                config.max_connections,
                connections::file_limit(),
            )),
            connections: TaskTracker::new(),
            finish: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Takes connections until `stop` comes.
    async fn accept(self: &Arc<Self>, socket: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                let (stream, _) = socket.accept().await?;
                let stream = stream.into_std()?;
                // When no connection can be closed, the new one waits, and later ones wait in the system's queue.
                Ok::<_, std::io::Error>((stream, self.open.acquire().await))
            };
            let accepted = tokio::select! {
                next = next => next,
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, place)) => {
                    let connection = Arc::clone(self).connection(stream, place);
                    self.connections.spawn_on(connection, &self.threads.least_busy());
                }
                Err(err) => {
                    tracing::warn!(error = %err, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn connection(self: Arc<Self>, stream: std::net::TcpStream, place: Arc<Connection>) {
        // Its thread is told when there is more to read.
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(err) => return tracing::warn!(error = %err, "cannot serve a connection"),
        };
        // Sends small chunks of a stream immediately.
        let _ = stream.set_nodelay(true);
        let disconnect = place.disconnect.clone();
        let serve_http = async {
            match &self.tls {
                None => self.serve_http(stream, place).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                        self.serve_http(stream, place).await;
                    }
                }
            }
        };
        tokio::select! {
            () = serve_http => {}
            () = self.cut.cancelled() => {}
            () = disconnect.cancelled() => {}
        }
    }

    /// Speaks HTTP on one connection.
    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: Arc<Connection>,
    ) {
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let service = self.service.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let active = place.begin();
            let answer = service.call(request);
            async move { answer.await.map(|it| guarded(it, active)) }
        });
        let connection = self.protocol.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // Before it is known which HTTP a client speaks nothing else limits its time.
        let mut first_request = std::pin::pin!(tokio::time::sleep(self.first_request));
        let (mut is_checked, mut is_finishing) = (false, false);
        loop {
            tokio::select! {
                result = connection.as_mut() => {
                    if let Err(err) = result {
                        tracing::debug!(error = %err, "a connection ended badly");
                    }
                    return;
                }
                () = &mut first_request, if !is_checked => {
                    is_checked = true;
                    if !has_asked.load(Ordering::Relaxed) {
                        return;
                    }
                }
                () = self.finish.cancelled(), if !is_finishing => {
                    is_finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    /// Waits until all connections have ended, for a while.
    async fn close(&self) {
        self.connections.close();
        // Closing idle connections loses nothing.
        self.open.disconnect_idle();
        if tokio::time::timeout(LAST_GRACE, self.connections.wait()).await.is_err() {
            self.cut.cancel();
            self.connections.wait().await;
        }
    }
}

fn protocol(threads: ServingThreads, timeout: Duration) -> auto::Builder<ServingThreads> {
    let mut builder = auto::Builder::new(threads);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_concurrent_streams(256)
        .keep_alive_interval(timeout)
        .keep_alive_timeout(timeout);
    builder
}
