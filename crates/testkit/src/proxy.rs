//! A proxy in front of a registry that records every request and causes faults on request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::fault::{Answer, Fault, Rule, RuleBuilder};
use crate::http::{Head, read_body, serve};
use crate::spoil::{send, write_endless};
use crate::tls::server_config;
use crate::tokens::{Auth, Tokens, give, refusal};

/// The port of a proxy that received a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The registry's port.
    Registry,
    /// The token server's port.
    Tokens,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The port that received it.
    pub server: Server,
    /// The method.
    pub method: String,
    /// The path and query.
    pub target: String,
    /// The headers, in order.
    pub headers: Vec<(String, String)>,
}

impl Recorded {
    /// Returns the first header with that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fitting = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        fitting.next().map(|(_, value)| value.as_str())
    }
}

/// The proxy. It stops accepting connections when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    ports: [u16; 2],
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: Option<String>,
    is_tls: bool,
    own_realm: String,
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<Recorded>>,
    auth: Mutex<Auth>,
    tokens: Mutex<Tokens>,
    is_closed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

impl FaultProxy {
    /// Starts a proxy in front of the registry at `host`.
    pub fn to(host: &str) -> Self {
        Self::start(Some(host.to_owned()), false)
    }

    /// Like [`Self::to`], with TLS and a certificate from the authority that
    /// [`crate::authority_der`] returns.
    pub fn tls_to(host: &str) -> Self {
        Self::start(Some(host.to_owned()), true)
    }

    /// Starts a server without a registry. It responds with status 404 if no rule matches.
    pub fn alone() -> Self {
        Self::start(None, false)
    }

    fn start(upstream: Option<String>, is_tls: bool) -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let ports = [0, 1].map(|n: usize| listeners[n].local_addr().expect("an address").port());
        let scheme = if is_tls { "https" } else { "http" };
        let state = Arc::new(State {
            upstream,
            is_tls,
            own_realm: format!("{scheme}://127.0.0.1:{}/token", ports[1]),
            rules: Mutex::default(),
            requests: Mutex::default(),
            auth: Mutex::default(),
            tokens: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        for (listener, server) in listeners.into_iter().zip([Server::Registry, Server::Tokens]) {
            let (shared, serving) = (Arc::clone(&state), Arc::clone(&state));
            let is_closed = move || shared.is_closed.load(Ordering::Relaxed);
            // Connections that end in an error are the purpose of this proxy.
            serve(listener, is_closed, move |stream| drop(serving.connection(server, stream)));
        }
        Self { ports, state }
    }

    /// Returns `127.0.0.1:port`.
    pub fn host(&self) -> String {
        self.host_as("127.0.0.1")
    }

    /// Returns `name:port`.
    pub fn host_as(&self, name: &str) -> String {
        format!("{name}:{}", self.ports[0])
    }

    /// Returns the address, without a trailing slash.
    pub fn url(&self) -> String {
        self.url_as("127.0.0.1")
    }

    /// Returns the address under another name, without a trailing slash.
    pub fn url_as(&self, name: &str) -> String {
        let scheme = if self.state.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host_as(name))
    }

    /// Returns the address of the token server under another name.
    pub fn realm_as(&self, name: &str) -> String {
        self.state.own_realm.replace("127.0.0.1", name)
    }

    /// Starts a rule for requests with `method` (`*` for any) and `contains` in the path or query.
    pub fn on(&self, method: &str, contains: &str) -> RuleBuilder<'_> {
        let (method, contains) = (method.to_owned(), contains.to_owned());
        let fault = Fault::Close;
        let rule = Rule { method, contains, first: 1, last: usize::MAX, seen: 0, fault };
        RuleBuilder { proxy: self, rule }
    }

    pub(crate) fn add(&self, rule: Rule) {
        lock(&self.state.rules).push(rule);
    }

    /// Sets the authentication that the proxy requires.
    pub fn require(&self, auth: Auth) {
        *lock(&self.state.auth) = auth;
    }

    /// Invalidates all tokens issued so far.
    pub fn forget_tokens(&self) {
        lock(&self.state.tokens).values_mut().for_each(Vec::clear);
    }

    /// Returns the requests so far, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.state.requests).clone()
    }

    /// Returns the number of requests so far with `method` (`*` for any) and `contains`.
    pub fn count(&self, method: &str, contains: &str) -> usize {
        let fits =
            |r: &&Recorded| (method == "*" || r.method == method) && r.target.contains(contains);
        self.requests().iter().filter(fits).count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Relaxed);
        for port in self.ports {
            // This wakes the thread that waits for connections.
            drop(TcpStream::connect(("127.0.0.1", port)));
        }
    }
}

impl State {
    /// Serves one connection, request after request.
    fn connection(&self, server: Server, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let raw = stream.try_clone()?;
        let wire: Box<dyn Wire> = if !self.is_tls {
            Box::new(stream)
        } else {
            let session = rustls::ServerConnection::new(server_config());
            Box::new(rustls::StreamOwned::new(session.map_err(io::Error::other)?, stream))
        };
        let mut wire = BufReader::new(wire);
        // 0x16 starts a TLS handshake: the client speaks TLS to a port without TLS.
        if wire.fill_buf()?.first() == Some(&0x16) {
            return Ok(());
        }
        while let Some(head) = Head::read(&mut wire)? {
            if !self.request(server, &head, &mut wire, &raw)? {
                break;
            }
        }
        Ok(())
    }

