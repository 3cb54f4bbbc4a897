//! A forward proxy for HTTP and HTTPS, such as companies run.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use url::Url;

use crate::fault::Answer;
use crate::http::{Head, serve};

/// A forward proxy on loopback. Only the proxy knows the addresses of its hosts, so a request to
/// them fails if it does not go through the proxy. The proxy stops accepting connections when
/// dropped.
#[derive(Debug)]
pub struct ForwardProxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// The addresses of hosts, `HOST:PORT`.
    hosts: BTreeMap<String, String>,
    /// The required value of `Proxy-Authorization`, if any.
    password: Option<String>,
    asked: Mutex<Vec<String>>,
    is_closed: AtomicBool,
}

impl ForwardProxy {
    /// Starts a proxy for these hosts, each `HOST:PORT` with its address. If `password` is given,
    /// the proxy refuses requests that do not have it as the value of `Proxy-Authorization`.
    pub fn start<'a>(
        hosts: impl IntoIterator<Item = (&'a str, String)>,
        password: Option<&str>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            hosts: hosts.into_iter().map(|(host, address)| (host.to_owned(), address)).collect(),
            password: password.map(str::to_owned),
            asked: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let (shared, serving) = (Arc::clone(&state), Arc::clone(&state));
        let is_closed = move || shared.is_closed.load(Ordering::Relaxed);
        serve(listener, is_closed, move |stream| drop(serving.serve(&stream)));
        Self { port, state }
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the method and the host of each authorised request, in order.
    pub fn asked(&self) -> Vec<String> {
        self.state.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Relaxed);
        // This wakes the thread that waits for connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    /// Serves one connection: a tunnel, or one request.
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        let mut wire = BufReader::new(client.try_clone()?);
        let Some(mut head) = Head::read(&mut wire)? else { return Ok(()) };
        let (method, target) = (head.word(0).to_owned(), head.word(1).to_owned());
        let answer = |status| Answer::new(status).write(&method, &mut &*client);
        if head.get("proxy-authorization") != self.password.as_deref() {
            return answer(407);
        }
        let is_tunnel = method == "CONNECT";
        let url = Url::parse(&target).ok().filter(|_| !is_tunnel);
        let host = match &url {
            Some(url) => format!(
                "{}:{}",
                url.host_str().unwrap_or_default(),
                url.port_or_known_default().unwrap_or_default()
            ),
            None => target,
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(format!("{method} {host}"));
        drop(asked);
        let Some(address) = self.hosts.get(&host) else { return answer(502) };
        let mut server = TcpStream::connect(address)?;
        match url {
            None => (&mut &*client).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?,
            Some(url) => {
                let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
                head.start = format!("{method} {}{query} HTTP/1.1", url.path());
                head.set("Connection", Some("close"));
                head.set("Proxy-Authorization", None);
                head.write(&mut server)?;
            }
        }
        let (mut to, from) = (server.try_clone()?, server);
        thread::spawn(move || {
            drop(copy(&mut wire, &mut to));
            drop(to.shutdown(Shutdown::Write));
        });
        let ended = copy(&mut &from, &mut &*client);
        drop(client.shutdown(Shutdown::Both));
        ended
    }
}

/// Copies until the end, and forwards each piece immediately.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
