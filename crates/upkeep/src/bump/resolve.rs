//! Looks up the new value of a pin at git servers, registries and indexes. Refuses unexpected
//! values: names that do not exist, older versions, and git tags or releases that changed.

use failure::{Failure, Kind, nearest, registry_hints, registry_kind};
use names::{CommitId, PinName};
use names::{Digest, ImageRef, Tag};
use oci::client::RegistryClient;
use pins::{ArchivePin, ImagePin, ManifestKind, NewValue, Pins, SourcePin};
use project::{fetch, registry};
use sources::{GitRef, RemoteRefs, SourceUrl, Sources};

use crate::choice::{Neighbours, Releases, TagForm, version_of, version_text};

/// What to look up, and what to accept.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The pin.
    pub pin: &'a PinName,
    /// A version, tag, branch, full commit or digest, or `latest`.
    pub value: &'a str,
    /// The package index for archives. If absent, pip's index.
    pub index: Option<&'a str>,
    /// What to accept.
    pub accepted: Accepted,
}

/// Changes that are refused unless they are accepted.
#[derive(Debug, Clone, Copy)]
pub struct Accepted {
    /// An older version than the pinned one.
    pub downgrade: bool,
    /// A git tag or release that changed since it was pinned. A changed image tag is never refused.
    pub moved: bool,
    /// A source to which patches do not apply.
    pub broken_patches: bool,
}

/// The new value of a pin.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) value: NewValue,
    /// The name that it was resolved from, for display.
    pub(crate) name: String,
    /// Where it was found, for the pin's `evidence`.
    pub(crate) evidence: String,
    /// The value of the same name when it was pinned, if it was different.
    pub(crate) moved_from: Option<String>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// Where its files are, so that patches can be tried.
    pub(crate) origin: Origin,
}

/// Where a pin's files are.
#[derive(Debug)]
pub(crate) enum Origin {
    /// A commit of a repository.
    Git { url: SourceUrl, commit: CommitId },
    /// A release archive, with its file on the index.
    Archive { url: SourceUrl },
    /// There are no files that patches apply to.
    None,
}

/// Looks up the value of the given pin.
pub(crate) async fn resolve(
    asked: &Asked<'_>,
    pins: &Pins,
    sources: &Sources,
    client: &RegistryClient,
) -> Result<Found, Failure> {
    let name = asked.pin;
    if let Some(pin) = pins.sources.get(name) {
        source(asked, pin, sources).await
    } else if let Some(pin) = pins.images.get(name) {
        image(asked, pin, client).await
    } else if let Some(pin) = pins.archives.get(name) {
        archive(asked, pin, sources).await
    } else {
        Err(Failure::new(
            Kind::Input,
            format!("pin `{name}` is a set of packages, which has no single value to look up"),
        )
        .hint("edit its versions together in `versions/versions.toml`; `build-pipeline outdated` checks each of them on its index, and `build-pipeline lint` checks that they are compatible with each other"))
    }
}

fn refuse(code: Kind, message: String) -> Failure {
    Failure::new(code, message)
}

/// Refuses a version that is older than the pinned one.
fn check_order(asked: &Asked<'_>, old: Option<&str>, new: &str) -> Result<(), Failure> {
    let (Some(old), Some(new)) = (old.and_then(version_of), version_of(new)) else { return Ok(()) };
    if new < old && !asked.accepted.downgrade {
        let pin = asked.pin;
        return Err(refuse(
            Kind::Input,
            format!("`{new}` is older than `{old}`, the pinned version of `{pin}`"),
        )
        .hint(format!("`build-pipeline bump {pin} {new} --allow-downgrade` accepts it")));
    }
    Ok(())
}

/// Refuses a name whose value changed, unless that was allowed.
fn check_moved(
    asked: &Asked<'_>,
    what: &str,
    old: &str,
    new: &str,
    since: Option<&str>,
) -> Result<(), Failure> {
    if asked.accepted.moved {
        return Ok(());
    }
    let since = since.map_or_else(String::new, |day| format!(" on {day}"));
    Err(refuse(
        Kind::Integrity,
        format!("{what} moved: it was `{old}` when it was pinned{since}, and is now `{new}`"),
    )
    .hint("nothing was written; find out why it moved before you trust the new value")
    .hint(format!(
        "`build-pipeline bump {} {} --accept-moved` accepts the new value",
        asked.pin, asked.value
    )))
}

