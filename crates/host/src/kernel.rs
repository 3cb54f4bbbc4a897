//! The kernel: its release, its parameters, the firmware it loaded, and the memory it manages.

use crate::root::Root;

/// The running kernel and its distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The output of `uname -r`, for example `6.18.8-200.fc43.x86_64`.
    pub release: Option<String>,
    /// The build number, from the `#…` of `uname -v`, for example `19~24.04.2`.
    pub build: Option<String>,
    /// `ID-VERSION_ID` of os-release, for example `fedora-43`.
    pub distribution: Option<String>,
    /// The last day on which the distribution gets updates, `YYYY-MM-DD`, and the file that says so.
    pub support_end: Option<(String, &'static str)>,
    /// The distributions that it derives from (`ID_LIKE`), the closest one first.
    pub like: Vec<String>,
    /// The system's display name (`PRETTY_NAME` of os-release).
    pub system: Option<String>,
    /// Module parameters, from the command line and from modprobe.d.
    pub parameters: Vec<Parameter>,
    /// Other words of the command line, for example `amd_iommu=off`.
    pub words: Vec<String>,
    /// The modules of interest that are loaded: those with a folder in `/sys/module`.
    pub modules: Vec<String>,
    /// Parameters that the loaded module does not have. The kernel ignores them.
    pub unknown: Vec<Parameter>,
    /// The installed programs that rebuild an initramfs or write the entries of a boot loader.
    pub tools: Vec<String>,
}

/// A parameter of a kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The module, with `_` in place of `-`.
    pub module: String,
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The file that sets it, for example `/proc/cmdline`.
    pub file: String,
}

/// The GPU's firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// The versions of the MES scheduler's firmware on the GPUs, each once. Only root can read
    /// them.
    pub mes: Vec<u32>,
    /// The packages that contain firmware.
    pub packages: Vec<FirmwarePackage>,
    /// The files in `/lib/firmware/updates/amdgpu`, which the kernel loads before those of
    /// packages.
    pub overriding: Vec<String>,
}

/// A package that contains firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwarePackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The date in its version, for example `20251125`: linux-firmware numbers its releases by
    /// date.
    pub date: Option<String>,
}

/// The host's memory, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The total memory.
    pub total: Option<u64>,
    /// The memory that is available to programs now.
    pub available: Option<u64>,
    /// The limit for GPUs: `pages_limit` of ttm, or of amdttm, which amdgpu-dkms uses instead.
    pub gpu_limit: Option<u64>,
    /// The free memory in all blocks, and in blocks of 2 MiB or more.
    pub free: Option<FreeBlocks>,
}

/// Free memory, as the kernel's page allocator divides it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreeBlocks {
    /// The bytes in blocks of any size.
    pub all: u64,
    /// The bytes in blocks of 2 MiB or more.
    pub large: u64,
}

/// The page size that `ttm.pages_limit` uses.
pub(crate) const PAGE: u64 = 4096;

/// The modules of interest.
const MODULES: [&str; 4] = ["amdgpu", "ttm", "amdttm", "vfio_pci"];

/// Reads the end of support from the lists of Debian's package distro-info-data, which Ubuntu
/// installs too. Debian's LTS counts as support. Ubuntu Pro does not.
fn listed_end(root: &Root, id: &str, version: &str) -> Option<(String, &'static str)> {
    let (file, columns): (_, &[&str]) = match id {
        "debian" => ("/usr/share/distro-info/debian.csv", &["eol-lts", "eol"]),
        "ubuntu" => ("/usr/share/distro-info/ubuntu.csv", &["eol"]),
        _ => return None,
    };
    let text = root.text(file.trim_start_matches('/'))?;
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next()?;
    // `24.04 LTS`
    let own = rows.find(|row| row[0].split(' ').next() == Some(version))?;
    let cell = |name: &&str| {
        let at = names.iter().position(|column| column == name)?;
        own.get(at).filter(|cell| !cell.is_empty())
    };
    Some((columns.iter().find_map(cell)?.to_string(), file))
}

/// The programs that rebuild an initramfs or write the entries of a boot loader; a distribution can
/// have one of several.
const TOOLS: [&str; 5] =
    ["dracut", "dracut-rebuild", "mkinitcpio", "limine-mkinitcpio", "sdboot-manage"];

