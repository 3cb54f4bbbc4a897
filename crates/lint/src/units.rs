//! Reads quadlets and systemd units: images, variables, and the commands that they start.

use crate::containers::{self, named};
use crate::data::{SectionRow, data};
use crate::facts::{Container, Facts, Image, Kind, Problem};
use crate::shell::{self, Scope, Setting, UNKNOWN, Word};
use crate::{quadlets, unit_values};

/// A line `Key=value`, with its continuation lines.
pub(crate) struct Line {
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) number: usize,
    /// The value as a script, with the line breaks of the file.
    script: String,
}

/// Adds the facts of a quadlet or unit. `place` is its path, or a command that contains it.
pub(crate) fn read(text: &str, place: &str, facts: &mut Facts<'_>) {
    let lines = lines(text);
    let of = |key: &str| lines.iter().filter(|line| line.key == key).collect::<Vec<_>>();
    let image = of("Image").last().map(|line| unquoted(&line.value).to_owned());
    let started = of("ExecStart").last().map(|line| line.value.clone());
    // If the quadlet overrides the entrypoint, another program may read the variables.
    let started = started.or_else(|| service(place).map(str::to_owned));
    let started = started.or_else(|| is_for_ollama(&lines).then(|| "ollama".to_owned()));
    let program = if of("Entrypoint").is_empty() { image.or(started) } else { None };
    let image_line = of("Image").last().filter(|line| line.section == "Container").copied();
    facts.containers.extend(image_line.map(|line| {
        let reference = Word { text: unquoted(&line.value).to_owned(), line: line.number };
        let options = lines.iter().flat_map(options).chain(rootless(&lines, text)).collect();
        Container::new(Some(reference), options)
    }));
    facts.unknown_keys.extend(
        lines
            .iter()
            .filter(|line| is_unknown(line))
            .map(|line| Word { text: line.key.clone(), line: line.number }),
    );
    facts.problems.extend(ignored(text, facts.kind));
    facts.problems.extend(lines.iter().filter_map(misplaced));
    quadlets::check(&lines, place, text, facts);
    unit_values::check(&lines, facts);
    facts.problems.extend(lines.iter().filter_map(|line| for_system(line, place)));
    facts.problems.extend(of_other_manager(&lines, place, text));
    facts.problems.extend(as_root(&lines, place));
    facts.problems.extend(lines.iter().find_map(|line| no_instance(line, place, text)));
    // Other images can run without a GPU, or with one of another vendor.
    let reference = of("Image").last().map_or("", |line| line.value.as_str());
    if ["rocm", "-vulkan", ":vulkan"].iter().any(|kind| reference.contains(kind)) {
        let mut devices = of("AddDevice").into_iter().map(|line| line.value.as_str());
        // One device that must be there is enough to notice that the GPU is missing.
        let has_other =
            devices.any(|one| one.starts_with("/dev/kfd") || one.starts_with("/dev/dri"));
        facts.problems.extend(lines.iter().filter_map(|line| optional(line, has_other)));
    }
    for line in &lines {
        let number = line.number;
        match (line.section.as_str(), line.key.as_str()) {
            ("Container" | "Image", "Image") if !is_unit(unquoted(&line.value)) => {
                facts.images.push(Image::new(unquoted(&line.value), number));
            }
            ("Container" | "Service" | "Build", "Environment") => {
                let settings = words(&line.value, number);
                let pairs = settings.iter().filter_map(|word| word.text.split_once('='));
                facts.settings.extend(pairs.map(|(name, value)| Setting {
                    program: program.clone(),
                    ..Setting::new(name, value, number, Scope::Run)
                }));
            }
            ("Container", "Exec") => {
                let starter = program.as_deref().unwrap_or_default();
                containers::start(words(&line.value, number), starter, facts);
            }
            ("Container", "PodmanArgs") if line.value.contains("--privileged") => {
                let message = "`PodmanArgs` gives the container all privileges".to_owned();
                facts.privileged.push((number, message));
            }
            (_, key) if key.starts_with("Exec") && line.section == "Service" => {
                command(line, facts);
            }
            _ => {}
        }
    }
}

/// How Quadlet reads a value (podman's pkg/systemd/quadlet/quadlet.go).
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A single string, without the double quotes around it (`Lookup`).
    Text,
    /// Words, each of which can be quoted (`LookupAllStrv`, `LookupAllArgs`).
    Words,
    /// The raw value, including any quotes (`LookupAll`).
    Raw,
}

