//! The state of a plan's files in git: the commit that last changed any of them, and whether they
//! have uncommitted changes.
//!
//! No plan or image depends on it unless the request asks for the commit as a label
//! (docs/adr/0003-what-goes-into-labels.md). Every record contains it, so that people can find the
//! commit again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, RepositoryOpenFlags, Tree};
use names::{CommitId, Digest, Secret};
use record::{BuildRecord, Recipe};

use crate::built_in;
use crate::folder::Project;

/// The files of a plan, by path from the project's root, with their SHA-256.
pub type Files = BTreeMap<String, Digest>;

/// The path prefix of files that are part of the program.
pub(crate) const BUILT_IN: &str = "built-in/";

/// Asks the project's history about the files of a plan. Never fails: if the history is not
/// available, the recipe contains the reason.
pub fn read(root: &Path, files: Files) -> Recipe {
    let mut recipe = Recipe { files, ..Recipe::default() };
    if let Err(why) = ask(root, &mut recipe) {
        recipe.unknown = Some(why);
    }
    recipe
}

/// Returns whether the project's history contains a commit. `None` means that this is unknown: the
/// project is not a git checkout, has no commit, or is a shallow clone.
pub fn has_commit(root: &Path, commit: &CommitId) -> Option<bool> {
    let repository = open(root).ok()?;
    let oid = Oid::from_str(commit.as_str()).ok()?;
    if repository.is_shallow() {
        return None;
    }
    let head = repository.head().ok()?.target()?;
    Some(head == oid || repository.graph_descendant_of(head, oid).unwrap_or(false))
}

/// Returns the text of a file that a run used, given its path and digest: from the project's folder,
/// the program, or the project's history. Returns `None` if none of them has the same file.
pub fn text_of(record: &BuildRecord, here: &Path, name: &str, digest: &Digest) -> Option<String> {
    let project = record.place.as_ref().map(|place| Path::new(&place.project));
    let roots = [project, Some(here)].into_iter().flatten();
    let is_same = |text: &String| Digest::of(text.as_bytes()) == *digest;
    let own =
        |root: &Path| Project::find(root).ok()?.own_text(name).ok().map(|text| text.to_string());
    let committed = |root: &Path| committed_text(root, record.recipe.commit.as_ref()?, name);
    let mut found = roots.clone().filter_map(own).chain(built_in::text(name).map(str::to_owned));
    found.find(is_same).or_else(|| roots.filter_map(committed).find(is_same))
}

/// Returns the text of a file in a commit of the project.
fn committed_text(root: &Path, commit: &CommitId, name: &str) -> Option<String> {
    let repository = open(root).ok()?;
    let commit = repository.find_commit(Oid::from_str(commit.as_str()).ok()?).ok()?;
    let entry = commit.tree().ok()?.get_path(Path::new(name)).ok()?;
    let blob = repository.find_blob(entry.id()).ok()?;
    String::from_utf8(blob.content().to_vec()).ok()
}

/// Returns whether the last commit of the repository around a folder contains a file or folder,
/// given its path from that folder.
pub(crate) fn is_committed(folder: &Path, name: &str) -> bool {
    let ask = || {
        let repository = Repository::discover(folder).ok()?;
        let root = repository.workdir()?.canonicalize().ok()?;
        let folder = folder.canonicalize().ok()?;
        let path = folder.strip_prefix(root).ok()?.join(name);
        let tree = repository.head().ok()?.peel_to_tree().ok()?;
        Some(tree.get_path(&path).is_ok())
    };
    ask().unwrap_or(false)
}

/// Opens the repository whose root is the project. A repository in a parent folder does not count.
fn open(root: &Path) -> Result<Repository, String> {
    // Objects are only inspected, not used to build, and verifying their hashes would take half of
    // the time.
    git2::opts::strict_hash_verification(false);
    let opened = Repository::open_ext(root, RepositoryOpenFlags::NO_SEARCH, &[] as &[&Path]);
    opened.map_err(|error| match error.code() {
        ErrorCode::NotFound => "the project is not a git checkout".to_owned(),
        ErrorCode::Owner => format!(
            "the git repository belongs to another user; `git config --global --add safe.directory {}` trusts it",
            root.display()
        ),
        _ => unreadable(&error),
    })
}

fn unreadable(error: &git2::Error) -> String {
    format!("the git repository cannot be read: {}", error.message())
}

