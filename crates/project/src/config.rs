//! The user's configuration: defaults for options, mirrors, and proxies.
//!
//! The command line and the environment take precedence over it.

use std::path::{Path, PathBuf};

use debian::OldPackages;
use failure::{Failure, Kind};
use names::{EngineKind, Secret};
use pins::ParseError;
use pins::form::{Form, Key};
use pins::reader::{Report, Reported, Table, Wrong, document, quote, wrong};
use sources::{Proxies, ProxyUrl};

use crate::environment;
use crate::folder::read_text;
use crate::mirrors::{Rule, rules};

/// The values of `engine`: `auto`, and the names of all engines.
const ENGINES: [&str; 1 + EngineKind::ALL.len()] = {
    let mut names = ["auto"; 1 + EngineKind::ALL.len()];
    let mut at = 0;
    while at < EngineKind::ALL.len() {
        names[at + 1] = EngineKind::ALL[at].as_str();
        at += 1;
    }
    names
};

/// The form of the file.
pub const FORM: Form = Form::of(
    "Your defaults: `~/.config/build-pipeline/config.toml`. The command line and environment variables \
     take precedence over it.",
    &[&[
        Key::schema(),
        Key::optional(
            "output",
            pins::form::Kind::Text,
            "The default output of builds. It must contain `{track}`.",
            "`oci:dist/{track}`",
            "output = \"oci-archive:images/{track}.tar\"",
        ),
        Key::optional(
            "engine",
            pins::form::Kind::OneOf(&ENGINES),
            "The engine that builds and runs images.",
            "`auto`",
            "engine = \"docker\"",
        ),
        Key::optional(
            "cache",
            pins::form::Kind::Text,
            "The folder for data that can be fetched or built again, as an absolute path.",
            "`~/.cache/build-pipeline`",
            "cache = \"/srv/build-pipeline\"",
        ),
        Key::optional(
            "mirror-only",
            pins::form::Kind::Flag,
            "Whether only the targets of mirror rules and the locations in `old-packages` may be contacted.",
            "`false`",
            "mirror-only = true",
        ),
        Key::optional(
            "old-packages",
            pins::form::Kind::Texts,
            "Locations that keep Debian packages after the mirrors have deleted them: URLs with \
             `{file}` or `{sha256}`, and also `{archive}` or `{time}` if needed.",
            "Debian's snapshot archive",
            "old-packages = [\"file:///srv/packages/{sha256}\"]",
        ),
        Key::optional(
            "store",
            pins::form::Kind::Texts,
            "Stores of finished steps that several machines share: `registry:HOST/NAME` or `dir:PATH`, with `,ro` at the end for a read-only store. `--store` replaces them.",
            "none",
            "store = [\"registry:registry.example.org/steps,ro\", \"dir:/srv/steps\"]",
        ),
        Key::optional(
            "mirrors",
            pins::form::Kind::TextByName,
            "Mirrors: each key is a registry or the start of a URL. Its value is the registry to \
             try first, or the URL that replaces this start. The key `all` is for a copy that \
             `mirror` made in `registry:HOST/NAME` or `dir:PATH`.",
            "none",
            "mirrors.\"docker.io\" = \"registry.example.org/hub\"",
        ),
        Key::optional(
            "proxy",
            pins::form::Kind::Table(&PROXY_FORM),
            "Proxies for all downloads. Proxies in environment variables override them.",
            "none",
            "proxy.https = \"http://proxy.example.org:3128\"",
        ),
    ]],
);

/// The form of `[proxy]`.
const PROXY_FORM: Form = Form::of(
    "Proxies for registries, git servers, package indexes and Debian mirrors. Connections to \
     this machine never use a proxy. A URL may contain a user name and a password, which are never \
     printed.",
    &[&[
        Key::optional(
            "http",
            pins::form::Kind::Text,
            "The proxy for `http://`.",
            "`HTTP_PROXY`, else none",
            "http = \"http://proxy.example.org:3128\"",
        ),
        Key::optional(
            "https",
            pins::form::Kind::Text,
            "The proxy for `https://`.",
            "`HTTPS_PROXY`, else none",
            "https = \"http://proxy.example.org:3128\"",
        ),
        Key::optional(
            "no-proxy",
            pins::form::Kind::Texts,
            "Hosts that are contacted directly: names (including subdomains), addresses, networks, `*`.",
            "`NO_PROXY`, else none",
            "no-proxy = [\"git.example.org\", \"10.0.0.0/8\"]",
        ),
    ]],
);