/// The keys of a quadlet, and the corresponding options of `podman run`.
const OPTIONS: [(&str, Form, &str); 15] = [
    ("AddCapability", Form::Words, "--cap-add"),
    ("AddDevice", Form::Words, "--device"),
    ("AppArmor", Form::Text, "--security-opt=apparmor"),
    ("Entrypoint", Form::Text, "--entrypoint"),
    ("EnvironmentFile", Form::Words, "--env-file"),
    ("Group", Form::Text, "--group"),
    ("GroupAdd", Form::Raw, "--group-add"),
    ("HealthCmd", Form::Text, "--health-cmd"),
    ("Network", Form::Raw, "--network"),
    ("PublishPort", Form::Raw, "--publish"),
    ("SeccompProfile", Form::Text, "--security-opt=seccomp"),
    ("SecurityLabelDisable", Form::Text, "--security-opt=label=disable"),
    ("ShmSize", Form::Text, "--shm-size"),
    ("User", Form::Text, "--user"),
    ("Volume", Form::Raw, "--volume"),
];

/// Returns the options that a quadlet line sets.
fn options(line: &Line) -> Vec<Word> {
    if line.key == "PodmanArgs" {
        return containers::options(&words(&line.value, line.number));
    }
    if line.key == "Exec" {
        return containers::markers(&line.value, line.number);
    }
    if line.key == "Environment" && line.section == "Container" {
        let settings = words(&line.value, line.number).into_iter();
        return settings.map(|one| named("--env", Some(&one.text), one.line)).collect();
    }
    let is_option = |key: &str| *key == line.key && line.section == "Container";
    let Some((_, form, option)) = OPTIONS.iter().find(|(key, ..)| is_option(key)) else {
        return Vec::new();
    };
    let values = match form {
        Form::Text => vec![unquoted(&line.value).to_owned()],
        Form::Raw => vec![line.value.clone()],
        Form::Words => {
            let words = words(&line.value, line.number).into_iter();
            words.map(|word| word.text).collect()
        }
    };
    // Quadlet leaves out a device whose path starts with a dash if the machine does not have it.
    let value = |value: &String| named(option, Some(value.trim_start_matches('-')), line.number);
    values.iter().map(value).collect()
}

/// Returns a value without the double quotes around it.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

/// Returns a marker for a user's quadlet, whose container is rootless. System quadlets usually have
/// `WantedBy=multi-user.target`. A quadlet without the line can have it in a comment.
fn rootless(lines: &[Line], text: &str) -> Option<Word> {
    let mut wanted = lines.iter().filter(|line| line.key == "WantedBy").peekable();
    let is_comment = |line: &str| {
        let line = line.trim_start().strip_prefix('#');
        line.is_some_and(|line| line.trim() == "WantedBy=default.target")
    };
    let number = if wanted.peek().is_some() {
        wanted.find(|line| line.value == "default.target").map(|line| line.number)
    } else {
        text.lines().position(is_comment).map(|at| at + 1)
    };
    number.map(|number| named("--rootless", None, number))
}

/// Marks of templates, from which another program makes the unit.
const TEMPLATES: [&str; 6] = ["{{", "{%", "<%", "$", "@", "%("];

/// Returns the problem if a line is no setting: usually the rest of a command whose line does not
/// end with a backslash.
fn ignored(text: &str, kind: Kind) -> Option<Problem> {
    let is_unit = matches!(kind, Kind::Unit | Kind::Quadlet);
    let mut continues = false;
    let mut is_read = false;
    for (index, line) in text.lines().enumerate().filter(|_| is_unit) {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        let is_part = std::mem::replace(&mut continues, trimmed.ends_with('\\'));
        let is_section = trimmed.starts_with('[');
        // systemd does not read a section with this start.
        is_read = if is_section { !trimmed.starts_with("[X-") } else { is_read };
        let is_template = TEMPLATES.iter().any(|mark| trimmed.contains(mark));
        let is_setting = trimmed.contains('=') && !trimmed.starts_with('-');
        let is_other = is_part || is_section || is_setting || is_template || trimmed.is_empty();
        if is_read && !is_other {
            let start: String = trimmed.chars().take(40).collect();
            let message =
                format!("`{start}` is not a setting, and the line above it does not end with `\\`");
            return Some(Problem { rule: "unit-line-ignored", line: index + 1, message });
        }
    }
    None
}

