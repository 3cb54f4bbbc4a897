//! The structure of OCI documents and docker configs, as Go programs read them.

/// The expected form of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Any value, kept unchanged, because no program reads it.
    Any,
    /// An object that Go reads into a struct with these keys, and possibly unknown ones.
    Struct(&'static [(&'static str, Self)]),
    /// An object with any keys, and values of one shape. `null` is not allowed as a value.
    Map(&'static Self),
    /// An array. `null` is not allowed as an item.
    List(&'static Self),
    /// A string.
    Text,
    /// A signed 64-bit integer.
    Integer,
    /// A boolean.
    Boolean,
    /// A time in RFC 3339 format.
    Time,
}

use Shape::{Any, Boolean, Integer, List, Map as MapOf, Struct, Text, Time};

const TEXTS: Shape = List(&Text);
const SET: Shape = MapOf(&Struct(&[]));

/// The platform of a manifest (image-spec, image-index.md).
const PLATFORM: Shape = Struct(&[
    ("architecture", Text),
    ("features", TEXTS),
    ("os", Text),
    ("os.features", TEXTS),
    ("os.version", Text),
    ("variant", Text),
]);
/// image-spec, descriptor.md.
const DESCRIPTOR: Shape = Struct(&[
    ("annotations", MapOf(&Text)),
    ("artifactType", Text),
    ("data", Text),
    ("digest", Text),
    ("mediaType", Text),
    ("platform", PLATFORM),
    ("size", Integer),
    ("urls", TEXTS),
]);
/// A manifest or an index (image-spec, manifest.md and image-index.md).
pub(crate) const MANIFEST: Shape = Struct(&[
    ("annotations", MapOf(&Text)),
    ("artifactType", Text),
    ("config", DESCRIPTOR),
    ("layers", List(&DESCRIPTOR)),
    ("manifests", List(&DESCRIPTOR)),
    ("mediaType", Text),
    ("schemaVersion", Integer),
    ("subject", DESCRIPTOR),
]);
/// An entry of `manifest.json` in an archive that docker loads (moby, image/tarexport/tarexport.go).
pub(crate) const DOCKER: Shape =
    Struct(&[("Config", Text), ("Layers", TEXTS), ("Parent", Text), ("RepoTags", TEXTS)]);
/// How to start a container (image-spec, config.md; docker's `container.Config`).
const INNER: Shape = Struct(&[
    ("ArgsEscaped", Boolean),
    ("AttachStderr", Boolean),
    ("AttachStdin", Boolean),
    ("AttachStdout", Boolean),
    ("Cmd", TEXTS),
    ("Domainname", Text),
    ("Entrypoint", TEXTS),
    ("Env", TEXTS),
    ("ExposedPorts", SET),
    (
        "Healthcheck",
        Struct(&[
            ("Interval", Integer),
            ("Retries", Integer),
            ("StartInterval", Integer),
            ("StartPeriod", Integer),
            ("Test", TEXTS),
            ("Timeout", Integer),
        ]),
    ),
    ("Hostname", Text),
    ("Image", Text),
    ("Labels", MapOf(&Text)),
    ("MacAddress", Text),
    ("NetworkDisabled", Boolean),
    ("OnBuild", TEXTS),
    ("OpenStdin", Boolean),
    ("Shell", TEXTS),
    ("StdinOnce", Boolean),
    ("StopSignal", Text),
    ("StopTimeout", Integer),
    ("Tty", Boolean),
    ("User", Text),
    ("Volumes", SET),
    ("WorkingDir", Text),
]);
/// The config of an image (image-spec, config.md; docker's `image.Image`).
pub(super) const CONFIG: Shape = Struct(&[
    ("architecture", Text),
    ("author", Text),
    ("comment", Text),
    ("config", INNER),
    ("container", Text),
    ("container_config", INNER),
    ("created", Time),
    ("docker_version", Text),
    (
        "history",
        List(&Struct(&[
            ("author", Text),
            ("comment", Text),
            ("created", Time),
            ("created_by", Text),
            ("empty_layer", Boolean),
        ])),
    ),
    ("id", Text),
    ("os", Text),
    ("os.features", TEXTS),
    ("os.version", Text),
    ("parent", Text),
    ("rootfs", Struct(&[("diff_ids", TEXTS), ("type", Text)])),
    ("variant", Text),
]);

impl Shape {
    pub(super) fn name(self) -> &'static str {
        match self {
            Any => "a value",
            Struct(_) | MapOf(_) => "an object",
            List(_) => "an array",
            Text => "a string",
            Integer => "a 64-bit integer",
            Boolean => "true or false",
            Time => "a time such as 2026-01-31T12:00:00Z",
        }
    }
}

/// Returns whether a string is a time that Go can parse.
pub(super) fn is_time(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>, least: u32, most: u32| {
        let digits = text.get(range).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        digits
            .and_then(|digits| digits.parse().ok())
            .is_some_and(|found| (least..=most).contains(&found))
    };
    let is = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    let has_date = number(0..4, 0, 9999) && is(4, b'-') && number(5..7, 1, 12) && is(7, b'-');
    let has_time = number(11..13, 0, 23) && is(13, b':') && number(14..16, 0, 59) && is(16, b':');
    let day = text.get(..10).map(str::parse::<jiff::civil::Date>);
    let has_day = has_date && number(8..10, 1, 31) && day.is_some_and(|day| day.is_ok());
    if !(has_day && is(10, b'T') && has_time && number(17..19, 0, 59)) {
        return false;
    }
    let rest = text.get(19..).unwrap_or_default();
    let zone = match rest.strip_prefix('.') {
        Some(rest) => {
            let zone = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            if zone.len() == rest.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let start = text.len() - zone.len();
    let is_offset = (is(start, b'+') || is(start, b'-')) && zone.len() == 6 && is(start + 3, b':');
    zone == "Z"
        || (is_offset && number(start + 1..start + 3, 0, 23) && number(start + 4..start + 6, 0, 59))
}