/// The content of the file. Absent keys mean the program's own defaults.
#[derive(Debug, Default)]
pub struct Config {
    /// The output of builds if the command line specifies none.
    pub output: Option<Secret>,
    /// The value of `--engine`.
    pub engine: Option<&'static str>,
    /// The folder of the cache.
    pub cache: Option<PathBuf>,
    /// Whether only mirrors and the hosts in `old-packages` may be contacted.
    pub mirror_only: bool,
    /// Places that keep Debian packages after the mirrors have deleted them.
    pub(crate) old_packages: Option<Vec<OldPackages>>,
    /// The stores of builds if the command line specifies none.
    pub stores: Vec<Secret>,
    /// The mirrors.
    pub(crate) rules: Vec<Rule>,
    /// The proxies.
    pub(crate) proxies: Proxies,
}

/// Returns the user's configuration; an empty one if there is no file.
///
/// # Errors
/// The file cannot be read, or something in it is wrong.
pub fn read() -> Result<Config, Failure> {
    // A dangling link is a mistake: it must not switch off `mirror-only`.
    let exists = |file: &PathBuf| file.symlink_metadata().is_ok();
    let Some(file) = environment::config_file().filter(exists) else {
        return Ok(Config::default());
    };
    let name = file.display().to_string();
    let text = read_text(&file).map_err(|error| {
        Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
            .hint("correct or remove it; it contains your defaults and mirrors")
    })?;
    parse(&name, &text).map_err(|error| Failure::places(error, text))
}

fn parse(name: &str, text: &str) -> Result<Config, ParseError> {
    let mut report = Report::new(name, text);
    let config = document(&mut report).and_then(|document| {
        let root = Table::root(&mut report, &document)?;
        root.check_form(&mut report, FORM.keys);
        config(&mut report, &root)
    });
    report.finish(config)
}

fn config(report: &mut Report<'_>, root: &Table<'_>) -> Result<Config, Reported> {
    // All problems are collected before the first one is returned.
    let output = root.optional(report, "output", output);
    let engine = root.optional(report, "engine", engine);
    let cache = root.optional(report, "cache", cache);
    let mirror_only = root.flag(report, "mirror-only");
    let old_packages = root.get("old-packages").map(|_| {
        let example = "file:///srv/packages/{sha256}";
        root.texts(report, "old-packages", example, old_packages)
    });
    let stores = root.texts(report, "store", crate::stores::EXAMPLE, store);
    let rules = rules(report, root);
    let proxies = proxies(report, root);
    Ok(Config {
        output: output?,
        engine: engine?,
        cache: cache?,
        mirror_only: mirror_only?,
        old_packages: old_packages.transpose()?,
        stores: stores?,
        rules: rules?,
        proxies: proxies?,
    })
}

/// Reads the table `[proxy]`.
fn proxies(report: &mut Report<'_>, root: &Table<'_>) -> Result<Proxies, Reported> {
    let Some(entry) = root.get("proxy") else { return Ok(Proxies::default()) };
    let table = entry.table(report, "`[proxy]`")?;
    table.check_form(report, PROXY_FORM.keys);
    let url = |text: &str| {
        text.parse::<ProxyUrl>().map_err(|error| {
            wrong(error.to_string(), "write `http://HOST:PORT` or `https://HOST:PORT`")
        })
    };
    let http = table.optional(report, "http", url);
    let https = table.optional(report, "https", url);
    let except = table.texts(report, "no-proxy", "git.example.org", |text| Ok(text.to_owned()));
    Ok(Proxies { http: http?, https: https?, except: except? })
}

fn output(text: &str) -> Result<Secret, Wrong> {
    let output = Secret::from(text);
    if output.is_secret() {
        let message = format!("`output` contains a user name, a password or a token: `{output}`");
        return Err(wrong(message, "write it without them, and log in with `podman login HOST`"));
    }
    if text.contains("{track}") {
        return Ok(output);
    }
    let message = format!("`output` is the same for all tracks: {}", quote(text));
    Err(wrong(message, "write a name with `{track}`, such as `output = \"oci:dist/{track}\"`"))
}

fn engine(text: &str) -> Result<&'static str, Wrong> {
    ENGINES.into_iter().find(|one| *one == text).ok_or_else(|| {
        let all = pins::reader::list(ENGINES);
        wrong(format!("{} is not an engine", quote(text)), format!("the engines are {all}"))
    })
}

