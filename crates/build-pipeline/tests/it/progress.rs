//! Long transfers: the lines in a log, and what is fetched again after an interruption.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use testkit::{Fault, FaultProxy, PushedImage, RandomImage, shared_registry};

use crate::dsl::{Base, Project};

/// The size of the only layer, in bytes.
const LAYER: usize = 40_000_000;
/// The bytes of it that arrive before the transfer breaks off.
const ARRIVES: usize = 32 << 20;

/// A project, and a base with a large layer behind a proxy. The first transfer of the layer breaks
/// off, the second never begins, and all others are good.
struct Large {
    project: Project,
    image: PushedImage,
    proxy: FaultProxy,
    line: String,
}

impl Large {
    fn new(seed: u64) -> Self {
        let (project, base) = (Project::new(), Base::push(seed));
        let host = shared_registry().host();
        let image = RandomImage { layers: vec![LAYER], ..RandomImage::new(seed + 1) }
            .push(host, &base.path, "large");
        let proxy = FaultProxy::to(host);
        let layer = image.layers[0].digest.as_str();
        proxy.on("GET", layer).first(1).does(Fault::CloseAt(ARRIVES));
        proxy.on("GET", layer).nth(2).does(Fault::Stall);
        let line = base.locked_spoof(&proxy.host()).replace(&base.digest(), image.digest.as_str());
        Self { project, image, proxy, line }
    }
}

#[test]
fn a_long_transfer_is_reported_and_continued_after_an_interruption() {
    for (seed, output) in
        [(401, "--with-layers --output oci:image"), (403, "--output oci-archive:image")]
    {
        let large = Large::new(seed);
        let (project, line) = (&large.project, format!("{} {output}", large.line));
        let (_, name) = output.split_once("--output ").unwrap();
        let mut first = project.begin(&line);
        let mut said = BufReader::new(first.stderr.take().unwrap()).lines().map(Result::unwrap);
        for wanted in ["building locked-spoof: ", &format!("· {name}: 40.0 MB of layers")] {
            assert!(said.any(|line| line.starts_with(wanted)), "{name}: no line `{wanted}`");
        }
        // Nothing arrives any more, and the log still shows how far it is.
        let is_alive = |line: &String| {
            line.starts_with(&format!("· {name}: ")) && line.contains(" MB of 40.0 MB, ")
        };
        let alive = said.find(is_alive).unwrap_or_default();
        assert!(alive.contains("B/s, ") && alive.ends_with(" left"), "{name}: {alive}");

        let interrupt = ["-INT".to_owned(), first.id().to_string()];
        assert!(Command::new("kill").args(interrupt).status().unwrap().success());
        let rest: Vec<String> = said.collect();
        assert_eq!(first.wait().unwrap().code(), Some(130), "{rest:?}");
        let hint = "hint: rerun the same command to continue from the cache";
        assert!(rest.iter().any(|line| line == hint), "{rest:?}");

        // Both runs together fetch hardly more than the image.
        project.run(&line).expect(0);
        let received =
            |record: &serde_json::Value| record["traffic"]["bytes_received"].as_u64().unwrap();
        let sum: u64 = project.records().iter().map(received).sum();
        let whole = large.image.layers[0].bytes.len() as u64;
        assert!((whole..=whole + whole / 20).contains(&sum), "{name}: {sum} of {whole} bytes");

        // Unchanged, no layer is fetched again.
        let asked = large.proxy.requests().len();
        project.run(&line).expect(0).prints("(up to date; no layers transferred)");
        assert_eq!(large.proxy.requests().len(), asked, "{name}");
    }
}
