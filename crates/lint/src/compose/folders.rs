//! Checks the folders and files that a compose file names against those that exist, and its mounts
//! against the Dockerfiles that it builds.

use std::collections::BTreeMap;

use super::base::NAMES;
use super::host;
use super::images;
use super::interpolated;
use super::order;
use super::relations;
use super::structure::is_override;
use super::tags;
use crate::Exists;
use crate::containers;
use crate::facts::{Facts, Problem};
use crate::rules;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::yaml::{self, Node};

/// Adds the problems of all services.
pub(crate) fn check(facts: &mut Facts<'_>, exists: &dyn Exists) {
    if facts.text.contains("{{") {
        return;
    }
    let Some(root) = yaml::documents(facts.text).into_iter().next() else { return };
    let Some(services) = root.get("services") else { return };
    // The paths of an override are relative to the folder of the first file.
    let own = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let has_base = || NAMES.iter().any(|name| exists.exists(facts.file, name) == Some(true));
    let is_first = !is_override(facts) && (NAMES.contains(&own) || has_base());
    let place = |service: &Node| service.get("build").and_then(|build| images::path(build, None));
    let with_text = |path: String| Some((path.clone(), exists.text(facts.file, &path)?));
    let entries = services.entries();
    // Many services can build one Dockerfile. It is read once.
    let texts: BTreeMap<String, String> =
        entries.iter().filter_map(|(_, service)| place(service)).filter_map(with_text).collect();
    let images = texts.iter().map(|(path, text)| (&**path, Facts::read("Dockerfile", text)));
    let images: BTreeMap<&str, Facts<'_>> = images.collect();
    let mut problems = Vec::new();
    let mut is_ordered = false;
    let awaited = order::awaited(services);
    for (name, service) in entries {
        if service.get("extends").is_some() {
            continue;
        }
        tags::check(service, facts, exists, &mut problems);
        relations::sourced(service, facts.file, exists, &mut problems);
        order::impatient(&awaited, name, service, &mut problems);
        let build = service.get("build");
        let path = place(service);
        let image = path.as_deref().and_then(|path| images.get(path));
        let text = image.map(|image| image.text);
        if let (Some(build), Some(path), None) = (build, &path, text)
            && is_first
        {
            missing(build, path, facts, exists, &mut problems);
        }
        let waits = || text.is_some_and(|text| order::waits(text, facts, exists));
        // The first one is enough.
        if !is_ordered && !waits() {
            let before = problems.len();
            order::check(services, name, service, &mut problems);
            is_ordered = problems.len() > before;
        }
        // A Dockerfile that exists shows what paths are relative to.
        if !is_override(facts) || image.is_some() {
            created(service, image, facts, exists, &mut problems);
        }
        let is_set = |variable: &str| {
            let start = format!("{variable}=");
            tags::FILES.iter().filter_map(|file| exists.text(facts.file, file)).any(|env| {
                env.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&start))
            })
        };
        problems.extend(host::replaced(service, &root, &is_set));
        if let Some(image) = image {
            problems.extend(opened(service, image.text));
            relations::with_image(service, image, &mut problems);
            hidden(service, build, image, &mut problems);
            problems.extend(closed(service, image));
        }
    }
    facts.problems.extend(problems);
}

/// Files that say how people get what is not in the repository.
const GUIDES: [&str; 8] = [
    "../.gitmodules",
    "../../.gitmodules",
    "../README.md",
    ".gitignore",
    ".gitmodules",
    "Makefile",
    "README.md",
    "readme.md",
];

/// Checks for a Dockerfile that does not exist.
fn missing(
    build: &Node,
    path: &str,
    facts: &Facts<'_>,
    exists: &dyn Exists,
    problems: &mut Vec<Problem>,
) {
    if path.starts_with(['/', '~']) || path.contains("..") {
        return;
    }
    let is_missing = |one: &str| exists.exists(facts.file, one) == Some(false);
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let name = folder.split('/').next().unwrap_or(folder);
    // Submodules, clones, and files that a script makes.
    let is_named = |guide: &str| {
        let text = exists.text(facts.file, guide).unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or(path);
        let is_folder = folder != "." && text.contains(name);
        is_folder && !guide.ends_with(".md")
            || text.lines().any(|line| {
                let makes = ["clone", "submodule", "> ", "cp ", "curl", "wget"];
                let names =
                    is_folder && line.contains(name) || file != "Dockerfile" && line.contains(file);
                names && makes.iter().any(|word| line.contains(word))
            })
    };
    // `podman-compose` also reads a Containerfile, and `--project-directory` names another folder.
    let others = [format!("{folder}/Containerfile"), format!("../{path}")];
    let has_other = others.iter().any(|one| exists.exists(facts.file, one) == Some(true));
    if !is_missing(path) || has_other || GUIDES.iter().any(|guide| is_named(guide)) {
        return;
    }
    let is_folder = folder != "." && is_missing(folder);
    let shown = if is_folder { folder } else { path };
    let key = if is_folder || build.get("dockerfile").is_none() { "context" } else { "dockerfile" };
    let line = build.get(key).map_or(build.line, |node| node.line);
    let message = format!("`{shown}` does not exist, so the image cannot be built");
    problems.push(Problem { rule: "compose-build-missing", line, message });
}

