//! Which GPU a file targets: the targets and products that it names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ::names::{GfxVersion, GpuTarget};
use aho_corasick::AhoCorasick;

use crate::Context;
use crate::data::data;

/// How certain it is that a row about some GPUs applies to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// The file targets other GPUs.
    No,
    /// Nothing shows which GPU the file targets.
    Unknown,
    /// The file targets one of the GPUs, and others.
    Possible,
    /// The file targets one of the GPUs.
    Certain,
}

/// The GPUs that a file names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) named: BTreeSet<GpuTarget>,
    /// The targets of its overrides.
    imitated: Vec<GpuTarget>,
    /// Whether an override imitates a GPU that is not one of the file's products, but whose target
    /// the file also names.
    is_doubted: bool,
    /// Targets of overrides that the file names only as those of a build.
    built: Vec<GpuTarget>,
}

/// Variables and options with the targets of a build, in lower case.
const BUILDS: [&str; 6] =
    ["rocm_arch", "arch_list", "amdgpu_targets", "gpu_targets", "gpu_archs", "hip_architectures"];

/// The minimum number of targets for a comment to count as a list, for example of supported GPUs.
const LIST: usize = 3;

impl Target {
    /// Reads the names of targets and products in a file and in its path.
    pub(crate) fn read(file: &str, text: &str) -> Self {
        let lower = format!("{file}\n{text}").to_ascii_lowercase();
        let mut named = BTreeSet::new();
        let mut elsewhere = BTreeSet::new();
        let lists = lists(&lower);
        for (at, line) in lower.lines().enumerate().filter(|(_, line)| line.contains("gfx")) {
            let targets = targets(line);
            let is_long = line.trim_start().starts_with('#') && targets.len() >= LIST;
            let is_list = is_long || lists.contains(&at);
            if !is_list && !BUILDS.iter().any(|build| line.contains(build)) {
                elsewhere.extend(targets.iter().cloned());
            }
            named.extend(targets.into_iter().filter(|_| !is_list));
        }
        let plain = lower.lines().enumerate().filter(|(at, _)| !lists.contains(at));
        let plain = plain.map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let products = products(&plain);
        named.extend(products.iter().cloned());
        elsewhere.extend(products.iter().cloned());
        // The target of an override is not the GPU of the file, unless a rule about overrides
        // covers it.
        let is_judged =
            |gpu: &GpuTarget| data().overrides.iter().any(|one| one.row.gpus.contains(gpu));
        let imitated = overridden(&lower);
        // A file for an RX 9070 that imitates gfx1151 does not target gfx1151, whatever it says.
        let is_wrong = |gpu: &&GpuTarget| !products.is_empty() && !products.contains(*gpu);
        let is_doubted = imitated.iter().filter(is_wrong).any(|gpu| named.contains(gpu));
        let is_built =
            |gpu: &&GpuTarget| named.contains(*gpu) && !elsewhere.contains(*gpu) && !is_judged(gpu);
        let built = imitated.iter().filter(is_built).cloned().collect();
        if named.len() > 1 {
            // A file for a product does not imitate that product.
            let others = imitated.iter().filter(|gpu| !products.contains(*gpu));
            for gpu in others.filter(|gpu| !is_judged(gpu) || is_wrong(gpu)) {
                named.remove(gpu);
            }
        }
        Self { named, imitated, is_doubted, built }
    }

    /// Adds the GPU that the folders of a file name, if the file itself names none.
    pub(crate) fn add_place(&mut self, place: &str) {
        if self.named.is_empty() {
            self.named = Self::read(place, "").named;
        }
    }

    /// Returns the GPU that the caller names, else the only one that the file names, else the
    /// project's.
    pub(crate) fn only<'a>(&'a self, context: Context<'a>) -> Option<&'a GpuTarget> {
        let project = || context.project_gpu.filter(|_| self.named.is_empty());
        context
            .gpu
            .or_else(|| self.named.first().filter(|_| self.named.len() == 1))
            .or_else(project)
    }

