//! The tree of a commit together with the trees of its submodules.
//!
//! A submodule is a source like any other. Its URL passes the same checks, and must not be less
//! public than the URL of its parent repository. Its commit is the one recorded in the tree.
//! libgit2's own update needs branch tips in a shallow clone, so this module walks the submodules
//! itself.

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use names::CommitId;
use net::check_scope;

use super::objects::{Gitlink, Snapshot};
use super::{fetch, gitmodules};
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure, SourceError};
use crate::git_ref::TreePath;
use crate::session::Session;
use crate::text;
use crate::tree::{Tree, refusal};

/// How many submodules are fetched at the same time.
const AT_ONCE: usize = 4;
/// The maximum number of submodules of a source; PyTorch has about 60.
const MAX_SUBMODULES: usize = 500;
/// The maximum nesting depth of submodules.
const MAX_DEPTH: usize = 10;

/// A git tree at a commit.
#[derive(Debug, Clone)]
pub struct GitSource {
    /// The URL of the repository.
    pub url: SourceUrl,
    /// The full commit.
    pub commit: CommitId,
    /// The submodules that belong to it.
    pub submodules: Submodules,
}

/// The submodules to fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Submodules {
    /// None of them. Their directories would be empty, so they are left out.
    None,
    /// All of them, including nested ones.
    #[default]
    All,
    /// All except submodules at or below these paths.
    AllBut(Vec<TreePath>),
}

impl Submodules {
    fn wants(&self, path: &TreePath) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::AllBut(left_out) => {
                !left_out.iter().any(|out| out == path || path.parents().any(|p| p == out.as_str()))
            }
        }
    }
}

/// A tree in the cache.
#[derive(Debug, Clone)]
pub struct FetchedGit {
    /// All files, including those of submodules.
    pub tree: Tree,
    /// The submodules, by path.
    pub submodules: Vec<FetchedSubmodule>,
    /// The number of bytes received over the network; 0 if everything was cached.
    pub received: u64,
}

/// A submodule that belongs to a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSubmodule {
    /// Its path in the tree.
    pub path: TreePath,
    /// The URL that it comes from.
    pub url: SourceUrl,
    /// Its commit, as recorded by the parent repository.
    pub commit: CommitId,
}

/// A repository whose tree becomes part of the whole tree.
#[derive(Debug, Clone)]
struct Wanted {
    path: Option<TreePath>,
    url: SourceUrl,
    commit: CommitId,
}

impl Wanted {
    fn name(&self) -> String {
        format!("{} at {}", self.url, self.commit)
    }
}

/// Fetches a tree and its submodules.
pub(crate) async fn fetch_all(
    session: &Session,
    source: &GitSource,
) -> Result<FetchedGit, SourceError> {
    let mut whole = FetchedGit { tree: Tree::new(), submodules: Vec::new(), received: 0 };
    let top = Wanted { path: None, url: source.url.clone(), commit: source.commit.clone() };
    let mut level = vec![top];
    for depth in 0.. {
        let fetches: Vec<_> =
            level.into_iter().map(|wanted| fetch_one(session.clone(), wanted).boxed()).collect();
        let mut fetches = stream::iter(fetches).buffered(AT_ONCE);
        let mut next = Vec::new();
        while let Some(fetched) = fetches.next().await {
            let (wanted, snapshot, received) = fetched?;
            let failed = |failure: Failure| failure.at("fetch", wanted.name());
            whole.received += received;
            next.extend(submodules_of(&wanted, &snapshot, source).map_err(failed)?);
            match &wanted.path {
                None => whole.tree = snapshot.tree,
                Some(path) => {
                    whole.tree.mount(path.as_str(), snapshot.tree)?;
                    let (url, commit) = (wanted.url.clone(), wanted.commit.clone());
                    whole.submodules.push(FetchedSubmodule { path: path.clone(), url, commit });
                }
            }
        }
        let all = whole.submodules.len() + next.len();
        if next.is_empty() {
            break;
        }
        if all > MAX_SUBMODULES || depth >= MAX_DEPTH {
            let detail = format!("too many submodules: {all} of them, {depth} levels deep");
            return Err(Failure::refused(detail).at("fetch", &source.url));
        }
        level = next;
    }
    whole.submodules.sort_by(|one, other| one.path.cmp(&other.path));
    whole.tree.check_links().map_err(|failure| failure.at("fetch", &source.url))?;
    Ok(whole)
}

async fn fetch_one(
    session: Session,
    wanted: Wanted,
) -> Result<(Wanted, Snapshot, u64), SourceError> {
    match fetch(&session, &wanted.url, &wanted.commit).await {
        Ok((snapshot, received)) => Ok((wanted, snapshot, received)),
        Err(failure) => Err(failure.at("fetch", wanted.name())),
    }
}

/// Returns the submodules of one repository that belong to the source.
fn submodules_of(
    parent: &Wanted,
    snapshot: &Snapshot,
    source: &GitSource,
) -> Result<Vec<Wanted>, Failure> {
    let below = |path: &TreePath| match &parent.path {
        None => Ok(path.clone()),
        Some(base) => base.join(path).map_err(refusal),
    };
    let mut wanted = Vec::new();
    let mut places = None;
    for Gitlink { path, commit } in &snapshot.gitlinks {
        let whole_path = below(path)?;
        if !source.submodules.wants(&whole_path) {
            continue;
        }
        if places.is_none() {
            places = Some(match snapshot.tree.mode(".gitmodules") {
                None => Default::default(),
                Some(crate::tree::Mode::Symlink) => {
                    return Err(Failure::refused("`.gitmodules` is a symbolic link"));
                }
                Some(_) => gitmodules::parse(&snapshot.tree.read_file(".gitmodules")?)?,
            });
        }
        let shown = text::quoted(whole_path.as_str());
        let url = places.as_ref().and_then(|places| places.get(path)).ok_or_else(|| {
            Failure::fatal(
                ErrorKind::NotFound,
                format!("`.gitmodules` has no URL for the submodule {shown}"),
            )
        })?;
        let url = parent.url.join_submodule(url).map_err(|error| {
            Failure::refused(format!("the URL of the submodule {shown} is not allowed: {error}"))
        })?;
        let host = url.url().host_str().unwrap_or("a path");
        if check_scope(host, url.scope(), parent.url.scope()).is_err()
            || (url.is_file() && !parent.url.is_file())
        {
            return Err(Failure::refused(format!(
                "the submodule {shown} points to {}, which is less public than its parent repository",
                text::quoted(url.as_str())
            )));
        }
        wanted.push(Wanted { path: Some(whole_path), url, commit: commit.clone() });
    }
    Ok(wanted)
}
