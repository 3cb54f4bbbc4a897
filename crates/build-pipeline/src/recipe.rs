//! The commit of the recipe: which state of `versions/` an image is from, and of `patches/` and
//! `dockerfiles/` where an engine builds it.
//!
//! It is the last commit that changed those folders, not the newest of all, so that a commit to a
//! README gives no image another digest. In a shallow clone that commit may lie beyond what was
//! fetched; then the oldest one there is stands in for it, with a warning.

use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, RepositoryOpenFlags, Tree};
use names::Secret;
use plan::Recipe;

use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::output;

/// Reads the recipe's commit, where the project is a git checkout with a commit. `folders` are what
/// the image is made from, `files` those that are read from it; the recipe is modified where one of
/// them is not what the commit has.
pub(crate) fn read(
    root: &Path,
    (folders, files): (&[&str], &[&str]),
) -> Result<Option<Recipe>, CommandError> {
    // Objects are looked at here, not built from; checking their hashes is half of what this takes.
    git2::opts::strict_hash_verification(false);
    // Only the project's own repository counts, not one that some folder above happens to be.
    let opened = Repository::open_ext(root, RepositoryOpenFlags::NO_SEARCH, &[] as &[&Path]);
    let repository = match opened {
        Ok(repository) => repository,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(root, &error)),
    };
    let read = || {
        let head = match repository.head() {
            Ok(head) => head.peel_to_commit()?,
            Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let modified = is_modified(root, &head.tree()?, files);
        let commit = last_change(&repository, head, folders)?;
        Ok(Some(Recipe { url: origin(&repository), commit: commit.to_string(), modified }))
    };
    read().map_err(|error| unreadable(root, &error))
}

fn unreadable(root: &Path, error: &git2::Error) -> CommandError {
    let told = CommandError::caused(
        ExitCode::Machine,
        format!("reading the git repository `{}` failed", root.display()),
        error,
    );
    match error.code() {
        ErrorCode::Owner => told.hint(format!("the folder belongs to someone else; `git config --global --add safe.directory {}` trusts it", root.display())),
        _ => told.hint("`git status` tells whether git can read it"),
    }
}

/// Returns the last commit on the first-parent line that changed one of the folders.
fn last_change(
    repository: &Repository,
    head: git2::Commit<'_>,
    folders: &[&str],
) -> Result<Oid, git2::Error> {
    let state = |tree: &Tree<'_>| -> Vec<Option<Oid>> {
        folders.iter().map(|name| tree.get_name(name).map(|entry| entry.id())).collect()
    };
    let wanted = state(&head.tree()?);
    let mut newest = head;
    loop {
        let Ok(parent) = newest.parent(0) else {
            if newest.parent_count() > 0 || repository.is_shallow() {
                output::warn(
                    "shallow-clone",
                    "the commit that last changed the recipe may lie outside this shallow clone, so the image's revision, and with it its digest, may differ from a full clone's; `git fetch --unshallow` mends it",
                );
            }
            return Ok(newest.id());
        };
        if state(&parent.tree()?) != wanted {
            return Ok(newest.id());
        }
        newest = parent;
    }
}

/// Returns whether one of the files is not what the tree has. Asking for git's whole status would
/// take longer than everything else that a plan does.
fn is_modified(root: &Path, tree: &Tree<'_>, files: &[&str]) -> bool {
    files.iter().any(|file| {
        let committed = tree.get_path(Path::new(file)).map(|entry| entry.id());
        let found = Oid::hash_file(ObjectType::Blob, root.join(file));
        committed.ok() != found.ok()
    })
}

/// Returns the address that the checkout was cloned from, where everybody can read it: `https`,
/// without credentials, so that clones by https and by ssh agree.
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
        // The short form of ssh: `git@host:path`.
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
    // A password may have a slash in it, and then its end seems to be the path.
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
