//! Mirrors are used first, in order. They are never trusted and never written to.

use names::ImageRef;
use oci::client::{ClientSettings, ErrorKind, Hosts, Mirror, RegistryClient};
use oci::registries_conf::RegistriesConf;
use testkit::{Answer, Fault, FaultProxy, shared_registry};

use crate::support::{Sample, check, read, settings, size, words};

/// A registry and two mirrors, all with the same content.
struct Places {
    sample: Sample,
    registry: FaultProxy,
    one: FaultProxy,
    two: FaultProxy,
}

impl Places {
    fn new(name: &str) -> Self {
        let [registry, one, two] = [(); 3].map(|()| FaultProxy::to(shared_registry().host()));
        Self { sample: Sample::new(name), registry, one, two }
    }

    fn client(&self) -> RegistryClient {
        let mirror = |to: &FaultProxy| Mirror::new(&self.registry.host(), &to.host()).unwrap();
        let mirrors = vec![mirror(&self.one), mirror(&self.two)];
        RegistryClient::new(ClientSettings { mirrors, ..settings() })
    }

    fn counts(&self) -> [usize; 3] {
        [&self.one, &self.two, &self.registry].map(|proxy| proxy.requests().len())
    }

    fn pinned(&self) -> ImageRef {
        self.sample.pinned(&self.registry.host())
    }
}

#[tokio::test]
async fn the_first_mirror_that_has_it_is_enough() {
    let places = Places::new("first");
    places.client().manifest(&places.pinned()).await.unwrap();
    assert_eq!(places.counts(), [1, 0, 0]);
}

#[tokio::test]
async fn failures_fall_to_the_next_place() {
    for (fault, wanted, warned) in [
        (Fault::status(404), [1, 1, 0], None),
        (Fault::status(401), [1, 1, 0], Some("neither Bearer nor Basic")),
        (Fault::status(403), [1, 1, 0], Some("answered 403")),
        (Fault::status(503), [3, 1, 0], Some("answered 503")),
        (Fault::Reset, [3, 1, 0], Some("connection broke")),
        (Fault::Garbage(b"x\n".to_vec()), [1, 1, 0], Some("not HTTP")),
    ] {
        let places = Places::new("fall");
        let name = format!("{fault:?}");
        places.one.on("*", "").does(fault);
        let client = places.client();
        client.manifest(&places.pinned()).await.unwrap();
        assert_eq!(places.counts(), wanted, "{name}");
        client.manifest(&places.pinned()).await.unwrap();
        // One warning per mirror, however often it fails.
        let warnings = client.warnings();
        assert_eq!(warnings.len(), usize::from(warned.is_some()), "{name}: {warnings:?}");
        for warning in warnings {
            assert_eq!(warning.rule, "mirror-failed");
            let host = places.one.host();
            assert!(
                warning.message.starts_with(&format!("mirror `{host}` was skipped")),
                "{warning:?}"
            );
            assert!(warning.message.contains(warned.unwrap()), "{warning:?}");
        }
    }
}

#[tokio::test]
async fn a_mirror_with_wrong_content_is_not_asked_again() {
    let places = Places::new("wrong");
    places.one.on("GET", "/manifests/").does(Fault::Flip(30));
    let client = places.client();
    client.manifest(&places.pinned()).await.unwrap();
    client.manifest(&places.pinned()).await.unwrap();
    assert_eq!(places.counts(), [1, 2, 0]);
    let warnings = client.warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].rule, "mirror-distrusted");
    let message = &warnings[0].message;
    assert!(message.contains("is no longer used: it served wrong content"), "{message}");
}

#[tokio::test]
async fn a_stream_goes_on_at_the_next_place() {
    let places = Places::new("goes-on");
    places.one.on("GET", "/blobs/").does(Fault::ResetAt(2000));
    let repository = places.sample.repository(&places.registry.host());
    let layer = places.sample.layer();
    let client = places.client();
    let stream = client.blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
    let requests = places.two.requests();
    let range = requests[0].header("range").unwrap();
    assert!(range.starts_with("bytes=") && range != "bytes=0-", "{range}");
}

