//! The settings of tracks that an engine builds: variants, and the stages of each variant.
//!
//! A stage consists of a Dockerfile and the content of its build context, and produces an image.
//! Each stage starts from the image of the previous one, and the first stage from the variant's
//! base.

use std::collections::{BTreeMap, BTreeSet};

use crate::checks::{self, line};
use crate::files::{TrackFile, read_context_files};
use crate::forms;
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect};
use crate::tracks::{Base, check_base, secrets};
use crate::{PinKind, Pins};
use names::{GpuTarget, PinName};

/// The ways to build a track, for tracks that an engine builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variants {
    /// The default variant.
    pub variant: String,
    /// All variants, by name.
    pub variants: BTreeMap<String, Variant>,
    /// The variant that a rehearsal builds, if there is one.
    pub rehearsal: Option<String>,
}

/// One way to build a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The base of the first stage.
    pub base: Base,
    /// The stages, in order; the last one produces the image of the track.
    pub stages: Vec<Stage>,
    /// Whether the image must contain code for its GPU, which the build then checks.
    pub has_gpu_code: bool,
    /// The GPU targets whose code is kept in the image. If empty, all code is kept.
    pub slim: Vec<GpuTarget>,
}

/// One Dockerfile and its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The name, unique in the variant.
    pub name: String,
    /// The Dockerfile, as a path from the root of the project.
    pub dockerfile: String,
    /// Source pins, by the folder of the build context that contains their trees.
    pub sources: BTreeMap<String, PinName>,
    /// Sets of the variant's package lock. Their packages are put into the context's folder
    /// `packages`.
    pub packages: Vec<String>,
    /// A Python lock. Its wheels are put into the folder `python` of the context.
    pub python: Option<String>,
    /// Project files and folders. They have the same path in the context.
    pub files: Vec<TrackFile>,
    /// Build arguments of this variant for the Dockerfile.
    pub args: BTreeMap<String, String>,
    /// Whether its RUN instructions may use the network.
    pub network: bool,
}

/// The name of the only variant of a track that lists its stages without variants.
const ONLY_VARIANT: &str = "default";

/// Reads the variants from the table of a track. A track with only one variant can list its stages
/// directly.
pub(crate) fn read_variants(
    report: &mut Report<'_>,
    table: &Table<'_>,
    pins: Option<&Pins>,
) -> Result<Variants, Reported> {
    if table.get("stage").is_some() {
        let mut failed = None;
        for key in ["variant", "variants", "rehearsal"] {
            let Some(entry) = table.get(key) else { continue };
            let message = format!("{} has both `stage` and `{key}`", table.place());
            let help = "move the stages into a variant: `[[TRACK.variants.NAME.stage]]`";
            failed = Some(report.add(&entry.key_span, wrong(message, help)));
        }
        let variant = read_variant(report, table, pins)?;
        let variants = BTreeMap::from([(ONLY_VARIANT.to_owned(), variant)]);
        let all = Variants { variant: ONLY_VARIANT.to_owned(), variants, rehearsal: None };
        return failed.map_or(Ok(all), Err);
    }
    for key in ["base", "track", "packages", "gpu-code", "slim"] {
        let Some(entry) = table.get(key) else { continue };
        let message = format!("{} has variants, so `{key}` must be in one of them", table.place());
        report.add(&entry.key_span, wrong(message, "move it into `variants.NAME`"));
    }
    let variant = table.required(report, "variant", "variant = \"debian\"", name);
    let Some(section) = table.get("variants") else {
        return Err(table.add_missing(report, "variants", "variants.debian.packages = \"vulkan\""));
    };
    let section_place =
        quote(&format!("[{}.variants]", table.place().trim_matches(['[', ']', '`'])));
    let section = section.table(report, &section_place)?;
    let variants = collect(report, section.entries(), |report, entry| {
        let name = name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
        let place = quote(&format!("[….variants.{}]", entry.key));
        let variant_table = entry.table(report, &place)?;
        variant_table.check_form(report, forms::VARIANT.keys);
        Ok((name, read_variant(report, &variant_table, pins)?))
    });
    let rehearsal = table.optional(report, "rehearsal", name);
    let keys = [
        ("variant", variant.as_ref().ok()),
        ("rehearsal", rehearsal.as_ref().ok().and_then(Option::as_ref)),
    ];
    let mut failed = None;
    for (key, named) in keys {
        let known = || section.entries().map(|entry| entry.key);
        let Some(named) = named.filter(|named| known().all(|one| one != *named)) else {
            continue;
        };
        let Some(entry) = table.get(key) else { continue };
        let help = match nearest(named, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the variants are {}", list(known())),
        };
        let wrong = wrong(format!("`{named}` is not one of the variants"), help);
        failed = Some(report.add(&entry.span, wrong));
    }
    let all = Variants { variant: variant?, variants: variants?, rehearsal: rehearsal? };
    failed.map_or(Ok(all), Err)
}

