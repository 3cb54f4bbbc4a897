//! Hooks of package managers that apply the patches again after an upgrade.
//!
//! Nothing here installs a hook. A test checks the apt hook with `apt-config`. The hooks for dnf 4
//! and zypper (dnf-post-transaction-actions(8), "System plugin" in libzypp's documentation) were
//! tested by hand: dnf 4.23 and zypper 1.14.89 on Debian 13 installed and upgraded an RPM package.
//! The hook for dnf 5 follows libdnf5-actions(8) and has not been run.
//!
//! pip and uv have no hooks. A file in `site-packages` that Python runs at each start (`.pth`)
//! would run our code in every program, so the hook for pip and uv is a shell function that runs
//! the program and then applies the patches.

use std::path::Path;

use failure::{Failure, Kind};
use project::{Project, environment, patches};

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// apt.
    Apt,
    /// dnf, version 4 or 5.
    Dnf,
    /// zypper.
    Zypper,
    /// pip, which has no hooks.
    Pip,
    /// uv, which has no hooks.
    Uv,
}

/// Returns the text of a hook that patches the tree at `root`, which is relative to `here`. Without
/// `root`, it patches the system or, for pip and uv, the environment that they change. `gpu` is the
/// target; without it, the hook looks for the GPU when it runs.
///
/// # Errors
/// A path cannot be written into a hook, `gpu` is not a target, or a patch file cannot be read.
pub fn hook(
    here: &Path,
    project: &Project,
    manager: Manager,
    root: Option<&Path>,
    gpu: Option<&str>,
) -> Result<String, Failure> {
    let root = match (root, manager) {
        (Some(root), _) => {
            plain(&std::path::absolute(here.join(root)).unwrap_or_else(|_| root.to_owned()))?
        }
        // The environment that pip and uv change by default.
        (None, Manager::Pip) => {
            "\"${VIRTUAL_ENV:-$(python3 -c 'import sys; print(sys.prefix)')}\"".to_owned()
        }
        (None, Manager::Uv) => "\"${VIRTUAL_ENV:-$PWD/.venv}\"".to_owned(),
        (None, Manager::Apt | Manager::Dnf | Manager::Zypper) => "/".to_owned(),
    };
    let gpu = match gpu {
        None => String::new(),
        Some(text) => {
            format!(" --gpu {}", project.known_gpu(text)?)
        }
    };
    // The path of the installed program stays valid after an update, unlike the path of a build.
    let program = match environment::program_as_installed() {
        Some(path) => path,
        None => environment::program()?,
    };
    let program = plain(&program)?;
    // The hook may run in any folder. With `-C /`, the built-in patches are used.
    let folder = match project.folder() {
        Some(folder) if !patches::are_built_in(project)? => plain(folder)?,
        _ => "/".to_owned(),
    };
    let command =
        format!("{program} -C {folder} patch apply --when auto --root {root}{gpu} --write");
    Ok(match manager {
        Manager::Apt => apt(&command),
        Manager::Dnf => dnf(&command),
        Manager::Zypper => zypper(&command),
        Manager::Pip => wrapper("pip", "install\\ *", &command),
        Manager::Uv => wrapper("uv", "pip\\ install\\ *|pip\\ sync\\ *|sync\\ *|add\\ *", &command),
    })
}

/// Returns a path that needs no quotes in any hook.
fn plain(path: &Path) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    match path.to_str().filter(|text| text.chars().all(is_plain)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::new(
            Kind::Input,
            format!("`{}` cannot be used in a hook", path.display()),
        )
        .hint("hooks accept only letters, digits and `/._+-` in paths; move or link the folder")),
    }
}

/// Returns the hook for apt. A failed command must not fail apt, because the packages are already
/// installed.
fn apt(command: &str) -> String {
    format!(
        "// Written by `build-pipeline patch hook apt`. Save it as /etc/apt/apt.conf.d/90build-pipeline-patches\n\
// and check it with `apt-config dump DPkg::Post-Invoke`.\n\
DPkg::Post-Invoke {{ \"{command} || echo 'build-pipeline: the patches were not applied again' >&2\"; }};\n"
    )
}

/// Returns the lines for dnf 4 and dnf 5.
fn dnf(command: &str) -> String {
    format!(
        "# Written by `build-pipeline patch hook dnf`. Tested with dnf 4; the line for dnf 5 is based on its manual and untested.\n\
# dnf 5 (package libdnf5-plugin-actions): put the next line into\n\
# /etc/dnf/libdnf5-plugins/actions.d/build-pipeline-patches.actions\n\
post_transaction::::{command}\n\
# dnf 4 (package python3-dnf-plugin-post-transaction-actions): put the next line, without its `#`, into\n\
# /etc/dnf/plugins/post-transaction-actions.d/build-pipeline-patches.action\n\
#*:in:{command}\n"
    )
}

/// Returns a shell function that runs `program`, and then runs the command if `program` may have
/// changed packages. If `program` fails, the function returns its exit code.
fn wrapper(program: &str, changing: &str, command: &str) -> String {
    format!(
        "# Written by `build-pipeline patch hook {program}`. {program} has no hooks.\n\
# Put this function into ~/.bashrc. It works in that shell only: not in scripts, and not for\n\
# other ways to call {program}, such as `python3 -m {program}` or another installer.\n\
{program}() {{\n\
\x20 command {program} \"$@\" || return\n\
\x20 case \"$* \" in\n\
\x20   {changing}) {command} >&2 || echo 'build-pipeline: the patches were not applied again' >&2 ;;\n\
\x20 esac\n\
}}\n"
    )
}

/// Returns the hook for zypper. A plugin must answer each message; messages end with a NUL.
fn zypper(command: &str) -> String {
    format!(
        "#!/bin/bash\n\
# Written by `build-pipeline patch hook zypper`.\n\
# Save it as /usr/lib/zypp/plugins/system/build-pipeline-patches and make it executable.\n\
while IFS= read -r -d '' message; do\n\
\x20 message=${{message#$'\\n'}}\n\
\x20 case ${{message%%$'\\n'*}} in\n\
\x20   PACKAGESETCHANGED) {command} >&2 || echo 'build-pipeline: the patches were not applied again' >&2 ;;\n\
\x20 esac\n\
\x20 printf 'ACK\\n\\n\\0'\n\
done\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_a_shell_would_act_on_are_refused() {
        for path in ["/a b", "/a\"b", "/a;b", "/$a", "/a'b", "/a\nb", "/ä", "/a:b"] {
            assert!(plain(Path::new(path)).is_err(), "{path}");
        }
        assert!(plain(Path::new("/usr/lib/python3.12+x/a-b_c")).is_ok());
    }
}