#[tokio::test]
async fn a_push_starts_over_when_the_mirror_was_wrong() {
    let places = Places::new("over");
    places.one.on("GET", "/blobs/").does(Fault::Flip(2500));
    let from = places.sample.repository(&places.registry.host());
    let to = crate::support::repository(&places.registry.host(), &crate::support::unique("over"));
    let layer = places.sample.layer();
    let client = places.client();
    let stream = client.blob_stream(&from, &layer.digest, size(layer)).await.unwrap();
    client.push_blob_stream(&to, &layer.digest, size(layer), stream).await.unwrap();
    assert!(client.has_blob(&to, &layer.digest).await.unwrap());
    assert_eq!(places.two.count("GET", "/blobs/"), 1);
    assert_eq!(client.warnings().len(), 1);
}

#[tokio::test]
async fn when_all_fail_each_is_named() {
    let places = Places::new("all");
    places.one.on("*", "").does(Fault::status(503));
    places.two.on("*", "").does(Fault::Flip(9));
    places.registry.on("*", "").does(Fault::status(404));
    let outcome = places.client().manifest(&places.pinned()).await;
    let error = check(outcome, ErrorKind::Integrity, "answered 404");
    let words = words(&error);
    for (place, said) in [
        (&places.one, "(3 tries, waited 0.0 s) it answered 503"),
        (&places.two, "(1 try) it served wrong content"),
        (&places.registry, "(1 try) it answered 404"),
    ] {
        assert!(words.contains(&format!("at `{}` {said}", place.host())), "{words}");
    }
}

#[tokio::test]
async fn writing_and_looking_go_to_the_registry() {
    let places = Places::new("write");
    let client = places.client();
    let to = places.sample.repository(&places.registry.host());
    client.push_blob(&to, &names::Digest::of(b"x"), "x".into()).await.unwrap();
    client.has_blob(&to, &places.sample.layer().digest).await.unwrap();
    let bytes = places.sample.image.manifest.bytes.clone();
    let image = to.tagged(&"two".parse().unwrap());
    client.push_manifest(&image, &places.sample.image.media_type, bytes.into()).await.unwrap();
    assert_eq!(places.counts(), [0, 0, 4]);
}

#[tokio::test]
async fn registries_conf_is_heard_after_the_command_line() {
    let places = Places::new("conf");
    let registry = places.registry.host();
    for (pull, by_tag, by_digest) in [
        ("all", [1, 0, 0], [1, 0, 0]),
        ("digest-only", [0, 0, 1], [1, 0, 0]),
        ("tag-only", [1, 0, 0], [0, 0, 1]),
    ] {
        let text = format!(
            "[[registry]]\nprefix = '{registry}/test'\nlocation = '{registry}/test'\n\
             [[registry.mirror]]\nlocation = '{}/test'\npull-from-mirror = '{pull}'\n",
            places.one.host()
        );
        let conf = RegistriesConf::parse([("conf", text.as_str())]).unwrap();
        let client = RegistryClient::new(ClientSettings { registries_conf: conf, ..settings() });
        for (image, wanted) in
            [(places.sample.tagged(&registry), by_tag), (places.pinned(), by_digest)]
        {
            let before = places.counts();
            client.manifest(&image).await.unwrap();
            let after = places.counts();
            let found: Vec<_> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            assert_eq!(found, wanted, "{pull} {image}");
        }
    }
}

#[tokio::test]
async fn a_blocked_registry_is_not_asked() {
    let places = Places::new("blocked");
    let text = format!("[[registry]]\nlocation = '{}'\nblocked = true", places.registry.host());
    let conf = RegistriesConf::parse([("conf", text.as_str())]).unwrap();
    let client = RegistryClient::new(ClientSettings { registries_conf: conf, ..settings() });
    let outcome = client.manifest(&places.pinned()).await;
    check(outcome, ErrorKind::Refused, "registries.conf blocks");
    let to = places.sample.repository(&places.registry.host());
    let outcome = client.push_blob(&to, &names::Digest::of(b"x"), "x".into()).await;
    check(outcome, ErrorKind::Refused, "registries.conf blocks");
    assert_eq!(places.counts(), [0, 0, 0]);
}

#[tokio::test]
async fn locations_are_listed_in_order() {
    let mirrors = vec![
        Mirror::new("docker.io", "mirror.example:5000/hub").unwrap(),
        Mirror::new("docker.io/rocm", "127.0.0.1:5000").unwrap(),
        Mirror::new("ghcr.io", "other.example").unwrap(),
    ];
    let client = RegistryClient::new(ClientSettings { mirrors, ..settings() });
    let locations = client.locations(&"docker.io/rocm/vllm-dev".parse().unwrap());
    let locations: Vec<_> = locations.iter().map(ToString::to_string).collect();
    assert_eq!(
        locations,
        [
            "mirror.example:5000/hub/rocm/vllm-dev",
            "127.0.0.1:5000/vllm-dev",
            "docker.io/rocm/vllm-dev"
        ]
    );
}

