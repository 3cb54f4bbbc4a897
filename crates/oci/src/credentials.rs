//! Finds the credential for a repository in the files of podman and docker.
//!
//! Start at [`CredentialFiles::find`]. The caller provides the files in order; this module reads no
//! environment variables. Within a file, the most specific key wins (containers-auth.json(5)). The
//! first file that *has* a credential ends the search. Errors and `Debug` output never contain a
//! secret. The only text from a file in an error is a key or the name of a helper.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use names::Repository;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The time limit of a credential helper. Helpers may query a key ring, but must not prompt the
/// user.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a credential file or of a helper's response.
const MAX_SIZE: u64 = 1 << 20;

/// The files that may contain credentials, most important first.
#[derive(Debug, Clone, Default)]
pub struct CredentialFiles {
    /// Paths of `auth.json` or docker `config.json` files. Missing files are skipped.
    pub files: Vec<PathBuf>,
    /// Folders to search for `docker-credential-NAME` programs, before the `PATH`.
    pub helper_folders: Vec<PathBuf>,
}

/// A credential for one registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A user name and a password.
    Password {
        /// The user name.
        user: String,
        /// The password or access token.
        password: String,
    },
    /// An identity token, which the token server accepts as an OAuth 2 refresh token.
    IdentityToken(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Why a credential could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file exists but cannot be read.
    #[error("cannot read the credential file `{path}`", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file is too large to be a credential file.
    #[error("the credential file `{path}` is larger than 1 MiB", path = .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file does not match containers-auth.json(5). Its content is not shown.
    #[error("the credential file `{path}` is malformed at line {line}", path = .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line of the first error.
        line: usize,
    },
    /// An entry's `auth` is not the base64 form of `user:password`.
    #[error(
        "`auth` of `{key}` in the credential file `{path}` is not the base64 form of `user:password`",
        path = .path.display()
    )]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry's key.
        key: String,
    },
    /// The name of a helper is not a plain program name.
    #[error(
        "`{name}` in the credential file `{path}` is not the name of a credential helper",
        path = .path.display()
    )]
    HelperName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A helper could not be run or was interrupted.
    #[error("cannot run the credential helper `{helper}`")]
    HelperRun {
        /// The program.
        helper: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A helper took too long.
    #[error("the credential helper `{helper}` did not answer within 10 s")]
    HelperTimeout {
        /// The program.
        helper: String,
    },
    /// A helper ended with an error. Its output is not shown, because it may contain secrets.
    #[error("the credential helper `{helper}` failed with {status}")]
    HelperFailed {
        /// The program.
        helper: String,
        /// Its exit status.
        status: String,
    },
    /// A helper's response does not follow the helper protocol.
    #[error("the response of the credential helper `{helper}` is malformed")]
    HelperAnswer {
        /// The program.
        helper: String,
    },
}

/// The parts of an `auth.json` or `config.json` that are used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Option<Entry>>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    identitytoken: String,
    username: String,
    password: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

impl CredentialFiles {
    /// Returns the credential for `repository`: the most specific entry in the first file that
    /// has one.
    pub async fn find(
        &self,
        repository: &Repository,
    ) -> Result<Option<Credential>, CredentialError> {
        self.find_for(repository.registry(), repository.path()).await
    }

    /// Like [`Self::find`], for a mirror, whose host and path need not be a [`Repository`].
    pub(crate) async fn find_for(
        &self,
        registry: &str,
        path: &str,
    ) -> Result<Option<Credential>, CredentialError> {
        for file in &self.files {
            if let Some(credential) = self.find_in(file, registry, path).await? {
                return Ok(Some(credential));
            }
        }
        Ok(None)
    }

