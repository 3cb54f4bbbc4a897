//! Reads the services of a compose file: images, variables, build arguments and devices, each with
//! its line.

mod base;
mod builds;
mod conflicts;
mod folders;
mod host;
mod images;
mod keys;
mod order;
mod relations;
mod structure;
mod tags;

use std::collections::BTreeSet;

pub(crate) use base::{complete, extend, is_in_base};
pub(crate) use folders::check as check_folders;
pub(crate) use images::{Build, builds, check as check_images};

use crate::containers::{self, named};
use crate::facts::{Container, Facts, Image};
use crate::shell::{Scope, Setting, UNKNOWN, Word};
use crate::yaml::{self, Node, Value};

/// Returns whether a YAML file is a compose file.
pub(crate) fn is_compose(name: &str, text: &str) -> bool {
    name.contains("compose") || text.lines().any(|line| line.trim_end() == "services:")
}

/// Adds the facts of a compose file, up to its first YAML error; none if it is nested too deeply.
pub(crate) fn read(text: &str, facts: &mut Facts<'_>) {
    let Some(root) = yaml::documents(text).into_iter().next() else { return };
    let fragments = root
        .entries()
        .iter()
        .filter(|(name, _)| name.text().is_some_and(|name| name.starts_with("x-")))
        .map(|(name, value)| (name, &**value));
    let services = root.get("services").map_or(&[][..], Node::entries);
    let services = services.iter().map(|(name, value)| (name, &**value));
    for (name, value) in fragments.chain(services) {
        service(name, value, facts);
    }
    structure::check(&root, facts);
    // A fragment is read once for each service that merges it, so its variables are found several
    // times.
    let mut seen: BTreeSet<(String, usize)> = BTreeSet::new();
    facts.settings.retain(|setting| {
        let is_new = seen.insert((setting.name.clone(), setting.line));
        is_new || setting.program.is_none()
    });
}

fn service(name_node: &Node, service: &Node, facts: &mut Facts<'_>) {
    let name = name_node.text().unwrap_or_default();
    let reference = service.get("image").and_then(Node::text).map(interpolated);
    let image = reference.clone().unwrap_or_else(|| name.to_owned());
    let build = service.get("build");
    let mut container = Container::new(None, options(service));
    container.service = Some(Word { text: name.to_owned(), line: name_node.line });
    // A compose file for podman is assumed to be for rootless containers.
    if facts.file.rsplit('/').next().is_some_and(|file| file.contains("podman")) {
        container.options.push(named("--podman", None, 1));
    }
    if let (Some(reference), Some(node), None) = (&reference, service.get("image"), build) {
        facts.images.push(Image::new(reference, node.line));
        container.image = Some(Word { text: reference.clone(), line: node.line });
    } else {
        facts.built.extend(reference);
    }
    let mut command = String::new();
    for key in ["entrypoint", "command"] {
        let node = service.get(key);
        let texts = node.into_iter().flat_map(|node| {
            node.text().into_iter().chain(node.items().iter().filter_map(|item| item.text()))
        });
        let texts: Vec<&str> = texts.collect();
        command += &texts.join(" ");
        command.push(' ');
        // Such a service does nothing until someone uses its shell.
        if let ["bash" | "sh" | "/bin/bash" | "/bin/sh"] = texts.as_slice() {
            container.options.push(named(containers::SHELL, None, 1));
        }
    }
    let line =
        service.get("command").or_else(|| service.get("entrypoint")).map_or(1, |one| one.line);
    container.options.extend(containers::markers(&command, line));
    container.options.extend(build.map(dockerfile));
    let is_pytorch = build.is_some() && format!("{name} {image}").contains("pytorch");
    container.options.extend(is_pytorch.then(|| named(containers::PYTORCH, None, line)));
    container.options.extend(containers::named_server(&image, &container.options));
    container.options.extend(containers::named_server(name, &container.options));
    container.options.extend(containers::with_login(&format!("{name} {image}"), line));
    // A program of one's own with a database usually has accounts.
    let needed = service.get("depends_on").filter(|_| build.is_some());
    let needed = needed.into_iter().flat_map(|node| {
        let names = node.entries().iter().filter_map(|(key, _)| key.text());
        node.items().iter().filter_map(|item| item.text()).chain(names)
    });
    let mut databases = needed.filter(|one| DATABASES.iter().any(|own| one.contains(own)));
    let has_accounts = databases.next().is_some();
    container.options.extend(has_accounts.then(|| named(containers::NAMED_LOGIN, None, line)));
    let checks = service.get("healthcheck").and_then(|check| check.get("test"));
    let answers = checks.is_some_and(|test| {
        let mut texts = test.items().iter().filter_map(|item| item.text()).chain(test.text());
        texts.any(|text| ANSWERS.iter().any(|end| text.contains(end)))
    });
    let is_server = build.is_some() && answers && containers::has_gpu(&container.options);
    container.options.extend(is_server.then(|| named(containers::ANSWERS, None, line)));
    container.options.extend(containers::empty_key(&format!("{name} {image}"), &container.options));
    facts.containers.push(container);
    started(service, &image, facts);
    // If the service overrides the entrypoint, another program may read the variables.
    let has_own_start = service.get("entrypoint").is_some();
    let program = (!has_own_start).then(|| format!("{image} {name}"));
    for setting in pairs(service.get("environment"), Scope::Run) {
        facts.settings.push(Setting { program: program.clone(), ..setting });
    }
    let arguments = pairs(build.and_then(|build| build.get("args")), Scope::Argument);
    let images = arguments.iter().filter(|one| one.is_image());
    facts.images.extend(images.map(|one| Image::new(&one.value, one.line)));
    facts.settings.extend(arguments);
    if let Some(node) = service.get("privileged").filter(|node| node.text() == Some("true")) {
        facts.privileged.push((node.line, format!("the service `{name}` is privileged")));
    }
}