impl Kernel {
    pub(crate) fn read(root: &Root) -> Self {
        let version = root.line("proc/version");
        let release = root.line("proc/sys/kernel/osrelease").or_else(|| {
            Some(version.as_deref()?.strip_prefix("Linux version ")?.split(' ').next()?.to_owned())
        });
        let build = version.as_deref().and_then(|version| {
            let build = version.rsplit_once(" #")?.1.split(' ').next()?;
            Some(build.trim_end_matches("-Ubuntu").to_owned())
        });
        let os = root
            .text("etc/os-release")
            .or_else(|| root.text("usr/lib/os-release"))
            .unwrap_or_default();
        let field = |name: &str| {
            let value = os.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            Some(value.trim_matches(['"', '\'']).to_owned())
        };
        // Arch and Debian testing have no version.
        let distribution = field("ID").map(|id| match field("VERSION_ID") {
            Some(version_id) => format!("{id}-{version_id}"),
            None => id,
        });
        let (mut parameters, mut words) = (Vec::new(), Vec::new());
        for word in root.line("proc/cmdline").unwrap_or_default().split_whitespace() {
            match parameter(word) {
                Some((module, name, value)) => parameters.push(Parameter {
                    module,
                    name,
                    value,
                    file: "/proc/cmdline".to_owned(),
                }),
                None => words.push(word.to_owned()),
            }
        }
        parameters.extend(from_modprobe(root));
        let modules = MODULES.into_iter().filter(|name| root.has(&format!("sys/module/{name}")));
        let unknown = parameters.iter().filter(|parameter| is_unknown(root, parameter));
        let is_installed = |name: &&str| {
            ["usr/bin", "usr/sbin"].iter().any(|folder| root.has(&format!("{folder}/{name}")))
        };
        Self {
            tools: TOOLS
                .iter()
                .filter(|name| is_installed(name))
                .map(|&name| name.to_owned())
                .collect(),
            unknown: unknown.cloned().collect(),
            release,
            build,
            support_end: field("SUPPORT_END")
                .map(|end| (end, "SUPPORT_END in os-release"))
                .or_else(|| listed_end(root, &field("ID")?, &field("VERSION_ID")?)),
            distribution,
            like: field("ID_LIKE")
                .map(|like| like.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            system: field("PRETTY_NAME"),
            parameters,
            words,
            modules: modules.map(str::to_owned).collect(),
        }
    }

    /// Returns all settings of the parameter with that name.
    pub fn given<'a>(
        &'a self,
        module: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Parameter> {
        self.parameters.iter().filter(move |one| one.module == module && one.name == name)
    }

    /// Returns the module whose `pages_limit` limits the memory of GPUs.
    pub fn memory_module(&self) -> &'static str {
        if self.has_module("amdttm") { "amdttm" } else { "ttm" }
    }

    /// Returns whether one of [`Self::tools`] is installed.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool == name)
    }

    /// Returns whether a module is loaded.
    pub fn has_module(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module == name)
    }
}

/// The modules that show all their parameters in `/sys/module`; vfio_pci hides `ids`.
const OPEN: [&str; 3] = ["amdgpu", "ttm", "amdttm"];
/// The parameters that the kernel accepts for every module.
const COMMON: [&str; 2] = ["async_probe", "dyndbg"];

/// Returns whether the parameter belongs to a loaded GPU module that does not have it.
fn is_unknown(root: &Root, parameter: &Parameter) -> bool {
    let folder = format!("sys/module/{}/parameters", parameter.module);
    let known = root.names(&folder);
    OPEN.contains(&parameter.module.as_str())
        && !COMMON.contains(&parameter.name.as_str())
        && !known.is_empty()
        && !known.contains(&parameter.name.replace('-', "_"))
}

/// Splits `amdgpu.gttsize=126976`. A word without a dot before its `=` is not a module parameter.
fn parameter(word: &str) -> Option<(String, String, String)> {
    let (name, value) = word.split_once('=')?;
    let (module, name) = name.split_once('.')?;
    let is_module = module.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_module.then(|| (module.replace('-', "_"), name.to_owned(), value.to_owned()))
}

