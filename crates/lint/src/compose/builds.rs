//! Checks the services of a compose file that have both `build` and `image`.

use crate::facts::Problem;
use crate::yaml::Node;

/// What distinguishes two builds.
#[derive(PartialEq, Eq)]
struct Build {
    context: String,
    dockerfile: String,
    target: String,
    arguments: Vec<String>,
}

/// A service with `build` and `image`.
struct Built<'n> {
    name: &'n str,
    /// The image, before variables are replaced.
    image: &'n str,
    build: Build,
}

/// Adds the problems of services that have `build` and `image`.
pub(super) fn check(services: &Node, problems: &mut Vec<Problem>) {
    let mut earlier: Vec<Built<'_>> = Vec::new();
    for (name, service) in services.entries().iter().take(MOST_SERVICES) {
        let (Some(image), Some(build)) = (service.get("image"), service.get("build")) else {
            continue;
        };
        // Another file can set a policy.
        if service.get("extends").is_some() {
            continue;
        }
        let Some(text) = image.text() else { continue };
        let (name_text, build) = (name.text().unwrap_or_default(), described(build));
        let one = Built { name: name_text, image: text, build };
        let is_other = |other: &&Built<'_>| other.image == one.image && other.build != one.build;
        if let Some(other) = earlier.iter().find(is_other) {
            let message = format!(
                "`{text}` is also the image of the service `{}`, which is built in another way",
                other.name
            );
            let own = service.entries().iter().find(|(key, _)| key.text() == Some("image"));
            let line = own.map_or(name.line, |(key, _)| key.line);
            problems.push(Problem { rule: "image-shared-name", line, message });
        }
        earlier.push(one);
    }
}

/// The maximum number of services that are compared with each other.
const MOST_SERVICES: usize = 100;

/// Returns what distinguishes a build from others.
fn described(build: &Node) -> Build {
    let text = |key: &str| build.get(key).and_then(Node::text).unwrap_or_default().to_owned();
    let context = build.text().map_or_else(|| text("context"), str::to_owned);
    let args = build.get("args");
    let listed = args.map_or(&[][..], Node::items).iter();
    let listed = listed.filter_map(|item| item.text().map(str::to_owned));
    let named = args.map_or(&[][..], Node::entries).iter().filter_map(|(name, value)| {
        Some(format!("{}={}", name.text()?, value.text().unwrap_or_default()))
    });
    let mut arguments: Vec<String> = listed.chain(named).collect();
    arguments.sort();
    let dockerfile = text("dockerfile") + &text("dockerfile_inline");
    Build {
        context: plain(&context),
        dockerfile: plain(&dockerfile),
        target: text("target"),
        arguments,
    }
}

/// Returns a path without `./`, a slash at its end, and the default name of a Dockerfile.
fn plain(path: &str) -> String {
    let path = path.trim_end_matches('/');
    let path = path.strip_prefix("./").unwrap_or(path);
    let path = if matches!(path, "." | "Dockerfile") { "" } else { path };
    path.to_owned()
}
