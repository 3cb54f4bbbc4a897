//! Requests to a git server and its responses, without any connection.
//!
//! Protocol 2 is used if the server supports it, otherwise protocol 0. [`Advertisement`] is the
//! server's first message. [`list_request`] and [`fetch_request`] are the requests. [`RefsAnswer`]
//! and [`PackAnswer`] parse the responses packet by packet. The formats are described in git's
//! `gitprotocol-v2` and `gitprotocol-pack`.

use std::collections::BTreeMap;

use bytes::Bytes;
use names::CommitId;

use super::packet::{Encoder, Packet};
use super::refs::RemoteRef;
use crate::error::{ErrorKind, Failure};
use crate::text;

/// The name of this client.
pub(crate) const AGENT: &str = concat!("git/build-pipeline-", env!("CARGO_PKG_VERSION"));
/// The maximum number of refs; large mirrors have several hundred thousand.
const MAX_REFS: usize = 2_000_000;
/// The maximum length of a ref name.
const MAX_REF_NAME: usize = 4096;

/// The server's first message.
#[derive(Debug, Default)]
pub(crate) struct Advertisement {
    /// Whether the server supports version 2 of the protocol.
    pub(crate) is_v2: bool,
    /// Its capabilities.
    capabilities: BTreeMap<String, String>,
    /// Its refs, in protocol 0.
    pub(crate) refs: RefsAnswer,
    seen: usize,
}

impl Advertisement {
    /// Reads a packet. Returns whether the advertisement is complete.
    pub(crate) fn take(&mut self, packet: &Packet) -> Result<bool, Failure> {
        let Some(line) = packet.line() else {
            // Over HTTP, the name of the service comes first, followed by a marker.
            return Ok(self.seen > 0);
        };
        if let Some(error) = server_error(line) {
            return Err(error);
        }
        if self.seen == 0 && line.starts_with(b"# service=") {
            return Ok(false);
        }
        self.seen += 1;
        match line {
            b"version 2" if self.seen == 1 => self.is_v2 = true,
            b"version 1" if self.seen == 1 => {}
            line if self.is_v2 => {
                let line = String::from_utf8_lossy(line);
                let (key, value) = line.split_once('=').unwrap_or((&line, ""));
                if self.capabilities.len() < 1000 {
                    self.capabilities.insert(key.to_owned(), value.to_owned());
                }
            }
            line => {
                let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
                if let Some(capabilities) = line.get(end + 1..) {
                    let words = String::from_utf8_lossy(capabilities);
                    self.capabilities.extend(words.split(' ').filter(|w| !w.is_empty()).map(|w| {
                        let (key, value) = w.split_once('=').unwrap_or((w, ""));
                        (key.to_owned(), value.to_owned())
                    }));
                }
                self.refs.line(&line[..end])?;
            }
        }
        Ok(false)
    }

    fn can(&self, capability: &str) -> bool {
        self.capabilities.contains_key(capability)
    }

    /// Checks that this tool supports the server's hashes.
    pub(crate) fn check_hash(&self) -> Result<(), Failure> {
        match self.capabilities.get("object-format").map(String::as_str) {
            None | Some("sha1") => Ok(()),
            Some(other) => {
                let other = text::quoted(other);
                Err(Failure::refused(format!(
                    "its commits are {other} hashes, but only SHA-1 repositories are supported"
                )))
            }
        }
    }
}

/// Returns the failure for an `ERR …` line.
fn server_error(line: &[u8]) -> Option<Failure> {
    let words = line.strip_prefix(b"ERR ")?;
    Some(said(&String::from_utf8_lossy(words)))
}

/// Turns a server's error message into a failure.
fn said(words: &str) -> Failure {
    let lower = words.to_ascii_lowercase();
    let quoted = text::quoted(words);
    let has = |part| lower.contains(part);
    if has("not our ref") || has("unadvertised object") || has("no such commit") {
        return Failure::fatal(
            ErrorKind::NotFound,
            format!(
                "the server does not have this commit, or it only serves commits that are reachable from a branch or tag: {quoted}"
            ),
        );
    }
    if has("not found") || has("not exported") || has("does not exist") || has("no such") {
        let detail = format!("the server does not have this repository: {quoted}");
        return Failure::fatal(ErrorKind::NotFound, detail);
    }
    if has("denied") || has("forbidden") || has("permission") || has("authori") {
        let detail = format!("the server denies access: {quoted}");
        return Failure::fatal(ErrorKind::Authentication, detail);
    }
    Failure::fatal(ErrorKind::Tool, format!("the server reports an error: {quoted}"))
}

