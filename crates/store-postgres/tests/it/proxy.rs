//! A way to the server that breaks where a test wants it to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes everything on between the store and its server, until it is told not to.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    server: String,
    /// How many requests still get through with their answers; negative once one did not.
    answered: AtomicI64,
    is_closed: AtomicBool,
}

impl Proxy {
    pub(crate) async fn start(url: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server_of(url).to_owned();
        let (answered, is_closed) = (AtomicI64::new(i64::MAX), AtomicBool::new(false));
        let state = Arc::new(State { server, answered, is_closed });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(async move { state.pass(client).await });
            }
        });
        Proxy { address, state }
    }

    /// Returns the server's URL by this way.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(server_of(url), &self.address.to_string())
    }

    /// Lets so many requests through. The server still gets the next one, but its answer is lost, together with
    /// the connection. Whatever comes later is fine again.
    pub(crate) fn lose_answer_after(&self, requests: i64) {
        self.state.answered.store(requests, Ordering::SeqCst);
    }

    /// Loses no answer from now on, and says whether one was lost.
    pub(crate) fn heal(&self) -> bool {
        self.state.answered.swap(i64::MAX, Ordering::SeqCst) < 0
    }

    /// Breaks every connection at its next request, which the server does not get.
    pub(crate) fn close(&self, is_closed: bool) {
        self.state.is_closed.store(is_closed, Ordering::SeqCst);
    }
}

impl State {
    async fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let mut server = TcpStream::connect(&self.server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut request, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut request) => {
                    let read = read?;
                    if read == 0 || self.is_closed.load(Ordering::SeqCst) {
                        return Ok(());
                    }
                    server.write_all(&request[..read]).await?;
                    if self.answered.fetch_sub(1, Ordering::SeqCst) == 0 {
                        return swallow(&mut server, &mut answer).await;
                    }
                }
                read = server.read(&mut answer) => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    client.write_all(&answer[..read]).await?;
                }
            }
        }
    }
}

/// Reads until the server is ready for the next request: then it has done what it was asked for.
async fn swallow(server: &mut TcpStream, answer: &mut [u8]) -> io::Result<()> {
    loop {
        let read = server.read(answer).await?;
        let is_ready = read >= 6 && answer[read - 6] == b'Z' && answer[read - 5..read - 1] == [0, 0, 0, 5];
        // A password or the like is no request, and is not answered by this.
        if read == 0 || is_ready {
            return Ok(());
        }
    }
}

fn server_of(url: &str) -> &str {
    url.split('@').nth(1).and_then(|it| it.split('/').next()).unwrap()
}