#[tokio::test]
async fn the_kind_is_that_of_the_most_telling_place() {
    let page = Answer::new(200).header("Content-Type", "text/html").body("<html>log in</html>");
    for (mirror, registry, wanted, is_at_mirror) in [
        (Fault::status(401), Fault::Reset, ErrorKind::Authentication, true),
        (Fault::status(403), Fault::Reset, ErrorKind::Denied, true),
        (Fault::status(429), Fault::Reset, ErrorKind::RateLimited { until: None }, true),
        (Fault::status(500), Fault::Reset, ErrorKind::Registry, true),
        (Fault::status(404), Fault::Reset, ErrorKind::NotFound, true),
        (page.into(), Fault::Reset, ErrorKind::Protocol, true),
        (Fault::status(401), Fault::status(404), ErrorKind::Authentication, true),
        (Fault::Reset, Fault::status(404), ErrorKind::NotFound, false),
        (Fault::status(404), Fault::status(404), ErrorKind::NotFound, false),
        (Fault::status(404), Fault::status(503), ErrorKind::Registry, false),
    ] {
        let places = Places::new("telling");
        places.one.on("*", "").does(mirror);
        places.two.on("*", "").does(Fault::Reset);
        places.registry.on("*", "").does(registry);
        let outcome = places.client().manifest(&places.pinned()).await;
        let error = check(outcome, wanted, "cannot read the manifest of");
        let place = if is_at_mirror { &places.one } else { &places.registry };
        assert_eq!((error.host(), error.is_at_mirror()), (&*place.host(), is_at_mirror));
        if is_at_mirror && wanted == ErrorKind::NotFound {
            let copy = places.sample.pinned(&places.one.host()).to_string();
            assert_eq!(error.missing_copy(), Some((places.pinned().to_string(), copy)));
        }
    }
}

#[tokio::test]
async fn only_mirrors_are_asked_if_nothing_else_is_allowed() {
    let places = Places::new("only");
    let hosts = |list: &[&FaultProxy]| Hosts::Only(list.iter().map(|one| one.host()).collect());
    let mirrors = vec![Mirror::new(&places.registry.host(), &places.one.host()).unwrap()];
    let only = hosts(&[&places.one]);
    let given = ClientSettings { mirrors, hosts: only.clone(), ..settings() };
    let client = RegistryClient::new(given.clone());
    client.manifest(&places.pinned()).await.unwrap();
    assert_eq!(places.counts(), [1, 0, 0]);
    // If a mirror fails, the registry is not used instead.
    places.one.on("*", "").does(Fault::status(404));
    let outcome = client.manifest(&places.pinned()).await;
    let error = check(outcome, ErrorKind::NotFound, "answered 404");
    assert!(error.missing_copy().is_some());
    assert!(client.manifest_digest(&places.pinned()).await.is_err());
    // Pushes, and locations without a mirror.
    let to = places.sample.repository(&places.registry.host());
    let outcome = client.push_blob(&to, &names::Digest::of(b"x"), "x".into()).await;
    check(outcome, ErrorKind::NoMirror, "no mirror rule covers it");
    let none = ClientSettings { mirrors: Vec::new(), ..given };
    let outcome = RegistryClient::new(none).manifest(&places.pinned()).await;
    assert!(!check(outcome, ErrorKind::NoMirror, "no mirror rule covers it").was_asked());
    assert_eq!(places.counts(), [3, 0, 0]);
}

#[tokio::test]
async fn a_mirror_may_not_send_the_tool_elsewhere() {
    let places = Places::new("elsewhere");
    let target = format!("http://{}/x", places.registry.host());
    places.one.on("GET", "/blobs/").does(Fault::Redirect(target));
    let mirrors = vec![Mirror::new(&places.registry.host(), &places.one.host()).unwrap()];
    let hosts = Hosts::Only([places.one.host()].into());
    let client = RegistryClient::new(ClientSettings { mirrors, hosts, ..settings() });
    let repository = places.sample.repository(&places.registry.host());
    let layer = places.sample.layer();
    let outcome = client.blob_stream(&repository, &layer.digest, size(layer)).await;
    let error = check(outcome.map(drop), ErrorKind::NoMirror, "must not be contacted");
    assert!(error.was_asked());
    assert_eq!(places.counts(), [1, 0, 0]);
}
