//! Git sources: the refs of a server, and the tree of one commit with its submodules.
//!
//! [`list`] and [`fetch`] handle one repository. A fetch requests one commit without its history,
//! indexes the pack as it arrives, and accepts it only if every object of the tree is present.

pub(crate) mod gitmodules;
mod local;
mod message;
mod objects;
mod packet;
mod reach;
mod refs;
mod repository;
mod server;
mod submodules;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use names::CommitId;
use tokio::sync::mpsc;

pub(crate) use message::AGENT;
pub(crate) use objects::ObjectStore;
pub use reach::Reach;
pub(crate) use reach::reaches;
pub use refs::{RemoteRef, RemoteRefs, Resolved};
pub(crate) use submodules::fetch_all;
pub use submodules::{FetchedGit, FetchedSubmodule, GitSource, Submodules};

use self::message::{PackAnswer, PackStep, RefsAnswer, fetch_request, list_request};
use self::objects::Snapshot;
use self::repository::{PackWriter, Repository};
use self::server::Server;
use crate::address::SourceUrl;
use crate::copies;
use crate::error::{ErrorKind, Failure, Service, SourceError};
use crate::event::Event;
use crate::files::{self, Lock};
use crate::session::Session;

/// How many chunks of a pack may wait to be indexed.
const PIECES_AHEAD: usize = 64;
/// How many bytes of a file are read at once.
const PIECE: usize = 256 << 10;
/// The maximum size of a list of refs.
const MAX_REFS_ANSWER: u64 = 512 << 20;

/// Returns the URL that is actually requested for `url`, if that is allowed.
fn place(session: &Session, url: &SourceUrl) -> Result<SourceUrl, Failure> {
    let place = session.place(url)?;
    if place.is_file() && !session.settings.allow_local {
        return Err(Failure::refused(format!(
            "`{place}` is a path on this machine; only your own mirror rules may name such a path"
        )));
    }
    Ok(place)
}

/// Returns the refs of a repository.
pub(crate) async fn list(session: &Session, url: &SourceUrl) -> Result<RemoteRefs, Failure> {
    let place = place(session, url)?;
    if place.is_file() {
        let refs = session.blocking(move || local::refs(&place)).await;
        return refs.map(sorted).map_err(|failure| session.asked(url, Service::Git, failure));
    }
    session.online()?;
    let mut budget = session.budget(url, &place, Service::Git);
    loop {
        match list_once(session, &place).await {
            Ok(refs) => return Ok(sorted(refs)),
            Err(failure) => budget.spend(failure).await?,
        }
    }
}

async fn list_once(session: &Session, place: &SourceUrl) -> Result<Vec<RemoteRef>, Failure> {
    let server = Server::connect(&session.web, place).await?;
    if !server.advertisement.is_v2 {
        return Ok(server.advertisement.refs.refs);
    }
    let mut packets = server.ask(list_request(), MAX_REFS_ANSWER).await?;
    let mut answer = RefsAnswer::default();
    loop {
        match packets.next().await? {
            Some(packet) if answer.take(&packet)? => return Ok(answer.refs),
            Some(_) => {}
            None => return Err(cut()),
        }
    }
}

fn sorted(mut refs: Vec<RemoteRef>) -> RemoteRefs {
    refs.sort_by(|one, other| one.name.cmp(&other.name));
    RemoteRefs { refs }
}

fn cut() -> Failure {
    Failure::passing(ErrorKind::Unreachable, "the response is incomplete")
}