/// Reads the base of a track or variant, which has exactly one of `base`, `track` and `packages`.
/// If it has none, the message suggests the line `example`.
pub(crate) fn read_base(
    report: &mut Report<'_>,
    table: &Table<'_>,
    pins: Option<&Pins>,
    example: &str,
) -> Result<Base, Reported> {
    let base = table.optional(report, "base", |text| {
        if text.contains('/') {
            let help =
                "write the name of an image pin in versions/versions.toml, for example `ollama`";
            return Err(wrong(format!("{} is an image, not the name of a pin", quote(text)), help));
        }
        let pin = checks::pin_name(text)?;
        pins.map_or(Ok(()), |pins| check_base(&pin, pins)).map(|()| pin)
    });
    let track = table.optional(report, "track", |text| {
        text.parse().map_err(|error: names::ParseNameError| {
            wrong(
                format!("{} is not {}", quote(text), error.what),
                "write the name of another track",
            )
        })
    });
    let packages = table.optional(report, "packages", name);
    let given = ["base", "track", "packages"].iter().filter(|key| table.get(key).is_some()).count();
    if given > 1 {
        let message =
            format!("{} has more than one of `base`, `track` and `packages`", table.place());
        let help = "keep one: an image pin (`base`), another track (`track`) or a package lock (`packages`)";
        return Err(report.add(&table.span(), wrong(message, help)));
    }
    let all = [base?.map(Base::Image), track?.map(Base::Track), packages?.map(Base::Packages)];
    match all.into_iter().flatten().next() {
        Some(only) => Ok(only),
        None => Err(table.add_missing(report, "base", example)),
    }
}