/// Creates the error for a name that does not exist.
fn missing(asked: &Asked<'_>, what: String, releases: &Releases, others: &[&str]) -> Failure {
    let mut told = refuse(Kind::Input, what);
    let around = version_of(asked.value).map(|version| releases.neighbours(&version));
    let suggested = match around {
        Some(Neighbours { below, above, newest }) => {
            let quoted = |name: &Option<String>| name.as_ref().map(|name| format!("`{name}`"));
            told =
                match (quoted(&below), quoted(&above)) {
                    (Some(below), Some(above)) => {
                        told.hint(format!("the closest are {below} below it and {above} above it"))
                    }
                    (Some(below), None) => told
                        .hint(format!("the closest below it is {below}; there is none above it")),
                    (None, Some(above)) => told
                        .hint(format!("the closest above it is {above}; there is none below it")),
                    (None, None) => told,
                };
            if let Some(newest) = quoted(&newest) {
                told = told.hint(format!("the newest is {newest}"));
            }
            above.or(below).or(newest)
        }
        None => nearest(asked.value, others.iter().copied()).map(str::to_owned),
    };
    match suggested {
        Some(name) => told.hint(format!(
            "nothing was changed; `build-pipeline bump {} {name}` uses another value",
            asked.pin
        )),
        None => {
            told.hint("nothing was changed; check upstream which tags, branches or versions exist")
        }
    }
}

async fn source(asked: &Asked<'_>, pin: &SourcePin, sources: &Sources) -> Result<Found, Failure> {
    let url = fetch::url(&pin.url)?;
    let refs = sources.refs(&url).await.map_err(Failure::from)?;
    let current = pin.git_ref.as_deref();
    let releases = Releases::new(refs.tags(), current);
    let (git_ref, commit) = match asked.value.parse::<CommitId>() {
        Ok(commit) => (ref_of(&refs, &commit, current), commit),
        Err(_) => {
            let (name, commit) = named(asked, pin, &refs, &releases)?;
            (Some(name), commit)
        }
    };
    let version = git_ref.as_deref().and_then(version_text);
    let old_version = pin.version.as_deref().or(current);
    if let Some(git_ref) = &git_ref {
        check_order(asked, old_version, git_ref)?;
    }
    let old = pin.commit.resolved().filter(|old| **old != commit);
    let is_same_name = git_ref.is_some() && git_ref.as_deref() == current;
    let mut moved_from = None;
    let mut notes = Vec::new();
    if let (Some(old), Some(git_ref), true) = (old, &git_ref, is_same_name) {
        let is_tag = refs.tags().any(|tag| tag == git_ref);
        if is_tag {
            let what = format!("tag `{git_ref}` of {url}");
            check_moved(asked, &what, old.as_str(), commit.as_str(), pin.facts.checked.as_deref())?;
        }
        moved_from = is_tag.then(|| old.to_string());
    }
    let found_under = match &git_ref {
        Some(git_ref) => git_ref.clone(),
        None => {
            // A server lists only what its tags and branches point at, not what they contain.
            notes.push(format!(
                "no tag or branch of {url} points at `{commit}` (a branch may still contain it), so the pin gets no `ref` and no `version`"
            ));
            commit.to_string()
        }
    };
    Ok(Found {
        evidence: match &git_ref {
            Some(git_ref) => format!("{git_ref} of {url}, looked up by `bump`"),
            None => format!("a commit that {url} serves, fetched by `bump`"),
        },
        value: NewValue::Source { git_ref, version, commit: commit.clone() },
        name: found_under,
        moved_from,
        notes,
        origin: Origin::Git { url, commit },
    })
}

/// Returns the tag or branch that best describes a commit: the pinned one, else the newest version,
/// else any tag, else any branch.
fn ref_of(refs: &RemoteRefs, commit: &CommitId, current: Option<&str>) -> Option<String> {
    let names: Vec<&str> = refs.leading_to(commit).collect();
    let short = |prefix: &str| -> Vec<&str> {
        names.iter().filter_map(|name| name.strip_prefix(prefix)).collect()
    };
    let (tags, branches) = (short("refs/tags/"), short("refs/heads/"));
    let both = || tags.iter().chain(&branches).copied();
    both()
        .find(|name| Some(*name) == current)
        .or_else(|| tags.iter().copied().max_by_key(|tag| version_of(tag)))
        .or_else(|| branches.first().copied())
        .map(str::to_owned)
}