    /// Serves one request. Returns whether the connection can serve another one.
    fn request(
        &self,
        server: Server,
        head: &Head,
        wire: &mut BufReader<Box<dyn Wire>>,
        raw: &TcpStream,
    ) -> io::Result<bool> {
        let (method, target) = (head.word(0).to_owned(), head.word(1).to_owned());
        lock(&self.requests).push(Recorded {
            server,
            method: method.clone(),
            target: target.clone(),
            headers: head.headers.clone(),
        });
        let reset = || socket2::SockRef::from(raw).set_linger(Some(Duration::ZERO));
        let fault = self.fault(&method, &target);
        if let Some(Fault::Held(is_released)) = &fault {
            while !is_released.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
        }
        match &fault {
            Some(Fault::Stall) => io::copy(wire, &mut io::sink()).map(|_| false),
            Some(Fault::Close) => {
                read_body(head, wire, false)?;
                Ok(false)
            }
            Some(Fault::Reset) => reset().map(|()| false),
            Some(Fault::ResetUpload(count)) => {
                io::copy(&mut wire.take(*count), &mut io::sink())?;
                reset().map(|()| false)
            }
            Some(Fault::Garbage(bytes)) => {
                read_body(head, wire, false)?;
                wire.get_mut().write_all(bytes)?;
                Ok(false)
            }
            Some(Fault::Answer(answer)) => {
                read_body(head, wire, false)?;
                answer.write(&method, wire.get_mut()).map(|()| true)
            }
            Some(Fault::Redirect(to)) => {
                read_body(head, wire, false)?;
                let to = to.replace("{target}", &target);
                Answer::new(307).header("Location", &to).write(&method, wire.get_mut())?;
                Ok(true)
            }
            _ => match self.own_answer(server, head, wire)? {
                Some(_) if matches!(fault, Some(Fault::Endless)) => {
                    write_endless(&Answer::new(200).head(), wire.get_mut())
                }
                Some(answer) => answer.write(&method, wire.get_mut()).map(|()| true),
                None => {
                    let (head, from) = self.forward(head, wire, fault.as_ref())?;
                    let stays = send(head, from, &method, fault.as_ref(), wire.get_mut())?;
                    if matches!(fault, Some(Fault::ResetAt(_))) {
                        // The sent bytes must arrive before the reset.
                        thread::sleep(Duration::from_millis(20));
                        reset()?;
                    }
                    Ok(stays)
                }
            },
        }
    }

    fn fault(&self, method: &str, target: &str) -> Option<Fault> {
        let mut rules = lock(&self.rules);
        // Every matching rule counts the request, even if an earlier rule applies.
        let fitting: Vec<bool> = rules.iter_mut().map(|rule| rule.counts(method, target)).collect();
        let first = fitting.iter().position(|fits| *fits)?;
        Some(rules[first].fault.clone())
    }

    /// Returns the proxy's own response, for requests that do not go to the registry: requests for
    /// tokens, requests without valid credentials, and all requests if there is no registry.
    fn own_answer(
        &self,
        server: Server,
        head: &Head,
        wire: &mut impl BufRead,
    ) -> io::Result<Option<Answer>> {
        let auth = lock(&self.auth).clone();
        if server == Server::Tokens {
            let form = read_body(head, wire, false)?;
            return Ok(Some(give(&auth, &mut lock(&self.tokens), head, &form)));
        }
        if let Some(answer) = refusal(&auth, &lock(&self.tokens), &self.own_realm, head) {
            read_body(head, wire, false)?;
            return Ok(Some(answer));
        }
        if self.upstream.is_none() {
            read_body(head, wire, false)?;
            return Ok(Some(Answer::new(404)));
        }
        Ok(None)
    }

    /// Forwards a request. Returns the head of the response, and a reader for its body.
    fn forward(
        &self,
        head: &Head,
        wire: &mut impl BufRead,
        fault: Option<&Fault>,
    ) -> io::Result<(Head, BufReader<TcpStream>)> {
        let mut upstream = TcpStream::connect(self.upstream.as_deref().unwrap_or_default())?;
        upstream.set_nodelay(true)?;
        let mut head = head.clone();
        head.set("Connection", Some("close"));
        head.set("Authorization", None);
        if self.is_tls {
            head.set("X-Forwarded-Proto", Some("https"));
        }
        if matches!(fault, Some(Fault::NoRange)) {
            head.set("Range", None);
        }
        match head.length() {
            Some(length) => {
                head.write(&mut upstream)?;
                // A registry may respond before it has read the whole request.
                drop(io::copy(&mut wire.take(length), &mut upstream));
            }
            None => {
                let body = read_body(&head, wire, false)?;
                head.set("Transfer-Encoding", None);
                head.set("Content-Length", Some(&body.len().to_string()));
                head.write(&mut upstream)?;
                upstream.write_all(&body)?;
            }
        }
        let mut reader = BufReader::new(upstream);
        let mut answer = Head::read(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        answer.set("Connection", None);
        Ok((answer, reader))
    }
}