fn ask(root: &Path, recipe: &mut Recipe) -> Result<(), String> {
    let repository = open(root)?;
    let head = match repository.head() {
        Ok(head) => head.peel_to_commit().map_err(|error| unreadable(&error))?,
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
            return Err("the git repository has no commit".to_owned());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    recipe.url = origin(&repository);
    let grafts = repository.commondir().join("info/grafts");
    if std::fs::metadata(&grafts).is_ok_and(|file| file.len() > 0) {
        return Err(format!("`{}` changes the history; remove it", grafts.display()));
    }
    let tree = head.tree().map_err(|error| unreadable(&error))?;
    let is_modified = |file: &&String| is_modified(root, &tree, file);
    let own = || recipe.files.keys().filter(|name| !name.starts_with(BUILT_IN));
    recipe.modified = own().filter(is_modified).cloned().collect();
    let names: Vec<&str> = own().map(String::as_str).collect();
    let found = last_change(&repository, head, &names).map_err(|error| unreadable(&error))?;
    match found {
        Some(commit) => recipe.commit = commit.to_string().parse().ok(),
        None => {
            return Err(
                "this clone is shallow, and the commit that last changed the files may be missing; `git fetch --unshallow` fetches it"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Returns the last commit on the first-parent line that changed any of the files. `None` means
/// that it may be missing from a shallow clone.
fn last_change(
    repository: &Repository,
    head: git2::Commit<'_>,
    files: &[&str],
) -> Result<Option<Oid>, git2::Error> {
    let state = |tree: &Tree<'_>| -> Vec<Option<Oid>> {
        let id = |name: &&str| tree.get_path(Path::new(name)).ok().map(|entry| entry.id());
        files.iter().map(id).collect()
    };
    // Compare folders first: most commits change none of them.
    let tops: BTreeSet<&str> = files.iter().filter_map(|file| file.split('/').next()).collect();
    let folders = |tree: &Tree<'_>| -> Vec<Option<Oid>> {
        tops.iter().map(|name| tree.get_name(name).map(|entry| entry.id())).collect()
    };
    let wanted = state(&head.tree()?);
    let mut known = folders(&head.tree()?);
    let mut newest = head;
    loop {
        if newest.parent_count() == 0 {
            return Ok((!repository.is_shallow()).then(|| newest.id()));
        }
        let parent = match newest.parent(0) {
            Err(_) if repository.is_shallow() => return Ok(None),
            parent => parent?,
        };
        let tree = parent.tree()?;
        let found = folders(&tree);
        if found != known && state(&tree) != wanted {
            return Ok(Some(newest.id()));
        }
        known = found;
        newest = parent;
    }
}

/// Returns whether a file differs from the tree. A full git status would take longer than the rest
/// of a plan.
fn is_modified(root: &Path, tree: &Tree<'_>, file: &str) -> bool {
    let committed = tree.get_path(Path::new(file)).map(|entry| entry.id());
    let found = Oid::hash_file(ObjectType::Blob, root.join(file));
    committed.ok() != found.ok()
}

/// Returns the public address that the checkout was cloned from: `https`, without credentials, so
/// that clones by https and by ssh agree.
fn origin(repository: &Repository) -> Option<String> {
    let remote = repository.find_remote("origin").ok()?;
    public_address(remote.url().ok()?)
}

fn public_address(url: &str) -> Option<String> {
    let rest = if let Some(rest) =
        url.strip_prefix("https://").or_else(|| url.strip_prefix("ssh://"))
    {
        rest.to_owned()
    } else if url.contains("://") {
        return None;
    } else {
        // The scp-like form of an ssh address: `git@host:path`.
        let (host, path) =
            url.split_once(':').filter(|(host, _)| host.contains('@') && !host.contains('/'))?;
        format!("{host}/{path}")
    };
    let (host, path) = rest.split_once('/')?;
    let host = host.rsplit('@').next()?;
    let path = path.trim_end_matches('/').trim_end_matches(".git");
    let is_plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"?#'\"`\\<>".contains(c))
    };
    let address = Secret::new(format!("https://{host}/{path}"));
    // A password may contain a slash, so its end can look like the path.
    let is_public = is_plain(host) && is_plain(path) && !address.is_secret();
    is_public.then(|| address.expose().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_address_drops_credentials_and_agrees_over_protocols() {
        for (url, wanted) in [
            ("https://example.org/a/b.git", Some("https://example.org/a/b")),
            ("https://user:secret@example.org/a/b", Some("https://example.org/a/b")),
            ("git@example.org:a/b.git", Some("https://example.org/a/b")),
            ("ssh://git@example.org/a/b.git", Some("https://example.org/a/b")),
            ("https://user:sec/ret@example.org/a/b", None),
            ("file:///srv/git/b", None),
            ("/srv/git/b", None),
            ("http://example.org/a/b", None),
            ("https://example.org", None),
            ("https://example.org/a?token=x", None),
            ("../b", None),
        ] {
            assert_eq!(public_address(url).as_deref(), wanted, "{url}");
        }
    }
}