    /// Returns whether it is known which GPU the file targets.
    pub(crate) fn is_known(&self, context: Context<'_>) -> bool {
        !self.named.is_empty() || context.gpu.or(context.project_gpu).is_some()
    }

    /// Returns whether the file names or imitates one of these GPUs.
    pub(crate) fn names(&self, gpus: &[GpuTarget]) -> bool {
        gpus.iter().any(|gpu| self.named.contains(gpu) || self.imitated.contains(gpu))
    }

    /// Returns whether the file names GPUs, and only some of these.
    pub(crate) fn is_only(&self, gpus: &[GpuTarget]) -> bool {
        !self.named.is_empty() && self.named.iter().all(|gpu| gpus.contains(gpu))
    }

    /// Returns those of some GPUs that the file names, for messages.
    pub(crate) fn named_of(&self, gpus: &[GpuTarget]) -> String {
        let own = gpus.iter().filter(|gpu| self.named.contains(*gpu)).map(GpuTarget::as_str);
        own.collect::<Vec<_>>().join(" and ")
    }

    /// Returns whether an override imitates a GPU that is not one of the file's products, but whose
    /// target the file also names.
    pub(crate) fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// Returns whether an override imitates a GPU that the file names only as the target of a build,
    /// so that the machine can have another one.
    pub(crate) fn is_build_only(&self, version: GfxVersion, context: Context<'_>) -> bool {
        let is_unknown = context.gpu.or(context.project_gpu).is_none() && self.named.len() == 1;
        is_unknown && self.built.iter().any(|gpu| GfxVersion::of_target(gpu) == Some(version))
    }

    /// Returns whether the file names GPUs of several generations.
    pub(crate) fn is_mixed(&self) -> bool {
        let majors = self.named.iter().filter_map(GfxVersion::of_target);
        majors.map(GfxVersion::major).collect::<BTreeSet<_>>().len() > 1
    }

    /// Returns whether a version belongs to a generation other than that of the GPU: the caller's,
    /// else the file's, if all are of one generation, else the project's. Returns `false` if the
    /// file has different overrides, because it selects one of them.
    pub(crate) fn is_foreign(&self, version: GfxVersion, context: Context<'_>) -> bool {
        let named = self.named.first().filter(|_| !self.is_mixed());
        let project = context.project_gpu.filter(|_| self.named.is_empty());
        let Some(own) = context.gpu.or(named).or(project) else { return false };
        let is_only = self.imitated.windows(2).all(|two| two[0] == two[1]);
        let major = GfxVersion::of_target(own).map(GfxVersion::major);
        is_only && major.is_some_and(|major| major != version.major())
    }

    /// Returns whether a row about `gpus` applies. An empty list means all GPUs.
    pub(crate) fn matches(&self, gpus: &[GpuTarget], context: Context<'_>) -> Match {
        if gpus.is_empty() {
            return Match::Certain;
        }
        let certain = |gpu: &GpuTarget| if gpus.contains(gpu) { Match::Certain } else { Match::No };
        if let Some(gpu) = context.gpu {
            return certain(gpu);
        }
        if self.named.is_empty() {
            let is_possible = self.imitated.is_empty()
                || gpus.iter().any(|gpu| self.imitated.iter().any(|own| is_related(own, gpu)));
            let unknown = if is_possible { Match::Unknown } else { Match::No };
            return context.project_gpu.map_or(unknown, certain);
        }
        match self.named.iter().filter(|gpu| gpus.contains(gpu)).count() {
            0 => Match::No,
            count if count == self.named.len() => Match::Certain,
            _ => Match::Possible,
        }
    }

    /// Returns whether a version is the native version of a GPU that the file targets.
    pub(crate) fn is_own(&self, version: GfxVersion, context: Context<'_>) -> bool {
        let is = |gpu: &GpuTarget| GfxVersion::of_target(gpu) == Some(version);
        match context.gpu {
            Some(gpu) => is(gpu),
            None if self.named.is_empty() => context.project_gpu.is_some_and(is),
            None => self.named.iter().any(is),
        }
    }

