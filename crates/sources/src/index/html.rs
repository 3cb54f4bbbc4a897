//! The HTML form of the simple API (PEP 503, PEP 592), for indexes without the JSON form.
//!
//! The page of a project contains links to files. A page without such links does not come from an
//! index: a login page must not be mistaken for a project without releases.

use names::Sha256;
use url::Url;

use super::ReleaseFile;
use crate::error::{ErrorKind, Failure};
use crate::text;

/// Suffixes of the files in an index.
const FILES: [&str; 5] = [".whl", ".tar.gz", ".zip", ".tar.bz2", ".egg"];

/// Parses a page that came from `base`. Files that this tool's rules do not allow are left out.
pub(super) fn read(page: &str, base: &Url) -> Result<Vec<ReleaseFile>, Failure> {
    let tags: Vec<Tag<'_>> = tags(page).collect();
    if let Some(version) = tags.iter().find_map(|tag| tag.repository_version())
        && version.split('.').next() != Some("1")
    {
        let version = text::quoted(&version);
        let detail = format!("the index uses version {version} of its API, not 1");
        return Err(Failure::fatal(ErrorKind::Tool, detail));
    }
    let links: Vec<&Tag<'_>> = tags.iter().filter(|tag| tag.is("a")).collect();
    let files: Vec<(Url, &Tag<'_>)> =
        links.iter().filter_map(|link| Some((file(link, base)?, *link))).collect();
    if files.is_empty() {
        let detail = "the index sends neither JSON (PEP 691) nor links to files (PEP 503)";
        return Err(Failure::fatal(ErrorKind::Content, detail));
    }
    Ok(files.into_iter().filter_map(|(url, link)| release(url, link)).collect())
}

/// Returns the target of a link, if it is a file of an index.
fn file(link: &Tag<'_>, base: &Url) -> Option<Url> {
    let url = base.join(link.attribute("href")?.trim()).ok()?;
    FILES.iter().any(|end| url.path().ends_with(end)).then_some(url)
}

fn release(mut url: Url, link: &Tag<'_>) -> Option<ReleaseFile> {
    let sha256 = url.fragment().and_then(|fragment| fragment.strip_prefix("sha256="));
    let sha256: Option<Sha256> = sha256.and_then(|hash| hash.parse().ok());
    url.set_fragment(None);
    let name = url.path_segments()?.next_back()?;
    let name = percent_decoded(name);
    Some(ReleaseFile {
        name: text::clean(&name),
        url: url.as_str().parse().ok()?,
        sha256,
        yanked: link.attribute("data-yanked").map(|reason| text::clean(&reason)),
        uploaded: None,
    })
}

/// Returns a part of a path after percent-decoding.
fn percent_decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One opening tag: the text between `<` and `>`.
#[derive(Debug, Clone, Copy)]
struct Tag<'p>(&'p str);

/// Returns the opening tags of a page, except tags inside comments.
fn tags(page: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = page;
    std::iter::from_fn(move || {
        loop {
            let (_, behind) = rest.split_once('<')?;
            if let Some(comment) = behind.strip_prefix("!--") {
                rest = comment.split_once("-->")?.1;
                continue;
            }
            let end = end_of_tag(behind)?;
            rest = &behind[end..];
            if behind.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return Some(Tag(&behind[..end]));
            }
        }
    })
}

/// Returns the position of the `>` that closes a tag. A quoted `>` is ignored.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut open = None;
    for (at, c) in text.char_indices() {
        match (c, open) {
            ('>', None) => return Some(at),
            ('"' | '\'', None) => open = Some(c),
            (c, Some(quote)) if c == quote => open = None,
            _ => {}
        }
    }
    None
}

