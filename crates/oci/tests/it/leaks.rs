//! Secrets are not sent to other hosts, and do not appear in messages.

use oci::client::{ClientSettings, ErrorKind, Mirror, RegistryClient};
use oci::credentials::CredentialFiles;
use testkit::{Answer, Auth, Bearer, Fault, FaultProxy, gate_passed, shared_registry};

use crate::auth::{client_with, password};
use crate::support::{Sample, repository, settings, size, unique, words};

const CANARY: &str = "canary-password";
/// A password with characters that have a meaning in URLs: unchanged, fully percent-encoded, and
/// partly percent-encoded.
const ENCODED: [&str; 3] = ["c@nary p/ss", "%63%40%6e%61%72%79%20%70%2F%73%73", "c%40nary%20p/ss"];

fn guarded() -> FaultProxy {
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Basic("kim".to_owned(), CANARY.to_owned()));
    proxy
}

#[track_caller]
fn got_no_secret(proxy: &FaultProxy) {
    for request in proxy.requests() {
        let shown = format!("{request:?}").to_lowercase();
        assert!(!shown.contains("authorization") && !shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn redirects_carry_no_credential() {
    let sample = Sample::new("leak-redirect");
    let mut tried = 0;
    for auth in [
        Auth::Basic("kim".to_owned(), CANARY.to_owned()),
        Auth::Bearer(Bearer {
            user: Some(("kim".to_owned(), CANARY.to_owned())),
            ..Bearer::default()
        }),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let (proxy, other) = (guarded(), FaultProxy::to(shared_registry().host()));
            proxy.require(auth.clone());
            let (client, _folder) = client_with(&proxy.host(), &password("kim", CANARY));
            // The first request learns the authentication method, so that the redirected one is
            // authorized.
            client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
            let digest = &sample.layer().digest;
            let location = format!("{}/v2/{}/blobs/{digest}", other.url(), sample.path);
            let answer = Answer::new(status).header("Location", &location);
            proxy.on("GET", "/blobs/").does(answer);
            let repository = sample.repository(&proxy.host());
            client.blob(&repository, digest, size(sample.layer()), 1 << 20).await.unwrap();
            assert!(proxy.requests().last().unwrap().header("authorization").is_some());
            assert_eq!(other.requests().len(), 1);
            got_no_secret(&other);
            tried += 1;
        }
    }
    gate_passed(11, tried);
}

#[tokio::test]
async fn another_host_that_asks_for_a_credential_gets_none() {
    let sample = Sample::new("leak-asks");
    let (proxy, other) = (guarded(), guarded());
    let (client, _folder) = client_with(&proxy.host(), &password("kim", CANARY));
    proxy.on("GET", "/blobs/").does(Fault::Redirect(format!("{}{{target}}", other.url())));
    let repository = sample.repository(&proxy.host());
    let layer = sample.layer();
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    let outcome = client.blob(&repository, &layer.digest, size(layer), 1 << 20).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Authentication);
    got_no_secret(&other);
    gate_passed(11, 1);
}

#[tokio::test]
async fn mirrors_get_their_own_credential_or_none() {
    let sample = Sample::new("leak-mirror");
    let (registry, mirror) = (guarded(), FaultProxy::to(shared_registry().host()));
    mirror.on("*", "").does(Answer::new(401).header("WWW-Authenticate", r#"Basic realm="x""#));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    let entry = password("kim", CANARY);
    std::fs::write(&file, format!(r#"{{"auths":{{"{}":{entry}}}}}"#, registry.host())).unwrap();
    let client = RegistryClient::new(ClientSettings {
        credentials: CredentialFiles { files: vec![file], ..CredentialFiles::default() },
        mirrors: vec![Mirror::new(&registry.host(), &mirror.host()).unwrap()],
        ..settings()
    });
    client.manifest(&sample.pinned(&registry.host())).await.unwrap();
    assert_eq!(mirror.requests().len(), 2);
    got_no_secret(&mirror);
    gate_passed(11, 1);
}

#[tokio::test]
async fn a_token_server_of_another_registry_gets_only_what_is_stored_for_the_asker() {
    let sample = Sample::new("leak-realm");
    let (good, evil) = (guarded(), FaultProxy::to(shared_registry().host()));
    evil.require(Auth::Bearer(Bearer {
        realm: Some(good.realm_as("127.0.0.1")),
        ..Bearer::default()
    }));
    let (client, _folder) = client_with(&good.host(), &password("kim", CANARY));
    client.manifest(&sample.tagged(&evil.host())).await.unwrap_err();
    got_no_secret(&good);
    got_no_secret(&evil);
    gate_passed(11, 1);
}

#[tokio::test]
async fn upload_locations_elsewhere_are_not_even_asked() {
    let (proxy, other) = (guarded(), FaultProxy::to(shared_registry().host()));
    let (client, _folder) = client_with(&proxy.host(), &password("kim", CANARY));
    let to = repository(&proxy.host(), &unique("leak-upload"));
    let location = format!("{}/upload", other.url());
    let answer = Answer::new(202).header("Location", &location);
    // The 401 comes first. The client learns the authentication method from it.
    client.push_blob(&to, &names::Digest::of(b"y"), "y".into()).await.unwrap();
    proxy.on("POST", "uploads").does(answer);
    let outcome = client.push_blob(&to, &names::Digest::of(b"x"), "x".into()).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(other.requests().len(), 0);
    gate_passed(11, 1);
}

#[tokio::test]
async fn no_secret_is_in_errors_or_debug() {
    let sample = Sample::new("leak-errors");
    let encoded = password("kim", CANARY);
    let basic = encoded.trim_start_matches(r#"{"auth":""#).trim_end_matches(r#""}"#);
    let echo = format!("you sent Authorization: Basic {basic} that is {CANARY}");
    let signed = "http://169.254.169.254/x?X-Amz-Signature=canary-signature&sig=canary";
    let faults = || {
        [
            Answer::new(400).body(echo.clone()).into(),
            Answer::new(403).body(format!(r#"{{"errors":[{{"message":"{echo}"}}]}}"#)).into(),
            Answer::new(500).body(echo.clone()).into(),
            Fault::Redirect(signed.to_owned()),
            Fault::Redirect(format!("http://kim:{CANARY}@cdn.example/")),
            Fault::Reset,
            Fault::Garbage(echo.clone().into_bytes()),
        ]
    };
    let count = faults().len();
    for index in 0..count {
        let proxy = guarded();
        let (client, _folder) = client_with(&proxy.host(), &password("kim", CANARY));
        client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
        let fault = faults()[index].clone();
        proxy.on("GET", "/manifests/").does(fault);
        let error = client.manifest(&sample.tagged(&proxy.host())).await.unwrap_err();
        let shown = format!("{} {error:?} {client:?}", words(&error));
        assert!(!shown.contains("canary") && !shown.contains(basic), "{shown}");
    }
}

#[tokio::test]
async fn a_password_that_is_echoed_percent_encoded_is_not_quoted() {
    let sample = Sample::new("leak-encoded");
    for echo in ENCODED {
        for body in [
            format!("https://kim:{echo}@h.example/"),
            format!(r#"{{"errors":[{{"code":"DENIED","message":"you sent {echo}"}}]}}"#),
        ] {
            let proxy = FaultProxy::to(shared_registry().host());
            proxy.require(Auth::Basic("kim".to_owned(), ENCODED[0].to_owned()));
            let (client, _folder) = client_with(&proxy.host(), &password("kim", ENCODED[0]));
            client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
            proxy.on("GET", "/manifests/").does(Answer::new(403).body(body.clone()));
            let error = client.manifest(&sample.tagged(&proxy.host())).await.unwrap_err();
            let shown = format!("{} {error:?}", words(&error));
            assert!(!shown.contains(echo) && !shown.contains("p%2Fss"), "{shown}");
            assert!(shown.contains("403"), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_token_server_that_echoes_the_password_is_not_quoted() {
    let sample = Sample::new("leak-server");
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Bearer(Bearer::default()));
    // The secret is at the position where long texts are cut.
    let echo = format!("{}{CANARY}", "x".repeat(290));
    proxy.on("GET", "/token?").does(Answer::new(403).body(echo));
    let (client, _folder) = client_with(&proxy.host(), &password("kim", CANARY));
    let error = client.manifest(&sample.tagged(&proxy.host())).await.unwrap_err();
    let shown = format!("{} {error:?}", words(&error));
    assert!(shown.contains("xxxx") && !shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn the_signature_of_a_redirect_is_not_quoted() {
    let sample = Sample::new("leak-signature");
    let (proxy, cdn) = (FaultProxy::to(shared_registry().host()), FaultProxy::alone());
    let signature = format!("{}+/{}", "canary".repeat(5), "a".repeat(10));
    let written = signature.replace('+', "%2B").replace('/', "%2F");
    let place = format!("{}/x?X-Amz-Expires=600&X-Amz-Signature={written}", cdn.url());
    proxy.on("GET", "/blobs/").does(Fault::Redirect(place));
    // S3 answers like this if a signature is wrong.
    let said =
        format!("<Error><SignatureProvided>{signature}</SignatureProvided>{written}</Error>");
    cdn.on("GET", "").does(Answer::new(403).body(said));
    let (client, layer) = (RegistryClient::new(settings()), sample.layer());
    let repository = sample.repository(&proxy.host());
    let outcome = client.blob(&repository, &layer.digest, size(layer), 1 << 20).await;
    let error = outcome.unwrap_err();
    let shown = format!("{} {error:?} {client:?}", words(&error));
    assert!(cdn.requests()[0].target.contains(&written));
    assert!(shown.contains("SignatureProvided") && !shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn tokens_are_not_shown_either() {
    let sample = Sample::new("leak-tokens");
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Bearer(Bearer::default()));
    let client = RegistryClient::new(settings());
    client.manifest(&sample.tagged(&proxy.host())).await.unwrap();
    proxy.on("GET", "/manifests/").does(Answer::new(403).body("your token is canary-token-1"));
    let error = client.manifest(&sample.tagged(&proxy.host())).await.unwrap_err();
    let shown = format!("{} {error:?} {client:?}", words(&error));
    assert!(shown.contains("[redacted]") && !shown.contains("canary"), "{shown}");
}
