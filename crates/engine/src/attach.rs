//! The input and output of a running container, as bytes.
//!
//! A container with a terminal has a single stream. Without a terminal, its output comes in frames
//! that identify standard output or standard error.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::Method;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use crate::client::{Client, part, query};
use crate::error::EngineError;
use crate::wire::Call;

/// Both directions of a container's stream.
#[derive(Debug)]
pub struct Attached {
    /// The input of the container.
    pub input: ContainerInput,
    /// The output of the container.
    pub output: ContainerOutput,
}

/// The input of a container.
#[derive(Debug)]
pub struct ContainerInput(WriteHalf<TokioIo<Upgraded>>);

/// The output of a container.
#[derive(Debug)]
pub struct ContainerOutput {
    stream: ReadHalf<TokioIo<Upgraded>>,
    has_terminal: bool,
    pending: BytesMut,
    /// The remaining bytes of the current frame, and whether they are standard error.
    frame: Option<(usize, bool)>,
}

/// A chunk of a container's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whether it is standard error. With a terminal this is unknown and always false.
    pub is_error: bool,
    /// The bytes.
    pub bytes: Bytes,
}

/// The length of a frame header: stream number, three zeros, payload length.
const HEAD: usize = 8;

/// Attaches to a container that has been created but not started, so that no output is missed.
pub(crate) async fn attach(
    client: &Client,
    id: &str,
    has_terminal: bool,
) -> Result<Attached, EngineError> {
    let action = format!("attach to the container `{id}`");
    let options = query(&[
        ("stream", "true"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("stderr", "true"),
        // The default, Ctrl-P Ctrl-Q, would delay every Ctrl-P, which shells use.
        ("detachKeys", "ctrl-@,ctrl-@"),
    ]);
    let path = format!("/containers/{}/attach?{options}", part(id));
    let call = Call { action: &action, method: Method::POST, path };
    let (read, write) = tokio::io::split(client.wire().upgrade(&call).await?);
    Ok(Attached {
        input: ContainerInput(write),
        output: ContainerOutput {
            stream: read,
            has_terminal,
            pending: BytesMut::new(),
            frame: None,
        },
    })
}

impl ContainerInput {
    /// Sends bytes.
    ///
    /// # Errors
    /// Fails if the container or the engine is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// Closes the input, so that the process reads end-of-file.
    ///
    /// # Errors
    /// Fails if the container or the engine is gone.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

impl ContainerOutput {
    /// Returns the next chunk, or `None` when the container has ended. The future may be dropped
    /// while it waits; no output is lost.
    ///
    /// # Errors
    /// Fails if the connection breaks or the engine sends a malformed frame.
    pub async fn next(&mut self) -> io::Result<Option<Output>> {
        loop {
            if let Some(output) = self.take()? {
                return Ok(Some(output));
            }
            if self.stream.read_buf(&mut self.pending).await? == 0 {
                return if self.pending.is_empty() && self.frame.is_none() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// Takes a chunk from the buffer if it contains one.
    fn take(&mut self) -> io::Result<Option<Output>> {
        if self.has_terminal {
            let bytes = self.pending.split().freeze();
            return Ok((!bytes.is_empty()).then_some(Output { is_error: false, bytes }));
        }
        loop {
            let Some((left, is_error)) = self.frame else {
                let Some(head) = self.pending.get(..HEAD) else { return Ok(None) };
                let (stream, length) = read_head(head)?;
                self.pending.advance(HEAD);
                self.frame = (length > 0).then_some((length, stream == 2));
                continue;
            };
            if self.pending.is_empty() {
                return Ok(None);
            }
            let length = left.min(self.pending.len());
            let bytes = self.pending.split_to(length).freeze();
            self.frame = (left > length).then_some((left - length, is_error));
            return Ok(Some(Output { is_error, bytes }));
        }
    }
}

/// Returns the stream number and the length of the payload.
fn read_head(head: &[u8]) -> io::Result<(u8, usize)> {
    match *head {
        [stream @ 0..=2, 0, 0, 0, a, b, c, d] => {
            Ok((stream, u32::from_be_bytes([a, b, c, d]) as usize))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the engine sent a malformed frame")),
    }
}
