//! A Python package index: the released files of a project, with their hashes.
//!
//! [`list`] reads the JSON form of the simple API (PEP 691, PEP 700), or the HTML form (`html`, PEP
//! 503) if the index has no JSON form. The index is trusted only for finding files: a file is
//! accepted only if it has the pinned hash.

mod html;

use names::Sha256;
use pins::normalised;
use reqwest::header::ACCEPT;
use serde::Deserialize;
use url::Url;

use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure, Service};
use crate::http::status_failure;
use crate::session::Session;
use crate::text;
use crate::tree::refusal;

/// The supported forms of the simple API. JSON is preferred to HTML (PEP 691).
const FORMS: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";
/// The maximum size of a project's page; the largest in use has about 10 MB.
const MAX_PAGE: usize = 64 << 20;

/// A file that a project has released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseFile {
    /// Its name, for example `vllm-0.11.1.tar.gz`.
    pub name: String,
    /// The download URL.
    pub url: SourceUrl,
    /// Its hash, if the index contains one.
    pub sha256: Option<Sha256>,
    /// The reason why it was yanked (PEP 592), which may be empty, or `None` if it was not yanked.
    pub yanked: Option<String>,
    /// The upload time in the format of RFC 3339, if the index contains one.
    pub uploaded: Option<String>,
}

impl ReleaseFile {
    /// Returns the version, if this is a source archive of `project` (named by PEP 625 or an older
    /// scheme).
    pub fn source_version(&self, project: &str) -> Option<&str> {
        let (name, version) = self.name.strip_suffix(".tar.gz")?.rsplit_once('-')?;
        (normalised(name) == normalised(project)).then_some(version)
    }
}

/// A page of the index.
#[derive(Debug, Deserialize)]
struct Page {
    meta: Meta,
    files: Vec<File>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(rename = "api-version")]
    version: String,
}

#[derive(Debug, Deserialize)]
struct File {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: Hashes,
    #[serde(default)]
    yanked: Yanked,
    #[serde(default, rename = "upload-time")]
    uploaded: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

/// PEP 592: a flag, or a reason.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Yanked {
    Flag(bool),
    Reason(String),
}

impl Default for Yanked {
    fn default() -> Self {
        Self::Flag(false)
    }
}

/// Returns all files of a project, in the order of the index.
pub(crate) async fn list(
    session: &Session,
    index: &SourceUrl,
    project: &str,
) -> Result<Vec<ReleaseFile>, Failure> {
    let page = page(index, project)?;
    let place = session.place(&page)?;
    if place.is_file() {
        return Err(Failure::refused(format!("`{place}` is a path on this machine, not an index")));
    }
    session.online()?;
    let mut budget = session.budget(&page, &place, Service::Index);
    loop {
        match download(session, &place).await {
            Ok(bytes) => {
                return read(&bytes, place.url()).map_err(|failure| failure.asked(budget.asked()));
            }
            Err(failure) => budget.spend(failure).await?,
        }
    }
}

/// Returns the URL of a project's page.
pub(crate) fn page(index: &SourceUrl, project: &str) -> Result<SourceUrl, Failure> {
    let index = index.as_str().trim_end_matches('/');
    format!("{index}/{}/", normalised(project)).parse().map_err(refusal)
}

async fn download(session: &Session, place: &SourceUrl) -> Result<Vec<u8>, Failure> {
    let answer = session.get(place, &[(ACCEPT, FORMS)]).await?;
    if !answer.status.is_success() {
        return Err(status_failure(&answer, place, "project on the index"));
    }
    let mut body = answer.body;
    let mut bytes = Vec::new();
    while let Some(piece) = body.chunk().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_PAGE {
            return Err(Failure::refused(format!("its page has more than {MAX_PAGE} bytes")));
        }
    }
    Ok(bytes)
}