/// Returns whether Quadlet does not support the key of a line.
fn is_unknown(line: &Line) -> bool {
    let mut rows = data().quadlets.iter();
    rows.any(|row| row.section == line.section && !row.keys.contains(&line.key))
}

/// Returns the problem if a key belongs in another section of a unit.
fn misplaced(line: &Line) -> Option<Problem> {
    let has = |row: &SectionRow| row.keys.contains(&line.key);
    let is_of_unit = |row: &&SectionRow| quadlets::is_of_unit(row);
    let own = data().sections.iter().find(|row| row.section == line.section)?;
    let right = data().sections.iter().filter(is_of_unit).find(|row| has(row))?;
    let message = format!("`{}` belongs in `[{}]`", line.key, right.section);
    (!has(own)).then_some(Problem { rule: "unit-section", line: line.number, message })
}

/// Returns the problem if the AMD GPU is optional for a container. `has_other` tells whether another
/// device of the GPU must be there.
fn optional(line: &Line, has_other: bool) -> Option<Problem> {
    let is_device = line.key == "AddDevice" && line.section == "Container";
    let mut optional = line.value.split_whitespace().filter_map(|word| word.strip_prefix('-'));
    let gpu = optional.find_map(|word| match word {
        word if word.starts_with("/dev/kfd") => Some("/dev/kfd"),
        word if word.starts_with("/dev/dri") && !has_other => Some("/dev/dri"),
        _ => None,
    })?;
    let message = format!("the container also starts without {gpu}");
    let problem = Problem { rule: "device-optional", line: line.number, message };
    is_device.then_some(problem)
}

/// Folders of user units and user quadlets.
const USER_FOLDERS: [&str; 3] =
    [".config/containers/systemd/", ".config/systemd/user/", "/systemd/user/"];

/// Returns the problem if a user unit is installed into a target that only the system manager has.
fn for_system(line: &Line, place: &str) -> Option<Problem> {
    let is_install = matches!(line.key.as_str(), "WantedBy" | "RequiredBy");
    let is_user = USER_FOLDERS.iter().any(|folder| place.contains(folder));
    // podman's own example names the targets of both managers.
    let is_for_both = line.value.split_whitespace().any(|target| target == "default.target");
    let target = line.value.split_whitespace().find(|target| {
        let of_system = ["multi-user.target", "graphical.target", "network-online.target"];
        of_system.contains(target) && !is_for_both
    })?;
    let message = format!("`{target}` is a target of the system manager, not of a user's");
    (is_install && is_user).then_some(Problem { rule: "user-target", line: line.number, message })
}

/// Keys that name other units.
const OTHER_UNITS: [&str; 6] = ["After", "BindsTo", "PartOf", "Requires", "Requisite", "Wants"];

/// Units that only the system manager has.
const OF_SYSTEM: [&str; 4] =
    ["graphical.target", "multi-user.target", "network-online.target", "network.target"];

/// Units that only a user's manager has.
const OF_USER: [&str; 6] = [
    "graphical-session.target",
    "pipewire-pulse.service",
    "pipewire.service",
    "pipewire.socket",
    "pulseaudio.service",
    "wireplumber.service",
];

/// Returns the problem if a unit depends on one that only the other manager has.
fn of_other_manager(lines: &[Line], place: &str, text: &str) -> Option<Problem> {
    let of = |key: &str, value: &str| lines.iter().any(|one| one.key == key && one.value == value);
    let has_user = lines.iter().any(|line| line.key == "User" && line.section == "Service");
    let is_there = USER_FOLDERS.iter().any(|folder| place.contains(folder));
    // The file itself says for whom it is.
    let says = ["systemctl --user", ".config/systemd/user", "=%h/"];
    let is_said = of("WantedBy", "default.target") && says.iter().any(|one| text.contains(one));
    let is_user = (is_there || is_said) && !has_user;
    let is_system = has_user || of("WantedBy", "multi-user.target");
    let (units, manager) = match (is_user, is_system) {
        (true, false) => (&OF_SYSTEM[..], "a user's manager"),
        (false, true) => (&OF_USER[..], "the system manager"),
        _ => return None,
    };
    let named = lines.iter().filter(|line| OTHER_UNITS.contains(&line.key.as_str()));
    let mut found = named.filter_map(|line| {
        let unit = line.value.split_whitespace().find(|unit| units.contains(unit))?;
        Some((line.number, unit))
    });
    let (line, unit) = found.next()?;
    let message = format!("{manager} does not have `{unit}`");
    Some(Problem { rule: "unit-of-other-manager", line, message })
}