/// Places that health checks of model servers ask.
const ANSWERS: [&str; 3] = ["/health", "/v1/models", "/api/tags"];

/// Parts of the names of services with a database for accounts.
const DATABASES: [&str; 6] = ["database", "db", "maria", "mongo", "mysql", "postgres"];

/// Returns the marker for a service that is built. It has the path of the Dockerfile if the last
/// stage is built.
fn dockerfile(build: &Node) -> Word {
    let text = |key: &str| build.get(key).and_then(Node::text).map(interpolated);
    let context = build.text().map(interpolated).or_else(|| text("context"));
    let context = context.unwrap_or_else(|| ".".to_owned());
    let file = text("dockerfile").unwrap_or_else(|| "Dockerfile".to_owned());
    let is_other = build.get("target").is_some() || build.get("dockerfile_inline").is_some();
    let is_remote = context.contains("://") || context.starts_with("git@");
    let path = format!("{}/{file}", context.trim_end_matches('/'));
    let is_known = !is_other && !is_remote && !path.contains(UNKNOWN) && !file.starts_with('/');
    let path = Some(path.as_str()).filter(|_| is_known);
    named(containers::DOCKERFILE, path, build.line)
}

/// Returns the scripts that services start, with the lines on which they begin.
pub(crate) fn scripts(text: &str) -> Vec<(String, usize)> {
    let Some(root) = yaml::documents(text).into_iter().next() else { return Vec::new() };
    let services = root.get("services").map_or(&[][..], Node::entries).iter();
    let nodes = services.flat_map(|(_, service)| {
        ["entrypoint", "command"].into_iter().filter_map(|key| service.get(key))
    });
    let of_list = |node: &Node| {
        let items = node.items();
        let is_option = |item: &std::rc::Rc<Node>| item.text().is_some_and(|one| one == "-c");
        let script = items.get(items.iter().position(is_option)? + 1)?;
        Some((script.text()?.to_owned(), script.line))
    };
    let script = |node: &Node| {
        let own = node.text().map(|one| (interpolated(one), node.line));
        own.or_else(|| of_list(node))
    };
    nodes.filter_map(script).collect()
}

