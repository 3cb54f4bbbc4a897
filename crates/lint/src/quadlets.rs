//! Checks what Quadlet, podman and systemd refuse in a quadlet, and completes a container with what
//! its pod says.

use crate::Exists;
use crate::containers::named;
use crate::data::{SectionRow, data};
use crate::facts::{Facts, Problem};
use crate::units::{self, Line};

/// The rule for settings with which Quadlet or podman creates nothing.
const REFUSED: &str = "quadlet-refused";

/// Adds the problems of a quadlet or unit. `place` is its path.
pub(crate) fn check(lines: &[Line], place: &str, text: &str, facts: &mut Facts<'_>) {
    facts.problems.extend(lines.iter().filter_map(unknown));
    let name = place.rsplit('/').next().unwrap_or(place);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let section = SECTIONS.iter().find(|(one, _)| *one == extension).map(|(_, section)| *section);
    let is_template = ["{{", "{%", "<%"].iter().any(|mark| text.contains(mark));
    let Some(section) = section.filter(|_| !is_template) else { return };
    let own = Quadlet { lines, section };
    let problems = [own.missing(), own.pod(), own.service(), own.network()];
    facts.problems.extend(problems.into_iter().flatten());
}

/// The extensions of quadlets, and their sections.
const SECTIONS: [(&str, &str); 7] = [
    ("build", "Build"),
    ("container", "Container"),
    ("image", "Image"),
    ("kube", "Kube"),
    ("network", "Network"),
    ("pod", "Pod"),
    ("volume", "Volume"),
];

/// Returns the problem if systemd does not know the key of a line.
fn unknown(line: &Line) -> Option<Problem> {
    let rows = || data().sections.iter().filter(|row| is_of_unit(row));
    let own = rows().find(|row| row.section == line.section)?;
    let has = |row: &SectionRow| row.keys.contains(&line.key);
    let is_key = !line.key.is_empty() && line.key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // Another rule names the right section of the key of a unit.
    if !is_key || rows().any(has) {
        return None;
    }
    let message = match data().quadlets.iter().find(|row| has(row)) {
        Some(row) => format!("`{}` belongs in `[{}]`", line.key, row.section),
        None => {
            let near = ::pins::reader::nearest(&line.key, own.keys.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!("`{}` is not a key of `[{}]`{near}", line.key, line.section)
        }
    };
    Some(Problem { rule: "unit-section", line: line.number, message })
}

/// Returns whether a row is about a section of units.
pub(crate) fn is_of_unit(row: &SectionRow) -> bool {
    row.section.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The lines of a quadlet, and its section.
struct Quadlet<'l> {
    lines: &'l [Line],
    section: &'static str,
}

impl Quadlet<'_> {
    /// Returns the last line that sets a key of a section.
    fn last(&self, section: &str, key: &str) -> Option<&Line> {
        let is_set = |line: &&Line| line.section == section && line.key == key;
        self.lines.iter().rfind(is_set).filter(|line| !line.value.is_empty())
    }

    fn has(&self, key: &str) -> bool {
        self.last(self.section, key).is_some()
    }

    fn refused(line: usize, message: String) -> Problem {
        Problem { rule: REFUSED, line, message }
    }

    /// Returns the problem if a key is missing without which Quadlet creates no service.
    fn missing(&self) -> Option<Problem> {
        let start = self.lines.iter().find(|line| line.section == self.section)?;
        let keys: &[&str] = match self.section {
            "Container" => &["Image", "Rootfs"],
            "Image" => &["Image"],
            "Build" if self.has("ImageTag") => &["File", "SetWorkingDirectory"],
            "Build" => &["ImageTag"],
            "Kube" => &["Yaml"],
            _ => return None,
        };
        let wanted: Vec<String> = keys.iter().map(|key| format!("`{key}=`")).collect();
        let message = format!("Quadlet creates no service without {}", wanted.join(" or "));
        (!keys.iter().any(|key| self.has(key))).then(|| Self::refused(start.number, message))
    }

    /// Returns the problem if a container of a pod has settings that belong to the pod.
    fn pod(&self) -> Option<Problem> {
        let pod = self.last("Container", "Pod")?;
        if !pod.value.trim_matches('"').ends_with(".pod") {
            let message = format!("`{}` is not the name of a quadlet, `NAME.pod`", pod.value);
            return Some(Self::refused(pod.number, message));
        }
        let has_network = self.has("Network");
        let own = ["PublishPort", "UserNS", "HostName"].into_iter().find_map(|key| {
            let line = self.last("Container", key)?;
            (key == "UserNS" || !has_network).then_some((key, line.number))
        });
        let (key, line) = own?;
        let message =
            format!("podman refuses `{key}=` in a container of a pod: it belongs in the pod");
        Some(Self::refused(line, message))
    }

    /// Returns the problem if `[Service]` has a value that Quadlet refuses.
    fn service(&self) -> Option<Problem> {
        let value = |key| self.last("Service", key);
        if self.section != "Container" {
            return None;
        }
        for key in ["User", "Group", "DynamicUser"] {
            if let Some(line) = value(key) {
                let message = format!("Quadlet does not support `{key}=` in `[Service]`");
                return Some(Problem { rule: "quadlet-key", line: line.number, message });
            }
        }
        for (key, values) in
            [("Type", ["notify", "oneshot"]), ("KillMode", ["mixed", "control-group"])]
        {
            let wrong = value(key)
                .filter(|line| !values.contains(&&*line.value) && !line.value.contains(['$', '%']));
            if let Some(line) = wrong {
                let message = format!(
                    "Quadlet refuses `{key}={}`: only `{}` and `{}` work",
                    line.value, values[0], values[1]
                );
                return Some(Self::refused(line.number, message));
            }
        }
        None
    }

    /// Returns the problem if a network has addresses without a subnet.
    fn network(&self) -> Option<Problem> {
        let line = self.last("Network", "Gateway").or_else(|| self.last("Network", "IPRange"))?;
        let message = format!("Quadlet refuses `{}=` without `Subnet=`", line.key);
        (self.section == "Network" && !self.has("Subnet"))
            .then(|| Self::refused(line.number, message))
    }
}