/// Returns the tag or branch with the given name, and its commit.
fn named(
    asked: &Asked<'_>,
    pin: &SourcePin,
    refs: &RemoteRefs,
    releases: &Releases,
) -> Result<(String, CommitId), Failure> {
    let name = asked.pin;
    let current = pin.git_ref.as_deref();
    let value = match (asked.value, current) {
        ("latest", Some(branch)) if version_of(branch).is_none() => branch,
        ("latest", _) => {
            let with_pre =
                pin.version.as_deref().and_then(version_of).is_some_and(|v| v.is_pre_release());
            let newest = releases.newest(with_pre).ok_or_else(|| {
                refuse(
                    Kind::Input,
                    format!(
                        "no tag of {} is a version, so the newest cannot be determined",
                        pin.url
                    ),
                )
                .hint(format!("specify a tag, branch or commit: `build-pipeline bump {name} main`"))
            })?;
            newest.name.as_str()
        }
        (value, _) => value,
    };
    let folder = current.and_then(|current| current.rsplit_once('/')).map(|(folder, _)| folder);
    let bare = value.strip_prefix('v').unwrap_or(value);
    let mut candidates = vec![value.to_owned(), format!("v{bare}"), bare.to_owned()];
    candidates.extend(
        folder
            .into_iter()
            .flat_map(|folder| [format!("{folder}/{value}"), format!("{folder}/v{bare}")]),
    );
    for candidate in &candidates {
        let git_ref: GitRef = match candidate.parse() {
            Ok(git_ref) => git_ref,
            Err(error) if candidate == value => {
                return Err(Failure::from_chain(Kind::Input, &error)
                    .hint("write a version, a tag, a branch, or a full commit (40 hex digits)"));
            }
            Err(_) => continue,
        };
        if let Some(found) = refs.find(&git_ref) {
            let commit = found.target().parse().map_err(|_| {
                refuse(
                    Kind::Failed,
                    format!("`{}` of {} does not point to a commit", found.name, pin.url),
                )
            })?;
            return Ok((candidate.clone(), commit));
        }
    }
    let what = format!("{} has no tag or branch `{value}`", pin.url);
    let names: Vec<&str> = refs
        .iter()
        .filter_map(|one| {
            one.name.strip_prefix("refs/tags/").or_else(|| one.name.strip_prefix("refs/heads/"))
        })
        .collect();
    Err(missing(asked, what, releases, &names))
}

async fn image(
    asked: &Asked<'_>,
    pin: &ImagePin,
    client: &RegistryClient,
) -> Result<Found, Failure> {
    let name = asked.pin;
    let text = asked.value.strip_prefix(':').unwrap_or(asked.value);
    let bad = |error: &dyn std::error::Error| {
        Failure::from_chain(Kind::Input, error)
            .hint("write a tag, or a digest (`sha256:` and 64 hex digits)")
    };
    let own_tag = pin.tag.as_ref().filter(|_| asked.value == "latest");
    let mut notes = Vec::new();
    let (reference, tag): (ImageRef, Option<Tag>) = match own_tag {
        Some(tag) => {
            let tag = newest_tag(pin, tag, client, &mut notes).await;
            (pin.repository.tagged(&tag), Some(tag))
        }
        None if asked.value == "latest" => {
            return Err(refuse(
                Kind::Input,
                format!("pin `{name}` has no tag to look up a digest for"),
            )
            .hint(format!("specify a tag or digest: `build-pipeline bump {name} TAG`")));
        }
        None if text.contains(':') => {
            let digest: Digest = text.parse().map_err(|error| bad(&error))?;
            (pin.repository.at(&digest), None)
        }
        None => {
            let tag: Tag = text.parse().map_err(|error| bad(&error))?;
            (pin.repository.tagged(&tag), Some(tag))
        }
    };
    let manifest = client.manifest(&reference).await.map_err(|error| {
        let told = Failure::caused(
            registry_kind(error.kind()),
            format!("cannot resolve `{reference}`"),
            &error,
        );
        registry_hints(told, &error).hint("nothing was changed")
    })?;
    if let (Some(new), Some(old)) = (&tag, &pin.tag) {
        check_order(asked, Some(old.as_str()), new.as_str())?;
    }
    registry::check_base(client, &pin.repository.at(&manifest.digest)).await.map_err(|told| {
        told.within(&format!("cannot pin `{reference}`"))
            .hint(format!("nothing was changed; `build-pipeline bump {name} TAG` uses another tag"))
    })?;
    let moved_from = pin
        .digest
        .resolved()
        .filter(|old| **old != manifest.digest && tag.is_some() && tag == pin.tag)
        .map(ToString::to_string);
    if let (Some(old), Some(tag)) = (&moved_from, &tag) {
        notes.push(format!("tag `{tag}` moved since it was pinned: it was `{old}`"));
    }
    if tag.is_none() && pin.tag.is_some() {
        notes.push("the pin loses its `tag`, because no tag was given for the digest".to_owned());
    }
    let kind = match manifest.media_type.as_str() {
        oci::media::OCI_INDEX | oci::media::DOCKER_LIST => ManifestKind::Index,
        _ => ManifestKind::Manifest,
    };
    Ok(Found {
        evidence: format!("{reference}, looked up by `bump`"),
        name: reference.to_string(),
        value: NewValue::Image { tag, digest: manifest.digest, kind: Some(kind) },
        moved_from,
        notes,
        origin: Origin::None,
    })
}

