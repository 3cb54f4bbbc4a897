//! Looks up the current state of all pins, with at most [`AT_ONCE`] requests at a time. All pins of
//! a repository or project share one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use failure::Kind;
use names::{CommitId, PinName};
use names::{Digest, ImageRef, Tag};
use oci::client::RegistryClient;
use pins::{ArchivePin, ImagePin, Pins, Release, SourcePin};
use project::registry;
use sources::{ErrorKind, Reach, ReleaseFile, RemoteRefs, SourceError, SourceUrl, Sources};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::state::{Class, State};
use crate::choice::{Releases, TagForm, version_of};

/// The maximum number of concurrent requests.
const AT_ONCE: usize = 16;

/// The clients for looking up pins.
#[derive(Debug, Clone)]
pub struct Clients {
    /// For git repositories and indexes.
    pub sources: Sources,
    /// For registries.
    pub client: RegistryClient,
    /// The Python package index, or why there is none.
    pub index: Result<SourceUrl, String>,
}

/// The subject of one request.
enum Question {
    Repository(SourceUrl, Vec<(PinName, SourcePin)>),
    Image(PinName, Box<ImagePin>),
    Project(String, Vec<(PinName, ArchivePin)>),
    Release(PinName, Release),
}

/// Returns the state of every pin.
pub(crate) async fn all(pins: &Pins, asked: Clients) -> BTreeMap<PinName, State> {
    let limit = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for question in questions(pins) {
        let (asked, limit) = (asked.clone(), Arc::clone(&limit));
        running.spawn(async move {
            // The semaphore is never closed.
            let permit = limit.acquire().await;
            let states = answer(question, &asked).await;
            drop(permit);
            states
        });
    }
    // A panic in a task continues here: without its answers, the report would be wrong.
    running.join_all().await.into_iter().flatten().collect()
}

fn questions(pins: &Pins) -> Vec<Question> {
    let mut repositories: BTreeMap<&str, Vec<(PinName, SourcePin)>> = BTreeMap::new();
    for (name, pin) in &pins.sources {
        let url = pin.url.trim_end_matches('/').trim_end_matches(".git");
        repositories.entry(url).or_default().push((name.clone(), pin.clone()));
    }
    let mut projects: BTreeMap<&str, Vec<(PinName, ArchivePin)>> = BTreeMap::new();
    for (name, pin) in &pins.archives {
        projects.entry(&pin.project).or_default().push((name.clone(), pin.clone()));
    }
    let repositories = repositories.into_values().filter_map(|all| {
        let url = all.first()?.1.url.parse().ok()?;
        Some(Question::Repository(url, all))
    });
    let projects = projects.into_iter().map(|(name, all)| Question::Project(name.to_owned(), all));
    let images =
        pins.images.iter().map(|(name, pin)| Question::Image(name.clone(), Box::new(pin.clone())));
    let releases =
        pins.releases.iter().map(|(name, pin)| Question::Release(name.clone(), pin.clone()));
    repositories.chain(projects).chain(images).chain(releases).collect()
}

async fn answer(question: Question, asked: &Clients) -> Vec<(PinName, State)> {
    match question {
        Question::Repository(url, all) => match asked.sources.refs(&url).await {
            Ok(refs) => {
                let mut states = Vec::new();
                for (name, pin) in all {
                    states.push((name, source(&pin, &url, &refs, asked).await));
                }
                states
            }
            Err(error) => all.into_iter().map(|(name, _)| (name, unasked(&error))).collect(),
        },
        Question::Image(name, pin) => vec![(name, image(&pin, asked).await)],
        Question::Project(project, all) => {
            let files = match &asked.index {
                Ok(index) => asked.sources.releases(index, &project).await.map_err(|e| unasked(&e)),
                Err(why) => Err(State::new(Class::Unreachable, why.clone())),
            };
            let state = |pin: &ArchivePin| match &files {
                Ok(files) => archive(pin, files),
                Err(state) => state.clone(),
            };
            all.iter().map(|(name, pin)| (name.clone(), state(pin))).collect()
        }
        Question::Release(name, pin) => vec![(name, release(&pin, asked).await)],
    }
}

/// Returns the state of pins whose source could not be reached. If a mirror lacks the source, it is
/// unknown whether upstream still has it.
fn unasked(error: &SourceError) -> State {
    let class = match error.kind() {
        ErrorKind::NotFound if error.mirror().is_none() => Class::Vanished,
        _ => Class::Unreachable,
    };
    State::new(class, error.to_string())
}