/// Returns the tree of one commit, from the cache or the network, and the number of bytes received
/// over the network.
async fn fetch(
    session: &Session,
    url: &SourceUrl,
    commit: &CommitId,
) -> Result<(Snapshot, u64), Failure> {
    objects::oid(commit)?;
    let repository = Repository::of(&session.settings.cache.join("git"), url);
    if let Some(snapshot) = find(session, &repository, commit).await? {
        session.notify(Event::Cached { url, commit });
        return Ok((snapshot, 0));
    }
    if let Some(snapshot) = from_copy(session, &repository, commit).await? {
        return Ok((snapshot, 0));
    }
    let place = place(session, url)?;
    if !place.is_file() {
        session.online_for_content()?;
    }
    let lock = std::sync::Arc::new(take_lock(session, &repository).await?);
    // Another process may have fetched it in the meantime.
    if let Some(snapshot) = find(session, &repository, commit).await? {
        session.notify(Event::Cached { url, commit });
        return Ok((snapshot, 0));
    }
    {
        let (repository, lock) = (repository.clone(), std::sync::Arc::clone(&lock));
        session.blocking(move || repository.prepare(&lock)).await?;
    }
    session.notify(Event::Fetching { url, place: &place, commit });
    let job = Job { session, url, place: &place, commit, repository: &repository, lock: &lock };
    if place.is_file() {
        let taken = job.take_local().await;
        let taken = taken.map_err(|failure| session.asked(url, Service::Git, failure));
        return Ok((taken?, 0));
    }
    let mut known = repository.known();
    let mut budget = session.budget(url, &place, Service::Git);
    loop {
        match job.download(&known).await {
            Ok(fetched) => return Ok(fetched),
            // The list of known commits may have been the cause.
            Err(failure) if failure.kind == ErrorKind::Integrity && !known.is_empty() => {
                session.tell_retry(&place, &failure.detail);
                known.clear();
            }
            Err(failure) => budget.spend(failure).await?,
        }
    }
}

async fn take_lock(session: &Session, repository: &Repository) -> Result<Lock, Failure> {
    let on_wait = |path: &Path| session.notify(Event::Waiting { path });
    Lock::take(&repository.lock_path(), session.settings.timeouts.lock, on_wait).await
}

/// Adds a commit from a copy to the cache. Returns `None` if no copy has it.
async fn from_copy(
    session: &Session,
    repository: &Repository,
    commit: &CommitId,
) -> Result<Option<Snapshot>, Failure> {
    let Some(copies) = &session.settings.copies else { return Ok(None) };
    let lock = take_lock(session, repository).await?;
    if let Some(snapshot) = find(session, repository, commit).await? {
        return Ok(Some(snapshot));
    }
    let (repository, commit) = (repository.clone(), commit.clone());
    let lock = {
        let repository = repository.clone();
        session.blocking(move || repository.prepare(&lock).map(|()| lock)).await?
    };
    // If this run is killed, the next one removes the file.
    let part = repository.packs().join("copy.part");
    let copied = copies.pack(&commit, &part).await;
    if !copied.map_err(|error| copies::failure(&error))? {
        return Ok(None);
    }
    let accept = move || {
        let mut writer = PackWriter::new(&repository.packs())?;
        let fail = |error| Failure::disk("read", &part, &error);
        let mut file = File::open(&part).map_err(fail)?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece).map_err(fail)? {
                0 => break,
                count => writer.write(&piece[..count])?,
            }
        }
        let pack = writer.finish()?;
        files::remove_file(&part)?;
        repository.accept(&lock, &commit, &pack, &[])
    };
    session.blocking(accept).await.map(Some)
}

/// A commit with its files and without its history, as a pack.
#[derive(Debug, Clone)]
pub struct GitPack {
    /// The URL of the repository.
    pub url: SourceUrl,
    /// The commit.
    pub commit: CommitId,
    /// The file.
    pub path: PathBuf,
}

/// Writes the packs of a fetched source and its submodules.
pub(crate) async fn write_packs(
    session: &Session,
    source: &GitSource,
    fetched: &FetchedGit,
    folder: &Path,
) -> Result<Vec<GitPack>, SourceError> {
    let submodules = fetched.submodules.iter().map(|one| (one.url.clone(), one.commit.clone()));
    let mut packs = Vec::new();
    for (url, commit) in
        std::iter::once((source.url.clone(), source.commit.clone())).chain(submodules)
    {
        let repository = Repository::of(&session.settings.cache.join("git"), &url);
        let (wanted, folder) = (commit.clone(), folder.to_owned());
        let pack = move || {
            let name = local::pack_of(repository.path(), &wanted, &folder)?;
            Ok(folder.join(format!("pack-{name}.pack")))
        };
        let path = session.blocking(pack).await.map_err(|failure| failure.at("pack", &url))?;
        packs.push(GitPack { url, commit, path });
    }
    Ok(packs)
}