/// Returns the problem if a line uses the instance of a unit that is not a template.
fn no_instance(line: &Line, place: &str, text: &str) -> Option<Problem> {
    let is_unit = place.trim_end_matches(['"', '\'']).ends_with(".service");
    let is_template = place.contains('@') || text.contains("@.service") || text.contains("@%i");
    let name = ["%i", "%I"].into_iter().find(|name| line.value.contains(name))?;
    let message = format!("`{name}` is empty, because the unit is not a template");
    let problem = Problem { rule: "unit-variable", line: line.number, message };
    (is_unit && !is_template && line.key.starts_with("Exec")).then_some(problem)
}

/// Returns the service that a drop-in is for: `ollama` for `…/ollama.service.d/override.conf`.
fn service(place: &str) -> Option<&str> {
    let (path, _) = place.split_once(".service.d/")?;
    path.rsplit(['/', ' ', '"', '\'']).next()
}

/// Returns whether a drop-in that starts nothing is for Ollama, wherever it is stored: it sets at
/// least two of Ollama's variables.
fn is_for_ollama(lines: &[Line]) -> bool {
    let is_known =
        |name: &str| name.starts_with("OLLAMA_") && ::pins::unknown_ollama_variable(name).is_none();
    let settings = lines.iter().filter(|line| line.key == "Environment");
    let settings = settings.flat_map(|line| words(&line.value, line.number));
    let names = settings.filter_map(|one| Some(one.text.split_once('=')?.0.to_owned()));
    names.filter(|name| is_known(name)).count() >= 2
}

/// Servers of models and web programs, which need no rights of root.
const SERVERS: [&str; 14] = [
    "comfy",
    "gunicorn",
    "jupyter",
    "jupyter-lab",
    "koboldcpp",
    "lemonade-server",
    "llama-server",
    "llama-swap",
    "ollama",
    "sd-server",
    "sglang",
    "uvicorn",
    "vllm",
    "whisper-server",
];

/// Programs that start another program.
const WRAPPERS: [&str; 6] = ["chrt", "env", "nice", "numactl", "stdbuf", "taskset"];

/// Checks a unit of the system manager without `User=` that starts a server, or a program in the home
/// folder of a user.
fn as_root(lines: &[Line], place: &str) -> Option<Problem> {
    let has = |key: &str| lines.iter().any(|line| line.key == key);
    let is_for_boot = |line: &Line| {
        line.key == "WantedBy"
            && line
                .value
                .split(' ')
                .any(|one| matches!(one, "multi-user.target" | "graphical.target"))
    };
    let is_system = lines.iter().any(is_for_boot) && !place.contains("/user/");
    if !is_system || has("User") || has("DynamicUser") {
        return None;
    }
    let start = lines.iter().find(|line| line.key == "ExecStart")?;
    let value = start.value.trim_start_matches(['-', '@', '+', '!', ':']);
    let mut words = value.split_whitespace();
    let program = words.next()?;
    let name = program.rsplit('/').next()?;
    let in_home = |path: &str| path.trim_start_matches(['"', '\'']).starts_with("/home/");
    let is_shell = name.ends_with("sh") || name.starts_with("python");
    let rest: Vec<&str> = words.collect();
    let script = rest.iter().copied().find(|word| in_home(word)).filter(|_| is_shell);
    // `numactl --cpunodebind=0 /opt/llama/bin/llama-server`
    let base = |word: &&str| SERVERS.contains(&word.rsplit('/').next().unwrap_or(word));
    let wrapped = rest.iter().copied().find(base).filter(|_| WRAPPERS.contains(&name));
    let server = wrapped.map_or(name, |word| word.rsplit('/').next().unwrap_or(word));
    let message = if let Some(path) = Some(program).filter(|path| in_home(path)).or(script) {
        let path = path.trim_matches(['"', '\'']);
        let owner = path.split('/').nth(2).unwrap_or_default();
        format!("root runs `{path}`, which the user `{owner}` can change")
    } else if SERVERS.contains(&server) {
        format!("`{server}` runs as root")
    } else {
        return None;
    };
    Some(Problem { rule: "unit-as-root", line: start.number, message })
}

/// Returns whether an image name refers to another unit, which builds or pulls the image.
fn is_unit(image: &str) -> bool {
    image.ends_with(".build") || image.ends_with(".image")
}

