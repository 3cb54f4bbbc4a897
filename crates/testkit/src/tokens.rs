//! The authentication that a [`crate::FaultProxy`] requires: none, Basic, or tokens that it issues
//! itself.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use url::Url;

use crate::fault::Answer;
use crate::http::Head;

/// The authentication that a proxy requires from clients.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// No authentication.
    #[default]
    None,
    /// A user name and a password.
    Basic(String, String),
    /// A token with the right scopes from the proxy's own token server.
    Bearer(Bearer),
}

/// The settings of the token server.
#[derive(Debug, Clone, Default)]
pub struct Bearer {
    /// A realm that replaces the proxy's own token server.
    pub realm: Option<String>,
    /// A value that replaces the whole `WWW-Authenticate` header.
    pub challenge: Option<String>,
    /// The user name and password that are required for a token; `None` means that everyone gets
    /// one.
    pub user: Option<(String, String)>,
    /// The refresh token that is required for a token by POST.
    pub refresh_token: Option<String>,
    /// Whether clients without credentials get tokens for pulling.
    pub anonymous_pull: bool,
    /// The value of `expires_in`.
    pub life: Option<i64>,
}

/// The issued tokens, and their permissions: repository paths and actions.
pub(crate) type Tokens = BTreeMap<String, Vec<(String, String)>>;

/// Returns the permissions that a request needs: repository paths, and `pull` or `push`.
fn needs(method: &str, target: &str) -> Vec<(String, String)> {
    let url = Url::parse(&format!("http://x{target}")).expect("the target is a path");
    let path = url.path().strip_prefix("/v2/").unwrap_or_default().to_owned();
    let end = ["/manifests/", "/blobs/", "/tags/"].iter().find_map(|part| path.find(part));
    let Some(end) = end else { return Vec::new() };
    let action = if matches!(method, "GET" | "HEAD") { "pull" } else { "push" };
    let mut needs = vec![(path[..end].to_owned(), action.to_owned())];
    let from = url.query_pairs().find(|(key, _)| key == "from");
    needs.extend(from.map(|(_, from)| (from.into_owned(), "pull".to_owned())));
    needs
}

/// Returns the error response to a request without the necessary permissions, or `None` if it has
/// them.
pub(crate) fn refusal(
    auth: &Auth,
    tokens: &Tokens,
    own_realm: &str,
    head: &Head,
) -> Option<Answer> {
    let given = head.get("authorization").unwrap_or_default();
    let challenge = match auth {
        Auth::None => return None,
        Auth::Basic(user, password) => {
            if given == format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))) {
                return None;
            }
            r#"Basic realm="test""#.to_owned()
        }
        Auth::Bearer(bearer) => {
            let needs = needs(head.word(0), head.word(1));
            let token = given.strip_prefix("Bearer ").and_then(|token| tokens.get(token));
            if token.is_some_and(|granted| needs.iter().all(|need| granted.contains(need))) {
                return None;
            }
            let scope: Vec<_> =
                needs.iter().map(|(path, action)| format!("repository:{path}:{action}")).collect();
            let realm = bearer.realm.as_deref().unwrap_or(own_realm);
            bearer.challenge.clone().unwrap_or_else(|| {
                format!(r#"Bearer realm="{realm}",service="test",scope="{}""#, scope.join(" "))
            })
        }
    };
    let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
    Some(Answer::new(401).header("WWW-Authenticate", &challenge).body(body))
}

/// Returns the response to a request to the token server.
pub(crate) fn give(auth: &Auth, tokens: &mut Tokens, head: &Head, form: &[u8]) -> Answer {
    let Auth::Bearer(bearer) = auth else { return Answer::new(404) };
    let url = Url::parse(&format!("http://x{}", head.word(1))).expect("the target is a path");
    let mut asked: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    asked.extend(url::form_urlencoded::parse(form).into_owned());
    let get = |name: &str| asked.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let known = match (head.word(0), &bearer.user) {
        ("POST", _) => {
            bearer.refresh_token.is_some() && get("refresh_token") == bearer.refresh_token.as_ref()
        }
        (_, None) => bearer.refresh_token.is_none(),
        (_, Some((user, password))) => {
            let wanted = BASE64_STANDARD.encode(format!("{user}:{password}"));
            head.get("authorization") == Some(&format!("Basic {wanted}"))
        }
    };
    let is_anonymous = head.get("authorization").is_none();
    let may_pull = is_anonymous && bearer.anonymous_pull;
    if !known && !may_pull {
        return Answer::new(401).body(r#"{"details":"incorrect username or password"}"#);
    }
    let scopes = asked.iter().filter(|(key, _)| key == "scope").flat_map(|(_, v)| v.split(' '));
    let mut granted = Vec::new();
    for scope in scopes {
        let mut parts = scope.strip_prefix("repository:").unwrap_or_default().rsplitn(2, ':');
        let (actions, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        for action in actions.split(',').filter(|action| known || *action == "pull") {
            granted.push((path.to_owned(), action.to_owned()));
        }
    }
    let token = format!("canary-token-{}", tokens.len() + 1);
    tokens.insert(token.clone(), granted);
    let life = bearer.life.map(|life| format!(r#","expires_in":{life}"#)).unwrap_or_default();
    Answer::new(200)
        .header("Content-Type", "application/json")
        .body(format!(r#"{{"token":"{token}"{life}}}"#))
}