/// A mount of a folder or file of the host.
struct Mount {
    source: String,
    target: String,
    line: usize,
    is_read_only: bool,
}

/// Returns the mounts of folders beside the compose file.
fn mounts(service: &Node) -> Vec<Mount> {
    let items = service.get("volumes").map_or(&[][..], Node::items).iter();
    let read = |item: &std::rc::Rc<Node>| {
        let text = interpolated(item.text()?);
        let mut parts = text.split(':');
        let (source, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let is_read_only = parts.next().is_some_and(|mode| mode.split(',').any(|one| one == "ro"));
        let is_beside = source.starts_with('.') && target.starts_with('/');
        let target = target.trim_end_matches('/').to_owned();
        let mount = Mount { source, target, line: item.line, is_read_only };
        (is_beside && !text.contains(UNKNOWN)).then_some(mount)
    };
    items.filter_map(read).collect()
}

/// Returns the user of a service: its own, or that of the image that it builds.
fn user(service: &Node, image: Option<&Facts<'_>>) -> Option<String> {
    let own = service.get("user").and_then(Node::text).map(interpolated);
    let built = || rules::last_user(image?);
    let known = || {
        let named = service.get("image").filter(|_| service.get("build").is_none())?;
        let named = named.text().map(interpolated)?;
        let path = rules::image_path(&named);
        let is_one = |(name, _): &&(&str, &str)| {
            name.strip_suffix('*').map_or(path == *name, |start| path.starts_with(start))
        };
        ORDINARY.iter().find(is_one).map(|(_, user)| (*user).to_owned())
    };
    let is_last = service.get("build").is_some_and(|build| build.get("target").is_none());
    own.or_else(|| built().filter(|_| is_last)).or_else(known)
}

/// Images that run as a user other than root, and do not change the owner of their folders.
const ORDINARY: [(&str, &str); 16] = [
    ("apache/airflow", "airflow"),
    ("bitnami/*", "1001"),
    ("dpage/pgadmin4", "pgadmin"),
    ("elasticsearch", "elasticsearch"),
    ("elasticsearch/elasticsearch", "elasticsearch"),
    ("grafana/grafana*", "grafana"),
    ("jenkins/jenkins", "jenkins"),
    ("jupyter/*", "jovyan"),
    ("langflowai/langflow", "user"),
    ("mintplexlabs/anythingllm", "anythingllm"),
    ("n8nio/n8n", "node"),
    ("nodered/node-red", "node-red"),
    ("opensearchproject/opensearch", "opensearch"),
    ("prom/prometheus", "nobody"),
    ("solr", "solr"),
    ("sonatype/nexus3", "nexus"),
];

/// Files that may create the folders before the first start.
const SETUP: [&str; 9] = [
    "Makefile",
    "README.md",
    "deploy.sh",
    "install.sh",
    "justfile",
    "run.sh",
    "setup.sh",
    "start.sh",
    "up.sh",
];

/// Returns whether a script or guide beside the compose file creates a folder.
fn is_prepared(source: &str, file: &str, exists: &dyn Exists) -> bool {
    let name = source.rsplit('/').next().unwrap_or(source);
    SETUP.iter().filter_map(|one| exists.text(file, one)).any(|text| {
        let mut lines = text.lines().filter(|line| line.contains(name));
        lines.any(|line| ["mkdir", "chown", "install -d"].iter().any(|one| line.contains(one)))
    })
}

/// Parts of the names of folders that people fill, and a service usually only reads.
const GIVEN: [&str; 10] =
    ["cert", "conf", "dataset", "import", "input", "key", "model", "secret", "ssl", "template"];

/// Checks for a folder that docker creates for root, and that another user writes to.
fn created(
    service: &Node,
    image: Option<&Facts<'_>>,
    facts: &Facts<'_>,
    exists: &dyn Exists,
    problems: &mut Vec<Problem>,
) {
    let Some(user) = user(service, image) else { return };
    let name = user.split(':').next().unwrap_or_default();
    // A `chown` in the image does not change the mounted folder, and after `USER` it fails.
    let changes = ["gosu", "setpriv", "su-exec", "sudo"];
    let is_changed =
        changes.iter().any(|word| image.is_some_and(|image| image.text.contains(word)))
            && service.get("user").is_none();
    let is_open = facts.file.contains("podman") || user.contains(UNKNOWN) || is_changed;
    // Another service can change the owner, and `userns_mode` maps the user.
    let is_open = is_open || facts.code.contains("chown") || service.get("userns_mode").is_some();
    if matches!(name, "" | "0" | "root") || is_open {
        return;
    }
    let is_missing = |mount: &&Mount| {
        let last = mount.source.rsplit('/').next().unwrap_or_default();
        let is_folder = !last.contains('.') && mount.source.len() > 2;
        let is_above = mount.source.starts_with("..");
        let is_given = GIVEN.iter().any(|part| last.contains(part));
        is_folder
            && !is_above
            && !is_given
            && !mount.is_read_only
            && exists.exists(facts.file, &mount.source) == Some(false)
            && !is_prepared(&mount.source, facts.file, exists)
    };
    let all = mounts(service);
    if let Some(Mount { source, line, .. }) = all.iter().find(is_missing) {
        let message = format!(
            "if `{source}` is missing, docker creates it as root, and the user `{name}` cannot write there"
        );
        problems.push(Problem { rule: "mount-owner", line: *line, message });
    }
}

/// Returns the problem if docker makes a named volume for root, because the image has no such folder,
/// and the user of the image is another one.
fn closed(service: &Node, image: &Facts<'_>) -> Option<Problem> {
    let is_last = service.get("build").is_some_and(|build| build.get("target").is_none());
    if service.get("user").is_some() || !is_last {
        return None;
    }
    let state = rules::last_state(image)?;
    let items = service.get("volumes").map_or(&[][..], Node::items).iter();
    items.filter_map(|item| Some((item.line, item.text()?))).find_map(|(line, text)| {
        let text = interpolated(text);
        let mut parts = text.split(':');
        let (source, target) = (parts.next()?, parts.next()?.trim_end_matches('/'));
        let is_named = source.starts_with(|c: char| c.is_ascii_alphanumeric());
        let is_closed = is_named && parts.next().is_none_or(|mode| !mode.contains("ro"));
        let refuses = is_closed && state.refuses_volume(target);
        let message = format!(
            "the image has no `{target}` of its user `{}`, so docker makes the volume for root",
            state.user
        );
        refuses.then_some(Problem { rule: "folder-not-writable", line, message })
    })
}

/// Texts of commands in a Dockerfile that start a server without a login.
const UIS: [&str; 10] = [
    "comfyui",
    "gradio",
    "koboldcpp",
    "mlflow server",
    "mlflow ui",
    "streamlit",
    "tensorboard",
    "text-generation-webui",
    "webui.py",
    "webui.sh",
];

/// Signs that a login is set, in the variables of a service or in its Dockerfile.
const LOGIN_SIGNS: [&str; 6] = ["api_key", "apikey", "auth", "passw", "secret", "token"];

/// Returns the problem if a service publishes the port of a server without a login, which its
/// Dockerfile starts.
fn opened(service: &Node, dockerfile: &str) -> Option<Problem> {
    let mut starts = dockerfile.lines().filter(|line| {
        ["CMD", "ENTRYPOINT"].iter().any(|name| line.trim_start().starts_with(name))
    });
    let replaced = ["command", "entrypoint"].iter().any(|key| service.get(key).is_some());
    let command = starts.next_back().filter(|_| !replaced)?.replace(['"', '[', ']', ','], " ");
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let markers = containers::markers(&command, 1);
    let is_server = UIS.iter().any(|one| command.contains(one))
        || markers.iter().any(|one| one.text == containers::SERVES);
    let environment = service.get("environment").map_or(String::new(), |node| {
        let names = node.entries().iter().filter_map(|(name, _)| name.text());
        let items = node.items().iter().filter_map(|item| item.text());
        names.chain(items).collect::<Vec<_>>().join(" ")
    });
    let signs = format!("{command} {environment}").to_ascii_lowercase();
    let is_closed = LOGIN_SIGNS.iter().any(|one| signs.contains(one))
        || markers.iter().any(|one| one.text == containers::LOGIN)
        || service.get("network_mode").is_some();
    let ports = service.get("ports").map_or(&[][..], Node::items);
    let port = ports.iter().find(|item| host::is_published(item))?;
    let text = interpolated(port.text()?);
    let is_bound = text.matches(':').count() == 2 && !text.starts_with("0.0.0.0:");
    let message =
        format!("`{text}` opens the server that the Dockerfile starts, and nothing sets a login")
            .replace(UNKNOWN, "…");
    let problem = Problem { rule: "service-open", line: port.line, message };
    (is_server && !is_closed && !is_bound).then_some(problem)
}

/// Checks for mounts over folders that the image has filled.
fn hidden(service: &Node, build: Option<&Node>, image: &Facts<'_>, problems: &mut Vec<Problem>) {
    let target = build.and_then(|build| build.get("target")).and_then(Node::text);
    let stage = match target {
        Some(name) => image.stages.iter().position(|one| one.name.as_deref() == Some(name)),
        None => image.stages.len().checked_sub(1),
    };
    let Some(stage) = stage.map(|at| at + 1) else { return };
    let volumes = service.get("volumes").map_or(&[][..], Node::items).iter();
    let volumes: Vec<String> = volumes
        .filter_map(|item| item.text())
        .filter_map(|mount| mount.split(':').find(|part| part.starts_with('/')).map(str::to_owned))
        .collect();
    let starts = ["command", "entrypoint"].iter().any(|key| {
        service.get(key).is_some_and(|node| {
            let words = node.items().iter().filter_map(|item| item.text());
            let words = node.text().into_iter().chain(words);
            words.into_iter().any(|word| word.contains("install") || word.contains("clone"))
        })
    });
    let is_in_image = |command: &&ShellCommand| {
        command.stage == stage
            || command.stage < stage && target.is_none() && is_copied(image.text, command)
    };
    let filled = image.commands.iter().filter(is_in_image).filter(|one| !is_used_up(image, one));
    let filled: Vec<(String, &str)> = filled.filter_map(fills).collect();
    let is_elsewhere = image.text.contains("UV_PROJECT_ENVIRONMENT");
    for mount in mounts(service).iter().filter(|_| !starts) {
        let hides = |(folder, _): &&(String, &str)| {
            let is_below =
                folder.strip_prefix(&mount.target).is_some_and(|rest| rest.starts_with('/'));
            let is_kept = volumes.iter().any(|other| {
                other.len() > mount.target.len() && folder.starts_with(other.trim_end_matches('/'))
            });
            let is_moved = is_elsewhere && folder.ends_with("/.venv");
            is_below && mount.target.len() > 1 && !is_kept && !is_moved
        };
        if let Some((folder, what)) = filled.iter().find(hides) {
            let Mount { source, line, .. } = mount;
            let message = format!("`{source}` hides {what} in the image, `{folder}`");
            problems.push(Problem { rule: "mount-hides", line: *line, message });
        }
    }
}

/// Returns whether a later command installs a clone elsewhere, or removes it.
fn is_used_up(image: &Facts<'_>, clone: &ShellCommand) -> bool {
    let Some(folder) = rules::cloned_folder(clone) else { return false };
    let name = folder.rsplit('/').next().unwrap_or_default();
    image.commands.iter().filter(|one| one.stage == clone.stage).any(|one| {
        let words = one.texts();
        let has = |names: &[&str]| names.iter().any(|wanted| words.contains(wanted));
        let is_about =
            one.folder == folder || words.iter().any(|word| word.rsplit('/').next() == Some(name));
        let installs = has(&["--install", "install"]) && !has(&["-e", "--editable", "-r"]);
        is_about && (installs && words[0] != "npm" || words[0] == "rm")
    })
}

/// Returns whether the last stage copies the folder of a command of an earlier stage to the same
/// path.
fn is_copied(text: &str, command: &ShellCommand) -> bool {
    let Some((folder, _)) = fills(command) else { return false };
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [copy, from, source, target] => {
                let source = source.trim_end_matches('/');
                copy.eq_ignore_ascii_case("copy")
                    && from.starts_with("--from=")
                    && source == target.trim_end_matches('/')
                    && source.starts_with('/')
                    && folder.starts_with(source)
            }
            _ => false,
        }
    })
}

/// Returns the folder that a command fills, and what it contains.
fn fills(command: &ShellCommand) -> Option<(String, &'static str)> {
    let words = command.texts();
    let has = |names: &[&str]| names.iter().any(|name| words.contains(name));
    let is_global = has(&["-g", "--global", "--location=global"]);
    let below = |name: &str| format!("{}/{name}", command.folder.trim_end_matches('/'));
    let (folder, what) = match *words.first()? {
        "git" => (rules::cloned_folder(command)?, "a clone"),
        "npm" if has(&["ci", "install", "i"]) && !is_global => {
            (below("node_modules"), "the packages")
        }
        "pnpm" | "yarn" if has(&["install"]) && !is_global => {
            (below("node_modules"), "the packages")
        }
        "uv" if has(&["sync"]) => (below(".venv"), "the Python environment"),
        _ => return None,
    };
    let folder = rules::plain(&folder);
    (folder.starts_with('/') && !folder.contains(UNKNOWN)).then_some((folder, what))
}