/// Adds the facts of the command that a service starts.
fn started(service: &Node, image: &str, facts: &mut Facts<'_>) {
    let mut words: Vec<Word> = Vec::new();
    for key in ["entrypoint", "command"] {
        let Some(node) = service.get(key) else { continue };
        if let Some(text) = node.text() {
            return containers::script(&interpolated(text), node.line, facts);
        }
        let items = node.items().iter();
        words.extend(
            items.filter_map(|item| {
                Some(Word { text: interpolated(item.text()?), line: item.line })
            }),
        );
    }
    containers::start(words, image, facts);
}

/// The keys of a service, and the corresponding options of `podman run`. The effects of `extends`
/// and `deploy` are unknown.
const OPTIONS: [(&str, &str); 25] = [
    ("cap_add", "--cap-add"),
    ("cap_drop", "--cap-drop"),
    ("cgroup", "--cgroup"),
    ("deploy", "--gpus"),
    ("device_cgroup_rules", "--device-cgroup-rule"),
    ("devices", "--device"),
    ("entrypoint", "--entrypoint"),
    ("env_file", "--env-file"),
    ("extends", "--extends"),
    ("gpus", "--gpus"),
    ("group_add", "--group-add"),
    ("ipc", "--ipc"),
    ("network_mode", "--network"),
    ("pid", "--pid"),
    ("ports", "--publish"),
    ("read_only", "--read-only"),
    ("resources", "--resources"),
    ("runtime", "--runtime"),
    ("security_opt", "--security-opt"),
    ("shm_size", "--shm-size"),
    ("tmpfs", "--tmpfs"),
    ("user", "--user"),
    ("userns_mode", "--userns"),
    ("volumes", "--volume"),
    ("volumes_from", "--volumes-from"),
];

/// Returns the options of a service in the form of `podman run` options.
fn options(service: &Node) -> Vec<Word> {
    let mut found = Vec::new();
    for (key, option) in OPTIONS {
        let Some(node) = service.get(key) else { continue };
        match &node.value {
            // A quoted empty text replaces the value of the base file.
            Value::Scalar(text) if structure::is_nothing(node, text) && node.is_plain => {}
            Value::Scalar(text) => found.push(named(option, Some(&interpolated(text)), node.line)),
            Value::Mapping(_) => {
                // A block mapping starts on the line after its key.
                let own = service.entries().iter().find(|(name, _)| name.text() == Some(key));
                let line = own.map_or(node.line, |(name, _)| name.line);
                found.push(named(option, None, line));
            }
            // Compose rejects such a file, so the value has no effect.
            Value::Sequence(_) if keys::is_text(key) => {}
            Value::Sequence(items) => found.extend(items.iter().map(|item| {
                let value = item.text().map(interpolated);
                named(option, value.as_deref(), item.line)
            })),
        }
    }
    let variables = pairs(service.get("environment"), Scope::Run);
    let variable =
        |one: &Setting| named("--env", Some(&format!("{}={}", one.name, one.value)), one.line);
    found.extend(variables.iter().map(variable));
    // `- NAME` passes the value of the shell that starts Compose.
    let listed = service.get("environment").map_or(&[][..], Node::items).iter();
    let passed = listed.filter_map(|item| Some((item.text()?, item.line)));
    let passed = passed.filter(|(text, _)| !text.contains('='));
    found.extend(passed.map(|(text, line)| named("--env", Some(text), line)));
    found.extend(drivers(service));
    let privileged = service.get("privileged").filter(|node| node.text() == Some("true"));
    found.extend(privileged.map(|node| named("--privileged", None, node.line)));
    let health = service.get("healthcheck").and_then(|check| check.get("test"));
    found.extend(health.map(|test| {
        let words: Vec<&str> = test.items().iter().filter_map(|item| item.text()).collect();
        let text = test.text().map_or_else(|| words.join(" "), str::to_owned);
        named("--health-cmd", Some(&text), test.line)
    }));
    found
}

/// Returns the drivers of the devices that a service reserves.
fn drivers(service: &Node) -> Vec<Word> {
    let path = ["deploy", "resources", "reservations", "devices"];
    let devices = path.iter().try_fold(service, |node, key| node.get(key));
    let devices = devices.map_or(&[][..], Node::items).iter();
    let drivers = devices.filter_map(|device| {
        let driver = device.get("driver")?;
        Some(named("--device-driver", Some(&interpolated(driver.text()?)), driver.line))
    });
    drivers.collect()
}

