//! Lists the tags of a repository.

use names::{Repository, Tag};
use reqwest::header::LINK;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use super::endpoint::Endpoint;
use super::error::{ErrorKind, Failure, RegistryError, Subject};
use super::request::Ask;
use super::{RegistryClient, Session, from_first_place};

/// The number of tags to request at once. Registries may return fewer.
const PAGE: usize = 1_000;
/// The maximum number of pages: the largest repositories in use have about 20,000 tags.
const MOST_PAGES: usize = 200;
/// The maximum size of a page.
const MAX_PAGE: u64 = 4 << 20;

/// A page of tags.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl RegistryClient {
    /// Returns all tags of a repository, in the order of the registry. Invalid tags are skipped.
    ///
    /// # Errors
    /// Fails if no location has the repository or lists its tags.
    pub async fn tags(&self, repository: &Repository) -> Result<Vec<Tag>, RegistryError> {
        let session = &*self.session;
        let subject =
            Subject { action: "list the tags of", name: repository.to_string(), image: None };
        let places = session.places(&subject, repository, false)?;
        from_first_place!(session, subject, places, |place| session.try_tags(place).await)
    }
}

impl Session {
    async fn try_tags(&self, place: &Endpoint) -> Result<Vec<Tag>, Failure> {
        let mut tags = Vec::new();
        let mut query = format!("n={PAGE}");
        for _ in 0..MOST_PAGES {
            let ask = Ask::new(place, Method::GET, &format!("tags/list?{query}"));
            let answer = self.request(ask).await?;
            if answer.status != StatusCode::OK {
                return Err(self.failure(place, answer).await);
            }
            let link = answer.headers.get(LINK).and_then(|link| link.to_str().ok()).and_then(next);
            let bytes = answer.body.collect(MAX_PAGE, self.transport.timeouts().document).await?;
            let page: Page = serde_json::from_slice(&bytes).map_err(|error| {
                let detail = format!("`{}` sent a response that is not a list of tags", place.host);
                Failure::fatal(ErrorKind::Protocol, detail).because(&error)
            })?;
            tags.extend(page.tags.unwrap_or_default().iter().filter_map(|tag| tag.parse().ok()));
            match link {
                Some(more) if more != query => query = more,
                Some(_) | None => return Ok(tags),
            }
        }
        let detail = format!("`{}` sent an endless list of tags", place.host);
        Err(Failure::fatal(ErrorKind::Protocol, detail))
    }
}

/// Returns the query of the next page (RFC 8288). The rest of the URL is ignored, because this tool
/// decides where to send requests.
fn next(link: &str) -> Option<String> {
    let (url, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = rest.split(';').any(|part| matches!(part.trim(), "rel=next" | "rel=\"next\""));
    let query = url.split_once('?').filter(|_| is_next)?.1;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"=&%._-~+".contains(&b);
    query.bytes().all(is_plain).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_asked_for_by_its_query_alone() {
        for (link, query) in [
            ("</v2/a/tags/list?last=b&n=2>; rel=\"next\"", Some("last=b&n=2")),
            ("<https://elsewhere.example/x?last=b>; rel=next", Some("last=b")),
            ("</v2/a/tags/list?last=b>; rel=\"prev\"", None),
            ("</v2/a/tags/list?last=b c>; rel=next", None),
            ("</v2/a/tags/list>; rel=next", None),
            ("nonsense", None),
        ] {
            assert_eq!(next(link).as_deref(), query, "{link}");
        }
    }
}
