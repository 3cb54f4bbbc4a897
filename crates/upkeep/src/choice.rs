//! Chooses among tags or releases: the one that a name refers to, the newest one, and the
//! neighbours of a missing one.
//!
//! Names are sorted by version, not alphabetically. Pre-releases count only if a pre-release is
//! pinned or requested. This module works on lists of names and makes no requests.

use names::Version;

/// A tag or release whose name is a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    /// The upstream spelling, for example `v0.11.0`.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: Version,
}

/// The releases of one project, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Releases(Vec<Release>);

/// The releases around a version that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbours {
    pub(crate) below: Option<String>,
    pub(crate) above: Option<String>,
    pub(crate) newest: Option<String>,
}

/// Returns the version in a tag's name: `v0.11.0`, `release/1.2`, `b9010`.
pub(crate) fn version_of(name: &str) -> Option<Version> {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.contains(|c: char| c.is_ascii_digit()).then(|| name.parse().ok()).flatten()
}

/// Returns the version as `versions.toml` writes it: without a `v` or path at the start.
pub(crate) fn version_text(name: &str) -> Option<String> {
    let version = version_of(name)?;
    let text = version.as_str();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_digit() || c == 'b').then(|| text.to_owned())
}

/// The text before the last `/`, and whether the names are build numbers (`b9010`). Names of
/// different families are not versions of the same thing.
fn family(name: &str) -> (&str, bool) {
    let (path, last) = name.rsplit_once('/').unwrap_or(("", name));
    let is_build =
        last.strip_prefix('b').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    (path, is_build)
}

impl Releases {
    /// Sorts `names` by version. Leaves out names that are not versions or not in the family of
    /// `like`. If `like` is not a version, uses the larger of the two families without a `/`.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>, like: Option<&str>) -> Self {
        let mut all: Vec<Release> = names
            .into_iter()
            .filter_map(|name| Some(Release { name: name.to_owned(), version: version_of(name)? }))
            .collect();
        let wanted = like.filter(|like| version_of(like).is_some()).map(family);
        let wanted = wanted.map(|(path, is_build)| (path.to_owned(), is_build)).or_else(|| {
            let flat = all.iter().map(|one| family(&one.name)).filter(|(path, _)| path.is_empty());
            let (builds, others): (Vec<_>, Vec<_>) = flat.partition(|(_, is_build)| *is_build);
            Some((String::new(), builds.len() > others.len()))
        });
        all.retain(|one| {
            wanted
                .as_ref()
                .is_none_or(|(path, is_build)| family(&one.name) == (path.as_str(), *is_build))
        });
        all.sort_by(|one, other| {
            one.version.cmp(&other.version).then_with(|| one.name.cmp(&other.name))
        });
        Self(all)
    }

    /// Returns the newest release. Returns a pre-release only if `with_pre` allows it or if there
    /// is no other release.
    pub(crate) fn newest(&self, with_pre: bool) -> Option<&Release> {
        let is_final = |one: &&Release| with_pre || !one.version.is_pre_release();
        self.0.iter().rev().find(is_final).or_else(|| self.0.last())
    }

    /// Returns the releases closest to a version that is not in the list.
    pub(crate) fn neighbours(&self, of: &Version) -> Neighbours {
        let with_pre = of.is_pre_release();
        let counts = |one: &&Release| with_pre || !one.version.is_pre_release();
        let name = |one: Option<&Release>| one.map(|one| one.name.clone());
        Neighbours {
            below: name(self.0.iter().rev().filter(counts).find(|one| one.version < *of)),
            above: name(self.0.iter().filter(counts).find(|one| one.version > *of)),
            newest: name(self.newest(false)),
        }
    }
}

/// The pattern of an image's tag: a version, with the text before and after it. `7.2.3-complete`
/// and `7.2.4-complete` have the same pattern; `7.2.4`, `13` and `13.2` each have a different one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagForm<'a> {
    before: &'a str,
    version: Vec<u64>,
    behind: &'a str,
}

