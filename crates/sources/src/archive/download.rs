//! Downloads archives into the cache, and finds them there.
//!
//! An interrupted download continues where it stopped. The complete file is hashed before it gets
//! its name, and hashed again if it has been modified since. A damaged archive is downloaded again.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use names::Sha256;
use net::Incoming;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};

use super::{Archive, ArchiveSource};
use crate::address::SourceUrl;
use crate::copies;
use crate::error::{Again, ErrorKind, Failure, Service, SourceError};
use crate::event::Event;
use crate::files::{self, Lock};
use crate::http::status_failure;
use crate::session::Session;
use crate::text;

/// The number of bytes between two progress events.
const REPORT_EVERY: u64 = 256 << 10;

/// The paths of a cached archive and of the files next to it.
#[derive(Debug, Clone)]
struct Place {
    folder: PathBuf,
    sha256: Sha256,
}

impl Place {
    fn whole(&self) -> PathBuf {
        self.folder.join(self.sha256.as_str())
    }

    fn part(&self) -> PathBuf {
        self.folder.join(format!("{}.part", self.sha256))
    }

    async fn lock(&self, session: &Session) -> Result<Lock, Failure> {
        let lock_file = self.folder.join(format!("{}.lock", self.sha256));
        let on_wait = |path: &Path| session.notify(Event::Waiting { path });
        Lock::take(&lock_file, session.settings.timeouts.lock, on_wait).await
    }

    fn seen(&self) -> PathBuf {
        self.folder.join(format!("{}.seen", self.sha256))
    }

    /// Returns the size of the archive if it is cached and undamaged.
    fn find(&self) -> Option<u64> {
        files::find_by_hash(&self.whole(), &self.sha256, &self.seen())
    }
}

/// Returns an archive, and downloads it if it is not cached.
pub(crate) async fn fetch(
    session: &Session,
    source: &ArchiveSource,
) -> Result<Archive, SourceError> {
    let name = source.name();
    find_or_download(session, source).await.map_err(|failure| failure.at("fetch the archive", name))
}

async fn find_or_download(session: &Session, source: &ArchiveSource) -> Result<Archive, Failure> {
    let cache = &session.settings.cache;
    let place = Place { folder: cache.join("archives"), sha256: source.sha256.clone() };
    let archive = |size, received| Archive {
        name: source.name(),
        path: place.whole(),
        sha256: source.sha256.clone(),
        size,
        received,
    };
    let find = || {
        let place = place.clone();
        session.blocking(move || Ok(place.find()))
    };
    if let Some(size) = find().await? {
        session.notify(Event::CachedArchive { sha256: &source.sha256 });
        return Ok(archive(size, 0));
    }
    if let Some(size) = from_copy(session, &place).await? {
        return Ok(archive(size, 0));
    }
    let Some(url) = &source.url else {
        let detail = "it is not in the cache, and no download location is known";
        return Err(Failure::fatal(ErrorKind::NotFound, detail));
    };
    let from = session.place(url)?;
    if from.is_file() && !session.settings.allow_local {
        return Err(Failure::refused(format!("`{from}` is a path on this machine")));
    }
    if !from.is_file() {
        session.online_for_content()?;
    }
    let _lock = place.lock(session).await?;
    if let Some(size) = find().await? {
        session.notify(Event::CachedArchive { sha256: &source.sha256 });
        return Ok(archive(size, 0));
    }
    let job = Job { session, url, from: &from, place: &place };
    let (size, received) =
        if from.is_file() { (job.take_local().await?, 0) } else { job.download().await? };
    Ok(archive(size, received))
}

/// Adds an archive from a copy to the cache, and returns its size, or `None` if no copy has it.
async fn from_copy(session: &Session, place: &Place) -> Result<Option<u64>, Failure> {
    let Some(copies) = &session.settings.copies else { return Ok(None) };
    let _lock = place.lock(session).await?;
    let copied = copies.file(&place.sha256, &place.part()).await;
    if !copied.map_err(|error| copies::failure(&error))? {
        return Ok(None);
    }
    let place = place.clone();
    session.blocking(move || finish(&place)).await.map(Some)
}

/// An archive that is being added to the cache.
struct Job<'a> {
    session: &'a Session,
    url: &'a SourceUrl,
    from: &'a SourceUrl,
    place: &'a Place,
}

