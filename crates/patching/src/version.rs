//! Detects the version of a tree from the files that its packaging wrote.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use failure::{Failure, Kind};
use names::Sha256;
use names::Version;
use patcher::{Patch, Tree, TreePath};
use regex::Regex;

use crate::receipts::hash;
use crate::rooted::Rooted;

/// `__version__ = "1.2.3"`, and the form of setuptools-scm, which also assigns a second name.
const PYTHON: &str =
    r#"(?m)^__version__[ \t]*(?::[^=\n]*)?=[ \t]*(?:version[ \t]*=[ \t]*)?["']([^"'\n]+)["']"#;

/// A version string in setup.py.
const SETUP: &str = r#"(?m)^[ \t]*version[ \t]*=[ \t]*["']([0-9][^"'\n]*)["']"#;

/// A component, the names of its Python packages, and the files that contain its version.
type Source = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// Where to find the version of each component, most reliable place first. Metadata of Python
/// packages takes precedence over these places.
const SOURCES: [Source; 5] = [
    ("vllm", &["vllm"], &[("vllm/_version.py", PYTHON), ("vllm/version.py", PYTHON)]),
    ("flash-attention", &["flash-attn"], &[("flash_attn/__init__.py", PYTHON)]),
    ("aiter", &["amd-aiter", "aiter"], &[("aiter/_version.py", PYTHON)]),
    ("pytorch", &["torch"], &[("torch/version.py", PYTHON), ("version.txt", r"\A\s*(\S+)")]),
    (
        "therock",
        &["rocm", "rocm-sdk-core", "rocm-sdk"],
        &[
            (NEXT_RELEASE, r#""rocm-version"[ \t]*:[ \t]*"([^"]+)""#),
            ("rocm_sdk/_dist_info.py", PYTHON),
        ],
    ),
];

/// A version, and where it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The version.
    pub version: Version,
    /// Where it was found.
    pub from: String,
}

/// A folder with the metadata of an installed Python package.
#[derive(Debug, Clone)]
pub struct DistInfo {
    /// The name of the folder.
    pub folder: String,
    /// The name of the package.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Returns the installed Python packages whose metadata is in the root of a tree.
pub fn dist_infos(tree: &dyn Rooted) -> Vec<DistInfo> {
    let folders = tree.names().into_iter().filter(|name| name.ends_with(".dist-info"));
    folders
        .filter_map(|folder| {
            let metadata = text(tree, &format!("{folder}/METADATA"))?;
            let (name, version) = name_and_version(&metadata)?;
            Some(DistInfo { folder, name, version })
        })
        .collect()
}

/// Returns the names of a component's Python packages.
pub fn package_names(component: &str) -> Vec<&str> {
    let source = SOURCES.iter().find(|(name, ..)| *name == component);
    source.map_or_else(|| vec![component], |(_, packages, _)| packages.to_vec())
}

/// Returns the folder from which a component's Python package is imported, if it has one.
pub fn package_folder(component: &str) -> Option<&'static str> {
    match component {
        "vllm" => Some("vllm"),
        "flash-attention" => Some("flash_attn"),
        "aiter" => Some("aiter"),
        "pytorch" => Some("torch"),
        "therock" => Some("rocm_sdk"),
        _ => None,
    }
}

/// Returns the version of a component's tree, if the tree contains it.
pub fn detect(tree: &dyn Rooted, component: &str) -> Option<Found> {
    let packages = package_names(component);
    let is_package = |name: &str| packages.contains(&name);
    let parsed =
        |text: &str, from: String| Some(Found { version: text.parse::<Version>().ok()?, from });
    let installed = dist_infos(tree).into_iter().filter(|one| is_package(&one.name));
    if let Some(found) = installed.filter_map(|one| parsed(&one.version, one.folder)).next() {
        return Some(found);
    }
    let from_sdist = text(tree, "PKG-INFO").and_then(|metadata| name_and_version(&metadata));
    if let Some((name, version)) = from_sdist
        && is_package(&name)
        && let Some(found) = parsed(&version, "PKG-INFO".to_owned())
    {
        return Some(found);
    }
    let files = SOURCES.iter().find(|(name, ..)| *name == component).map(|(.., files)| *files);
    files.unwrap_or_default().iter().chain(&[("setup.py", SETUP)]).find_map(|(path, pattern)| {
        let found = Regex::new(pattern).ok()?.captures(&text(tree, path)?)?[1].to_owned();
        parsed(&found, (*path).to_owned())
    })
}