impl<'a> TagForm<'a> {
    /// Returns the pattern of a tag, based on its first number, or `None` if it has no number.
    pub(crate) fn of(tag: &'a str) -> Option<Self> {
        let start = tag.find(|c: char| c.is_ascii_digit())?;
        let rest = &tag[start..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches('.');
        let version = number.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        Some(Self { before: &tag[..start], version, behind: &rest[number.len()..] })
    }

    /// Returns the newest of `tags` that has this pattern and is newer than this tag. Skips tags
    /// whose first number is far larger: next to `44`, `20260101` is a date.
    pub(crate) fn newer<'t>(&self, tags: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
        let forms = tags.into_iter().filter_map(|tag| Some((TagForm::of(tag)?, tag)));
        let is_newer = |form: &TagForm<'_>| {
            let same = form.before == self.before
                && form.behind == self.behind
                && form.version.len() == self.version.len();
            let first = |version: &[u64]| version.first().copied().unwrap_or(0);
            let (own, other) = (first(&self.version), first(&form.version));
            same && form.version > self.version && other < own.saturating_add(10).saturating_mul(10)
        };
        let newer = forms.filter(|(form, _)| is_newer(form));
        newer.max_by(|(one, _), (other, _)| one.version.cmp(&other.version)).map(|(_, tag)| tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: [&str; 9] = [
        "v0.10.2",
        "v0.9.2",
        "v0.10.1.1",
        "v0.11.0",
        "v0.33.0",
        "v0.34.0rc1",
        "v0.11.0rc2",
        "ciflow/trunk/1",
        "v0.10.2rc3",
    ];

    fn around(names: &[&str], version: &str) -> [Option<String>; 3] {
        let found = Releases::new(names.iter().copied(), Some(version))
            .neighbours(&version_of(version).unwrap());
        [found.below, found.above, found.newest]
    }

    fn some(names: [&str; 3]) -> [Option<String>; 3] {
        names.map(|name| (!name.is_empty()).then(|| name.to_owned()))
    }

    #[test]
    fn neighbours_are_found_by_version_and_not_by_letters() {
        assert_eq!(around(&VLLM, "v0.10.3"), some(["v0.10.2", "v0.11.0", "v0.33.0"]));
        assert_eq!(around(&VLLM, "0.10.0"), some(["v0.9.2", "v0.10.1.1", "v0.33.0"]));
        assert_eq!(around(&VLLM, "v1.0"), some(["v0.33.0", "", "v0.33.0"]));
        assert_eq!(around(&VLLM, "v0.1"), some(["", "v0.9.2", "v0.33.0"]));
        // A request for a pre-release also shows pre-releases.
        assert_eq!(around(&VLLM, "v0.11.0rc1"), some(["v0.10.2", "v0.11.0rc2", "v0.33.0"]));
        assert_eq!(around(&["b9", "b10", "v1.0"], "b11"), some(["b10", "", "b10"]));
        assert_eq!(
            around(&["rocm-7/v1", "rocm-7/v3", "v2"], "rocm-7/v2"),
            some(["rocm-7/v1", "rocm-7/v3", "rocm-7/v3"])
        );
        assert_eq!(around(&[], "v1"), some(["", "", ""]));
    }

    #[test]
    fn the_newest_is_final_unless_asked_otherwise() {
        let newest = |names: &[&str], like: Option<&str>, pre| {
            Releases::new(names.iter().copied(), like).newest(pre).map(|one| one.name.clone())
        };
        assert_eq!(newest(&VLLM, Some("v0.10.2"), false).unwrap(), "v0.33.0");
        assert_eq!(newest(&VLLM, Some("v0.10.2rc1"), true).unwrap(), "v0.34.0rc1");
        // All releases of AOTriton have a letter.
        assert_eq!(newest(&["0.10b", "0.11.1b"], Some("0.10b"), false).unwrap(), "0.11.1b");
        // llama.cpp has a few tags with other patterns among thousands of builds.
        assert_eq!(newest(&["b9", "b10", "b11", "v1.0", "v2.0"], None, false).unwrap(), "b11");
        assert_eq!(newest(&["main", "nightly"], None, false), None);
    }

    #[test]
    fn a_newer_tag_has_the_same_form() {
        for (own, others, newer) in [
            (
                "v0.19.0",
                &["v0.9.0", "v0.23.0", "v0.24.0-rc1", "v0.24.0rc1", "latest"][..],
                Some("v0.23.0"),
            ),
            (
                "7.2.3-complete",
                &["7.2.4", "7.2.4-complete", "8.0-complete"],
                Some("7.2.4-complete"),
            ),
            ("44", &["43", "45", "20261101", "45-x86_64", "44.1"], Some("45")),
            ("24.04", &["26.04", "24.04.1", "noble-20260101"], Some("26.04")),
            ("13", &["13.2", "trixie"], None),
            (
                "nightly_main_20260211",
                &["nightly_main_20260301", "nightly_main"],
                Some("nightly_main_20260301"),
            ),
            (
                "rocm7.1.1_navi_py3.12_vllm_0.10.2rc1",
                &["rocm7.2.1_navi_py3.12_vllm_0.10.2rc1", "rocm7.2.1_navi_py3.12_vllm_0.11.0"],
                Some("rocm7.2.1_navi_py3.12_vllm_0.10.2rc1"),
            ),
            ("0.6.2", &["0.6.2-rocm", "0.6.1"], None),
            ("1.99999999999999999999", &["2.0"], None),
        ] {
            let found = TagForm::of(own).and_then(|form| form.newer(others.iter().copied()));
            assert_eq!(found, newer, "{own}");
        }
        assert_eq!(TagForm::of("rocm"), None);
    }

    #[test]
    fn versions_are_written_as_the_file_has_them() {
        for (name, version) in [
            ("v0.11.0", Some("0.11.0")),
            ("release/v1.2", Some("1.2")),
            ("b9010", Some("b9010")),
            ("0.11.1b", Some("0.11.1b")),
            ("main", None),
            ("main_perf", None),
            ("v2.7.4-cktile", None),
        ] {
            assert_eq!(version_text(name).as_deref(), version, "{name}");
        }
    }
}
