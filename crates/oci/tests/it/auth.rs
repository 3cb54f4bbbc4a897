//! Authentication: which requests are made, what they contain, and how often tokens are fetched.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oci::client::{ClientSettings, ErrorKind, RegistryClient};
use oci::credentials::CredentialFiles;
use testkit::{Answer, Auth, Bearer, Fault, FaultProxy, Server, shared_registry};

use crate::support::{Sample, check, client, local_stream, repository, settings, size, unique};

/// Returns a client with one credential, and the folder that contains it.
pub(crate) fn client_with(host: &str, entry: &str) -> (RegistryClient, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("auth.json");
    std::fs::write(&file, format!(r#"{{"auths":{{"{host}":{entry}}}}}"#)).unwrap();
    let credentials = CredentialFiles { files: vec![file], ..CredentialFiles::default() };
    (RegistryClient::new(ClientSettings { credentials, ..settings() }), folder)
}

pub(crate) fn password(user: &str, password: &str) -> String {
    format!(r#"{{"auth":"{}"}}"#, BASE64_STANDARD.encode(format!("{user}:{password}")))
}

fn bearer() -> Bearer {
    Bearer { user: Some(("kim".to_owned(), "canary-password".to_owned())), ..Bearer::default() }
}

fn proxy(auth: Auth) -> FaultProxy {
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(auth);
    proxy
}

#[tokio::test]
async fn docker_hub_from_401_to_a_blob_on_another_host() {
    let sample = Sample::new("hub");
    let cdn = FaultProxy::to(shared_registry().host());
    let hub = proxy(Auth::Bearer(Bearer { anonymous_pull: true, ..bearer() }));
    hub.on("GET", "/blobs/").does(Fault::Redirect(format!("{}{{target}}", cdn.url())));
    let (client, host) = (client(), hub.host());
    let manifest = client.manifest(&sample.tagged(&host)).await.unwrap();
    assert_eq!(manifest.digest, sample.image.digest);
    let config = &sample.image.config;
    let repository = sample.repository(&host);
    client.blob(&repository, &config.digest, size(config), 1 << 20).await.unwrap();
    let layer = sample.layer();
    let stream = client.blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    assert_eq!(crate::support::read(stream).await.0, layer.bytes);

    let shown: Vec<String> = hub
        .requests()
        .iter()
        .map(|r| {
            let auth = r.header("authorization").unwrap_or("-").split('-').next().unwrap();
            let target = r.target.split('?').next().unwrap().replace(&sample.path, "PATH");
            format!("{:?} {} {} {auth}", r.server, r.method, target.split('@').next().unwrap())
        })
        .collect();
    assert_eq!(shown[0], "Registry GET /v2/PATH/manifests/one ");
    assert_eq!(shown[1], "Tokens GET /token ");
    assert_eq!(shown[2], "Registry GET /v2/PATH/manifests/one Bearer canary");
    // The blobs need no further 401 and no further token.
    assert_eq!(shown.len(), 5, "{shown:?}");
    let token = &hub.requests()[1].target;
    assert!(token.starts_with("/token?service=test&scope=repository%3A"), "{token}");
    assert!(token.ends_with("%3Apull"), "{token}");
    assert_eq!(cdn.requests().len(), 2);
    assert!(cdn.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[tokio::test]
async fn a_password_goes_to_the_token_server_only() {
    let sample = Sample::new("password");
    let proxy = proxy(Auth::Bearer(bearer()));
    let (client, _folder) = client_with(&proxy.host(), &password("kim", "canary-password"));
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    for request in proxy.requests() {
        let auth = request.header("authorization").unwrap_or_default().to_owned();
        assert_eq!(auth.starts_with("Basic"), request.server == Server::Tokens, "{request:?}");
    }
    assert!(proxy.requests()[1].target.ends_with("&account=kim"));
}

#[tokio::test]
async fn basic_is_sent_after_a_401_and_from_then_on_at_once() {
    let sample = Sample::new("basic");
    let proxy = proxy(Auth::Basic("kim".to_owned(), "canary-password".to_owned()));
    let (client, _folder) = client_with(&proxy.host(), &password("kim", "canary-password"));
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    let given = proxy.requests();
    let given: Vec<_> = given.iter().map(|r| r.header("authorization").is_some()).collect();
    assert_eq!(given, [false, true, true]);
}

#[tokio::test]
async fn an_identity_token_is_posted() {
    let sample = Sample::new("identity");
    let refresh_token = Some("canary-identity".to_owned());
    let proxy = proxy(Auth::Bearer(Bearer { refresh_token, ..Bearer::default() }));
    let entry = r#"{"auth":"dTo=","identitytoken":"canary-identity"}"#;
    let (client, _folder) = client_with(&proxy.host(), entry);
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    assert_eq!(proxy.count("POST", "/token"), 1);
    assert_eq!(proxy.count("GET", "/token"), 0);
}

#[tokio::test]
async fn missing_and_wrong_credentials_are_told_apart() {
    let sample = Sample::new("credentials");
    let basic = proxy(Auth::Basic("kim".to_owned(), "right".to_owned()));
    let host = basic.host();
    let none = client().manifest(&sample.tagged(&host)).await;
    let error = check(none, ErrorKind::Authentication, "but none is stored for");
    assert_eq!(error.tries(), 1);
    let (wrong, _folder) = client_with(&host, &password("kim", "wrong"));
    let wrong = wrong.manifest(&sample.tagged(&host)).await;
    check(wrong, ErrorKind::Authentication, "it rejects the credential stored for");

    let bearer = proxy(Auth::Bearer(bearer()));
    let host = bearer.host();
    let none = client().manifest(&sample.tagged(&host)).await;
    check(none, ErrorKind::Authentication, "its token server `127.0.0.1` answered 401");
    let (wrong, _folder) = client_with(&host, &password("kim", "wrong"));
    let wrong = wrong.manifest(&sample.tagged(&host)).await;
    check(wrong, ErrorKind::Authentication, "`incorrect username or password`");
}

#[tokio::test]
async fn pushing_asks_for_push_and_mounting_for_the_source_too() {
    let sample = Sample::new("scopes");
    let proxy = proxy(Auth::Bearer(bearer()));
    let (client, _folder) = client_with(&proxy.host(), &password("kim", "canary-password"));
    let from = sample.repository(&proxy.host());
    let to = repository(&proxy.host(), &unique("scoped"));
    assert!(client.mount_blob(&to, &sample.layer().digest, &from).await.unwrap());
    let bytes = vec![1; 1000];
    let digest = names::Digest::of(&bytes);
    client.push_blob_stream(&to, &digest, 1000, local_stream(&bytes, 100)).await.unwrap();
    client.push_blob(&to, &digest, bytes.into()).await.unwrap();
    let tokens: Vec<_> =
        proxy.requests().into_iter().filter(|r| r.server == Server::Tokens).collect();
    // One for the mount with two scopes, and one for everything else.
    assert_eq!(tokens.len(), 2);
    let both = format!(
        "&scope=repository%3A{}%3Apull%2Cpush&scope=repository%3A{}%3Apull&",
        to.path().replace('/', "%2F"),
        from.path().replace('/', "%2F")
    );
    assert!(tokens[0].target.contains(&both), "{}", tokens[0].target);
}

#[tokio::test]
async fn a_token_is_kept_until_it_ends_and_renewed_when_refused() {
    let sample = Sample::new("life");
    for (life, wanted) in [(Some(300), 1), (None, 1), (Some(5), 3), (Some(0), 3), (Some(-1), 1)] {
        let proxy = proxy(Auth::Bearer(Bearer { life, ..Bearer::default() }));
        let client = client();
        for _ in 0..3 {
            client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
        }
        assert_eq!(proxy.count("GET", "/token"), wanted, "life {life:?}");
    }
    let proxy = proxy(Auth::Bearer(Bearer::default()));
    let client = client();
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    proxy.forget_tokens();
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    assert_eq!(proxy.count("GET", "/token"), 2);
}

#[tokio::test]
async fn a_token_that_ends_within_an_upload_makes_it_start_over() {
    let proxy = proxy(Auth::Bearer(Bearer::default()));
    let challenge = format!(r#"Bearer realm="{}",service="test""#, proxy.realm_as("127.0.0.1"));
    let answer = Answer::new(401).header("WWW-Authenticate", &challenge);
    proxy.on("PUT", "/blobs/uploads/").nth(1).does(answer);
    let bytes = vec![9; 100_000];
    let to = repository(&proxy.host(), &unique("renew"));
    let digest = names::Digest::of(&bytes);
    let stream = local_stream(&bytes, 1000);
    client().push_blob_stream(&to, &digest, 100_000, stream).await.unwrap();
    assert_eq!(proxy.count("POST", "/blobs/uploads/"), 3);
}

#[tokio::test]
async fn many_requests_at_once_share_one_token() {
    let sample = Sample::new("shared");
    let proxy = proxy(Auth::Bearer(Bearer::default()));
    let client = client();
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    proxy.forget_tokens();
    let image = sample.tagged(&proxy.host());
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, image) = (client.clone(), image.clone());
        asking.spawn(async move { client.manifest(&image).await });
    }
    for outcome in asking.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(proxy.count("GET", "/token?"), 2);
}

#[tokio::test]
async fn challenges_that_make_no_sense_are_refused() {
    let sample = Sample::new("challenges");
    for (challenge, kind, said) in [
        ("", ErrorKind::Authentication, "neither Bearer nor Basic"),
        ("Negotiate", ErrorKind::Authentication, "neither Bearer nor Basic"),
        ("Bearer", ErrorKind::Protocol, "token server, which is not a URL"),
        (r#"Bearer realm="/token""#, ErrorKind::Protocol, "token server, which is not a URL"),
        (r#"Bearer realm="file:///etc/passwd""#, ErrorKind::Refused, "is not http or https"),
        (r#"Bearer realm="http://u:p@127.0.0.1/""#, ErrorKind::Refused, "contains a user name"),
        (r#"Bearer realm="http://169.254.169.254/""#, ErrorKind::Refused, "link-local"),
        (r#"Bearer realm="http://auth.example/""#, ErrorKind::Refused, "from https to http"),
    ] {
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("GET", "/v2/").does(Answer::new(401).header("WWW-Authenticate", challenge));
        let outcome = client().manifest(&sample.tagged(&proxy.host())).await;
        let error = check(outcome, kind, said);
        assert_eq!(error.tries(), 1);
    }
}

#[tokio::test]
async fn token_servers_fail_in_many_ways() {
    let sample = Sample::new("answers");
    let protocol = ErrorKind::Protocol;
    for (fault, kind, said, tries) in [
        (Answer::new(200).body("<html>"), protocol, "a response that is not a token", 1),
        (Answer::new(200).body("{}"), protocol, "a response without a token", 1),
        (Answer::new(200).body(r#"{"token":""}"#), protocol, "a response without a token", 1),
        (Answer::new(200).body(r#"{"token":"a\nb"}"#), protocol, "not allowed in a header", 1),
        (Answer::new(200).body(r#"{"token":7}"#), protocol, "that is not a token", 1),
        (Answer::new(403).body("no"), ErrorKind::Denied, "answered 403", 1),
        (Answer::new(404), ErrorKind::Authentication, "answered 404", 1),
        (Answer::new(503), ErrorKind::Registry, "its token server", 3),
        (Answer::new(429), ErrorKind::RateLimited { until: None }, "its token server", 3),
        (
            Answer::new(302).header("Location", "http://127.0.0.1:1/?token=canary"),
            ErrorKind::Refused,
            "redirects to `http://127.0.0.1:1/?***`",
            1,
        ),
    ] {
        let proxy = proxy(Auth::Bearer(Bearer::default()));
        proxy.on("GET", "/token").does(fault);
        let outcome = client().manifest(&sample.tagged(&proxy.host())).await;
        let error = check(outcome, kind, said);
        assert_eq!(error.tries(), tries, "{error}");
    }
    for fault in [Fault::status(503), Fault::Reset, Fault::Close] {
        let proxy = proxy(Auth::Bearer(Bearer::default()));
        proxy.on("GET", "/token").first(2).does(fault);
        client().manifest(&sample.tagged(&proxy.host())).await.unwrap();
    }
    let proxy = proxy(Auth::Bearer(Bearer::default()));
    proxy.on("GET", "/token").does(Fault::Endless);
    let outcome = client().manifest(&sample.tagged(&proxy.host())).await;
    check(outcome, ErrorKind::TooLarge, "larger than the limit of 1048576 bytes");
}

#[tokio::test]
async fn a_malformed_credential_file_is_named() {
    let sample = Sample::new("malformed");
    let proxy = proxy(Auth::Basic("kim".to_owned(), "right".to_owned()));
    let (client, folder) = client_with(&proxy.host(), r#"{"auth":"canary"#);
    let error = check(
        client.manifest(&sample.tagged(&proxy.host())).await,
        ErrorKind::Authentication,
        "is malformed at line 1",
    );
    let words = crate::support::words(&error);
    assert!(words.contains(&folder.path().display().to_string()));
    assert!(!words.contains("canary"));
}
