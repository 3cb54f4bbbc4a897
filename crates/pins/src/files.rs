//! `files` of a track: project files that go into the image.

use std::ops::Range;

use names::{CONTEXT_NAMES, FileMode, ParseFileModeError};

use crate::checks;
use crate::problem::{Report, Reported, Wrong, quote, wrong};
use crate::reader::{Entry, Table, document};

/// A project file or folder, and its place in the image or in a build context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackFile {
    /// The file or folder, as a path from the root of the project.
    pub from: String,
    /// The absolute path in the image; in a build context, the same relative path as `from`. A
    /// folder's content is put below it.
    pub to: String,
    /// The mode of the file, or of all files of the folder. Without it, a file that is executable
    /// in the project gets 0755, and any other file gets 0644.
    pub mode: Option<FileMode>,
    /// The owner and the group in the image.
    pub owner: Owner,
    /// The position of `from` in `tracks.toml`.
    pub from_span: Range<usize>,
    /// The position of `to` in `tracks.toml`.
    pub to_span: Range<usize>,
}

/// The owner of a file in an image. A layer stores only numeric IDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The largest user or group ID. Higher IDs have special meanings on some systems.
const MOST_OWNER: u32 = 2_147_483_646;

/// Folders that belong to the base: a track can add files to them, but they keep the base's owner
/// and mode.
const SYSTEM: [&str; 36] = [
    "/",
    "/boot",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/srv",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/local/src",
    "/usr/sbin",
    "/usr/share",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/local",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/spool",
];

/// Folders that are links to `/usr` in most images. A layer with a folder of that name hides the
/// link, and all programs that are reached through it.
const LINKS: [&str; 6] = ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"];

/// Paths that the engine replaces in each container when it starts.
const REPLACED: [&str; 9] = [
    "/dev",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/mtab",
    "/etc/resolv.conf",
    "/proc",
    "/run",
    "/sys",
    "/var/run",
];

/// Folders that every user can write to. On some engines, a layer with a file there also replaces
/// the folder's mode.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Returns whether a folder of the image belongs to the base. A layer with a track's files has no
/// entry for such a folder.
pub fn is_system_folder(path: &str) -> bool {
    SYSTEM.contains(&path)
}

