//! The packages of Debian's releases: `data/debian.gz`, which `cargo xtask index debian` writes.
//!
//! The file is decompressed when a rule asks for a package for the first time.

use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// The compressed text. `xtask/src/debian_index.rs` describes its form.
const BYTES: &[u8] = include_bytes!("../../data/debian.gz");

/// A test proves that the file is valid.
static PACKAGES: LazyLock<Packages> = LazyLock::new(|| Packages::read(BYTES).unwrap_or_default());

/// The packages of releases.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    /// The date of the lists, `YYYY-MM-DD`.
    pub(crate) date: String,
    /// The names of the lists: a release, or a part of it that its images do not use.
    lists: Vec<String>,
    /// The names, one after the other, in order.
    names: String,
    /// For each name its end in `names`, and the bits of the lists that have it.
    ends: Vec<(usize, u16)>,
}

/// Returns the packages of Debian's releases.
pub(crate) fn packages() -> &'static Packages {
    &PACKAGES
}

impl Packages {
    /// Reads a compressed list; `None` if it is damaged.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut text = String::new();
        GzDecoder::new(bytes).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let date = lines.next()?.to_owned();
        let lists = lines.next()?.split('\t').map(str::to_owned).collect();
        let mut all = Self { date, lists, ..Self::default() };
        let mut start = 0;
        for line in lines {
            let same = usize::from(*line.as_bytes().first()?).checked_sub(usize::from(b' '))?;
            let (rest, bits) = line.get(1..)?.rsplit_once(' ')?;
            let end = all.names.len();
            let prefix = start..start + same;
            if same > end - start {
                return None;
            }
            all.names.extend_from_within(prefix);
            all.names.push_str(rest);
            start = end;
            all.ends.push((all.names.len(), u16::from_str_radix(bits, 16).ok()?));
        }
        Some(all)
    }

    /// Returns a name by its number.
    fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.names[start..self.ends[at].0]
    }

    /// Returns whether the packages of a release are known.
    pub(crate) fn knows(&self, release: &str) -> bool {
        self.lists.iter().any(|list| list == release)
    }

    /// Returns the lists that have a package.
    pub(crate) fn lists_of(&self, package: &str) -> Vec<&str> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.name(middle) < package { low = middle + 1 } else { high = middle }
        }
        let bits = self.ends.get(low).filter(|_| self.name(low) == package).map_or(0, |one| one.1);
        let has = |at: usize| bits >> at & 1 == 1;
        let lists = self.lists.iter().enumerate();
        lists.filter(|(at, _)| has(*at)).map(|(_, name)| name.as_str()).collect()
    }

    /// Returns whether a release has a package.
    pub(crate) fn has(&self, release: &str, package: &str) -> bool {
        self.lists_of(package).contains(&release)
    }

    /// Returns the package of a release that is probably meant by a name that it does not have.
    pub(crate) fn near(&self, release: &str, wrong: &str) -> Option<String> {
        let stem = wrong.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
        let plain =
            stem.strip_suffix("-devel").or_else(|| stem.strip_suffix("-dev")).unwrap_or(stem);
        let guesses = [
            format!("{plain}-dev"),
            format!("lib{plain}-dev"),
            format!("{wrong}-dev"),
            wrong.replacen("python-", "python3-", 1),
            wrong.replace('_', "-"),
            format!("{wrong}t64"),
        ];
        let asks_for_headers = wrong.ends_with("-devel") || wrong.ends_with("-dev");
        let fits = |guess: &&String| {
            **guess != wrong
                && (asks_for_headers || !guess.ends_with("-dev"))
                && self.has(release, guess)
        };
        let guess = guesses.iter().find(fits).cloned();
        guess.or_else(|| {
            let is_long = wrong.len() > 4;
            let names = (0..self.ends.len()).map(|at| self.name(at));
            let mut near = names.filter(|name| is_long && is_one_letter_off(wrong, name));
            near.find(|name| self.has(release, name)).map(str::to_owned)
        })
    }

    /// Returns the names in order, for tests.
    #[cfg(test)]
    fn all(&self) -> std::collections::BTreeSet<&str> {
        (0..self.ends.len()).map(|at| self.name(at)).collect()
    }
}

/// Returns whether one text becomes another one if one letter is added, removed or replaced, or two
/// neighbours change places. A digit is not a slip: it belongs to a version.
fn is_one_letter_off(one: &str, other: &str) -> bool {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    let is_letter = a.iter().chain(b).all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
    let is_swap = matches!((a, b), ([x, y], [v, w]) if x == w && y == v);
    is_letter && (a.len() <= 1 && b.len() <= 1 || is_swap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_complete_and_in_order() {
        let all = packages();
        assert!(all.ends.len() > 80_000, "{}", all.ends.len());
        assert!(all.lists.len() > 4 && all.date.len() == 10);
        assert_eq!(all.all().len(), all.ends.len(), "a name is there twice");
        let names = (1..all.ends.len()).find(|at| all.name(at - 1) >= all.name(*at));
        assert_eq!(names, None, "the names are in order");
        for (package, release, expected) in [
            ("git", "Debian 13", true),
            ("podman", "Debian 12", true),
            ("libgl1-mesa-glx", "Debian 12", true),
            ("libgl1-mesa-glx", "Debian 13", false),
            // Only another package provides it.
            ("awk", "Debian 13", true),
            ("rocm-dev-tools", "Debian 13", false),
            ("zzz", "Debian 13", false),
            ("", "Debian 13", false),
            ("git", "Debian 99", false),
        ] {
            assert_eq!(all.has(release, package), expected, "{package} {release}");
        }
        assert!(BYTES.len() < 1_200_000, "{}", BYTES.len());
    }

    #[test]
    fn the_name_that_is_meant_is_found() {
        for (wrong, expected) in [
            ("zlib1g-devel", Some("zlib1g-dev")),
            ("libcurl", None),
            ("python-numpy", Some("python3-numpy")),
            ("ninja-biuld", Some("ninja-build")),
            ("build-essentials", Some("build-essential")),
            ("clang-7", None),
            ("rocm-dev-tools", None),
        ] {
            assert_eq!(packages().near("Debian 13", wrong).as_deref(), expected, "{wrong}");
        }
    }

    #[test]
    fn a_damaged_list_is_refused() {
        for text in
            ["", "2026-11-30", "2026-11-30\nA\n a\n", "2026-11-30\nA\n!a 1\n", "d\nA\n a x\n"]
        {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
            assert!(Packages::read(&gzip.finish().unwrap()).is_none(), "{text}");
        }
        assert!(Packages::read(b"no gzip").is_none());
    }
}
