//! Redirects and upload locations: followed if that is safe, refused if not.

use std::net::{IpAddr, Ipv4Addr};

use oci::client::{AddressScope, ClientSettings, ErrorKind, FixedName, RegistryClient};
use testkit::{Answer, Auth, Bearer, Fault, FaultProxy, gate_passed, shared_registry};

use crate::support::{Sample, check, client, read, repository, settings, size, unique};

/// Returns a client for which some names count as being on other networks, although all are on this
/// machine.
pub(crate) fn client_of_the_world(proxy: &FaultProxy) -> RegistryClient {
    let name = |name: &str, scope| FixedName {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        scope,
    };
    let fixed_names = vec![
        name("registry.test", AddressScope::Public),
        name("cdn.test", AddressScope::Public),
        name("inner.test", AddressScope::Private),
        name("here.test", AddressScope::Loopback),
        name("metadata.test", AddressScope::Never),
        name("harbor.test", AddressScope::Private),
    ];
    let hosts = ["registry.test", "harbor.test"].map(|name| proxy.host_as(name));
    let plain_http = hosts.into_iter().collect();
    RegistryClient::new(ClientSettings { plain_http, fixed_names, ..settings() })
}

fn to(location: impl Into<String>) -> Fault {
    Fault::Redirect(location.into())
}

#[tokio::test]
async fn all_five_redirects_are_followed() {
    let sample = Sample::new("five");
    for status in [301, 302, 303, 307, 308] {
        let cdn = FaultProxy::to(shared_registry().host());
        let proxy = FaultProxy::to(shared_registry().host());
        let digest = &sample.layer().digest;
        let target = format!("{}/v2/{}/blobs/{digest}", cdn.url(), sample.path);
        proxy.on("GET", "/blobs/").does(Answer::new(status).header("Location", &target));
        let repository = sample.repository(&proxy.host());
        let size = size(sample.layer());
        client().blob(&repository, digest, size, 1 << 20).await.unwrap();
        let stream = client().blob_stream(&repository, digest, size).await.unwrap();
        assert_eq!(read(stream).await.0, sample.layer().bytes);
        assert_eq!(cdn.requests().len(), 2, "{status}");
    }
}

#[tokio::test]
async fn manifests_are_redirected_too_and_relatively() {
    let sample = Sample::new("relative");
    let proxy = FaultProxy::to(shared_registry().host());
    let there = format!("/v2/{}/manifests/{}", sample.path, sample.image.digest);
    proxy.on("GET", "/manifests/one").nth(1).does(to(there));
    client().manifest(&sample.tagged(&proxy.host())).await.unwrap();
    assert_eq!(proxy.requests().len(), 2);
}

#[tokio::test]
async fn a_redirect_home_keeps_the_credential_and_a_chain_away_and_back_too() {
    let sample = Sample::new("home");
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Bearer(Bearer::default()));
    let cdn = FaultProxy::to(shared_registry().host());
    // 401 first, then the redirect to another host, and from there back.
    proxy.on("GET", "/manifests/").nth(2).does(to(format!("{}{{target}}", cdn.url())));
    cdn.on("GET", "/manifests/").does(to(format!("{}{{target}}", proxy.url())));
    client().manifest(&sample.tagged(&proxy.host())).await.unwrap();
    assert_eq!(cdn.requests().len(), 1);
    assert!(cdn.requests()[0].header("authorization").is_none());
    assert_eq!(proxy.requests().len(), 4);
}

#[tokio::test]
async fn redirects_end_after_five() {
    let sample = Sample::new("loop");
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/manifests/").does(to("{target}"));
    let outcome = client().manifest(&sample.tagged(&proxy.host())).await;
    check(outcome, ErrorKind::Refused, "it redirects more than 5 times");
    assert_eq!(proxy.requests().len(), 7);
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/manifests/").first(5).does(to("{target}"));
    client().manifest(&sample.tagged(&proxy.host())).await.unwrap();
}

#[tokio::test]
async fn a_public_registry_cannot_send_us_inward() {
    let sample = Sample::new("inward");
    let inner = FaultProxy::to(shared_registry().host());
    let mut tried = 0;
    for (location, said) in [
        (inner.url(), "is this machine, but the registry is not"),
        (inner.url_as("localhost"), "is this machine"),
        (inner.url_as("LOCALHOST"), "is this machine"),
        (inner.url_as("2130706433"), "is this machine"),
        (inner.url_as("0x7f.1"), "is this machine"),
        (inner.url_as("[::1]"), "is this machine"),
        (inner.url_as("[::ffff:127.0.0.1]"), "is this machine"),
        (inner.url_as("here.test"), "`here.test` is this machine"),
        (inner.url_as("inner.test"), "`inner.test` is a private address"),
        (inner.url_as("metadata.test"), "`metadata.test` is a link-local"),
        ("http://10.0.0.1/x".to_owned(), "is a private address"),
        ("http://172.16.0.1/x".to_owned(), "is a private address"),
        ("http://192.168.1.1/x".to_owned(), "is a private address"),
        ("http://100.64.0.1/x".to_owned(), "is a private address"),
        ("http://[fd00::1]/x".to_owned(), "is a private address"),
        ("http://169.254.169.254/latest/meta-data".to_owned(), "is a link-local"),
        ("http://[fe80::1]/x".to_owned(), "is a link-local"),
        ("http://0.0.0.0/x".to_owned(), "is a link-local, unspecified"),
        ("http://[::]/x".to_owned(), "is a link-local, unspecified"),
        ("ftp://cdn.test/x".to_owned(), "is not http or https"),
        ("file:///etc/passwd".to_owned(), "is not http or https"),
        ("http://kim:pw@cdn.test/x".to_owned(), "contains a user name"),
    ] {
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("GET", "/v2/").does(to(&location));
        let client = client_of_the_world(&proxy);
        let host = proxy.host_as("registry.test");
        let manifest = client.manifest(&sample.tagged(&host)).await;
        let error = check(manifest, ErrorKind::Refused, said);
        assert_eq!(error.tries(), 1, "{location}");
        let layer = sample.layer();
        let repository = sample.repository(&host);
        let stream = client.blob_stream(&repository, &layer.digest, size(layer)).await;
        check(stream, ErrorKind::Refused, said);
        assert!(!crate::support::words(&error).contains("kim"));
        tried += 2;
    }
    assert_eq!(inner.requests().len(), 0);
    gate_passed(11, tried);
}

