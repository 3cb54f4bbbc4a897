//! What the Python index has, from generated data: the names of its packages.
//!
//! `cargo xtask index python` writes the data. The program contains it as it is, and reads it only
//! when a file installs packages.

pub mod names;

use std::sync::LazyLock;

use names::Names;

/// All names, as [`names::encode`] writes them.
const ALL: &[u8] = include_bytes!("python/names.bin");

/// The packages that are downloaded most often, the most frequent first.
const POPULAR: &str = include_str!("python/popular.txt");

/// A test proves that the data is valid.
static NAMES: LazyLock<Option<Names<'static>>> = LazyLock::new(|| Names::read(ALL));

/// Returns a name in the form in which the index compares names: in lower case, with one dash
/// between its parts.
pub fn normal(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The names of the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index(Names<'static>);

impl Index {
    /// Returns the names of the index.
    pub(crate) fn python() -> Option<Self> {
        NAMES.map(Self)
    }

    /// Returns whether the index certainly has no package of this name.
    pub(crate) fn lacks(self, name: &str) -> bool {
        !self.0.contains(&normal(name))
    }

    /// The date on which the names were listed, `YYYY-MM-DD`.
    pub(crate) fn date(self) -> &'static str {
        self.0.date
    }
}

/// Parts of names that people add, or leave out.
const AFFIXES: [&str; 4] = ["python-", "py", "-python", "s"];

/// The shortest name that is compared letter by letter. Shorter names resemble too many others.
const LONG: usize = 6;

/// Returns the popular package whose name a name was probably meant to be: `torchaudio` for
/// `torch-audio`.
pub(crate) fn near(name: &str) -> Option<&'static str> {
    let wanted = normal(name);
    let plain = wanted.replace('-', "");
    let all = || POPULAR.lines();
    // Only a name of about the same length can differ by an affix.
    let longest = AFFIXES.map(str::len).into_iter().max().unwrap_or_default();
    let hyphens = wanted.len() - plain.len();
    let with = |one: &str| {
        if one.len().abs_diff(wanted.len()) > longest + hyphens + one.matches('-').count() {
            return false;
        }
        let other = one.replace('-', "");
        AFFIXES.iter().any(|affix| {
            let affix = affix.trim_matches('-');
            let has = |long: &str, short: &str| {
                long.strip_prefix(affix) == Some(short) || long.strip_suffix(affix) == Some(short)
            };
            has(&other, &plain) || has(&plain, &other)
        })
    };
    let is_near = |one: &str| {
        plain.len() >= LONG
            && one.len().abs_diff(wanted.len()) <= 1
            && strsim::osa_distance(one, &wanted) <= 1
    };
    all()
        .find(|one| one.bytes().filter(|byte| *byte != b'-').eq(plain.bytes()))
        .or_else(|| all().find(|one| is_near(one) || with(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_the_popular_names_and_not_others() {
        let index = Index::python().unwrap();
        let missing: Vec<&str> = POPULAR.lines().filter(|name| index.lacks(name)).collect();
        assert_eq!(missing, [""; 0]);
        assert!(POPULAR.lines().count() > 10_000 && index.0.count > 500_000);
        assert!(POPULAR.lines().all(|name| normal(name) == name));
        for name in ["torch-audio", "opencv_python_contrib", "cv2", "git", "hugginface_hub"] {
            assert!(index.lacks(name), "{name}");
        }
        assert!(!index.lacks("Ruamel.YAML__clib"));
    }

    #[test]
    fn a_wrong_name_has_the_popular_one_that_is_meant() {
        for (name, expected) in [
            ("torch-audio", Some("torchaudio")),
            ("hugginface_hub", Some("huggingface-hub")),
            ("transformer", Some("transformers")),
            ("dateutil", Some("python-dateutil")),
            ("numppy", Some("numpy")),
            ("qqqqqqqqqq", None),
            ("xattn", None),
        ] {
            assert_eq!(near(name), expected, "{name}");
        }
    }
}