    /// Returns whether a version is that of every GPU that the file names.
    pub(crate) fn is_of_all(&self, version: GfxVersion, context: Context<'_>) -> bool {
        let is = |gpu: &GpuTarget| GfxVersion::of_target(gpu) == Some(version);
        self.is_own(version, context) && (context.gpu.is_some() || self.named.iter().all(is))
    }
}

/// Returns the lines of comments that list GPUs, one a line: what a value means for each.
fn lists(lower: &str) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut own: Vec<usize> = Vec::new();
    let mut named: BTreeSet<GpuTarget> = BTreeSet::new();
    for (at, line) in lower.lines().chain([""]).enumerate() {
        let is_entry = line.contains("gfx") && line.trim_start().starts_with('#');
        if is_entry {
            own.push(at);
            named.extend(targets(line));
            continue;
        }
        if own.len() >= LIST && named.len() >= LIST {
            all.extend(own.iter().copied());
        }
        own.clear();
        named.clear();
    }
    all
}

/// The names of products, in lower case, and the target of each.
static PRODUCTS: LazyLock<Option<(AhoCorasick, Vec<&GpuTarget>)>> = LazyLock::new(|| {
    let names = data().gpus.iter().flat_map(|row| row.words.iter().map(|word| (word, &row.target)));
    let (words, targets): (Vec<_>, Vec<_>) = names.unzip();
    Some((AhoCorasick::new(words).ok()?, targets))
});

/// Returns the targets of the products that a text in lower case names. A letter after a number is
/// part of the name: an RX 6800M is another GPU than an RX 6800.
fn products(lower: &str) -> BTreeSet<GpuTarget> {
    let Some((names, targets)) = &*PRODUCTS else { return BTreeSet::new() };
    let is_whole = |one: &aho_corasick::Match| {
        let mut after = lower[one.end()..].chars();
        let is_number = lower[..one.end()].ends_with(|c: char| c.is_ascii_digit());
        let is_mobile = is_number
            && matches!(after.next(), Some('m' | 's'))
            && !after.next().is_some_and(|c| c.is_ascii_alphanumeric());
        !is_mobile
    };
    let found = names.find_overlapping_iter(lower).filter(is_whole);
    found.filter_map(|one| targets.get(one.pattern().as_usize())).copied().cloned().collect()
}

/// Returns the targets that a line in lower case names.
pub(crate) fn targets(line: &str) -> BTreeSet<GpuTarget> {
    let mut found = BTreeSet::new();
    for (at, _) in line.match_indices("gfx") {
        // The value of an override is not the GPU.
        let before = line[..at].trim_end_matches(['=', ':', '"', '\'', ' ']);
        if before.ends_with("hsa_override_gfx_version") || before.ends_with("cuda_version") {
            continue;
        }
        let rest = &line[at..];
        let end =
            rest[3..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |e| e + 3);
        // `gfx110X` is a family, not a target.
        found.extend(rest[..end].parse::<GpuTarget>().ok().filter(|_| (6..=7).contains(&end)));
    }
    found
}

/// Returns whether two targets have the same major version. Only such GPUs can imitate each other.
fn is_related(one: &GpuTarget, other: &GpuTarget) -> bool {
    // The last two digits are the minor version and the stepping.
    let major = |gpu: &GpuTarget| gpu.as_str().chars().rev().skip(2).collect::<String>();
    major(one) == major(other)
}

/// Returns the targets that the overrides of a text imitate.
fn overridden(lower: &str) -> Vec<GpuTarget> {
    let after = |at: usize| {
        let rest = lower[at..].trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest = rest.trim_start_matches(['=', ':', ' ', '"', '\'', '-', '$', '{']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        rest[..end].parse::<GfxVersion>().ok()?.target()
    };
    lower.match_indices("hsa_override_gfx_version").filter_map(|(at, _)| after(at)).collect()
}
