//! Asks a server whether a branch still contains a commit, without fetching the commit.
//!
//! The client requests the commit and claims to have the branch. The server then sends a pack with
//! all objects that the branch lacks: none if the branch contains the commit. The first twelve
//! bytes of the pack contain the number of objects, and the client disconnects after them. With
//! protocol 2, a server serves any commit that it has (git's `gitprotocol-v2`, "fetch";
//! `gitformat-pack`).

use names::CommitId;

use super::message::{AGENT, PackAnswer, PackStep};
use super::packet::Encoder;
use super::server::Server;
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure, Service};
use crate::session::Session;

/// The maximum size of the response. Only its first lines matter.
const MAX_ANSWER: u64 = 4 << 20;

/// The start of a pack: `PACK`, the version, and the number of objects.
const PACK_HEADER: usize = 12;

/// The position of a commit relative to a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It is in the history of the branch.
    Inside,
    /// The server has it, but it is not in the history of the branch.
    Outside,
    /// The server does not have it.
    Missing,
}

/// Asks whether `commit` is in the history of `tip`.
pub(crate) async fn reaches(
    session: &Session,
    url: &SourceUrl,
    tip: &CommitId,
    commit: &CommitId,
) -> Result<Option<Reach>, Failure> {
    if tip == commit {
        return Ok(Some(Reach::Inside));
    }
    let place = super::place(session, url)?;
    if place.is_file() {
        return Ok(None);
    }
    session.online()?;
    let mut budget = session.budget(url, &place, Service::Git);
    loop {
        match ask(session, &place, tip, commit).await {
            Ok(reach) => return Ok(reach),
            Err(failure) => budget.spend(failure).await?,
        }
    }
}

async fn ask(
    session: &Session,
    place: &SourceUrl,
    tip: &CommitId,
    commit: &CommitId,
) -> Result<Option<Reach>, Failure> {
    let server = Server::connect(&session.web, place).await?;
    if !server.advertisement.is_v2 {
        return Ok(None);
    }
    let question = Encoder::default()
        .line("command=fetch")
        .line(&format!("agent={AGENT}"))
        .delimiter()
        .line("no-progress")
        .line(&format!("want {commit}"))
        .line(&format!("have {tip}"))
        .line("done")
        .flush()
        .bytes();
    let mut packets = server.ask(question, MAX_ANSWER).await?;
    let mut answer = PackAnswer::new(true);
    let mut pack = Vec::new();
    while let Some(packet) = packets.next().await? {
        match answer.take(packet) {
            Ok(PackStep::Pack(piece)) => pack.extend_from_slice(&piece),
            Ok(PackStep::Done) => break,
            Ok(PackStep::Nothing | PackStep::Progress(_)) => {}
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Some(Reach::Missing)),
            Err(failure) => return Err(failure),
        }
        if let Some(header) = pack.first_chunk::<PACK_HEADER>() {
            let is_empty = header[8..] == [0; 4];
            return Ok(Some(if is_empty { Reach::Inside } else { Reach::Outside }));
        }
    }
    let detail = "the server's response is incomplete";
    Err(Failure::passing(ErrorKind::Unreachable, detail))
}