/// A file of a source tree that names the next release, also long before that release.
const NEXT_RELEASE: &str = "version.json";

/// Checks that a version is exact enough to select patches. The versions before a release can have
/// the same number as the release in their sources.
///
/// # Errors
/// Fails if a patch is for only some of the versions that the tree can have.
pub fn check_exact(found: &Found, patches: &[Patch]) -> Result<(), Failure> {
    let Found { version, from } = found;
    let first = format!("{version}.dev0").parse::<Version>().ok();
    let Some(first) = first.filter(|_| from == NEXT_RELEASE) else { return Ok(()) };
    let is_divided = |patch: &&Patch| {
        let range = &patch.applies.versions;
        range.position(&first) != range.position(version)
    };
    match patches.iter().find(is_divided) {
        None => Ok(()),
        Some(patch) => Err(Failure::new(
            Kind::Input,
            format!(
                "`{from}` contains {version}, also in the versions before this release, but `{}` is only for `{}`",
                patch.id, patch.applies.versions
            ),
        )
        .hint(format!(
            "specify the exact version, such as `--version {version}` for the release or `--version {version}aYYYYMMDD` for the nightly of a day"
        ))),
    }
}

/// Returns the version in the name of a folder with a component's sources: `0.6.1`, `v0.6.1`,
/// `ollama-0.6.1` or `ollama-v0.6.1`.
pub fn in_name(component: &str, name: &str) -> Option<Version> {
    let mut packages = package_names(component);
    packages.push(component);
    let is_separator = |c: char| matches!(c, '-' | '_');
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let behind = packages.iter().find_map(|package| {
        let start = name.get(..package.len()).filter(|start| plain(start) == plain(package))?;
        name[start.len()..].strip_prefix(is_separator)
    });
    let text = behind.unwrap_or(name);
    text.strip_prefix('v').unwrap_or(text).parse().ok()
}

/// Returns whether the patches depend on the version.
pub fn is_needed(patches: &[Patch]) -> bool {
    patches.iter().any(|patch| {
        let applies = &patch.applies;
        let is_bounded = applies.versions.has_lower() || applies.versions.has_upper();
        is_bounded || patch.edits.iter().any(|edit| edit.expect.0.len() > 1)
    })
}

/// Returns the files edited by `patches` that match an installed package's RECORD, with their
/// hashes. Files that differ may have been changed on purpose, so they are left out.
pub fn untouched(
    tree: &dyn Rooted,
    component: &str,
    patches: &[Patch],
) -> BTreeMap<TreePath, Sha256> {
    let packages = package_names(component);
    let infos = dist_infos(tree).into_iter().filter(|one| packages.contains(&one.name.as_str()));
    let mut untouched = BTreeMap::new();
    let paths: Vec<&TreePath> =
        patches.iter().flat_map(|patch| &patch.edits).flat_map(|edit| &edit.files).collect();
    for info in infos {
        let Some(record) = text(tree, &format!("{}/RECORD", info.folder)) else { continue };
        for path in &paths {
            let Some(stated) = recorded(&record, path) else { continue };
            let Some(now) = tree.read(path).ok().flatten() else { continue };
            let now = hash(&now);
            if now.as_str() == stated {
                untouched.insert((*path).clone(), now);
            }
        }
    }
    untouched
}