impl Job<'_> {
    /// Copies an archive from a local path.
    async fn take_local(&self) -> Result<u64, Failure> {
        let copied = self.copy().await;
        copied.map_err(|failure| self.session.asked(self.url, Service::File, failure))
    }

    async fn copy(&self) -> Result<u64, Failure> {
        let (from, place) = (PathBuf::from(self.from.url().path()), self.place.clone());
        let most = self.session.settings.max_bytes;
        let copy = move || {
            let source = File::open(&from).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Failure::fatal(ErrorKind::NotFound, "there is no file at this path")
                }
                _ => Failure::disk("opened", &from, &error),
            })?;
            let part = place.part();
            let fail = |error: io::Error| Failure::disk("written", &part, &error);
            let mut target = File::create(&part).map_err(fail)?;
            let size = io::copy(&mut source.take(most + 1), &mut target).map_err(fail)?;
            if size > most {
                files::remove_file(&part)?;
                return Err(too_large(most));
            }
            finish(&place)
        };
        self.session.blocking(copy).await
    }

    async fn download(&self) -> Result<(u64, u64), Failure> {
        let mut received = 0;
        let mut most = fs::metadata(self.place.part()).map_or(0, |found| found.len());
        let mut budget = self.session.budget(self.url, self.from, Service::File);
        loop {
            match self.download_once(&mut received).await {
                Ok(size) => return Ok((size, received)),
                Err(failure) => {
                    // A server without ranges begins again each time, which is no progress.
                    let have = fs::metadata(self.place.part()).map_or(0, |found| found.len());
                    budget.delivered(have.saturating_sub(most));
                    most = most.max(have);
                    budget.spend(failure).await?;
                }
            }
        }
    }

    async fn download_once(&self, received: &mut u64) -> Result<u64, Failure> {
        let was_resumed = self.transfer(received).await?;
        let place = self.place.clone();
        self.session.blocking(move || finish(&place)).await.map_err(|failure| {
            // The part from an earlier download may have been wrong.
            if failure.kind == ErrorKind::Integrity && was_resumed {
                Failure { again: Again::Yes, ..failure }
            } else {
                failure
            }
        })
    }

    /// Downloads the missing part of the file. Returns whether an earlier download was continued.
    async fn transfer(&self, received: &mut u64) -> Result<bool, Failure> {
        let part = self.place.part();
        let have = fs::metadata(&part).map_or(0, |found| found.len());
        if have > 0 && files::is_file_with(&part, have, &self.place.sha256) {
            // The download was complete, and only the rename was missing.
            return Ok(false);
        }
        let (answer, from) = self.ask(have).await?;
        let most = self.session.settings.max_bytes;
        let length = answer.headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
        let length = length.and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length.saturating_add(from) > most) {
            return Err(too_large(most));
        }
        if from > 0 {
            self.session.notify(Event::Resumed { url: self.url, from });
        }
        let fail = |error: io::Error| Failure::disk("written", &part, &error);
        let file = File::options().create(true).write(true).truncate(from == 0).open(&part);
        let mut file = file.map_err(fail)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(from)).map_err(fail)?;
        let mut body = answer.body;
        let (mut size, mut reported) = (from, 0);
        while let Some(piece) = body.chunk().await? {
            size += piece.len() as u64;
            *received += piece.len() as u64;
            if size > most {
                files::remove_file(&part)?;
                return Err(too_large(most));
            }
            file.write_all(&piece).map_err(fail)?;
            if size >= reported + REPORT_EVERY {
                reported = size;
                self.session.notify(Event::Received { url: self.url, bytes: size });
            }
        }
        if length.is_some_and(|length| length + from != size) {
            let detail = "the connection ended before the file was complete";
            return Err(Failure::passing(ErrorKind::Unreachable, detail));
        }
        Ok(from > 0)
    }

    /// Requests the file from byte `have` on. Returns the response, and the byte at which it
    /// starts.
    async fn ask(&self, have: u64) -> Result<(Incoming, u64), Failure> {
        let range = format!("bytes={have}-");
        let headers = [(RANGE, range.as_str())];
        let headers = if have > 0 { &headers[..] } else { &[] };
        let answer = self.session.get(self.from, headers).await?;
        match answer.status {
            StatusCode::OK => Ok((answer, 0)),
            StatusCode::PARTIAL_CONTENT if have > 0 => {
                check_range(&answer, have)?;
                Ok((answer, have))
            }
            StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
                files::remove_file(&self.place.part())?;
                let detail = "the server has no data after the part that was already downloaded";
                Err(Failure::passing(ErrorKind::Unreachable, detail))
            }
            _ => Err(status_failure(&answer, self.from, "file")),
        }
    }
}

/// Checks that a partial response starts where the existing part ends.
fn check_range(answer: &Incoming, have: u64) -> Result<(), Failure> {
    let range = answer.headers.get(CONTENT_RANGE).map(|range| range.as_bytes());
    let range = range.unwrap_or_default();
    if range.starts_with(format!("bytes {have}-").as_bytes()) {
        Ok(())
    } else {
        Err(Failure::fatal(
            ErrorKind::Tool,
            format!("the server continued with {} instead of {have}", text::quoted_bytes(range)),
        ))
    }
}

/// Hashes the downloaded file and renames it. Removes it if the hash is wrong.
fn finish(place: &Place) -> Result<u64, Failure> {
    let part = place.part();
    let (found, size) = files::hash_file(&part)?;
    if found != place.sha256 {
        let is_page = is_page(&part);
        files::remove_file(&part)?;
        let page = if is_page { "it is a web page (HTML), not the file: " } else { "" };
        let pin = &place.sha256;
        return Err(Failure::fatal(
            ErrorKind::Integrity,
            format!("{page}its SHA-256 is `{found}` ({size} bytes), but the pin is `{pin}`"),
        ));
    }
    files::sync(&part)?;
    let whole = place.whole();
    fs::rename(&part, &whole).map_err(|error| Failure::disk("renamed", &whole, &error))?;
    files::sync_folder(&place.folder)?;
    Ok(size)
}

/// Returns whether a file is a web page, for example a login page.
fn is_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1 << 10).read_to_end(&mut start));
    read.is_ok() && net::is_html(&start)
}

fn too_large(most: u64) -> Failure {
    Failure::refused(format!("it is larger than the {most} bytes allowed"))
}
