//! `index debian`: lists the packages of Debian's releases in `crates/lint/data/debian.gz`.
//!
//! apt downloads the lists and checks their signatures. It uses a folder of its own, so the
//! machine's configuration is neither read nor changed.
//!
//! The file is compressed text. Its first line contains the date, the second one the names of the
//! releases, and each further line a package: the number of bytes that its name shares with the one
//! before (as one character, from a space on), the rest of the name, a space, and a number whose
//! bits are the releases that have the package, in hexadecimal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::run::{output, root};
use crate::{facts, say};

/// The data file.
pub(crate) const FILE: &str = "crates/lint/data/debian.gz";

/// The keys with which Debian signs its lists.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The components of Debian that its images do not use.
const OTHERS: &str = "contrib non-free";

/// A release: its name in messages, the suites that its images use, and whether it has the component
/// `non-free-firmware`.
struct Release {
    name: &'static str,
    code: &'static str,
    has_firmware: bool,
    has_backports: bool,
}

const RELEASES: [Release; 4] = [
    Release { name: "Debian 11", code: "bullseye", has_firmware: false, has_backports: false },
    Release { name: "Debian 12", code: "bookworm", has_firmware: true, has_backports: true },
    Release { name: "Debian 13", code: "trixie", has_firmware: true, has_backports: true },
    Release { name: "Debian unstable", code: "sid", has_firmware: true, has_backports: false },
];

/// The packages by name, with the bits of the lists that have them.
type Packages = BTreeMap<String, u16>;

/// A list of packages: its name in the data file, and the line for apt.
#[derive(Debug, PartialEq, Eq)]
struct List {
    name: String,
    sources: String,
}

/// Downloads the lists, and writes the data file.
pub(crate) fn run() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("index-debian-{}", std::process::id()));
    let all = lists();
    let mut packages = Packages::new();
    for (at, list) in all.iter().enumerate() {
        let text = download(&folder, list);
        // The folder is only for this list.
        let removed = std::fs::remove_dir_all(&folder);
        read(&text?, 1 << at, &mut packages);
        removed?;
    }
    let names: Vec<&str> = all.iter().map(|list| list.name.as_str()).collect();
    let text = encode(&packages, &names, &facts::date()?);
    ensure!(packages.len() > 50_000, "the lists have only {} packages", packages.len());
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(text.as_bytes())?;
    let bytes = gzip.finish()?;
    std::fs::write(root()?.join(FILE), &bytes).with_context(|| FILE.to_owned())?;
    say(&format!("{FILE}: {} packages, {} bytes", packages.len(), bytes.len()));
    Ok(())
}

/// Returns the date of a project's data file, `YYYY-MM-DD`; `None` if the project has none.
pub(crate) fn date(project: &Path) -> Result<Option<String>> {
    let path = project.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).with_context(|| FILE.to_owned())?;
    let first = BufReader::new(GzDecoder::new(file)).lines().next();
    first.transpose().with_context(|| FILE.to_owned())
}

/// Returns the lists to download. What an image can install without a change of its sources has a
/// list of its own.
fn lists() -> Vec<List> {
    let mut lists = Vec::new();
    for Release { name, code, has_firmware, has_backports } in RELEASES {
        let line = |archive: &str, suite: &str, components: &str| {
            format!(
                "deb [arch=amd64 signed-by={KEYS}] http://deb.debian.org/{archive} {suite} {components}\n"
            )
        };
        let firmware = if has_firmware { " non-free-firmware" } else { "" };
        let others = format!("{OTHERS}{firmware}");
        let mut main = line("debian", code, "main");
        if code != "sid" {
            main += &line("debian-security", &format!("{code}-security"), "main");
        }
        lists.push(List { name: name.to_owned(), sources: main });
        lists.push(List {
            name: format!("{name}, other components"),
            sources: line("debian", code, &others),
        });
        if has_backports {
            let sources = line("debian", &format!("{code}-backports"), &format!("main {others}"));
            lists.push(List { name: format!("{code}-backports"), sources });
        }
    }
    lists
}