/// Parses a page that came from `base`. Files that this tool's rules do not allow are left out.
fn read(bytes: &[u8], base: &Url) -> Result<Vec<ReleaseFile>, Failure> {
    // The media type that a server declares is often wrong, but the first character is reliable.
    if bytes.trim_ascii_start().starts_with(b"<") {
        return html::read(&String::from_utf8_lossy(bytes), base);
    }
    let page: Page = serde_json::from_slice(bytes).map_err(|error| {
        let detail = "the index does not send the JSON form of the simple API (PEP 691)";
        Failure::fatal(ErrorKind::Content, detail).because(&error)
    })?;
    if page.meta.version.split('.').next() != Some("1") {
        let version = text::quoted(&page.meta.version);
        let detail = format!("the index uses version {version} of its API, not 1");
        return Err(Failure::fatal(ErrorKind::Tool, detail));
    }
    let file = |file: File| {
        let mut url = base.join(&file.url).ok()?;
        url.set_fragment(None);
        Some(ReleaseFile {
            name: text::clean(&file.filename),
            url: url.as_str().parse().ok()?,
            sha256: file.hashes.sha256.and_then(|hash| hash.parse().ok()),
            yanked: match file.yanked {
                Yanked::Flag(false) => None,
                Yanked::Flag(true) => Some(String::new()),
                Yanked::Reason(reason) => Some(text::clean(&reason)),
            },
            uploaded: file.uploaded.map(|time| text::clean(&time)),
        })
    };
    Ok(page.files.into_iter().filter_map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "672af6f0a56117b9e84b8caacbfe437afba9f366cef8e524dcc5f3f03edd954e";

    fn page(files: &str) -> Vec<u8> {
        format!(r#"{{"meta":{{"api-version":"1.4"}},"name":"demo","files":[{files}]}}"#)
            .into_bytes()
    }

    fn base() -> Url {
        Url::parse("https://index.example.org/simple/demo/").unwrap()
    }

    #[test]
    fn files_are_read_with_hash_yank_and_relative_urls() {
        let bytes = page(&format!(
            r##"{{"filename":"demo-1.0.tar.gz","url":"../../files/demo-1.0.tar.gz#sha256={HASH}","hashes":{{"sha256":"{HASH}"}},"upload-time":"2025-01-02T03:04:05Z","more":1}},
               {{"filename":"demo-1.1.tar.gz","url":"https://files.example.org/demo-1.1.tar.gz","hashes":{{}},"yanked":"broken \u001b[2J"}},
               {{"filename":"demo-1.2.tar.gz","url":"https://files.example.org/demo-1.2.tar.gz","yanked":true}},
               {{"filename":"demo-1.3.tar.gz","url":"http://10.0.0.1/demo-1.3.tar.gz"}}"##
        ));
        let files = read(&bytes, &base()).unwrap();
        let told: Vec<_> = files
            .iter()
            .map(|file| (file.source_version("Demo"), file.url.as_str(), file.yanked.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                (Some("1.0"), "https://index.example.org/files/demo-1.0.tar.gz", None),
                (Some("1.1"), "https://files.example.org/demo-1.1.tar.gz", Some("broken [2J")),
                (Some("1.2"), "https://files.example.org/demo-1.2.tar.gz", Some("")),
            ]
        );
        assert_eq!(files[0].sha256.as_ref().map(Sha256::as_str), Some(HASH));
        assert_eq!(files[0].uploaded.as_deref(), Some("2025-01-02T03:04:05Z"));
    }

    #[test]
    fn other_answers_are_refused() {
        for bytes in [
            b"<!DOCTYPE html><html></html>".to_vec(),
            br#"{"meta":{"api-version":"2.0"},"files":[]}"#.to_vec(),
            br#"{"files":[]}"#.to_vec(),
        ] {
            assert!(read(&bytes, &base()).is_err(), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn source_archives_are_told_from_others() {
        let file = |name: &str| ReleaseFile {
            name: name.to_owned(),
            url: "https://files.example.org/x".parse().unwrap(),
            sha256: None,
            yanked: None,
            uploaded: None,
        };
        for (name, project, version) in [
            ("llama_cpp_python-0.3.36.tar.gz", "llama-cpp-python", Some("0.3.36")),
            ("flash-attn-2.0.0.tar.gz", "flash_attn", Some("2.0.0")),
            ("vllm-0.11.1-cp38-abi3-manylinux1_x86_64.whl", "vllm", None),
            ("vllm-tools-1.0.tar.gz", "vllm", None),
        ] {
            assert_eq!(file(name).source_version(project), version, "{name}");
        }
    }
}