/// Reads variables from `NAME: value` and `- NAME=value`.
fn pairs(node: Option<&Node>, scope: Scope) -> Vec<Setting> {
    let Some(node) = node else { return Vec::new() };
    let mut all = own_pairs(node, scope);
    // `<<: *common` and `<<: [*a, *b]`; the service's own values take precedence.
    for (_, merged) in node.entries().iter().filter(|(name, _)| name.text() == Some("<<")) {
        for one in std::iter::once(merged).chain(merged.items()) {
            let added = own_pairs(one, scope).into_iter();
            let new = added.filter(|new| all.iter().all(|known| known.name != new.name));
            let new: Vec<Setting> = new.collect();
            all.extend(new);
        }
    }
    all
}

/// Reads the variables of a node itself.
fn own_pairs(node: &Node, scope: Scope) -> Vec<Setting> {
    let listed = node.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some(Setting::new(name, &interpolated(value), item.line, scope))
    });
    let named = node.entries().iter().filter_map(|(name, value)| {
        let value = interpolated(value.text()?);
        Some(Setting::new(name.text()?, &value, name.line, scope))
    });
    listed.chain(named).collect()
}

/// Replaces `${NAME:-default}` and `${NAME-default}` with the default, `$$` with `$`, and all other
/// variables with [`UNKNOWN`].
fn interpolated(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        let Some(after) = rest.strip_prefix('{') else {
            result.push(UNKNOWN);
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            continue;
        };
        let end = closing(after);
        let inside = &after[..end];
        let name_end =
            inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
        let operator = &inside[name_end..];
        match operator.strip_prefix(":-").or_else(|| operator.strip_prefix('-')) {
            Some(default) if !default.contains('$') => result.push_str(default),
            Some(_) | None => result.push(UNKNOWN),
        }
        rest = after.get(end + 1..).unwrap_or_default();
    }
    result.push_str(rest);
    result
}

/// Returns the position of the closing brace of a text, or the end of the text.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_with_their_lines() {
        let text = "x-common: &common\n  environment:\n    A: 1\nservices:\n  one:\n    image: a/b:c\n    privileged: true\n    devices: [/dev/kfd]\n    environment:\n      - B=2\n      - C\n      - D=${D}\n      - F=${F:-}\n      - G=${G-11.0.0}\n  two:\n    <<: *common\n    image: d\n    build:\n      context: .\n      args: { REF: main }\n  three:\n    image: ${I:-e/f:1}\n    environment: { E: \"\" }\n";
        let facts = Facts::read("compose.yml", text);
        let settings: Vec<_> = facts
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_str(), s.line, s.scope))
            .collect();
        assert_eq!(
            settings,
            [
                ("A", "1", 3, Scope::Run),
                ("B", "2", 10, Scope::Run),
                ("D", "\u{fffc}", 12, Scope::Run),
                ("F", "", 13, Scope::Run),
                ("G", "11.0.0", 14, Scope::Run),
                ("REF", "main", 20, Scope::Argument),
                ("E", "", 23, Scope::Run),
            ]
        );
        let images: Vec<_> =
            facts.images.iter().map(|image| (image.reference.as_str(), image.line)).collect();
        assert_eq!(images, [("a/b:c", 6), ("e/f:1", 22)], "the image of a build is not pulled");
        let options: Vec<_> = facts.containers[1].options.iter().map(|one| &*one.text).collect();
        let expected = [
            "--device=/dev/kfd",
            "--env=B=2",
            "--env=D=\u{fffc}",
            "--env=F=",
            "--env=G=11.0.0",
            "--env=C",
            "--privileged",
        ];
        assert_eq!(options, expected);
        assert_eq!(facts.privileged, [(7, "the service `one` is privileged".to_owned())]);
    }

    #[test]
    fn what_is_no_yaml_comes_to_an_end() {
        for text in [
            "",
            "a: [",
            "\t",
            "a: *b",
            "- - -",
            "services:\n  a: {image",
            "&a *a",
            "services: &a\n  <<: *a\n  x: *a\n",
        ] {
            drop(Facts::read("compose.yml", text));
        }
    }
}
