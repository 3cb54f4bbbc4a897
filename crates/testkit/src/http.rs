//! A minimal implementation of HTTP/1.1 for clients and servers. It can also send invalid messages.

use std::io::{self, BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves each connection in a separate thread. Stops at the first connection after `is_closed`
/// becomes true.
pub(crate) fn serve(
    listener: TcpListener,
    is_closed: impl Fn() -> bool + Send + 'static,
    connection: impl Fn(TcpStream) + Clone + Send + 'static,
) {
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if is_closed() {
                return;
            }
            let connection = connection.clone();
            thread::spawn(move || connection(stream));
        }
    });
}

/// The start line and headers of a request or response.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// Reads a head; returns `None` at the end of the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = || -> io::Result<Option<String>> {
            let mut line = String::new();
            match from.read_line(&mut line)? {
                0 => Ok(None),
                _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
            }
        };
        let Some(start) = line()? else { return Ok(None) };
        let mut headers = Vec::new();
        while let Some(line) = line()?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Some(Self { start, headers }))
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.start);
        for (name, value) in &self.headers {
            text += &[name, ": ", value, "\r\n"].concat();
        }
        to.write_all((text + "\r\n").as_bytes())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut fitting = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        fitting.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Returns the word at `index` in the start line: 0 is the method or version, 1 is the target
    /// or status.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.get("content-length")?.parse().ok()
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }
}

/// Reads the whole body that `head` announces. Without a length, the body of a response ends with
/// the connection, and a request has no body.
pub(crate) fn read_body(
    head: &Head,
    from: &mut impl BufRead,
    is_answer: bool,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match head.length() {
        _ if head.is_chunked() => loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            from.take(size).read_to_end(&mut body)?;
            from.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        },
        Some(length) => drop(from.take(length).read_to_end(&mut body)?),
        None if is_answer => drop(from.read_to_end(&mut body)?),
        None => {}
    }
    Ok(body)
}

/// Sends one request on its own connection and returns status, headers and body.
pub(crate) fn exchange(
    host: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<(u16, Head, Vec<u8>)> {
    let mut stream = TcpStream::connect(host)?;
    let mut head = Head { start: format!("{method} {target} HTTP/1.1"), headers: Vec::new() };
    let length = body.len().to_string();
    for (name, value) in
        [("Host", host), ("Connection", "close"), ("Content-Length", &length)].iter().chain(headers)
    {
        head.set(name, Some(value));
    }
    head.write(&mut stream)?;
    stream.write_all(body)?;
    let mut reader = io::BufReader::new(stream);
    let answer = Head::read(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = answer.word(1).parse().map_err(io::Error::other)?;
    let answer_body = match method {
        "HEAD" => Vec::new(),
        _ => read_body(&answer, &mut reader, true)?,
    };
    Ok((status, answer, answer_body))
}
