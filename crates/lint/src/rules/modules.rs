//! Python packages that overwrite each other's files.

use crate::data::{ModuleRow, data};
use crate::facts::Package;
use crate::pyproject;
use crate::python::package;
use crate::{Context, Facts, Findings, Hit, Kind};

/// Checks for two packages with the same module in one environment.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_list = matches!(facts.kind, Kind::Dockerfile | Kind::Requirements);
    // The two packages can be in different branches or environments.
    let is_open = ["uninstall", "else", "elif", "case ", "--target"];
    if !is_list || is_open.iter().any(|text| facts.code.contains(text)) {
        return;
    }
    let project = dependencies(facts, context);
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
        } else if let Some((first, second)) = of_project(row, &project, &packages) {
            let message = format!(
                "`{first}` of `pyproject.toml` and `{}` both contain the module `{}`",
                second.name, row.module
            );
            let hit = Hit::new("packages-same-module", second.line, message);
            found.hit(hit.help(format!(
                "uninstall `{first}` before, or leave it out of the project's dependencies"
            )));
        }
    }
}

/// Returns the packages that the project of a Dockerfile needs, if a command installs it.
fn dependencies(facts: &Facts<'_>, context: Context<'_>) -> Vec<String> {
    let installs = ["uv sync", "pip install .", "pip install -e .", "pip install --no-cache-dir ."];
    let is_installed = facts.kind == Kind::Dockerfile
        && installs.iter().any(|text| facts.code.contains(text))
        && facts.code.contains("COPY ")
        && !facts.code.contains("git clone")
        && !facts.code.contains("--no-deps");
    let files = context.exists.filter(|_| is_installed);
    let file = files.and_then(|files| files.in_context(facts.file, "pyproject.toml"));
    let project = file.and_then(|own| pyproject::read(&own)).unwrap_or_default();
    let names = project.dependencies.iter().filter(|text| !text.contains(';'));
    names.filter_map(|text| Some(package(text, 0)?.name)).collect()
}

/// Returns a package of the project and one of a command that contain the same module.
fn of_project<'p>(
    row: &ModuleRow,
    project: &'p [String],
    packages: &[&'p Package],
) -> Option<(&'p str, &'p Package)> {
    let own = project.iter().find(|name| row.packages.contains(name))?;
    let other = packages.iter().find(|one| one.name != *own)?;
    Some((own, other))
}