/// Returns the SHA-256 of a path in a RECORD, in hexadecimal digits.
fn recorded(record: &str, path: &TreePath) -> Option<String> {
    let row = record.lines().find_map(|line| {
        line.strip_prefix(path.as_str())?.strip_prefix(",sha256=")?.split(',').next()
    })?;
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(row).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn text(tree: &dyn Tree, path: &str) -> Option<String> {
    let bytes = tree.read(&path.parse().ok()?).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the header of a METADATA or PKG-INFO file. Returns the name normalised according to PEP
/// 503.
fn name_and_version(metadata: &str) -> Option<(String, String)> {
    let head = || metadata.lines().take_while(|line| !line.trim().is_empty());
    let field = |name: &str| head().find_map(|line| Some(line.strip_prefix(name)?.trim()));
    let name = field("Name:")?.to_ascii_lowercase().replace(['_', '.'], "-");
    Some((name, field("Version:")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_packaging_writes() {
        for (pattern, text, version) in [
            (PYTHON, "__version__ = \"2.8.3\"\n", "2.8.3"),
            (PYTHON, "x\n__version__ = version = '0.10.2'\n", "0.10.2"),
            (PYTHON, "__version__: str = '1.0'\n", "1.0"),
            (SETUP, "setup(\n    version=\"1.2.3\",\n", "1.2.3"),
        ] {
            assert_eq!(&Regex::new(pattern).unwrap().captures(text).unwrap()[1], version, "{text}");
        }
        let metadata = "Metadata-Version: 2.1\nName: Flash_Attn\nVersion: 2.8.3\n\nVersion: 9\n";
        assert_eq!(name_and_version(metadata), Some(("flash-attn".to_owned(), "2.8.3".to_owned())));
    }

    #[test]
    fn a_number_that_stands_for_a_release_and_what_came_before_is_not_exact() {
        let text = include_str!("../../../patches/therock/therock-rtld-local.toml");
        let patches = [patcher::parse_patch("therock-rtld-local.toml", text).unwrap()];
        let check = |version: &str, from: &str| {
            let version = version.parse().unwrap();
            check_exact(&Found { version, from: from.to_owned() }, &patches)
        };
        for (version, from) in [
            ("7.10.0", NEXT_RELEASE),
            ("7.12.0", NEXT_RELEASE),
            ("7.11.0", "rocm-7.11.0.dist-info"),
            ("7.11.0a20260113", "--version"),
        ] {
            assert!(check(version, from).is_ok(), "{version} from {from}");
        }
        let told = check("7.11.0", NEXT_RELEASE).unwrap_err();
        assert!(told.hints[0].contains("--version 7.11.0aYYYYMMDD"), "{:?}", told.hints);
    }

    #[test]
    fn the_name_of_a_folder_can_contain_the_version() {
        let of = |component: &str, name: &str| {
            in_name(component, name).map(|version| version.to_string())
        };
        for (component, name, version) in [
            ("ollama", "v0.6.1", "0.6.1"),
            ("ollama", "ollama-0.6.1", "0.6.1"),
            ("ollama", "ollama-v0.6.1", "0.6.1"),
            ("flash-attention", "flash_attn-2.8.3", "2.8.3"),
            ("flash-attention", "flash-attention-2.8.3", "2.8.3"),
            ("aiter", "amd_aiter-0.1.7.post2.dev18", "0.1.7.post2.dev18"),
        ] {
            assert_eq!(of(component, name).as_deref(), Some(version), "{name}");
        }
        for name in ["ollama", "ollama-main", "vllm-0.6.1", "ollama0.6.1", "é"] {
            assert_eq!(of("ollama", name), None, "{name}");
        }
    }

    #[test]
    fn a_record_states_hashes_in_base64() {
        let record = "a/b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nc.py,,\n";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(recorded(record, &"a/b.py".parse().unwrap()).as_deref(), Some(empty));
        assert_eq!(recorded(record, &"c.py".parse().unwrap()), None);
    }
}
