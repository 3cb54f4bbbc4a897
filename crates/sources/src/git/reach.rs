//! Asks a server whether a branch still has a commit, without fetching anything.
//!
//! In protocol 2 a client names what it wants and what it has. A server that knows the commit we
//! "have" says `ACK`, and says `ready` only once everything wanted leads back to it (git's
//! `gitprotocol-v2`, "fetch", and `ok_to_give_up` of its upload-pack). We hang up at that word.

use pins::CommitId;

use super::message::{AGENT, server_error};
use super::packet::Encoder;
use super::server::Server;
use crate::address::SourceUrl;
use crate::error::Failure;
use crate::session::Session;

/// The most that is read of the answer; what matters are some lines.
const MAX_ANSWER: u64 = 1 << 20;

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
        .line(&format!("want {tip}"))
        .line(&format!("have {commit}"))
        .flush()
        .bytes();
    let mut packets = server.ask(question, MAX_ANSWER).await?;
    let mut reach = Reach::Missing;
    while let Some(packet) = packets.next().await? {
        let Some(line) = packet.line() else { break };
        if let Some(failure) = server_error(line) {
            return Err(failure);
        }
        if line == b"ready" {
            return Ok(Some(Reach::Inside));
        }
        if line.strip_prefix(b"ACK ") == Some(commit.as_str().as_bytes()) {
            reach = Reach::Outside;
        }
    }
    Ok(Some(reach))
}
