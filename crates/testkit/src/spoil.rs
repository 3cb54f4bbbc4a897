//! Sends responses: the registry's responses with faults, and the proxy's own responses.

use std::io::{self, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::fault::{Answer, Fault};
use crate::http::{Head, read_body};

/// Forwards a registry's response with a fault. Returns whether the connection can still be used.
pub(crate) fn send(
    mut head: Head,
    mut from: BufReader<TcpStream>,
    method: &str,
    fault: Option<&Fault>,
    to: &mut dyn Write,
) -> io::Result<bool> {
    let mut to = to;
    if method == "HEAD" {
        if let Some(Fault::Header(name, value)) = fault {
            head.set(name, value.as_deref());
        }
        head.write(&mut to)?;
        return Ok(true);
    }
    if fault.is_none()
        && let Some(length) = head.length()
    {
        head.write(&mut to)?;
        return Ok(io::copy(&mut from.take(length), &mut to)? == length);
    }
    let mut body = read_body(&head, &mut from, true)?;
    head.set("Transfer-Encoding", None);
    match fault {
        Some(Fault::Flip(at)) => body[*at] ^= 1,
        Some(Fault::Append(more)) => body.extend_from_slice(more),
        Some(Fault::Cut(count)) => body.truncate(body.len() - count),
        Some(Fault::Body(other)) => body.clone_from(other),
        _ => {}
    }
    head.set("Content-Length", Some(&body.len().to_string()));
    if let Some(Fault::Header(name, value)) = fault {
        head.set(name, value.as_deref());
    }
    match fault {
        Some(Fault::Length(length)) => {
            head.set("Content-Length", Some(&length.to_string()));
            head.write(&mut to)?;
            to.write_all(&body)?;
            Ok(false)
        }
        Some(Fault::ResetAt(count) | Fault::CloseAt(count)) => {
            head.write(&mut to)?;
            to.write_all(&body[..*count])?;
            to.flush().map(|()| false)
        }
        Some(Fault::Allowance(left)) => {
            head.write(&mut to)?;
            write_allowed(&body, left, to)
        }
        Some(Fault::Endless) => write_endless(&head, to),
        Some(Fault::Chunked) => {
            head.set("Content-Length", None);
            head.set("Transfer-Encoding", Some("chunked"));
            head.write(&mut to)?;
            write!(to, "{:x}\r\n", body.len())?;
            to.write_all(&body)?;
            to.write_all(b"\r\n0\r\n\r\n").map(|()| true)
        }
        Some(Fault::Slow(pause)) => {
            head.write(&mut to)?;
            for byte in body {
                to.write_all(&[byte])?;
                thread::sleep(*pause);
            }
            Ok(true)
        }
        _ => {
            head.write(&mut to)?;
            to.write_all(&body).map(|()| true)
        }
    }
}

/// Sends a body as far as it is allowed.
fn write_allowed(mut body: &[u8], left: &AtomicU64, to: &mut dyn Write) -> io::Result<bool> {
    const PIECE: u64 = 16 << 10;
    while !body.is_empty() {
        let wanted = PIECE.min(body.len() as u64);
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(wanted))
        });
        let taken = usize::try_from(taken.unwrap_or_default().min(wanted)).unwrap_or_default();
        if taken == 0 {
            thread::sleep(Duration::from_millis(10));
            continue;
        }
        to.write_all(&body[..taken])?;
        to.flush()?;
        body = &body[taken..];
    }
    Ok(true)
}

/// Sends chunks until the client closes the connection.
pub(crate) fn write_endless(head: &Head, mut to: &mut dyn Write) -> io::Result<bool> {
    let mut head = head.clone();
    head.set("Content-Length", None);
    head.set("Transfer-Encoding", Some("chunked"));
    head.write(&mut to)?;
    loop {
        write!(to, "1000\r\n{}\r\n", "x".repeat(0x1000))?;
    }
}

impl Answer {
    pub(crate) fn head(&self) -> Head {
        let start = format!("HTTP/1.1 {} Scripted", self.status);
        Head { start, headers: self.headers.clone() }
    }

    pub(crate) fn write(&self, method: &str, mut to: &mut dyn Write) -> io::Result<()> {
        let mut head = self.head();
        if head.length().is_none() {
            head.set("Content-Length", Some(&self.body.len().to_string()));
        }
        head.write(&mut to)?;
        if method != "HEAD" {
            to.write_all(&self.body)?;
        }
        to.flush()
    }
}
