//! Asks a server whether a branch still has a commit, and fetches next to nothing for it.
//!
//! The commit is asked for by a client that says it has the branch. What comes back is a pack of
//! all that the branch lacks: of no objects at all where the branch leads to the commit. How many
//! objects there are stands in the first twelve bytes, behind which we hang up. Protocol 2 gives
//! out any commit that the server has (git's `gitprotocol-v2`, "fetch"; `gitformat-pack`).

use names::CommitId;

use super::message::{AGENT, PackAnswer, PackStep};
use super::packet::Encoder;
use super::server::Server;
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure};
use crate::session::Session;

/// The most that is read of the answer; what matters are its first lines.
const MAX_ANSWER: u64 = 4 << 20;

/// The start of a pack: `PACK`, the version, and how many objects follow.
const PACK_HEADER: usize = 12;

/// Where a commit is, seen from a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The branch has it in its history.
    Inside,
    /// The server has it, and the branch does not lead there.
    Outside,
    /// The server does not have it.
    Missing,
}

/// Asks whether `tip` leads to `commit`.
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
    let mut budget = session.budget(url);
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
    let detail = "the server's answer ended before it was whole";
    Err(Failure::passing(ErrorKind::Unreachable, detail))
}