/// Checks the path of a file in an image.
///
/// # Errors
/// Fails if the path is not a plain absolute path, or if a track cannot add files there.
pub fn check_destination(text: &str) -> Result<(), Wrong> {
    let example = "write the full path in the image, for example `/opt/my-server/start`";
    let refuse = |why: &str, help: &str| Err(wrong(format!("{} {why}", quote(text)), help));
    if !text.starts_with('/') {
        return refuse("is not an absolute path", example);
    }
    if text.split('/').any(|part| part == "..") {
        return refuse("contains `..`", example);
    }
    let names = text.get(1..).unwrap_or_default();
    if !names.is_empty() && names.split('/').any(|part| matches!(part, "" | ".")) {
        let help = "write single slashes between names, and none at the end";
        return refuse("has an empty part or a `.`", help);
    }
    if text.chars().any(char::is_control) || text.len() > 1000 {
        return refuse("has a control character or more than 1000 bytes", "choose another path");
    }
    if names.split('/').any(|part| part.starts_with(".wh.")) {
        let help = "rename it: in a layer, such a name deletes a file of the base";
        return refuse("has a name that starts with `.wh.`", help);
    }
    let is_in = |folder: &&&str| {
        text.strip_prefix(**folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(link) = LINKS.iter().find(is_in) {
        let why = format!(
            "is in `{link}`, which is a symbolic link in most images; the file would hide the link"
        );
        return refuse(&why, &format!("write `/usr{text}`"));
    }
    if let Some(path) = REPLACED.iter().find(is_in) {
        let why = format!("cannot be seen in a container, which has its own `{path}`");
        return refuse(&why, "choose another path, for example under `/opt`");
    }
    if let Some(path) = TEMPORARY.iter().find(is_in) {
        let why = format!("is in `{path}`, which is for files of running programs");
        return refuse(&why, "choose another path, for example under `/opt`");
    }
    Ok(())
}

/// Accepts the path of a project file or folder.
fn source(text: &str) -> Result<String, Wrong> {
    let refuse = |why: &str, help: &str| Err(wrong(format!("{} {why}", quote(text)), help));
    let example = "write its path from the root of the project, for example `files/start`";
    if text.starts_with(['/', '~']) {
        return refuse(
            "is outside the project",
            "copy it into the project, and write its path there",
        );
    }
    if text.split('/').any(|part| part == "..") {
        return refuse(
            "contains `..`, which may point outside the project",
            "copy it into the project, and write its path there",
        );
    }
    if text.contains('\\') {
        return refuse("has a backslash", "write `/` between folders");
    }
    if text.split('/').any(|part| matches!(part, "" | ".")) {
        return refuse("has an empty part or a `.`", example);
    }
    if text.split('/').any(|part| part == ".git") {
        return refuse("belongs to git, and differs between clones", example);
    }
    checks::line(255)(text)
}

/// Accepts an owner: `UID` or `UID:GID`.
fn owner(text: &str) -> Result<Owner, Wrong> {
    let number = |part: &str| {
        let is_plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|number| is_plain && *number <= MOST_OWNER)
    };
    let (user, group) = text.split_once(':').unwrap_or((text, text));
    match (number(user), number(group)) {
        (Some(uid), Some(gid)) => Ok(Owner { uid, gid }),
        _ => Err(wrong(
            format!("{} is not an owner", quote(text)),
            "write numbers, `UID` or `UID:GID`, for example `1000:1000`; a layer contains no user names",
        )),
    }
}

fn mode(text: &str) -> Result<FileMode, Wrong> {
    text.parse::<FileMode>().map_err(|error| match &error {
        ParseFileModeError::Form(_) => wrong(
            format!("{} is not a file mode", quote(text)),
            "write four octal digits in quotes, for example `mode = \"0755\"`",
        ),
        ParseFileModeError::Special { bit, plain, .. } => wrong(
            format!("{} sets the {bit} bit, which files of a track cannot have", quote(text)),
            format!("write `mode = \"{plain}\"`"),
        ),
    })
}

/// Reads `files` of a track.
pub(crate) fn read_files(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<Vec<TrackFile>, Reported> {
    let Some(entry) = table.get("files") else { return Ok(Vec::new()) };
    let Some(items) = entry.items() else {
        let help = "write `files = [{ from = \"files/start\", to = \"/usr/local/bin/start\", mode = \"0755\" }]`";
        return Err(entry.add_type(report, "an array of tables", help));
    };
    let mut files: Vec<TrackFile> = Vec::new();
    let mut failed = None;
    for item in items {
        if let Some(reported) = report.is_full() {
            return Err(reported);
        }
        match read_file(report, &item) {
            Err(reported) => failed = Some(reported),
            Ok(file)
                if files.iter().any(|other| other.to == file.to && other.from == file.from) =>
            {
                let message = format!("{} is listed twice in `files`", quote(&file.from));
                failed = Some(report.add(&item.span, wrong(message, "remove one of the two")));
            }
            Ok(file) => files.push(file),
        }
    }
    failed.map_or(Ok(files), Err)
}

fn read_file(report: &mut Report<'_>, item: &Entry<'_>) -> Result<TrackFile, Reported> {
    let table = item.table(report, "`files`")?;
    table.check_form(report, crate::forms::FILE.keys);
    let from = table.required(report, "from", "from = \"files/start\"", source);
    let to = table.required(report, "to", "to = \"/usr/local/bin/start\"", |text| {
        check_destination(text).map(|()| text.to_owned())
    });
    let mode = table.optional(report, "mode", mode);
    let owner = table.optional(report, "owner", owner);
    let span = |key: &str| table.get(key).map_or_else(|| table.span(), |entry| entry.span);
    Ok(TrackFile {
        from_span: span("from"),
        to_span: span("to"),
        from: from?,
        to: to?,
        mode: mode?,
        owner: owner?.unwrap_or_default(),
    })
}

/// Finds the project files that the text of a `tracks.toml` refers to: files of tracks and of
/// build contexts, and Dockerfiles. Other problems in the text are ignored. Returns each path with
/// its position.
pub fn named_files(text: &str) -> NamedFiles {
    let (mut report, mut named) = (Report::new("", text), NamedFiles::default());
    let Ok(entries) = document(&mut report) else { return named };
    let Ok(root) = Table::root(&mut report, &entries) else { return named };
    for track in root.entries().filter_map(|entry| entry.as_table()) {
        for file in items(&track, "files") {
            named.files.extend(file.as_table().and_then(|table| path(&table.get("from")?, source)));
        }
        let variants = track.get("variants").and_then(|entry| entry.as_table());
        let variants = variants.iter().flat_map(Table::entries);
        for built in variants.filter_map(|entry| entry.as_table()).chain([track]) {
            for stage in items(&built, "stage") {
                let Some(stage) = stage.as_table() else { continue };
                let dockerfile = stage.get("dockerfile");
                let dockerfile = dockerfile.and_then(|entry| path(&entry, checks::project_file));
                named.dockerfiles.extend(dockerfile);
                let files = items(&stage, "files");
                named.files.extend(files.iter().filter_map(|file| path(file, source)));
            }
        }
    }
    named
}

/// The project files that a text refers to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files of tracks and of build contexts.
    pub files: Vec<(Range<usize>, String)>,
    /// Dockerfiles.
    pub dockerfiles: Vec<(Range<usize>, String)>,
}

/// Returns the items of an array; none if it is not an array.
fn items<'t>(table: &Table<'t>, key: &str) -> Vec<Entry<'t>> {
    table.get(key).and_then(|entry| entry.items()).unwrap_or_default()
}