/// Returns the newest tag with the pattern of an image's tag. Returns the tag itself if it is the
/// newest, is followed or has no version, or if the tags cannot be listed.
async fn newest_tag(
    pin: &ImagePin,
    tag: &Tag,
    client: &RegistryClient,
    notes: &mut Vec<String>,
) -> Tag {
    let Some(form) = TagForm::of(tag.as_str()).filter(|_| !pin.follow) else { return tag.clone() };
    match client.tags(&pin.repository).await {
        Ok(tags) => {
            let newer = form.newer(tags.iter().map(Tag::as_str));
            newer.and_then(|newer| newer.parse().ok()).unwrap_or_else(|| tag.clone())
        }
        Err(error) => {
            notes.push(format!("cannot check whether a tag newer than `{tag}` exists: {error}"));
            tag.clone()
        }
    }
}

async fn archive(asked: &Asked<'_>, pin: &ArchivePin, sources: &Sources) -> Result<Found, Failure> {
    let name = asked.pin;
    let index = fetch::index(asked.index)?;
    let files = sources.releases(&index, &pin.project).await.map_err(Failure::from)?;
    let project = pin.project.as_str();
    let is_whole = |file: &&sources::ReleaseFile| file.yanked.is_none();
    let versions = files.iter().filter(is_whole).filter_map(|file| file.source_version(project));
    let releases = Releases::new(versions, Some(&pin.version));
    let with_pre = version_of(&pin.version).is_some_and(|version| version.is_pre_release());
    let value = match asked.value {
        "latest" => releases.newest(with_pre).map(|one| one.name.as_str()).unwrap_or("latest"),
        value => value.strip_prefix('v').unwrap_or(value),
    };
    let wanted = version_of(value);
    let is_wanted =
        |version: &str| version == value || wanted.is_some() && version_of(version) == wanted;
    let file = files.iter().find(|file| file.source_version(project).is_some_and(is_wanted));
    let Some((file, version)) = file.and_then(|file| Some((file, file.source_version(project)?)))
    else {
        let what = format!("the index has no source archive of `{project}` `{value}`");
        return Err(missing(asked, what, &releases, &[]));
    };
    if let Some(reason) = &file.yanked {
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        return Err(refuse(Kind::Input, format!("`{project}` `{version}` was yanked: {reason}"))
            .hint(format!(
                "`build-pipeline bump {name}` uses the newest release that was not yanked"
            )));
    }
    check_order(asked, Some(&pin.version), version)?;
    let Some(sha256) = file.sha256.clone() else {
        return Err(refuse(
            Kind::Failed,
            format!("the index provides no SHA-256 for `{}`", file.name),
        )
        .hint("use an index that provides one; build-pipeline does not compute missing hashes"));
    };
    let mut moved_from = None;
    if let Some(old) = pin.sha256.resolved().filter(|old| **old != sha256 && pin.version == version)
    {
        let what = format!("`{}` on the index", file.name);
        check_moved(asked, &what, old.as_str(), sha256.as_str(), pin.facts.checked.as_deref())?;
        moved_from = Some(old.to_string());
    }
    Ok(Found {
        name: version.to_owned(),
        evidence: format!("{}, looked up on the package index by `bump`", file.name),
        value: NewValue::Archive { version: version.to_owned(), sha256 },
        moved_from,
        notes: Vec::new(),
        origin: Origin::Archive { url: file.url.clone() },
    })
}