/// Reads the command of `ExecStart=`.
fn command(line: &Line, facts: &mut Facts<'_>) {
    let value = line.script.trim_start_matches(['-', '@', '+', '!', ':']);
    let mut script = shell::script("x.sh", &("\n".repeat(line.number - 1) + value));
    // systemd itself sets some variables, and others come from files.
    script.missing.clear();
    facts.script(script);
}

/// Returns the words of a value after quotes are removed.
fn words(value: &str, line: usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut quote = None;
    let mut is_open = false;
    for c in value.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                if !is_open {
                    words.push(Word { text: String::new(), line });
                }
                is_open = true;
            }
            (None, c) if c.is_whitespace() => is_open = false,
            (_, c) => {
                if !is_open {
                    words.push(Word { text: String::new(), line });
                }
                is_open = true;
                // systemd expands `%h` and `${X}`, so their values are unknown here.
                let c = if matches!(c, '%' | '$') { UNKNOWN } else { c };
                if let Some(word) = words.last_mut() {
                    word.text.push(c);
                }
            }
        }
    }
    words
}

/// Reads the lines of a unit.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut section = String::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        let body = trimmed.strip_suffix('\\');
        if continues && let Some(last) = found.last_mut() {
            last.value.push(' ');
            last.value.push_str(body.unwrap_or(trimmed).trim());
            let so_far = last.number + last.script.matches('\n').count();
            last.script.push_str(&" \\\n".repeat(index + 1 - so_far));
            last.script.push_str(body.unwrap_or(trimmed).trim());
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = body.unwrap_or(trimmed).split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            let (section, script) = (section.clone(), value.clone());
            found.push(Line { section, key, value, number: index + 1, script });
        } else {
            continue;
        }
        continues = body.is_some();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_read_as_quadlet_reads_them() {
        let text = "[Container]\nImage = \"docker.io/a/b:1\"\nAddDevice=\"/dev/kfd\" -/dev/dri\nShmSize=\"1g\"\nPublishPort=\"80:80\"\nHealthCmd=sh -c \"x\"\n";
        let facts = Facts::read("a.container", text);
        assert_eq!(facts.images[0].reference, "docker.io/a/b:1");
        let options: Vec<_> = facts.containers[0].options.iter().map(|one| &*one.text).collect();
        let expected = [
            "--device=/dev/kfd",
            "--device=/dev/dri",
            "--shm-size=1g",
            "--publish=\"80:80\"",
            "--health-cmd=sh -c \"x\"",
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn a_quadlet_is_read() {
        let text = "[Unit]\nDescription=x\n[Container]\nImage=docker.io/ollama/ollama:latest\nAddDevice=/dev/kfd\nAddDevice=/dev/dri\nEnvironment=A=1 \"B=2 3\"\nEnvironment=\"C=%h\"\nPodmanArgs=--privileged \\\n  --ipc=host\n";
        let facts = Facts::read("ollama.container", text);
        assert_eq!(facts.images[0].line, 4);
        let options: Vec<_> = facts.containers[0].options.iter().map(|one| &*one.text).collect();
        let expected = [
            "--device=/dev/kfd",
            "--device=/dev/dri",
            "--env=A=1",
            "--env=B=2 3",
            "--env=C=\u{fffc}h",
            "--privileged",
            "--ipc=host",
        ];
        assert_eq!(options, expected);
        let settings: Vec<_> =
            facts.settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(settings, [("A", "1", 7), ("B", "2 3", 7), ("C", "\u{fffc}h", 8)]);
        assert_eq!(facts.privileged[0].0, 9);
    }

    #[test]
    fn a_unit_is_read() {
        let text = "[Service]\nEnvironment=\"OLLAMA_HOST=0.0.0.0\"\n# Environment=X=1\nExecStartPre=-/usr/bin/podman rm x\nExecStart=/usr/bin/podman run --privileged \\\n  -e A=1 docker.io/a/b:1\n";
        let facts = Facts::read("a.service", text);
        let settings: Vec<_> =
            facts.settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(settings, [("OLLAMA_HOST", "0.0.0.0", 2), ("A", "1", 6)]);
        assert_eq!(
            (facts.images[0].reference.as_str(), facts.images[0].line),
            ("docker.io/a/b:1", 6)
        );
        assert_eq!(facts.privileged.len(), 1);
    }
}