/// Returns the request for all branches and tags, in protocol 2.
pub(crate) fn list_request() -> Vec<u8> {
    Encoder::default()
        .line("command=ls-refs")
        .line(&format!("agent={AGENT}"))
        .delimiter()
        .line("peel")
        .line("ref-prefix HEAD")
        .line("ref-prefix refs/heads/")
        .line("ref-prefix refs/tags/")
        .flush()
        .bytes()
}

/// Returns the request for one commit without its history. `known` lists commits that are cached
/// without history; only protocol 2 sends them (as `shallow` and `have`).
pub(crate) fn fetch_request(
    server: &Advertisement,
    commit: &CommitId,
    known: &[CommitId],
) -> Result<Vec<u8>, Failure> {
    if server.is_v2 {
        let features = server.capabilities.get("fetch").map_or("", String::as_str);
        let is_shallow = features.split(' ').any(|feature| feature == "shallow");
        let mut message = Encoder::default()
            .line("command=fetch")
            .line(&format!("agent={AGENT}"))
            .delimiter()
            .line("ofs-delta")
            .line(&format!("want {commit}"));
        if is_shallow {
            // Servers leave out the content of known commits only from thin packs.
            if !known.is_empty() {
                message = message.line("thin-pack");
            }
            for cached in known {
                message = message.line(&format!("shallow {cached}"));
            }
            message = message.line("deepen 1");
            for cached in known {
                message = message.line(&format!("have {cached}"));
            }
        }
        return Ok(message.line("done").flush().bytes());
    }
    if !server.can("side-band-64k") {
        let detail = "the server uses a variant of git's protocol from before 2007";
        return Err(Failure::fatal(ErrorKind::Tool, detail));
    }
    let is_tip = server
        .refs
        .refs
        .iter()
        .any(|one| one.id == commit.as_str() || one.peeled.as_deref() == Some(commit.as_str()));
    let gives_any = ["allow-reachable-sha1-in-want", "allow-any-sha1-in-want"];
    if !is_tip && !gives_any.iter().any(|capability| server.can(capability)) {
        return Err(Failure::fatal(
            ErrorKind::NotFound,
            "no branch or tag points at this commit, and the server does not serve other commits (it supports neither protocol 2 nor `uploadpack.allowReachableSHA1InWant`)",
        ));
    }
    let mut wants = format!("want {commit} side-band-64k ofs-delta agent={AGENT}");
    if server.can("shallow") {
        wants += " shallow";
    }
    let mut message = Encoder::default().line(&wants);
    if server.can("shallow") {
        message = message.line("deepen 1");
    }
    Ok(message.flush().line("done").bytes())
}

/// Parses the refs of a server.
#[derive(Debug, Default)]
pub(crate) struct RefsAnswer {
    /// The refs, in the server's order.
    pub(crate) refs: Vec<RemoteRef>,
}

impl RefsAnswer {
    /// Reads a packet of a protocol 2 response. Returns whether the response is complete.
    pub(crate) fn take(&mut self, packet: &Packet) -> Result<bool, Failure> {
        match packet.line() {
            None => Ok(true),
            Some(line) => match server_error(line) {
                Some(failure) => Err(failure),
                None => self.line(line).map(|()| false),
            },
        }
    }

    /// Parses a line: a hash and a name, followed by attributes in protocol 2.
    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        let strange = || {
            let detail =
                format!("the server lists {}, which is not a valid ref", text::quoted_bytes(line));
            Failure::fatal(ErrorKind::Tool, detail)
        };
        let line = std::str::from_utf8(line).map_err(|_| strange())?;
        let mut words = line.split(' ');
        let id = words.next().unwrap_or_default();
        let name = words.next().ok_or_else(strange)?;
        if id == "unborn" || id == "shallow" || name == "capabilities^{}" {
            return Ok(());
        }
        let id: CommitId = id.parse().map_err(|_| strange())?;
        if name.is_empty() || name.len() > MAX_REF_NAME || name.chars().any(char::is_control) {
            return Err(strange());
        }
        if self.refs.len() >= MAX_REFS {
            let detail = format!("the server lists more than {MAX_REFS} refs");
            return Err(Failure::refused(detail));
        }
        // In protocol 0, the target of an annotated tag follows the tag, under the same name.
        if let Some(tag) = name.strip_suffix("^{}") {
            let before = self.refs.last_mut().filter(|before| before.name == tag);
            before.ok_or_else(strange)?.peeled = Some(id.as_str().to_owned());
            return Ok(());
        }
        let mut peeled = None;
        for word in words {
            if let Some(hash) = word.strip_prefix("peeled:") {
                peeled = Some(hash.parse::<CommitId>().map_err(|_| strange())?.as_str().to_owned());
            }
        }
        let (name, id) = (name.to_owned(), id.as_str().to_owned());
        self.refs.push(RemoteRef { name, id, peeled });
        Ok(())
    }
}