async fn find(
    session: &Session,
    repository: &Repository,
    commit: &CommitId,
) -> Result<Option<Snapshot>, Failure> {
    let (repository, commit) = (repository.clone(), commit.clone());
    session.blocking(move || Ok(repository.find(&commit))).await
}

/// A commit that is being added to the cache.
struct Job<'a> {
    session: &'a Session,
    url: &'a SourceUrl,
    place: &'a SourceUrl,
    commit: &'a CommitId,
    repository: &'a Repository,
    /// Shared with the writing threads, so that the lock is held until they end, even if this value
    /// is dropped.
    lock: &'a std::sync::Arc<Lock>,
}

impl Job<'_> {
    async fn take_local(&self) -> Result<Snapshot, Failure> {
        let (place, commit) = (self.place.clone(), self.commit.clone());
        let (repository, lock) = (self.repository.clone(), std::sync::Arc::clone(self.lock));
        let write = move || {
            let pack = local::pack(&place, &commit, &repository.packs())?;
            repository.accept(&lock, &commit, &pack, &[])
        };
        self.session.blocking(write).await
    }

    async fn download(&self, known: &[CommitId]) -> Result<(Snapshot, u64), Failure> {
        let server = Server::connect(&self.session.web, self.place).await?;
        server.advertisement.check_hash()?;
        let is_v2 = server.advertisement.is_v2;
        let question = fetch_request(&server.advertisement, self.commit, known)?;
        let mut packets = server.ask(question, self.session.settings.max_bytes).await?;
        let mut answer = PackAnswer::new(is_v2);
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        let writing = self.write(receiver, known.to_vec());
        let reading = async move {
            while !answer.is_done() {
                let packet = packets.next().await?.ok_or_else(cut)?;
                match answer.take(packet)? {
                    PackStep::Progress(said) => {
                        self.session.notify(Event::ServerSays { url: self.url, said: &said });
                    }
                    PackStep::Pack(piece) => {
                        // If the writer has stopped reading chunks, it returns the reason.
                        if sender.send(Some(piece)).await.is_err() {
                            break;
                        }
                        let bytes = packets.received;
                        self.session.notify(Event::Received { url: self.url, bytes });
                    }
                    PackStep::Nothing | PackStep::Done => {}
                }
            }
            // If the writer has ended, it returns the reason.
            drop(sender.send(None).await);
            drop(sender);
            Ok::<u64, Failure>(packets.received)
        };
        // Both are awaited, so that nothing is still running when this returns. A read error is the
        // cause of the writer's error, unless the writer failed first.
        let (read, written) = tokio::join!(reading, writing);
        let received = read?;
        Ok((written?, received))
    }

    /// Indexes a pack on a separate thread as it arrives. A `None` marks the end of the pack;
    /// without it, the pack is not accepted.
    async fn write(
        &self,
        mut pieces: mpsc::Receiver<Option<Bytes>>,
        known: Vec<CommitId>,
    ) -> Result<Snapshot, Failure> {
        let (repository, lock) = (self.repository.clone(), std::sync::Arc::clone(self.lock));
        let commit = self.commit.clone();
        let work = move || {
            let mut writer = if known.is_empty() {
                PackWriter::new(&repository.packs())?
            } else {
                PackWriter::beside(&repository.packs())?
            };
            loop {
                match pieces.blocking_recv() {
                    Some(Some(piece)) => writer.write(&piece)?,
                    Some(None) => break,
                    None => return Err(cut()),
                }
            }
            let pack = writer.finish()?;
            repository.accept(&lock, &commit, &pack, &known)
        };
        self.session.blocking(work).await
    }
}