    async fn find_in(
        &self,
        path: &Path,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, CredentialError> {
        let Some(file) = read(path).await? else { return Ok(None) };
        // A helper applies to a whole registry, and takes precedence over credentials in the file.
        let helper = file.cred_helpers.iter().find(|(host, _)| normal_key(host) == registry);
        if let Some((_, name)) = helper {
            return self.ask(path, name, server_url(registry)).await;
        }
        if !file.creds_store.is_empty()
            && let Some(credential) =
                self.ask(path, &file.creds_store, server_url(registry)).await?
        {
            return Ok(Some(credential));
        }
        for key in keys(registry, repository) {
            let entries = file.auths.iter().filter(|(name, _)| normal_key(name) == key);
            for (name, entry) in entries {
                let refuse = || CredentialError::Entry { path: path.into(), key: name.clone() };
                let Some(entry) = entry else { continue };
                if let Some(credential) = entry.credential().ok_or_else(refuse)? {
                    return Ok(Some(credential));
                }
            }
        }
        Ok(None)
    }

    async fn ask(
        &self,
        path: &Path,
        name: &str,
        server: &str,
    ) -> Result<Option<Credential>, CredentialError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(CredentialError::HelperName { path: path.into(), name: name.to_owned() });
        }
        let helper = format!("docker-credential-{name}");
        let program = self
            .helper_folders
            .iter()
            .map(|folder| folder.join(&helper))
            .find(|program| program.is_file())
            .unwrap_or_else(|| PathBuf::from(&helper));
        match tokio::time::timeout(HELPER_TIMEOUT, run(program.as_os_str(), server)).await {
            Err(_) => Err(CredentialError::HelperTimeout { helper }),
            Ok(Err(source)) => Err(CredentialError::HelperRun { helper, source }),
            Ok(Ok((status, answer))) => judge(helper, status, &answer),
        }
    }
}

impl Entry {
    /// Returns the credential of an entry, `Some(None)` for an empty entry (docker writes these for
    /// a credential store), and `None` for an invalid one.
    fn credential(&self) -> Option<Option<Credential>> {
        if !self.identitytoken.is_empty() {
            return Some(Some(Credential::IdentityToken(self.identitytoken.clone())));
        }
        if self.auth.is_empty() {
            return Some((!self.username.is_empty()).then(|| Credential::Password {
                user: self.username.clone(),
                password: self.password.clone(),
            }));
        }
        let bytes = BASE64_STANDARD.decode(self.auth.trim()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (user, password) = text.split_once(':')?;
        // Old versions of docker end the password with NUL bytes.
        let password = password.trim_end_matches('\0').to_owned();
        Some(Some(Credential::Password { user: user.to_owned(), password }))
    }
}

async fn read(path: &Path) -> Result<Option<File>, CredentialError> {
    let fail = |source| CredentialError::Read { path: path.into(), source };
    let file = match tokio::fs::File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut text = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut text).await.map_err(fail)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(CredentialError::TooLarge { path: path.into() });
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let malformed = |error: serde_json::Error| CredentialError::Malformed {
        path: path.into(),
        line: error.line(),
    };
    serde_json::from_slice(&text).map(Some).map_err(malformed)
}

/// Runs `program get`, and returns its exit status and its output.
async fn run(program: &OsStr, server: &str) -> io::Result<(std::process::ExitStatus, Vec<u8>)> {
    let mut child = tokio::process::Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut answer = Vec::new();
    if let Some(mut stdin) = child.stdin.take() {
        // A helper need not read its input. Only its response counts.
        drop(stdin.write_all(server.as_bytes()).await);
    }
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_SIZE).read_to_end(&mut answer).await?;
    }
    Ok((child.wait().await?, answer))
}

fn judge(
    helper: String,
    status: std::process::ExitStatus,
    answer: &[u8],
) -> Result<Option<Credential>, CredentialError> {
    if !status.success() {
        // The helper protocol has no exit code for a missing credential, only the message of
        // docker-credential-helpers.
        return if String::from_utf8_lossy(answer).contains("credentials not found") {
            Ok(None)
        } else {
            Err(CredentialError::HelperFailed { helper, status: status.to_string() })
        };
    }
    let answer: HelperAnswer =
        serde_json::from_slice(answer).map_err(|_| CredentialError::HelperAnswer { helper })?;
    Ok(match (answer.username.as_str(), answer.secret.is_empty()) {
        (_, true) => None,
        ("<token>", false) => Some(Credential::IdentityToken(answer.secret)),
        _ => Some(Credential::Password { user: answer.username, password: answer.secret }),
    })
}

