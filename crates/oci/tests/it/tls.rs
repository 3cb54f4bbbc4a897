//! https: certificates are checked, and nothing leads from https to http.

use std::net::{IpAddr, Ipv4Addr};

use oci::client::{AddressScope, ClientSettings, ErrorKind, FixedName, RegistryClient};
use testkit::{Auth, Bearer, Fault, FaultProxy, authority_der, shared_registry};

use crate::support::{Sample, check, client, local_stream, repository, settings, size, unique};

fn names() -> Vec<FixedName> {
    let name = |name: &str| FixedName {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        scope: AddressScope::Public,
    };
    ["registry.test", "cdn.test", "auth.test", "not-in-the-certificate.org"].map(name).into()
}

fn trusting() -> RegistryClient {
    RegistryClient::new(ClientSettings {
        extra_roots: vec![authority_der()],
        fixed_names: names(),
        ..settings()
    })
}

#[tokio::test]
async fn reading_and_pushing_work() {
    let sample = Sample::new("tls");
    let proxy = FaultProxy::tls_to(shared_registry().host());
    let realm = Some(proxy.realm_as("auth.test"));
    proxy.require(Auth::Bearer(Bearer { realm, ..Bearer::default() }));
    let cdn = FaultProxy::tls_to(shared_registry().host());
    let location = format!("{}{{target}}", cdn.url_as("cdn.test"));
    proxy.on("GET", "/blobs/").does(Fault::Redirect(location));
    let (client, host) = (trusting(), proxy.host_as("registry.test"));
    client.manifest(&sample.tagged(&host)).await.unwrap();
    let layer = sample.layer();
    let from = sample.repository(&host);
    client.blob(&from, &layer.digest, size(layer), 1 << 20).await.unwrap();
    let to = repository(&host, &unique("tls-push"));
    let bytes = vec![5; 100_000];
    let digest = names::Digest::of(&bytes);
    client.push_blob_stream(&to, &digest, 100_000, local_stream(&bytes, 999)).await.unwrap();
    assert!(cdn.requests()[0].header("authorization").is_none());
}

#[tokio::test]
async fn untrusted_and_misnamed_certificates_are_refused_at_once() {
    let sample = Sample::new("untrusted");
    let proxy = FaultProxy::tls_to(shared_registry().host());
    let strict = RegistryClient::new(ClientSettings { fixed_names: names(), ..settings() });
    let outcome = strict.manifest(&sample.tagged(&proxy.host_as("registry.test"))).await;
    let error = check(outcome, ErrorKind::Tls, "its certificate is not trusted");
    assert_eq!(error.tries(), 1);
    let host = proxy.host_as("not-in-the-certificate.org");
    let outcome = trusting().manifest(&sample.tagged(&host)).await;
    check(outcome, ErrorKind::Tls, "its certificate is not trusted");
    assert_eq!(proxy.requests().len(), 0);
}

#[tokio::test]
async fn http_where_https_is_due_is_refused() {
    let sample = Sample::new("downgrade");
    let plain = FaultProxy::to(shared_registry().host());
    let outcome = trusting().manifest(&sample.tagged(&plain.host_as("registry.test"))).await;
    assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::Tls | ErrorKind::Unreachable));
    let proxy = FaultProxy::tls_to(shared_registry().host());
    let location = format!("{}{{target}}", plain.url_as("cdn.test"));
    proxy.on("GET", "/manifests/").does(Fault::Redirect(location));
    let host = proxy.host_as("registry.test");
    let outcome = trusting().manifest(&sample.tagged(&host)).await;
    check(outcome, ErrorKind::Refused, "it leads from https to http");
    let proxy = FaultProxy::tls_to(shared_registry().host());
    let realm = Some(plain.realm_as("auth.test"));
    proxy.require(Auth::Bearer(Bearer { realm, ..Bearer::default() }));
    let host = proxy.host_as("registry.test");
    let outcome = trusting().manifest(&sample.tagged(&host)).await;
    check(outcome, ErrorKind::Refused, "it leads from https to http");
    assert_eq!(plain.requests().len(), 0);
}

#[tokio::test]
async fn a_registry_on_this_machine_may_speak_https_too() {
    let sample = Sample::new("local-tls");
    let proxy = FaultProxy::tls_to(shared_registry().host());
    trusting().manifest(&sample.tagged(&proxy.host())).await.unwrap();
    assert!(client().manifest(&sample.tagged(&proxy.host())).await.is_err());
}