#[tokio::test]
async fn a_public_registry_may_redirect_to_the_world_and_a_private_one_to_its_neighbours() {
    let sample = Sample::new("outward");
    for (registry, target) in [
        ("registry.test", "cdn.test"),
        ("registry.test", "registry.test"),
        ("harbor.test", "inner.test"),
        ("harbor.test", "cdn.test"),
    ] {
        let proxy = FaultProxy::to(shared_registry().host());
        let cdn = FaultProxy::to(shared_registry().host());
        let there = if target == registry { &proxy } else { &cdn }.url_as(target);
        proxy.on("GET", "/blobs/").nth(1).does(to(format!("{there}{{target}}")));
        let client = client_of_the_world(&proxy);
        let repository = sample.repository(&proxy.host_as(registry));
        let layer = sample.layer();
        client.blob(&repository, &layer.digest, size(layer), 1 << 20).await.unwrap();
    }
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/blobs/").does(to(format!("{}{{target}}", proxy.url_as("here.test"))));
    let client = client_of_the_world(&proxy);
    let repository = sample.repository(&proxy.host_as("harbor.test"));
    let outcome = client.has_blob(&repository, &sample.layer().digest).await;
    assert!(outcome.unwrap());
    let layer = sample.layer();
    let outcome = client.blob(&repository, &layer.digest, size(layer), 1 << 20).await;
    check(outcome, ErrorKind::Refused, "`here.test` is this machine");
}

#[tokio::test]
async fn token_servers_of_a_public_registry_are_judged_alike() {
    let sample = Sample::new("realms");
    let inner = FaultProxy::to(shared_registry().host());
    let mut tried = 0;
    for (realm, said) in [
        (inner.realm_as("127.0.0.1"), "is this machine"),
        (inner.realm_as("localhost"), "is this machine"),
        (inner.realm_as("cdn.test"), "from https to http"),
        ("https://10.0.0.1/token".to_owned(), "is a private address"),
        ("https://169.254.169.254/token".to_owned(), "is a link-local"),
        ("https://inner.test/token".to_owned(), "`inner.test` is a private address"),
        ("https://here.test/token".to_owned(), "`here.test` is this machine"),
    ] {
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.require(Auth::Bearer(Bearer { realm: Some(realm), ..Bearer::default() }));
        let host = proxy.host_as("registry.test");
        let outcome = client_of_the_world(&proxy).manifest(&sample.tagged(&host)).await;
        check(outcome, ErrorKind::Refused, said);
        tried += 1;
    }
    assert_eq!(inner.requests().len(), 0);
    gate_passed(11, tried);
}

#[tokio::test]
async fn uploads_go_on_at_the_registry_only() {
    let other = FaultProxy::to(shared_registry().host());
    let mut tried = 0;
    for location in [
        format!("{}/v2/x/blobs/uploads/1", other.url()),
        "https://127.0.0.1:1/upload".to_owned(),
        "http://169.254.169.254/upload".to_owned(),
        "//127.0.0.2/upload".to_owned(),
        "file:///upload".to_owned(),
    ] {
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("POST", "uploads").does(Answer::new(202).header("Location", &location));
        let to = repository(&proxy.host(), &unique("location"));
        let digest = names::Digest::of(b"x");
        let outcome = client().push_blob(&to, &digest, "x".into()).await;
        check(outcome, ErrorKind::Refused, "its upload location");
        assert_eq!(proxy.count("PUT", ""), 0);
        tried += 1;
    }
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("POST", "uploads").does(Answer::new(202));
    let to = repository(&proxy.host(), &unique("location"));
    let outcome = client().push_blob(&to, &names::Digest::of(b"x"), "x".into()).await;
    check(outcome, ErrorKind::Protocol, "without a valid `Location`");
    assert_eq!(other.requests().len(), 0);
    gate_passed(11, tried);
}

#[tokio::test]
async fn uploads_are_not_redirected() {
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("PUT", "/blobs/").does(to("{target}"));
    let to = repository(&proxy.host(), &unique("redirected"));
    let outcome = client().push_blob(&to, &names::Digest::of(b"x"), "x".into()).await;
    check(outcome, ErrorKind::Protocol, "answered 307");
}