impl Tag<'_> {
    fn is(&self, name: &str) -> bool {
        let end = self.0.find(|c: char| c.is_ascii_whitespace() || c == '/');
        self.0[..end.unwrap_or(self.0.len())].eq_ignore_ascii_case(name)
    }

    /// Returns the value of an attribute, which may be empty.
    fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.0.split_once(|c: char| c.is_ascii_whitespace())?.1.trim_start();
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '=');
            let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
            let (value, behind) = match behind.trim_start().strip_prefix('=').map(str::trim_start) {
                None => ("", behind),
                Some(value) => match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
                    Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                    None => value.split_at(
                        value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()),
                    ),
                },
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(unescaped(value));
            }
            // In a broken page, a name may be empty. In that case one character is skipped.
            rest = behind.trim_start();
            if name.is_empty() && value.is_empty() {
                let next = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
                rest = &rest[next..];
            }
        }
        None
    }

    /// Returns the version of the API, if the tag contains it (PEP 629).
    fn repository_version(&self) -> Option<String> {
        let is_it =
            self.is("meta") && self.attribute("name").as_deref() == Some("pypi:repository-version");
        is_it.then(|| self.attribute("content")).flatten()
    }
}

/// Returns a value after resolving the character references that occur in links.
fn unescaped(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once('&') {
        text.push_str(before);
        let found = behind.split_once(';').filter(|(name, _)| name.len() <= 8);
        let character = found.and_then(|(name, _)| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => {
                let number = name.strip_prefix('#')?;
                let hex = number.strip_prefix(['x', 'X']);
                let code = match hex {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)
            }
        });
        match (character, found) {
            (Some(character), Some((_, after))) => {
                text.push(character);
                rest = after;
            }
            _ => {
                text.push('&');
                rest = behind;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "672af6f0a56117b9e84b8caacbfe437afba9f366cef8e524dcc5f3f03edd954e";

    fn base() -> Url {
        Url::parse("https://index.example.org/simple/demo/").unwrap()
    }

    #[test]
    fn links_are_read_with_hash_yank_and_relative_urls() {
        let page = format!(
            "<!DOCTYPE html><html><head><meta name=\"pypi:repository-version\" content=\"1.1\"></head><body>\n\
             <!-- <a href='hidden-1.0.tar.gz'>x</a> -->\n\
             <a href=\"../../files/demo-1.0.tar.gz#sha256={HASH}\" data-requires-python=\"&gt;=3.8\">demo-1.0.tar.gz</a><br/>\n\
             <A class=x HREF='demo-1.1%2Brocm7-cp312-cp312-linux_x86_64.whl' data-yanked>y</A>\n\
             <a data-yanked=\"broken &amp; &#x1b;[2J\" href=https://files.example.org/demo-1.2.tar.gz>z</a>\n\
             <a href=\"http://10.0.0.1/demo-1.3.tar.gz\">out</a><a href=\"../\">up</a>"
        );
        let files = read(&page, &base()).unwrap();
        let told: Vec<_> = files
            .iter()
            .map(|file| (file.name.as_str(), file.url.as_str(), file.yanked.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("demo-1.0.tar.gz", "https://index.example.org/files/demo-1.0.tar.gz", None),
                (
                    "demo-1.1+rocm7-cp312-cp312-linux_x86_64.whl",
                    "https://index.example.org/simple/demo/demo-1.1%2Brocm7-cp312-cp312-linux_x86_64.whl",
                    Some("")
                ),
                (
                    "demo-1.2.tar.gz",
                    "https://files.example.org/demo-1.2.tar.gz",
                    Some("broken & [2J")
                ),
            ]
        );
        assert_eq!(files[0].sha256.as_ref().map(Sha256::as_str), Some(HASH));
        assert_eq!(files[1].sha256, None);
    }

    #[test]
    fn pages_of_other_things_are_refused() {
        for page in [
            "<!DOCTYPE html><html></html>",
            "<form action='/login'><a href='/help'>Help</a></form>",
            "<meta name='pypi:repository-version' content='2.0'><a href='demo-1.0.tar.gz'>x</a>",
            "no page at all",
            "<a href='demo-1.0.tar.gz",
        ] {
            assert!(read(page, &base()).is_err(), "{page}");
        }
    }

    #[test]
    fn broken_pages_end() {
        for page in
            ["<a ===>", "<a = = href>", "<a 'x' \"y\"=z &#xffffffff;>", "<a href='&;&#;&#x;'>"]
        {
            let whole = format!("{page}<a href='a-1.tar.gz'>x</a>");
            assert_eq!(read(&whole, &base()).unwrap().len(), 1, "{page}");
        }
    }
}
