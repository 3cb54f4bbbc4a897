//! `patch hook`: prints what makes a package manager apply the patches anew after an upgrade.
//!
//! Nothing is installed. The hook of apt is checked in a test with `apt-config`. Those of dnf 4 and
//! zypper (dnf-post-transaction-actions(8), "System plugin" of libzypp's documentation) were run by
//! hand: dnf 4.23 and zypper 1.14.89 of Debian 13 installed and upgraded a package of RPM. That of
//! dnf 5 is written after libdnf5-actions(8) and was not run.

use std::path::Path;

use crate::commands::patch::args::{Hook, Manager};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::project::Project;
use crate::{environment, output};

/// Prints a hook.
pub(crate) fn run(here: &Path, project: &Project, args: &Hook) -> Result<(), CommandError> {
    let root = std::path::absolute(here.join(&args.root)).unwrap_or_else(|_| args.root.clone());
    let gpu = match &args.gpu {
        None => String::new(),
        Some(text) => {
            let target: names::GpuTarget = text.parse().map_err(|error| {
                CommandError::from_chain(ExitCode::Input, &error)
                    .hint("a target looks like `gfx1151`")
            })?;
            format!(" --gpu {target}")
        }
    };
    let program = environment::program()?;
    let (program, project, root) = (plain(&program)?, plain(&project.root)?, plain(&root)?);
    let command =
        format!("{program} -C {project} patch apply --when auto --root {root}{gpu} --write");
    output::result(&match args.manager {
        Manager::Apt => apt(&command),
        Manager::Dnf => dnf(&command),
        Manager::Zypper => zypper(&command),
    })
}

/// Returns a path that every hook can hold without quotes.
fn plain(path: &Path) -> Result<String, CommandError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    match path.to_str().filter(|text| text.chars().all(is_plain)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(CommandError::new(
            ExitCode::Input,
            format!("`{}` cannot stand in a hook", path.display()),
        )
        .hint("hooks take paths of letters, digits and `/._+-`; move or link the folder")),
    }
}

/// A failure must not end apt with an error: the packages are installed by then.
fn apt(command: &str) -> String {
    format!(
        "// Made by `build-pipeline patch hook apt`. Put it into /etc/apt/apt.conf.d/90build-pipeline-patches\n\
         // and look at it with `apt-config dump DPkg::Post-Invoke`.\n\
         DPkg::Post-Invoke {{ \"{command} || echo 'build-pipeline: the patches were not applied anew' >&2\"; }};\n"
    )
}

fn dnf(command: &str) -> String {
    format!(
        "# Made by `build-pipeline patch hook dnf`. Tried with dnf 4; for dnf 5 written after its manual.\n\
         # dnf 5 (package libdnf5-plugin-actions): put the next line into\n\
         # /etc/dnf/libdnf5-plugins/actions.d/build-pipeline-patches.actions\n\
         post_transaction::::{command}\n\
         # dnf 4 (package python3-dnf-plugin-post-transaction-actions): put the next line, without its `#`, into\n\
         # /etc/dnf/plugins/post-transaction-actions.d/build-pipeline-patches.action\n\
         #*:in:{command}\n"
    )
}

/// A plugin answers each message; messages end with a NUL.
fn zypper(command: &str) -> String {
    format!(
        "#!/bin/bash\n\
         # Made by `build-pipeline patch hook zypper`.\n\
         # Put it into /usr/lib/zypp/plugins/system/build-pipeline-patches and make it executable.\n\
         while IFS= read -r -d '' message; do\n\
         \x20 message=${{message#$'\\n'}}\n\
         \x20 case ${{message%%$'\\n'*}} in\n\
         \x20   PACKAGESETCHANGED) {command} >&2 || echo 'build-pipeline: the patches were not applied anew' >&2 ;;\n\
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