fn old_packages(text: &str) -> Result<OldPackages, Wrong> {
    let place = Secret::from(text);
    if place.is_secret() {
        let message = format!("`{place}` contains a user name, a password or a token");
        return Err(wrong(message, "write the URL without them"));
    }
    text.parse().map_err(|error: debian::OldPackagesError| {
        wrong(error.to_string(), "write, for example, `\"file:///srv/packages/{sha256}\"`")
    })
}

fn store(text: &str) -> Result<Secret, Wrong> {
    let store = Secret::from(text);
    if store.is_secret() {
        let message = format!("`{store}` contains a user name, a password or a token");
        return Err(wrong(message, "write it without them, and log in with `podman login HOST`"));
    }
    match text.parse::<executor::SharedStore>() {
        Ok(_) => Ok(store),
        Err(error) => {
            let example = crate::stores::EXAMPLE;
            Err(wrong(error.to_string(), format!("write, for example, `store = [\"{example}\"]`")))
        }
    }
}

fn cache(text: &str) -> Result<PathBuf, Wrong> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let message = format!("`cache` is not an absolute path: {}", quote(text));
    Err(wrong(
        message,
        "write a path that starts with `/`, such as `cache = \"/srv/build-pipeline\"`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_every_key() {
        let text = "schema = 1\noutput = \"oci:out/{track}\"\nengine = \"docker\"\n\
                    cache = \"/srv/cache\"\nmirror-only = true\n\
                    old-packages = [\"https://old.example.org/{file}\"]\n\
                    store = [\"dir:/srv/steps,ro\"]\n[mirrors]\n\"docker.io\" = \"127.0.0.1:5000\"\n\
                    \"https://github.com\" = \"http://127.0.0.1:8080/git\"\n";
        let config = parse("config.toml", text).unwrap();
        assert_eq!(config.output.as_ref().unwrap().expose(), "oci:out/{track}");
        assert_eq!(config.engine, Some("docker"));
        assert_eq!(config.cache.as_deref(), Some(Path::new("/srv/cache")));
        assert_eq!(config.stores, [Secret::from("dir:/srv/steps,ro")]);
        let mut mirrors = crate::mirrors::Mirrors::default();
        mirrors.add(&config);
        assert!(mirrors.only);
        assert_eq!((mirrors.registries.len(), mirrors.sources.len()), (1, 1));
        assert_eq!(mirrors.old_packages(), ["https://old.example.org/{file}".parse().unwrap()]);
        let sources::Hosts::Only(hosts) = mirrors.hosts() else { panic!() };
        assert!(hosts.contains("old.example.org"), "{hosts:?}");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_with_its_line() {
        for (text, wanted) in [
            ("schema = 1\n[mirror]\n", "did you mean `mirrors`?"),
            ("schema = 1\n[mirrors]\n\"https://github.com\" = \"ssh://x/y\"\n", "config.toml:3:24"),
            ("schema = 1\n[mirrors]\n\"docker.io\" = 5000\n", "text in quotes"),
            ("schema = 2\n", "newer build-pipeline"),
            ("schema = 1\nengin = \"docker\"\n", "did you mean `engine`?"),
            ("schema = 1\nengine = \"dokcer\"\n", "the engines are"),
            ("schema = 1\noutput = \"oci:dist\"\n", "write a name with `{track}`"),
            ("schema = 1\noutput = \"registry:u:p@h.example/{track}\"\n", "a password or a token"),
            ("schema = 1\ncache = \"cache\"\n", "config.toml:2:9"),
            ("schema = 1\nmirror-only = \"yes\"\n", "`true` or `false`"),
            ("schema = 1\n[proxy]\nhttps = \"socks5://h:1\"\n", "config.toml:3:9"),
            ("schema = 1\n[proxy]\nhttp = \"http://\"\n", "write `http://HOST:PORT`"),
            ("schema = 1\n[proxy]\nno_proxy = []\n", "did you mean `no-proxy`?"),
            ("schema = 1\nold-packages = [\"https://a.test/{name}\"]\n", "unknown placeholder"),
            ("schema = 1\nstore = [\"steps\"]\n", "neither `registry:HOST/NAME` nor `dir:PATH`"),
            ("schema = 1\nstore = [\"registry:u:p@h.example/s\"]\n", "a password or a token"),
            ("schema = 1\nold-packages = [\"https://u:p@a.test/{file}\"]\n", "without them"),
        ] {
            let error = parse("config.toml", text).err().unwrap().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