/// Reads `slim`: the GPU targets whose code is kept. The list is empty if the key is absent.
pub(crate) fn read_slim(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<Vec<GpuTarget>, Reported> {
    let gpus = table.texts(report, "slim", "gfx1151", checks::gpu_target)?;
    match table.get("slim").filter(|_| gpus.is_empty()) {
        Some(entry) => {
            let help = "list the GPUs whose code is kept, for example `slim = [\"gfx1151\"]`, or remove the line";
            Err(report.add(&entry.span, wrong("`slim` lists no GPU".to_owned(), help)))
        }
        None => Ok(gpus),
    }
}

/// Reads the variants of a track that only adds metadata.
pub(crate) fn read_slim_variants(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<BTreeMap<String, Vec<GpuTarget>>, Reported> {
    let Some(section) = table.get("variants") else { return Ok(BTreeMap::new()) };
    let section_place =
        quote(&format!("[{}.variants]", table.place().trim_matches(['[', ']', '`'])));
    let section = section.table(report, &section_place)?;
    collect(report, section.entries(), |report, entry| {
        let name = name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
        let place = quote(&format!("[….variants.{}]", entry.key));
        let variant_table = entry.table(report, &place)?;
        variant_table.check_form(report, forms::SLIM_VARIANT.keys);
        if variant_table.get("slim").is_none() {
            return Err(variant_table.add_missing(report, "slim", "slim = [\"gfx1151\"]"));
        }
        Ok((name, read_slim(report, &variant_table)?))
    })
}

fn read_variant(
    report: &mut Report<'_>,
    table: &Table<'_>,
    pins: Option<&Pins>,
) -> Result<Variant, Reported> {
    let base = read_base(report, table, pins, "base = \"fedora\"");
    let has_gpu_code = table.flag(report, "gpu-code");
    let slim = read_slim(report, table);
    let stages = read_stages(report, table, base.as_ref().ok(), pins);
    Ok(Variant { base: base?, stages: stages?, has_gpu_code: has_gpu_code?, slim: slim? })
}

fn read_stages(
    report: &mut Report<'_>,
    table: &Table<'_>,
    base: Option<&Base>,
    pins: Option<&Pins>,
) -> Result<Vec<Stage>, Reported> {
    let items = match table.get("stage") {
        Some(entry) => match entry.items() {
            Some(items) => items,
            None => {
                return Err(entry.add_type(report, "an array of tables", "write `[[….stage]]`"));
            }
        },
        None => Vec::new(),
    };
    if items.is_empty() {
        return Err(table.add_missing(report, "stage", "[[….stage]]"));
    }
    let (mut stages, mut names, mut failed) = (Vec::new(), BTreeSet::new(), None);
    for item in items {
        if let Some(reported) = report.is_full() {
            return Err(reported);
        }
        match read_stage(report, &item, base, pins) {
            Ok(stage) => stages.push(stage),
            Err(reported) => failed = Some(reported),
        }
        let name = item.as_table().and_then(|stage| stage.get("name"));
        if let Some(name) = name.and_then(|entry| entry.text())
            && !names.insert(name)
        {
            let message = format!("two stages are called {}", quote(name));
            failed = Some(report.add(&item.span, wrong(message, "rename one of them")));
        }
    }
    failed.map_or(Ok(stages), Err)
}

fn read_stage(
    report: &mut Report<'_>,
    item: &Entry<'_>,
    base: Option<&Base>,
    pins: Option<&Pins>,
) -> Result<Stage, Reported> {
    let table = item.table(report, "`[[….stage]]`")?;
    table.check_form(report, forms::STAGE.keys);
    let stage = table.required(report, "name", "name = \"llama-cpp\"", name);
    let example = "dockerfile = \"dockerfiles/vulkan/debian.Dockerfile\"";
    let dockerfile = table.required(report, "dockerfile", example, checks::project_file);
    let sources = match table.get("sources") {
        None => Ok(BTreeMap::new()),
        Some(sources) => sources.table(report, "`sources`").and_then(|sources| {
            collect(report, sources.entries(), |report, entry| {
                let folder = checks::context_folder(entry.key)
                    .map_err(|wrong| report.add(&entry.key_span, wrong))?;
                let pin = entry.checked_text(report, |text| {
                    let pin = checks::pin_name(text)?;
                    check_pin(&pin, pins, &[PinKind::Source, PinKind::Archive]).map(|()| pin)
                })?;
                Ok((folder, pin))
            })
        }),
    };
    let packages = table.texts(report, "packages", "vulkan-build", name);
    let python =
        table.optional(report, "python", |text| checks::pin_name(text).map(|_| text.to_owned()));
    let args = read_args(report, &table);
    let network = table.flag(report, "network");
    let has_packages = packages.as_ref().is_ok_and(|packages| !packages.is_empty());
    let folders = sources.iter().flat_map(BTreeMap::keys).map(String::as_str);
    let of_packages = has_packages.then_some("packages");
    let of_python = matches!(python, Ok(Some(_))).then_some("python");
    let folders: Vec<&str> = folders.chain(of_packages).chain(of_python).collect();
    let files = read_context_files(report, &table, &folders);
    if base.is_some_and(|base| !matches!(base, Base::Packages(_)))
        && has_packages
        && let Some(entry) = table.get("packages")
    {
        let message = "`packages` needs a lock, but this variant is not based on packages";
        let help = "remove it, or replace the variant's base with `packages = \"LOCK\"`";
        return Err(report.add(&entry.key_span, wrong(message, help)));
    }
    Ok(Stage {
        name: stage?,
        dockerfile: dockerfile?,
        sources: sources?,
        packages: packages?,
        python: python?,
        files: files?,
        args: args?,
        network: network?,
    })
}

/// Accepts the name of a variant, stage, lock or set.
fn name(text: &str) -> Result<String, Wrong> {
    checks::component(text).map_err(|_| {
        wrong(
            format!("{} is not a name", quote(text)),
            "write lower-case letters, digits, `-`, `_` and `.`, for example `debian`",
        )
    })
}

/// Reads the build arguments of a stage or a pin.
pub(crate) fn read_args(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<BTreeMap<String, String>, Reported> {
    let Some(args) = table.get("args") else { return Ok(BTreeMap::new()) };
    let args = args.table(report, "`args`")?;
    collect(report, args.entries(), |report, entry| {
        let name = argument(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
        let text = entry.checked_text(report, |text| {
            secrets::value(entry.key, text)?;
            line(400)(text)
        })?;
        Ok((name, text))
    })
}

/// Accepts the name of a build argument that the planner does not set itself.
fn argument(text: &str) -> Result<String, Wrong> {
    let is_word = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let is_ours = ["BASE", "GPU_TARGET", "SOURCE_DATE_EPOCH"].contains(&text);
    if is_ours {
        Err(wrong(
            format!("{} is set automatically for every Dockerfile", quote(text)),
            "remove it",
        ))
    } else if text.starts_with("BUILDKIT_") {
        Err(wrong(
            format!("{} is an option of BuildKit, not of the Dockerfile", quote(text)),
            "remove it; the plan contains no other inputs and options",
        ))
    } else if is_word {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the name of a build argument", quote(text)),
            "write upper-case letters, digits and `_`, for example `VLLM_TARGET_DEVICE`",
        ))
    }
}

pub(crate) fn check_pin(
    pin: &PinName,
    pins: Option<&Pins>,
    kinds: &[PinKind],
) -> Result<(), Wrong> {
    let Some(pins) = pins else { return Ok(()) };
    if pins.kind(pin).is_some_and(|kind| kinds.contains(&kind)) {
        return Ok(());
    }
    let names = pins.names();
    let tables = list(kinds.iter().map(|kind| kind.table()));
    let fitting = names.iter().filter(|(_, kind)| kinds.contains(kind));
    let help = match nearest(pin.as_str(), fitting.map(|(name, _)| name.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "versions/versions.toml lists the pins".to_owned(),
    };
    Err(wrong(format!("`{pin}` is not a pin of kind {tables}"), help))
}