/// Downloads a list into a folder, and returns its text.
fn download(folder: &Path, list: &List) -> Result<String> {
    for name in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    let sources = folder.join("sources.list");
    std::fs::write(&sources, &list.sources)?;
    std::fs::write(folder.join("status"), "")?;
    let path = |name: &str| folder.join(name).display().to_string();
    let options = [
        format!("-oDir::Etc::SourceList={}", sources.display()),
        "-oDir::Etc::SourceParts=-".to_owned(),
        format!("-oDir::State={}", folder.display()),
        format!("-oDir::State::Lists={}", path("lists")),
        format!("-oDir::State::Status={}", path("status")),
        format!("-oDir::Cache={}", path("cache")),
        "-oAcquire::Languages=none".to_owned(),
        "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "-oAPT::Sandbox::User=root".to_owned(),
        "-oAPT::Update::Error-Mode=any".to_owned(),
    ];
    let with = |rest: &[&'static str]| {
        let mut words: Vec<String> = options.to_vec();
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    };
    let call =
        |words: &[String]| output("apt-get", &words.iter().map(String::as_str).collect::<Vec<_>>());
    say(&format!("+ apt-get update: {}", list.name));
    call(&with(&["update"]))?;
    let files = call(&with(&["indextargets", "--format", "$(FILENAME)", "Created-By: Packages"]))?;
    let files: Vec<&str> = files.lines().collect();
    ensure!(!files.is_empty(), "apt has no list of {}", list.name);
    let words: Vec<&str> = ["cat-file"].into_iter().chain(files).collect();
    output("/usr/lib/apt/apt-helper", &words)
}

/// Adds the packages of a list, also virtual ones.
fn read(text: &str, bit: u16, packages: &mut Packages) {
    let mut add = |name: &str| *packages.entry(name.to_owned()).or_default() |= bit;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Package: ") {
            add(name.trim());
        } else if let Some(names) = line.strip_prefix("Provides: ") {
            let names = names.split(',').filter_map(|one| one.split_whitespace().next());
            let names = names.map(|name| name.split(':').next().unwrap_or(name));
            names.filter(|name| !is_internal(name)).for_each(&mut add);
        }
    }
}

/// Returns whether only other packages use a virtual package: crates of Rust with their features,
/// and interfaces of Haskell's and OCaml's libraries. Half of all names are of this kind.
fn is_internal(name: &str) -> bool {
    let is_rust = name.starts_with("librust-");
    let is_haskell = name.starts_with("libghc-");
    let is_ocaml = name.contains("-ocaml-");
    is_rust || is_haskell || is_ocaml
}

/// Returns the text of the data file.
fn encode(packages: &Packages, lists: &[&str], date: &str) -> String {
    let mut text = format!("{date}\n{}\n", lists.join("\t"));
    let mut last = "";
    for (name, bits) in packages {
        let same = name.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
        // The number must be a printable character.
        let same = u8::try_from(same.min(90)).unwrap_or_default();
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}{} {bits:x}", char::from(b' ' + same), &name[same.into()..]);
        last = name;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_real_and_virtual_packages() {
        let mut packages = Packages::new();
        let text = "Package: git\nVersion: 1:2.47.3-0\nProvides: git-completion, git-core (= 2), a:any\n\n\
            Package: librust-a-dev\nProvides: librust-a+b-dev (= 1)\n";
        read(text, 1, &mut packages);
        read("Package: git\n\nPackage: gitk\n", 4, &mut packages);
        let expected = [
            ("a", 1),
            ("git", 5),
            ("git-completion", 1),
            ("git-core", 1),
            ("gitk", 4),
            ("librust-a-dev", 1),
        ];
        let found: Vec<(&str, u16)> =
            packages.iter().map(|(name, bits)| (name.as_str(), *bits)).collect();
        assert_eq!(found, expected);
        let text = encode(&packages, &["A", "B", "C"], "2026-11-30");
        assert_eq!(
            text,
            "2026-11-30\nA\tB\tC\n a 1\n git 5\n#-completion 1\n&re 1\n#k 4\n librust-a-dev 1\n"
        );
    }

    #[test]
    fn each_release_has_one_list_for_its_images() {
        let names: Vec<String> = lists().into_iter().map(|list| list.name).collect();
        assert_eq!(names.len(), 10);
        assert!(names.len() <= 16, "the bits are 16");
        for Release { name, .. } in RELEASES {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
    }
}