/// Reads the `options` lines of modprobe.d.
fn from_modprobe(root: &Root) -> Vec<Parameter> {
    let mut all = Vec::new();
    for file in root.names("etc/modprobe.d").iter().filter(|name| name.ends_with(".conf")) {
        let text = root.text(&format!("etc/modprobe.d/{file}")).unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if words.next() != Some("options") {
                continue;
            }
            let Some(module) = words.next() else { continue };
            all.extend(words.filter_map(|word| {
                let (name, value) = word.split_once('=')?;
                Some(Parameter {
                    module: module.replace('-', "_"),
                    name: name.to_owned(),
                    value: value.to_owned(),
                    file: format!("/etc/modprobe.d/{file}"),
                })
            }));
        }
    }
    all
}

impl Firmware {
    pub(crate) fn read(root: &Root) -> Self {
        let mut mes = Vec::new();
        for card in root.names("sys/kernel/debug/dri") {
            let text = root.text(&format!("sys/kernel/debug/dri/{card}/amdgpu_firmware_info"));
            mes.extend(text.as_deref().and_then(mes_version));
        }
        // The same GPU is listed as a card and as a render node.
        mes.sort_unstable();
        mes.dedup();
        let mut packages = debian_packages(&root.text("var/lib/dpkg/status").unwrap_or_default());
        packages.extend(root.names("var/lib/pacman/local").iter().filter_map(|folder| {
            // `linux-firmware-amdgpu-20260110-1`: the last two dashes separate the version and the
            // build.
            let (rest, build) = folder.rsplit_once('-')?;
            let (name, version) = rest.rsplit_once('-')?;
            let is_wanted = matches!(name, "linux-firmware" | "linux-firmware-amdgpu");
            is_wanted.then(|| package(name, &format!("{version}-{build}")))
        }));
        let overriding = ["lib", "usr/lib"]
            .iter()
            .map(|folder| root.names(&format!("{folder}/firmware/updates/amdgpu")))
            .find(|names| !names.is_empty());
        Self { mes, packages, overriding: overriding.unwrap_or_default() }
    }
}

/// Returns the version in a line such as `MES feature version: 1, firmware version: 0x00000083`.
fn mes_version(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("MES feature version"))?;
    let digits = line.rsplit_once("0x")?.1.trim();
    // The kernel compares only the lower twelve bits.
    u32::from_str_radix(digits, 16)
        .ok()
        .map(|version| version & 0xfff)
        .filter(|version| *version > 0)
}

/// Reads the packages of interest from dpkg's status file.
fn debian_packages(status: &str) -> Vec<FirmwarePackage> {
    const NAMES: [&str; 3] = ["linux-firmware", "firmware-amd-graphics", "amdgpu-dkms-firmware"];
    let versions = |name| debian_versions(status, name).map(move |version| package(name, version));
    NAMES.into_iter().flat_map(versions).collect()
}

/// Returns the versions of an installed package in dpkg's status file, one for each architecture.
fn debian_versions<'a>(status: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("Package: {name}\n");
    let starts: Vec<usize> = status.match_indices(&head).map(|(at, _)| at).collect();
    let starts = starts.into_iter().filter(|at| *at == 0 || status[..*at].ends_with('\n'));
    starts.filter_map(|at| {
        let fields = status[at..].split("\n\n").next().unwrap_or_default();
        let field = |key: &str| fields.lines().find_map(|line| line.strip_prefix(key));
        field("Status: ").filter(|state| state.ends_with(" installed"))?;
        field("Version: ").map(str::trim)
    })
}

/// Returns the ROCm release that AMD's packages installed. Their versions, such as
/// `7.1.1.70101-38~24.04`, contain the release twice; distributions' own versions do not.
pub(crate) fn rocm(root: &Root) -> Option<String> {
    let status = root.text("var/lib/dpkg/status")?;
    debian_versions(&status, "rocm-core").find_map(amds_release)
}

fn amds_release(version: &str) -> Option<String> {
    let (release, again) = version.split(['-', '~']).next()?.rsplit_once('.')?;
    let numbers: Vec<u32> = release.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [major, minor, patch] = numbers[..] else { return None };
    (again == format!("{major}{minor:02}{patch:02}")).then(|| release.to_owned())
}