/// Returns the server address that docker passes to a credential store.
fn server_url(registry: &str) -> &str {
    match registry {
        "docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}

/// Returns the keys of a repository, most specific first: `host/ns/repo`, `host/ns`, `host`.
fn keys(registry: &str, path: &str) -> Vec<String> {
    let mut keys = vec![format!("{registry}/{path}")];
    while let Some((shorter, _)) = keys[keys.len() - 1].rsplit_once('/') {
        keys.push(shorter.to_owned());
    }
    keys
}

/// Returns the normalised form of a key: docker wrote `https://host/v1/` for a host.
fn normal_key(text: &str) -> String {
    let bare = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let key = match bare {
        // With a scheme, only the host is significant.
        Some(bare) => bare.split('/').next().unwrap_or_default(),
        None => text.trim_end_matches('/'),
    };
    match key.split_once('/') {
        Some((host, "v1" | "v2")) => normal_key(host),
        None if matches!(key, "index.docker.io" | "registry-1.docker.io") => "docker.io".to_owned(),
        Some(("index.docker.io" | "registry-1.docker.io", path)) => format!("docker.io/{path}"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in a temporary folder, in order of importance, with helpers next to them.
    struct Fixture {
        folder: tempfile::TempDir,
        credentials: CredentialFiles,
    }

    impl Fixture {
        fn new(texts: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files = (0..texts.len()).map(|n| folder.path().join(format!("{n}.json"))).collect();
            let helper_folders = vec![folder.path().to_owned()];
            let credentials = CredentialFiles { files, helper_folders };
            for (file, text) in credentials.files.iter().zip(texts) {
                std::fs::write(file, text).unwrap();
            }
            Self { folder, credentials }
        }

        fn helper(self, name: &str, script: &str) -> Self {
            use std::os::unix::fs::PermissionsExt as _;
            let path = self.folder.path().join(format!("docker-credential-{name}"));
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            self
        }

        /// Finds the credential for `image` and returns it in a short form.
        async fn find(&self, image: &str) -> String {
            match self.credentials.find(&image.parse().unwrap()).await {
                Ok(None) => "none".to_owned(),
                Ok(Some(Credential::Password { user, password })) => format!("{user}:{password}"),
                Ok(Some(Credential::IdentityToken(token))) => format!("token {token}"),
                Err(error) => {
                    let folder = self.folder.path().display().to_string();
                    format!("{error}").replace(&folder, "DIR")
                }
            }
        }
    }

    fn auth(text: &str) -> String {
        format!(r#"{{"auth":"{}"}}"#, BASE64_STANDARD.encode(text))
    }

    fn auths(entries: &[(&str, &str)]) -> String {
        let entries: Vec<_> =
            entries.iter().map(|(k, v)| format!(r#""{k}":{}"#, auth(v))).collect();
        format!(r#"{{"auths":{{{}}}}}"#, entries.join(","))
    }

    #[tokio::test]
    async fn the_most_specific_key_wins() {
        let text = auths(&[
            ("my.example/ns/repo", "repo:1"),
            ("my.example/ns", "ns:2"),
            ("my.example", "host:3"),
            ("my.example:5000", "port:4"),
        ]);
        let fixture = Fixture::new(&[&text]);
        for (image, wanted) in [
            ("my.example/ns/repo", "repo:1"),
            ("my.example/ns/repo/below", "repo:1"),
            ("my.example/ns/other", "ns:2"),
            ("my.example/nsx/other", "host:3"),
            ("my.example:5000/ns/repo", "port:4"),
            ("my.example:5001/ns/repo", "none"),
            ("your.example/ns/repo", "none"),
        ] {
            assert_eq!(fixture.find(image).await, wanted, "{image}");
        }
    }

    #[tokio::test]
    async fn the_first_file_that_has_the_credential_wins() {
        let one = auths(&[("a.example", "one:1")]);
        let two = auths(&[("a.example/ns", "two:2"), ("b.example", "two:2")]);
        let fixture = Fixture::new(&[&one, &two]);
        assert_eq!(fixture.find("a.example/ns/x").await, "one:1");
        assert_eq!(fixture.find("b.example/ns/x").await, "two:2");
    }

    #[tokio::test]
    async fn docker_hub_has_many_names() {
        for key in [
            "docker.io",
            "index.docker.io",
            "https://index.docker.io/v1/",
            "https://index.docker.io/v1",
            "index.docker.io/v1",
            "registry-1.docker.io",
            "https://registry-1.docker.io/v2/",
        ] {
            let fixture = Fixture::new(&[&auths(&[(key, "hub:1")])]);
            assert_eq!(fixture.find("docker.io/library/fedora").await, "hub:1", "{key}");
            assert_eq!(fixture.find("ghcr.io/a/b").await, "none", "{key}");
        }
        let fixture = Fixture::new(&[&auths(&[("docker.io/rocm", "rocm:1")])]);
        assert_eq!(fixture.find("docker.io/rocm/vllm-dev").await, "rocm:1");
        assert_eq!(fixture.find("docker.io/other/vllm-dev").await, "none");
    }

    #[tokio::test]
    async fn keys_with_a_scheme_or_a_slash_are_hosts() {
        for key in
            ["https://a.example", "http://a.example/v1/", "a.example/", "https://a.example/x"]
        {
            let fixture = Fixture::new(&[&auths(&[(key, "a:1")])]);
            assert_eq!(fixture.find("a.example/ns/x").await, "a:1", "{key}");
        }
    }

    #[tokio::test]
    async fn passwords_may_hold_colons_and_end_in_nul() {
        let fixture = Fixture::new(&[&auths(&[("a.example", "kim:a:b:c\0\0")])]);
        assert_eq!(fixture.find("a.example/x").await, "kim:a:b:c");
    }

    #[tokio::test]
    async fn identity_tokens_go_before_passwords() {
        let text = r#"{"auths":{"a.example":{"auth":"a2ltOng=","identitytoken":"tok"}}}"#;
        assert_eq!(Fixture::new(&[text]).find("a.example/x").await, "token tok");
    }

    #[tokio::test]
    async fn what_is_not_there_is_passed_over() {
        for text in ["", " \n", "{}", r#"{"auths":{}}"#, r#"{"auths":{"a.example":{}}}"#] {
            let more = auths(&[("a.example", "two:2")]);
            let mut fixture = Fixture::new(&[text, &more]);
            fixture.credentials.files.insert(0, "/nonexistent/auth.json".into());
            fixture.credentials.files.insert(0, "/dev/null/auth.json".into());
            assert_eq!(fixture.find("a.example/x").await, "two:2", "{text}");
        }
        let text = r#"{"auths":{"a.example":null},"psFormat":"x","HttpHeaders":{"a":"b"}}"#;
        assert_eq!(Fixture::new(&[text]).find("a.example/x").await, "none");
    }

    #[tokio::test]
    async fn malformed_files_are_named_and_not_shown() {
        for (text, wanted) in [
            ("{\n\"auths\": canary", "the credential file `DIR/0.json` is malformed at line 2"),
            (r#"{"auths":["canary"]}"#, "the credential file `DIR/0.json` is malformed at line 1"),
            (
                r#"{"auths":{"a.example":{"auth":"canary!"}}}"#,
                "`auth` of `a.example` in the credential file `DIR/0.json` is not the base64 form \
                 of `user:password`",
            ),
            (
                r#"{"auths":{"a.example":{"auth":"Y2FuYXJ5"}}}"#,
                "`auth` of `a.example` in the credential file `DIR/0.json` is not the base64 form \
                 of `user:password`",
            ),
            (
                r#"{"credHelpers":{"a.example":"../../bin/sh"}}"#,
                "`../../bin/sh` in the credential file `DIR/0.json` is not the name of a \
                 credential helper",
            ),
        ] {
            assert_eq!(Fixture::new(&[text]).find("a.example/x").await, wanted);
        }
        let long = " ".repeat(1 << 20) + "{}";
        let found = Fixture::new(&[&long]).find("a.example/x").await;
        assert_eq!(found, "the credential file `DIR/0.json` is larger than 1 MiB");
    }

    #[tokio::test]
    async fn helpers_are_asked_by_host_on_standard_input() {
        let text = r#"{"credHelpers":{"a.example":"one","docker.io":"one"},"credsStore":"two"}"#;
        let answer = |user: &str| {
            format!(
                r#"read -r server; printf '{{"Username":"{user}","Secret":"%s"}}' "$1-$server""#
            )
        };
        let fixture =
            Fixture::new(&[text]).helper("one", &answer("one")).helper("two", &answer("two"));
        assert_eq!(fixture.find("a.example/x").await, "one:get-a.example");
        assert_eq!(fixture.find("b.example/x").await, "two:get-b.example");
        assert_eq!(fixture.find("docker.io/a/b").await, "one:get-https://index.docker.io/v1/");
    }

    #[tokio::test]
    async fn helpers_may_have_tokens_or_nothing() {
        let text = r#"{"credsStore":"store","auths":{"a.example":{"auth":"a2ltOng="}}}"#;
        for (script, wanted) in [
            (r#"echo '{"Username":"<token>","Secret":"tok"}'"#, "token tok"),
            ("echo 'credentials not found in native keychain'; exit 1", "kim:x"),
            (r#"echo '{"Username":"","Secret":""}'"#, "kim:x"),
            (
                "echo 'canary'; exit 1",
                "the credential helper `docker-credential-store` failed with exit status: 1",
            ),
            (
                "echo 'canary'",
                "the response of the credential helper `docker-credential-store` is malformed",
            ),
        ] {
            let fixture = Fixture::new(&[text]).helper("store", script);
            assert_eq!(fixture.find("a.example/x").await, wanted, "{script}");
        }
    }

    #[tokio::test]
    async fn a_helper_that_hangs_is_ended() {
        let fixture = Fixture::new(&[r#"{"credsStore":"hung"}"#]);
        let number = fixture.folder.path().join("number");
        let script = format!("echo $$ > {}; exec sleep 3000", number.display());
        let fixture = fixture.helper("hung", &script);
        assert_eq!(
            fixture.find("a.example/a").await,
            "the credential helper `docker-credential-hung` did not answer within 10 s"
        );
        let number = std::fs::read_to_string(number).unwrap();
        let line = format!("/proc/{}/cmdline", number.trim());
        // A killed process has no command line.
        let is_running = || std::fs::read(&line).is_ok_and(|line| !line.is_empty());
        let started = std::time::Instant::now();
        while is_running() {
            assert!(started.elapsed() < Duration::from_secs(300), "the helper is running");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_missing_helper_is_named() {
        let fixture = Fixture::new(&[r#"{"credsStore":"absent-on-every-machine"}"#]);
        assert_eq!(
            fixture.find("a.example/x").await,
            "cannot run the credential helper `docker-credential-absent-on-every-machine`"
        );
    }

    #[test]
    fn credentials_are_not_shown() {
        let password = Credential::Password { user: "kim".into(), password: "canary".into() };
        assert_eq!(format!("{password:?}"), "[redacted]");
        assert_eq!(format!("{:?}", Credential::IdentityToken("canary".into())), "[redacted]");
    }

    #[test]
    fn keys_from_most_to_least_specific() {
        assert_eq!(keys("h:1", "a/b/c"), ["h:1/a/b/c", "h:1/a/b", "h:1/a", "h:1"]);
    }
}
