//! Communicates with a git server: over smart HTTP, or over git's own protocol on this machine.
//!
//! Start at [`Server::connect`]. docs/adr/0008 explains why libgit2 is not used for this.

use std::time::Duration;

use net::{IncomingBody, Pace, Route, Transport};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::message::Advertisement;
use super::packet::{Decoder, Encoder, Packet};
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure};
use crate::http::{LEAST_SPEED, redirect_target, send, status_failure};
use crate::text;

/// The port of git's own protocol.
const GIT_PORT: u16 = 9418;
/// The maximum size of a list of refs.
const MAX_LIST: u64 = 512 << 20;
const VERSION: (HeaderName, &str) = (HeaderName::from_static("git-protocol"), "version=2");

/// A server that has sent its capabilities.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    /// Its first message.
    pub(crate) advertisement: Advertisement,
    link: Link<'a>,
}

/// The kind of connection to a server.
#[derive(Debug)]
enum Link<'a> {
    Http { web: &'a Transport, url: &'a SourceUrl },
    Tcp(Box<Packets>),
}

/// The packets of one response.
#[derive(Debug)]
pub(crate) struct Packets {
    decoder: Decoder,
    wire: Wire,
    /// The number of bytes received so far.
    pub(crate) received: u64,
    limit: u64,
}

/// The source of the bytes.
#[derive(Debug)]
enum Wire {
    Http(IncomingBody),
    Tcp { stream: TcpStream, pace: Pace, buffer: Vec<u8> },
}

impl<'a> Server<'a> {
    /// Connects to the server of `url` and reads its first message.
    pub(crate) async fn connect(web: &'a Transport, url: &'a SourceUrl) -> Result<Self, Failure> {
        let mut advertisement = Advertisement::default();
        let (mut packets, is_http) = match url.url().scheme() {
            "git" => {
                (open_tcp(url.url(), web.timeouts().connect, web.timeouts().idle).await?, false)
            }
            _ => (open_http(web, url).await?, true),
        };
        loop {
            let packet = packets.next().await?.ok_or_else(|| {
                let detail = "the server closed the connection without a message; the repository may not exist";
                Failure::passing(ErrorKind::Unreachable, detail)
            })?;
            if advertisement.take(&packet)? {
                break;
            }
        }
        let link = if is_http { Link::Http { web, url } } else { Link::Tcp(Box::new(packets)) };
        Ok(Self { advertisement, link })
    }

    /// Sends a request and returns the response, of which at most `limit` bytes are read.
    pub(crate) async fn ask(self, question: Vec<u8>, limit: u64) -> Result<Packets, Failure> {
        match self.link {
            Link::Http { web, url } => {
                let headers = [
                    (CONTENT_TYPE, "application/x-git-upload-pack-request"),
                    (ACCEPT, "application/x-git-upload-pack-result"),
                    VERSION,
                ];
                let target = service_url(url, "git-upload-pack")?;
                let answer =
                    send(web, Route::Direct, Method::POST, &target, &headers, question).await?;
                if !answer.status.is_success() {
                    return Err(status_failure(&answer, url, "repository"));
                }
                Ok(Packets::new(Wire::Http(answer.body), limit))
            }
            Link::Tcp(mut packets) => {
                packets.write(&question).await?;
                packets.limit = limit;
                packets.received = 0;
                Ok(*packets)
            }
        }
    }
}

/// Returns the URL of a service of the repository at `url`.
fn service_url(url: &SourceUrl, service: &str) -> Result<Url, Failure> {
    let base = url.as_str().trim_end_matches('/');
    Url::parse(&format!("{base}/{service}"))
        .map_err(|_| Failure::refused("the URL cannot be extended"))
}

