//! HTTP/1.1, as much of it as clients of model providers need, written by hand.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::WriteHalf;
use tokio::net::{TcpListener, TcpStream};

use crate::reply::{End, Framing, Reply};
use crate::{Received, Shared};

/// The end of a body in pieces.
const CLOSE: &[u8] = b"0\r\n\r\n";

/// Serves until it is stopped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        shared.connected();
        let shared = Arc::clone(&shared);
        // A connection that breaks is the client's affair, or the script's intention.
        tokio::spawn(async move { _ = connection(BufReader::new(stream), &shared).await });
    }
}

async fn connection(mut stream: BufReader<TcpStream>, shared: &Shared) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    while let Some(request) = read(&mut stream).await? {
        let began = Instant::now();
        let reply = shared.received(&request);
        let (mut reader, mut writer) = stream.get_mut().split();
        let mut byte = [0];
        let outcome = tokio::select! {
            written = write(&mut writer, &reply) => written,
            // The client sends nothing while it waits, so whatever can be read is its end.
            _ = reader.peek(&mut byte) => Err(io::ErrorKind::ConnectionAborted.into()),
        };
        if outcome.is_err() {
            shared.client_gone();
        }
        // A client that has heard the end of the answer may leave before the end of the body.
        shared.sent(&request, began.elapsed());
        outcome?;
        match reply.end {
            End::Cut(_) | End::NoAnswer => return stream.get_ref().set_zero_linger(),
            End::Proper if reply.framing == Framing::Chunked => {}
            End::Proper | End::Silence(_) | End::Mute => return Ok(()),
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Received>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut received =
        Received { method, path, headers: Default::default(), body: Value::Null, text: String::new() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        received.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = received.headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    received.body = serde_json::from_slice(&body).unwrap_or_default();
    received.text = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(received))
}

async fn write(stream: &mut WriteHalf<'_>, reply: &Reply) -> io::Result<()> {
    pause(reply.first_wait).await;
    match reply.end {
        End::NoAnswer => return Ok(()),
        End::Mute => return std::future::pending().await,
        End::Proper | End::Cut(_) | End::Silence(_) => {}
    }
    stream.write_all(head(reply).as_bytes()).await?;
    let end = match reply.end {
        End::Cut(bytes) | End::Silence(bytes) => bytes.min(reply.body.len()),
        End::Proper | End::NoAnswer | End::Mute => reply.body.len(),
    };
    let is_chunked = reply.end == End::Proper && reply.framing == Framing::Chunked;
    // Servers send the end along with the last piece; a client that keeps connections waits for it only a moment.
    let comes_along = is_chunked && reply.wait.is_zero();
    let mut begin = 0;
    for cut in reply.cuts.iter().copied().filter(|it| *it < end).chain([end]) {
        if cut > begin {
            let close = if comes_along && cut == end { CLOSE } else { b"" };
            stream.write_all(&[&framed(reply.framing, &reply.body[begin..cut]), close].concat()).await?;
            pause(reply.wait).await;
        }
        begin = begin.max(cut);
    }
    match reply.end {
        End::Silence(_) => std::future::pending().await,
        End::Proper if is_chunked && !(comes_along && end > 0) => stream.write_all(CLOSE).await,
        End::Proper | End::Cut(_) | End::NoAnswer | End::Mute => Ok(()),
    }
}

/// Waits; no time is not even the shortest time of a timer.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn head(reply: &Reply) -> String {
    let framing = match reply.framing {
        Framing::Chunked => "transfer-encoding: chunked\r\n",
        Framing::UntilClosed => "connection: close\r\n",
    };
    let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {} Scripted\r\n{headers}{framing}\r\n", reply.status)
}

/// Returns a piece as it is sent: at once, so that it arrives as a piece.
fn framed(framing: Framing, bytes: &[u8]) -> Vec<u8> {
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        Framing::UntilClosed => bytes.to_vec(),
    }
}