async fn source(pin: &SourcePin, url: &SourceUrl, refs: &RemoteRefs, asked: &Clients) -> State {
    let releases = Releases::new(refs.tags(), pin.git_ref.as_deref());
    let newer = || {
        let own = pin.version.as_deref().or(pin.git_ref.as_deref()).and_then(version_of)?;
        let newest = releases.newest(own.is_pre_release())?;
        (newest.version > own).then(|| newest.name.clone())
    };
    let Some(git_ref) = &pin.git_ref else {
        return match pin.commit.resolved() {
            None => State::new(Class::Unresolved, "the commit is unresolved"),
            Some(commit) => bare_commit(commit, url, refs, asked).await,
        };
    };
    let found = git_ref.parse().ok().and_then(|name| refs.find(&name).cloned());
    let Some(found) = found else {
        let what = format!("tag or branch `{git_ref}` no longer exists");
        return State { newest: newer(), ..State::new(Class::Vanished, what) };
    };
    let now = found.target().to_owned();
    let state = match pin.commit.resolved() {
        None => State::new(Class::Unresolved, format!("`{git_ref}` is now `{now}`")),
        Some(commit) if commit.as_str() == now => match newer() {
            Some(newest) => State::new(Class::Newer, format!("`{newest}` was released")),
            None => State::new(Class::Current, ""),
        },
        Some(commit) if found.name.starts_with("refs/tags/") => {
            State::new(Class::Moved, format!("tag `{git_ref}` was `{commit}` and is now `{now}`"))
        }
        Some(commit) => branch(git_ref, commit, &now, url, asked).await,
    };
    State { now: Some(now), newest: newer(), ..state }
}

/// Returns the state of a commit that was the head of a branch.
async fn branch(name: &str, old: &CommitId, now: &str, url: &SourceUrl, asked: &Clients) -> State {
    let Ok(tip) = now.parse::<CommitId>() else {
        return State::new(Class::Moved, format!("branch `{name}` does not point to a commit"));
    };
    match asked.sources.reaches(url, &tip, old).await {
        Ok(Some(Reach::Inside)) => {
            State::new(Class::Newer, format!("branch `{name}` moved ahead to `{now}`"))
        }
        Ok(Some(Reach::Outside)) => State::new(
            Class::Rewritten,
            format!("branch `{name}` was rewritten: it no longer contains `{old}`"),
        ),
        Ok(Some(Reach::Missing)) => State::new(
            Class::Rewritten,
            format!("branch `{name}` was rewritten, and the server no longer has `{old}`"),
        ),
        Ok(None) => State::new(
            Class::Newer,
            format!(
                "branch `{name}` is now `{now}`; the server cannot say whether it still contains `{old}`"
            ),
        ),
        Err(error) => unasked(&error),
    }
}

/// Returns the state of a commit without a tag or branch.
async fn bare_commit(
    commit: &CommitId,
    url: &SourceUrl,
    refs: &RemoteRefs,
    asked: &Clients,
) -> State {
    if refs.leading_to(commit).next().is_some() {
        return State::new(Class::Current, "");
    }
    let tip = refs.iter().find(|one| one.name == "HEAD").or_else(|| refs.iter().next());
    let Some(tip) = tip.and_then(|tip| tip.target().parse::<CommitId>().ok()) else {
        return State::new(Class::Vanished, "the repository is empty");
    };
    match asked.sources.reaches(url, &tip, commit).await {
        Ok(Some(Reach::Inside) | None) => State::new(Class::Current, "a commit without a tag"),
        Ok(Some(Reach::Outside)) => {
            State::new(Class::Current, "a commit that is not on the main branch")
        }
        Ok(Some(Reach::Missing)) => {
            State::new(Class::Vanished, format!("the server no longer has `{commit}`"))
        }
        Err(error) => unasked(&error),
    }
}

async fn image(pin: &ImagePin, asked: &Clients) -> State {
    let ask = async |reference: &ImageRef| {
        // If a mirror lacks the image, it is unknown whether the registry still has it.
        let asked = asked.client.manifest_digest(reference).await;
        asked.map_err(|error| State::new(Class::Unreachable, error.to_string()))
    };
    let digest = pin.digest.resolved();
    let still_there = async || match digest {
        Some(digest) => ask(&pin.repository.at(digest)).await.map(|found| found.is_some()),
        None => Ok(true),
    };
    let Some(tag) = &pin.tag else {
        return match still_there().await {
            Ok(true) => State::new(Class::Current, ""),
            Ok(false) => State::new(Class::Vanished, "the registry no longer has the digest"),
            Err(state) => state,
        };
    };
    let now = match ask(&pin.repository.tagged(tag)).await {
        Ok(Some(now)) => now,
        Ok(None) => {
            let what = match still_there().await {
                Ok(true) if digest.is_some() => {
                    format!("tag `{tag}` no longer exists; its digest still does, so mirror it now")
                }
                _ => format!("tag `{tag}` no longer exists"),
            };
            return State::new(Class::Vanished, what);
        }
        Err(state) => return state,
    };
    let newest = if !pin.follow { newer_tag(pin, tag, asked).await } else { None };
    let refused = refusal(pin, &now, asked).await;
    let state = match digest {
        _ if pin.follow => {
            State::new(Class::Current, format!("the tag is followed; it is now `{now}`{refused}"))
        }
        None => State::new(Class::Unresolved, format!("`{tag}` is now `{now}`{refused}")),
        Some(digest) if *digest == now => match &newest {
            Some(newest) => {
                let why = refusal_of_tag(pin, newest, asked).await;
                State::new(Class::Newer, format!("tag `{newest}` was published{why}"))
            }
            None => State::new(Class::Current, ""),
        },
        Some(digest) => match still_there().await {
            Ok(true) => {
                let what = format!("tag `{tag}` was `{digest}` and is now `{now}`{refused}");
                State::new(Class::Moved, what)
            }
            Ok(false) => State::new(
                Class::Vanished,
                format!(
                    "tag `{tag}` is now `{now}`{refused}, and the registry no longer has `{digest}`"
                ),
            ),
            Err(state) => return state,
        },
    };
    State { now: Some(now.to_string()), newest, ..state }
}