async fn open_http(web: &Transport, url: &SourceUrl) -> Result<Packets, Failure> {
    let mut target = service_url(url, "info/refs")?;
    target.set_query(Some("service=git-upload-pack"));
    let answer = send(web, Route::Direct, Method::GET, &target, &[VERSION], Vec::new()).await?;
    if answer.status.is_redirection() {
        let to = redirect_target(&answer).map(|mut to| {
            to.set_query(None);
            to.as_str().trim_end_matches("/info/refs").to_owned()
        });
        let to = to.map_or_else(|| "nowhere".to_owned(), |to| text::quoted(&to));
        return Err(Failure::refused(format!(
            "the server redirects to {to}, but redirects of repositories are not followed; if the repository moved there, change the URL in the pin"
        )));
    }
    if !answer.status.is_success() {
        return Err(status_failure(&answer, url, "repository"));
    }
    let kind = answer.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    match kind {
        Some(b"application/x-git-upload-pack-advertisement") => {
            Ok(Packets::new(Wire::Http(answer.body), MAX_LIST))
        }
        kind => {
            let kind = text::quoted_bytes(kind.unwrap_or_default());
            let detail = format!(
                "there is no git server at this URL, or it supports only the dumb protocol: it sent {kind}"
            );
            Err(Failure::fatal(ErrorKind::Content, detail))
        }
    }
}

async fn open_tcp(url: &Url, connect: Duration, idle: Duration) -> Result<Packets, Failure> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().unwrap_or(GIT_PORT);
    let address = (host.trim_start_matches('[').trim_end_matches(']'), port);
    let stream = timeout(connect, TcpStream::connect(address)).await.map_err(|_| {
        Failure::passing(ErrorKind::Timeout, "the connection was not established in time")
    })?;
    let stream = stream.map_err(|error| {
        Failure::passing(ErrorKind::Unreachable, "cannot connect").because(&error)
    })?;
    // There are many small requests and responses. If this fails, it only costs speed.
    drop(stream.set_nodelay(true));
    let mut packets = Packets::new(
        Wire::Tcp { stream, pace: Pace::new(idle, LEAST_SPEED), buffer: vec![0; 64 << 10] },
        MAX_LIST,
    );
    let path = url.path();
    let request = format!("git-upload-pack {path}\0host={host}:{port}\0\0version=2\0");
    packets.write(&Encoder::default().data(request.as_bytes()).bytes()).await?;
    Ok(packets)
}

impl Packets {
    fn new(wire: Wire, limit: u64) -> Self {
        Self { decoder: Decoder::default(), wire, received: 0, limit }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Wire::Tcp { stream, pace, .. } = &mut self.wire else { return Ok(()) };
        let written = pace.wait(stream.write_all(bytes)).await?;
        written.map_err(|error| broken(&error))
    }

    /// Returns the next packet, or `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Result<Option<Packet>, Failure> {
        loop {
            if let Some(packet) = self.decoder.next()? {
                return Ok(Some(packet));
            }
            let count = match &mut self.wire {
                Wire::Http(body) => match body.chunk().await? {
                    None => 0,
                    // An empty chunk is not the end.
                    Some(piece) if piece.is_empty() => continue,
                    Some(piece) => {
                        self.decoder.push(&piece);
                        piece.len()
                    }
                },
                Wire::Tcp { stream, pace, buffer } => {
                    let read = pace.wait(stream.read(buffer)).await?;
                    let count = read.map_err(|error| broken(&error))?;
                    pace.count(count)?;
                    self.decoder.push(&buffer[..count]);
                    count
                }
            };
            if count == 0 {
                return if self.decoder.is_empty() {
                    Ok(None)
                } else {
                    Err(Failure::passing(
                        ErrorKind::Unreachable,
                        "the connection ended in the middle of a response",
                    ))
                };
            }
            self.received += count as u64;
            if self.received > self.limit {
                let detail =
                    format!("the response is larger than the {} bytes allowed", self.limit);
                return Err(Failure::refused(detail));
            }
        }
    }
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::passing(ErrorKind::Unreachable, "the connection broke").because(error)
}
