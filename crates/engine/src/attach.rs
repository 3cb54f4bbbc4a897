//! What goes in and out of a container while it runs, byte by byte.
//!
//! A container with a terminal has one stream; without, its output comes in frames that say whether
//! it is standard output or standard error.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::Method;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use crate::client::{Client, part, query};
use crate::error::EngineError;
use crate::wire::Call;

/// Both directions of a container.
#[derive(Debug)]
pub struct Attached {
    /// What is sent to it.
    pub input: ContainerInput,
    /// What comes from it.
    pub output: ContainerOutput,
}

/// What is sent to a container.
#[derive(Debug)]
pub struct ContainerInput(WriteHalf<TokioIo<Upgraded>>);

/// What comes from a container.
#[derive(Debug)]
pub struct ContainerOutput {
    stream: ReadHalf<TokioIo<Upgraded>>,
    has_terminal: bool,
    pending: BytesMut,
    /// What is left of the frame that was begun, and whether it is of standard error.
    frame: Option<(usize, bool)>,
}

/// A piece of what comes from a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whether it is of standard error. A terminal does not tell.
    pub is_error: bool,
    /// The bytes.
    pub bytes: Bytes,
}

/// The length of a frame's head: the stream's number, three zeros, the length of what follows.
const HEAD: usize = 8;

/// Attaches to a container that was created and not yet started, so that nothing is missed.
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
        // The default, Ctrl-P Ctrl-Q, holds every Ctrl-P back, and shells have a use for that.
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
    /// The container, or the engine, is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// Ends what is sent, so that the process reads an end of file.
    ///
    /// # Errors
    /// The container, or the engine, is gone.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

impl ContainerOutput {
    /// Returns the next piece; none when the container has ended. May be dropped between pieces.
    ///
    /// # Errors
    /// The connection broke, or the engine sends what is no frame.
    pub async fn next(&mut self) -> io::Result<Option<Output>> {
        loop {
            if let Some(output) = self.take()? {
                return Ok(Some(output));
            }
            if self.stream.read_buf(&mut self.pending).await? == 0 {
                return match self.pending.is_empty() && self.frame.is_none() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Takes what has come, where it is enough.
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

/// Returns the number of the stream and the length of what follows.
fn read_head(head: &[u8]) -> io::Result<(u8, usize)> {
    match *head {
        [stream @ 0..=2, 0, 0, 0, a, b, c, d] => {
            Ok((stream, u32::from_be_bytes([a, b, c, d]) as usize))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the engine sent no frame")),
    }
}