/// Returns why `bump` refuses the image with this digest, as the end of a sentence. The text is
/// empty if the pin already has the digest, or if `bump` accepts it.
async fn refusal(pin: &ImagePin, digest: &Digest, asked: &Clients) -> String {
    if pin.digest.resolved() == Some(digest) {
        return String::new();
    }
    match registry::check_base(&asked.client, &pin.repository.at(digest)).await {
        Err(told) if told.kind == Kind::Input => format!(", but {}", told.lines().join(": ")),
        _ => String::new(),
    }
}

async fn refusal_of_tag(pin: &ImagePin, tag: &str, asked: &Clients) -> String {
    let Ok(tag) = tag.parse::<Tag>() else { return String::new() };
    match asked.client.manifest_digest(&pin.repository.tagged(&tag)).await {
        Ok(Some(digest)) => refusal(pin, &digest, asked).await,
        _ => String::new(),
    }
}

/// Returns the newest tag with the pattern of an image's tag, if it is newer. Registries do not
/// have to list their tags, so a failure to list them says nothing about the pin.
async fn newer_tag(pin: &ImagePin, tag: &Tag, asked: &Clients) -> Option<String> {
    let form = TagForm::of(tag.as_str())?;
    match asked.client.tags(&pin.repository).await {
        Ok(tags) => form.newer(tags.iter().map(Tag::as_str)).map(str::to_owned),
        Err(error) => {
            tracing::info!(repository = %pin.repository, %error, "cannot list tags");
            None
        }
    }
}

fn archive(pin: &ArchivePin, files: &[ReleaseFile]) -> State {
    let project = pin.project.as_str();
    let whole = files.iter().filter(|file| file.yanked.is_none());
    let releases =
        Releases::new(whole.filter_map(|file| file.source_version(project)), Some(&pin.version));
    let own = version_of(&pin.version);
    let newest = own.as_ref().and_then(|own| {
        let newest = releases.newest(own.is_pre_release())?;
        (newest.version > *own).then(|| newest.name.clone())
    });
    let is_own =
        |version: &str| version == pin.version || own.is_some() && version_of(version) == own;
    let file = files.iter().find(|file| file.source_version(project).is_some_and(is_own));
    let now = file.and_then(|file| file.sha256.as_ref()).map(ToString::to_string);
    let state = match (file, pin.sha256.resolved()) {
        (None, _) => State::new(
            Class::Vanished,
            format!("the index no longer has a source archive of `{}`", pin.version),
        ),
        (Some(file), _) if file.yanked.is_some() => {
            let reason = file.yanked.as_deref().filter(|reason| !reason.is_empty());
            State::new(
                Class::Yanked,
                format!("it was yanked: {}", reason.unwrap_or("no reason given")),
            )
        }
        (Some(_), None) => State::new(
            Class::Unresolved,
            match &now {
                Some(now) => format!("its hash is `{now}`"),
                None => "the index provides no hash".to_owned(),
            },
        ),
        (Some(_), Some(sha256)) if now.as_deref().is_some_and(|now| now != sha256.as_str()) => {
            State::new(
                Class::Moved,
                format!(
                    "its hash was `{sha256}` and is now `{}`",
                    now.as_deref().unwrap_or_default()
                ),
            )
        }
        (Some(_), Some(_)) => match &newest {
            Some(newest) => State::new(Class::Newer, format!("`{newest}` was released")),
            None => State::new(Class::Current, ""),
        },
    };
    State { now, newest, ..state }
}

/// Asks the set's own index for each of its packages, one after another.
async fn release(pin: &Release, asked: &Clients) -> State {
    let Ok(index) = pin.index.parse::<SourceUrl>() else {
        return State::new(Class::Unreachable, "cannot query its index");
    };
    for (package, version) in &pin.packages {
        let files = match asked.sources.releases(&index, package).await {
            Ok(files) => files,
            Err(error) => return unasked(&error),
        };
        // This matches wheels as well as source archives: the version is the second part of both
        // names.
        let fits = |file: &&ReleaseFile| {
            file.source_version(package) == Some(version)
                || file.name.split('-').nth(1) == Some(version)
        };
        match files.iter().find(fits) {
            None => {
                return State::new(
                    Class::Vanished,
                    format!("the index no longer has `{package}` `{version}`"),
                );
            }
            Some(file) if file.yanked.is_some() => {
                return State::new(Class::Yanked, format!("`{package}` `{version}` was yanked"));
            }
            Some(_) => {}
        }
    }
    State::new(Class::Current, "")
}