/// Keys that name other quadlets, and the extensions of these.
const NAMES: [(&str, &[&str]); 4] = [
    ("Image", &["build", "image"]),
    ("Network", &["network"]),
    ("Pod", &["pod"]),
    ("Volume", &["volume"]),
];

/// Adds the quadlets that a quadlet names, and that its folder lacks, although it has others of the
/// same kind.
fn references(lines: &[Line], facts: &mut Facts<'_>, exists: &dyn Exists) {
    let named = lines.iter().filter(|line| line.section == "Container").filter_map(|line| {
        let (_, kinds) = NAMES.iter().find(|(key, _)| line.key == *key)?;
        let name = line.value.trim_matches('"').split(':').next().unwrap_or_default();
        let (stem, kind) = name.rsplit_once('.').filter(|(_, kind)| kinds.contains(kind))?;
        let is_plain = !stem.is_empty() && !stem.contains(['/', '%', '$', '@', '{']);
        is_plain.then_some((line.number, name, kind))
    });
    let named: Vec<(usize, &str, &str)> = named.collect();
    if named.is_empty() {
        return;
    }
    let beside = exists.beside(facts.file);
    for (line, name, kind) in named {
        let end = format!(".{kind}");
        let has_kind = beside.iter().any(|(other, _)| other.ends_with(&end));
        let is_there = beside.iter().any(|(other, _)| other == name)
            || FOLDERS
                .iter()
                .any(|folder| exists.text(facts.file, &format!("{folder}{name}")).is_some());
        if has_kind && !is_there {
            let message =
                format!("the folder has no `{name}`, without which Quadlet creates no service");
            facts.problems.push(Problem { rule: REFUSED, line, message });
        }
    }
}

/// Folders in which the quadlet of a pod can be.
const FOLDERS: [&str; 3] = ["", "../", "../../"];

/// Gives a container of a pod the network and the ports of the pod.
pub(crate) fn complete(facts: &mut Facts<'_>, exists: &dyn Exists) {
    let lines = units::lines(facts.text);
    references(&lines, facts, exists);
    let pod = lines.iter().find(|line| line.section == "Container" && line.key == "Pod");
    let Some(pod) = pod.filter(|line| line.value.ends_with(".pod")) else { return };
    let read = |folder: &&str| exists.text(facts.file, &format!("{folder}{}", pod.value));
    let Some(text) = FOLDERS.iter().find_map(read) else { return };
    let of_pod = units::lines(&text);
    for container in &mut facts.containers {
        for (key, option) in [("Network", "--network"), ("PublishPort", "--publish")] {
            let values = of_pod.iter().filter(|line| line.section == "Pod" && line.key == key);
            container
                .options
                .extend(values.map(|line| named(option, Some(&line.value), pod.number)));
        }
    }
}