/// Returns a path with its position, if the path is valid.
fn path(
    entry: &Entry<'_>,
    check: impl Fn(&str) -> Result<String, Wrong>,
) -> Option<(Range<usize>, String)> {
    Some((entry.span.clone(), check(entry.text()?).ok()?))
}

/// Reads `files` of a stage: project files in its build context. `folders` are the other
/// folders of the context.
pub(crate) fn read_context_files(
    report: &mut Report<'_>,
    table: &Table<'_>,
    folders: &[&str],
) -> Result<Vec<TrackFile>, Reported> {
    let check = |text: &str| context_file(text, folders);
    table.texts(report, "files", "files/start", check)?;
    let items = table.get("files").and_then(|entry| entry.items()).unwrap_or_default();
    let file = |item: &Entry<'_>| {
        let path = item.text()?.to_owned();
        Some(TrackFile {
            from: path.clone(),
            to: path,
            mode: None,
            owner: Owner::default(),
            from_span: item.span.clone(),
            to_span: item.span.clone(),
        })
    };
    Ok(items.iter().filter_map(file).collect())
}

/// Accepts the path of a project file or folder that can have the same path in a context.
fn context_file(text: &str, folders: &[&str]) -> Result<(), Wrong> {
    let is_in = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = source(text)?;
    if let Some(name) = CONTEXT_NAMES.iter().find(|name| is_in(&path, name)) {
        let message = format!("{} cannot be in a build context", quote(text));
        let help = format!("rename it: `{name}` has a special meaning for engines");
        return Err(wrong(message, help));
    }
    match folders.iter().find(|folder| is_in(&path, folder) || is_in(folder, &path)) {
        Some(folder) => Err(wrong(
            format!("{} would be in the context twice", quote(text)),
            format!(
                "rename it: this stage's `sources`, `packages` or `python` provide the folder `{folder}`"
            ),
        )),
        None => Ok(()),
    }
}