/// One step of a response that contains a pack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PackStep {
    /// Nothing to do.
    Nothing,
    /// A chunk of the pack.
    Pack(Bytes),
    /// A progress message of the server.
    Progress(String),
    /// The response is complete.
    Done,
}

/// The current section of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Before the name of a section (protocol 2), or before the shallow lines (protocol 0).
    Start,
    /// A section whose lines are ignored.
    Lines,
    /// Before the `NAK` (protocol 0).
    Nak,
    /// The pack.
    Pack,
    /// After the pack.
    Done,
}

/// Parses a response that contains a pack.
#[derive(Debug)]
pub(crate) struct PackAnswer {
    is_v2: bool,
    section: Section,
    has_pack: bool,
}

impl PackAnswer {
    pub(crate) fn new(is_v2: bool) -> Self {
        Self { is_v2, section: Section::Start, has_pack: false }
    }

    /// Returns whether the response is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.section == Section::Done
    }

    /// Reads a packet.
    pub(crate) fn take(&mut self, packet: Packet) -> Result<PackStep, Failure> {
        let line = packet.line();
        if self.section != Section::Pack
            && let Some(failure) = line.and_then(server_error)
        {
            return Err(failure);
        }
        let unexpected = || {
            let detail = match &packet {
                Packet::Data(data) => text::quoted_bytes(data),
                mark => format!("a marker `{mark:?}`"),
            };
            Failure::fatal(
                ErrorKind::Tool,
                format!("the server sent {detail} at an unexpected position"),
            )
        };
        match (self.section, line, self.is_v2) {
            (Section::Start, Some(b"packfile"), true) => self.section = Section::Pack,
            (Section::Start, Some(b"shallow-info" | b"acknowledgments"), true) => {
                self.section = Section::Lines;
            }
            (Section::Lines, Some(_), true) => {}
            (Section::Lines, None, true) if packet == Packet::Delimiter => {
                self.section = Section::Start;
            }
            (Section::Start | Section::Nak, Some(line), false) => match line {
                b"NAK" => self.section = Section::Pack,
                _ if line.starts_with(b"shallow ") || line.starts_with(b"unshallow ") => {}
                _ => return Err(unexpected()),
            },
            (Section::Start, None, false) => self.section = Section::Nak,
            (Section::Pack, None, _) if packet != Packet::Delimiter => {
                if !self.has_pack {
                    return Err(Failure::fatal(ErrorKind::Tool, "the server did not send a pack"));
                }
                self.section = Section::Done;
                return Ok(PackStep::Done);
            }
            (Section::Pack, Some(_), _) => return self.band(packet),
            _ => return Err(unexpected()),
        }
        Ok(PackStep::Nothing)
    }

    /// Reads a packet of the pack section. Its first byte identifies the band.
    fn band(&mut self, packet: Packet) -> Result<PackStep, Failure> {
        let Packet::Data(mut data) = packet else { return Ok(PackStep::Nothing) };
        let band = (!data.is_empty()).then(|| data.split_to(1)[0]);
        match band {
            Some(1) => {
                self.has_pack |= !data.is_empty();
                Ok(PackStep::Pack(data))
            }
            Some(2) => {
                let words = String::from_utf8_lossy(&data);
                // Each line overwrites the previous one, so only the last non-empty line is used.
                let last = words.split(['\r', '\n']).rfind(|line| !line.trim().is_empty());
                Ok(PackStep::Progress(text::clean(last.unwrap_or_default())))
            }
            Some(3) => Err(said(&String::from_utf8_lossy(&data))),
            // Some servers send empty packets to keep the connection open.
            None => Ok(PackStep::Nothing),
            Some(_) => {
                let detail = "the server sent data on an unknown band";
                Err(Failure::fatal(ErrorKind::Tool, detail))
            }
        }
    }
}
