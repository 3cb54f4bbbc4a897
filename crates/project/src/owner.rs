//! Checks that a project in a parent folder belongs to the user. git checks repositories in a similar
//! way.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use rustix::process::geteuid;
use text::shell_line;

use crate::environment;
use crate::folder::VERSIONS;

/// The user ID of root.
const ROOT: u32 = 0;

/// Returns the first of the project's folder, `versions/` and `versions/versions.toml` that belongs
/// to another user. Root's files are trusted. With `sudo`, so are those of the user who called it.
pub(crate) fn stranger(root: &Path) -> Option<PathBuf> {
    let user = geteuid().as_raw();
    let caller = environment::sudo_caller();
    let versions = root.join(VERSIONS);
    let folder = versions.parent().unwrap_or(root).to_owned();
    [root.to_owned(), folder, versions].into_iter().find(|path| {
        // A file that cannot be looked at is reported when it is read.
        fs::symlink_metadata(path).is_ok_and(|found| !is_trusted(found.uid(), user, caller))
    })
}

/// Returns whether `user` can trust files of `owner`. `caller` is the value of `SUDO_UID`.
fn is_trusted(owner: u32, user: u32, caller: Option<u32>) -> bool {
    owner == user || owner == ROOT || (user == ROOT && caller == Some(owner))
}

/// The error for a project of another user.
pub(crate) fn refusal(root: &Path, path: &Path) -> Failure {
    let message = format!(
        "the project in the parent folder `{}` is not used, because `{}` belongs to another user",
        root.display(),
        path.display()
    );
    let folder = shell_line(&[root.to_string_lossy().into_owned()]);
    Failure::new(Kind::Input, message).hint(format!("if you trust this project, use `-C {folder}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_root_and_the_caller_of_sudo_are_trusted() {
        assert!(is_trusted(1000, 1000, None));
        assert!(is_trusted(ROOT, 1000, None));
        assert!(is_trusted(1000, ROOT, Some(1000)));
        for (owner, user, caller) in
            [(1001, 1000, None), (1000, ROOT, None), (1001, ROOT, Some(1000)), (1, 2, Some(1))]
        {
            assert!(!is_trusted(owner, user, caller), "{owner} {user} {caller:?}");
        }
    }
}