fn package(name: &str, version: &str) -> FirmwarePackage {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    let date = numbers.into_iter().find(|part| part.len() == 8 && part.starts_with("20"));
    FirmwarePackage {
        name: name.to_owned(),
        version: version.to_owned(),
        date: date.map(str::to_owned),
    }
}

impl Memory {
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.text("proc/meminfo").unwrap_or_default();
        let field = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            rest.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
        };
        Self {
            total: field("MemTotal:"),
            available: field("MemAvailable:"),
            // If both are loaded, the driver uses amdttm.
            gpu_limit: ["amdttm", "ttm"]
                .iter()
                .find_map(|module| {
                    root.number(&format!("sys/module/{module}/parameters/pages_limit"))
                })
                .and_then(|pages| pages.checked_mul(PAGE)),
            free: root.text("proc/buddyinfo").as_deref().and_then(free_blocks),
        }
    }
}

/// Reads lines such as `Node 0, zone   Normal    123    45 …`: the number of free blocks of 1, 2,
/// 4 … pages.
fn free_blocks(text: &str) -> Option<FreeBlocks> {
    let mut free = FreeBlocks::default();
    for line in text.lines() {
        let counts = line.split_whitespace().skip(4).enumerate();
        for (order, count) in counts.take(20) {
            let bytes = count.parse::<u64>().ok()?.checked_mul(PAGE << order)?;
            free.all = free.all.checked_add(bytes)?;
            free.large += if order >= 9 { bytes } else { 0 };
        }
    }
    (free.all > 0).then_some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_told_apart() {
        let check = |word: &str| parameter(word).map(|(a, b, c)| format!("{a} {b} {c}"));
        assert_eq!(check("amdgpu.gttsize=126976").as_deref(), Some("amdgpu gttsize 126976"));
        assert_eq!(check("vfio-pci.ids=1002:1586").as_deref(), Some("vfio_pci ids 1002:1586"));
        for word in ["quiet", "root=UUID=1.2", "amd_iommu=off", "BOOT_IMAGE=/vmlinuz-6.18.4"] {
            assert_eq!(check(word), None, "{word}");
        }
    }

    #[test]
    fn the_version_of_mes_is_its_own_and_not_that_of_its_queue() {
        let text = "SDMA0 feature version: 60, firmware version: 0x0000000e\n\
            MES_KIQ feature version: 6, firmware version: 0x0000006f\n\
            MES feature version: 1, firmware version: 0x00000083\n";
        assert_eq!(mes_version(text), Some(0x83));
        assert_eq!(mes_version("MES feature version: 0, firmware version: 0x00000000\n"), None);
        assert_eq!(mes_version("MES_KIQ feature version: 6, firmware version: 0x0000006f\n"), None);
    }

    #[test]
    fn only_installed_packages_count() {
        let status = "Package: linux-firmware\nStatus: install ok installed\nVersion: 20251125-1\n\n\
            Package: linux-firmware-extra\nStatus: install ok installed\nVersion: 1\n\n\
            Package: amdgpu-dkms-firmware\nStatus: deinstall ok config-files\nVersion: 30.20\n";
        let found = debian_packages(status);
        assert_eq!(found, [package("linux-firmware", "20251125-1")]);
        assert_eq!(found[0].date.as_deref(), Some("20251125"));
        assert_eq!(package("a", "30.20.0.0.30200000-2238411.24.04").date, None);
    }

    #[test]
    fn only_amds_packages_name_the_rocm_release_twice() {
        for (version, release) in [
            ("7.1.1.70101-38~24.04", Some("7.1.1")),
            ("7.2.4.70204-93~24.04", Some("7.2.4")),
            ("6.4.1.60401-83~22.04", Some("6.4.1")),
            ("7.14.0.71400-1", Some("7.14.0")),
            ("7.1.0-0ubuntu1", None),
            ("7.2.1.1-1", None),
            ("7.1.0+dfsg-2", None),
            ("", None),
        ] {
            assert_eq!(amds_release(version).as_deref(), release, "{version}");
        }
    }
}
