//! Reads what rules need of a `pyproject.toml`.

use std::collections::BTreeSet;

use ::pins::reader::{Entry, Report, Table, document};

/// What a `pyproject.toml` says about its package.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Project {
    /// The packages that it needs, without those of extras.
    pub(crate) dependencies: Vec<String>,
    /// The names of its extras, in the form in which they are compared; `None` if another file
    /// defines them.
    pub(crate) extras: Option<BTreeSet<String>>,
    /// The Python that it needs: `>=3.10,<3.13`.
    pub(crate) python: Option<String>,
    /// The path of the file with its description.
    pub(crate) readme: Option<String>,
    /// The program that builds it: `hatchling.build`.
    pub(crate) backend: Option<String>,
    /// Whether it has settings for uv, such as indexes.
    pub(crate) has_uv: bool,
}

/// Reads a `pyproject.toml`; `None` if it is not TOML, or has no table `project`.
pub(crate) fn read(text: &str) -> Option<Project> {
    let mut report = Report::new("pyproject.toml", text);
    let entries = document(&mut report).ok()?;
    let root = Table::root(&mut report, &entries).ok()?;
    let project = table(&root, "project")?;
    let is_dynamic = |name: &str| texts(project.get("dynamic")).iter().any(|one| one == name);
    let own = table(&project, "optional-dependencies");
    let names = own.into_iter().flat_map(|table| table.entries()).map(|entry| normal(entry.key));
    let tool = table(&root, "tool");
    let poetry = tool.and_then(|tool| table(&tool, "poetry"));
    let of_poetry = poetry.and_then(|poetry| table(&poetry, "extras"));
    let of_poetry = of_poetry.into_iter().flat_map(|table| table.entries());
    let extras = names.chain(of_poetry.map(|entry| normal(entry.key))).collect();
    let value = |key: &str| project.get(key).and_then(|entry| entry.text());
    let readme = value("readme").or_else(|| table(&project, "readme")?.get("file")?.text());
    let backend = table(&root, "build-system").and_then(|one| one.get("build-backend")?.text());
    Some(Project {
        dependencies: texts(project.get("dependencies")),
        extras: (!is_dynamic("optional-dependencies")).then_some(extras),
        python: value("requires-python").map(str::to_owned),
        readme: readme.map(str::to_owned),
        backend: backend.map(str::to_owned),
        has_uv: tool.is_some_and(|tool| tool.get("uv").is_some()),
    })
}

/// Returns the name of an extra in the form in which names are compared.
pub(crate) fn normal(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(['_', '.'], "-")
}

fn table<'t>(parent: &Table<'t>, key: &str) -> Option<Table<'t>> {
    parent.get(key)?.as_table()
}

fn texts(entry: Option<Entry<'_>>) -> Vec<String> {
    let items = entry.and_then(|entry| entry.items()).unwrap_or_default();
    items.iter().filter_map(|item| item.text().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_read() {
        let text = "[build-system]\nbuild-backend = \"hatchling.build\"\n[project]\nreadme = { file = \"README.md\" }\nrequires-python = \">=3.11\"\ndependencies = [\"torch>=2.4\", \"b\"]\n[project.optional-dependencies]\nDev_All = []\n[tool.uv]\n";
        let project = read(text).unwrap();
        assert_eq!(project.dependencies, ["torch>=2.4", "b"]);
        assert_eq!(project.extras, Some(BTreeSet::from(["dev-all".to_owned()])));
        assert_eq!(project.python.as_deref(), Some(">=3.11"));
        assert_eq!(project.readme.as_deref(), Some("README.md"));
        assert_eq!(project.backend.as_deref(), Some("hatchling.build"));
        assert!(project.has_uv);
        let dynamic = "[project]\ndynamic = [\"optional-dependencies\"]\n";
        assert_eq!(read(dynamic).and_then(|one| one.extras), None);
        assert_eq!(read("[tool.poetry]\nname = \"a\"\n"), None);
        assert_eq!(read("[project\n"), None);
    }
}
