//! Python packages that overwrite each other's files.

use crate::data::data;
use crate::facts::Package;
use crate::{Facts, Findings, Hit, Kind};

/// Checks for two packages with the same module in one environment.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_list = matches!(facts.kind, Kind::Dockerfile | Kind::Requirements);
    // The two packages can be in different branches or environments.
    let is_open = ["uninstall", "else", "elif", "case ", "--target"];
    if !is_list || is_open.iter().any(|text| facts.code.contains(text)) {
        return;
    }
    for row in &data().modules {
        let is_about = |one: &&Package| row.packages.contains(&one.name) && !one.is_special;
        let packages: Vec<&Package> = facts.packages.iter().filter(is_about).collect();
        let pair = packages.iter().enumerate().find_map(|(at, one)| {
            let other = packages[..at].iter().find(|other| other.name != one.name)?;
            (other.stage == one.stage).then_some((*other, *one))
        });
        if let Some((first, second)) = pair {
            let message = format!(
                "`{}` and `{}` both contain the module `{}`",
                first.name, second.name, row.module
            );
            found.hit(Hit::new("packages-same-module", second.line, message));
        }
    }
}
