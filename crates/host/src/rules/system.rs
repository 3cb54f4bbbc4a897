//! The package manager and the boot files of the distribution, for the commands in repairs.

use super::{Context, Finding, Severity, Verdict};

/// A family of distributions that share commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Debian, Ubuntu and their descendants.
    Debian,
    /// Fedora.
    Fedora,
    /// Systems that rpm-ostree updates as a whole: Silverblue, Bazzite, Bluefin.
    Atomic,
    /// RHEL and the distributions that are built from its sources.
    RedHat,
    /// SLES and openSUSE.
    Suse,
    /// The systems by SUSE that are read-only and updated as a whole: MicroOS, Aeon, SL Micro.
    Transactional,
    /// Arch and its descendants.
    Arch,
    /// NixOS.
    Nix,
    /// Any other distribution.
    Other,
}

impl System {
    /// Returns the family of an `ID` of os-release.
    fn of(id: &str) -> Option<Self> {
        Some(match id {
            "ubuntu" | "debian" | "linuxmint" | "pop" => Self::Debian,
            // Nobara also lists RHEL in `ID_LIKE`.
            "fedora" | "nobara" => Self::Fedora,
            "rhel" | "centos" | "almalinux" | "rocky" | "ol" => Self::RedHat,
            "sles" | "sled" | "opensuse" => Self::Suse,
            "arch" | "cachyos" | "manjaro" => Self::Arch,
            "nixos" => Self::Nix,
            // It names Arch in `ID_LIKE`, but its packages cannot be changed.
            "steamos" => Self::Other,
            _ => return None,
        })
    }
}

/// The distribution still gets updates.
pub(super) fn support(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    let name = kernel.system.as_deref().unwrap_or("this system");
    if context.machine.container.is_some() {
        return Verdict::skipped("this is a container");
    }
    let Some((end, source)) = &kernel.support_end else {
        return Verdict::skipped("the system does not say how long it gets updates");
    };
    if end.as_str() >= context.today {
        return Verdict::fine(format!("{name} gets updates until {end}"));
    }
    let distribution = kernel.distribution.as_deref().unwrap_or_default();
    let upgrade = match context.system() {
        System::Debian if distribution.starts_with("ubuntu") => {
            "sudo do-release-upgrade  # an interim release goes to the next release; repeat it up to a release that gets updates"
        }
        System::Fedora => {
            "# upgrade to a current release: https://docs.fedoraproject.org/en-US/quick-docs/upgrading-fedora-offline/"
        }
        System::Atomic => "# rebase to the image of a current release: rpm-ostree rebase",
        _ => "# upgrade to a current release",
    };
    Finding::new(
        Severity::Warning,
        format!("{name} has had no updates since {end}"),
        "a release that gets updates",
    )
    .because(
        "the kernel, firmware and Mesa get no fixes, and commands below that update packages may bring nothing new",
        *source,
    )
    .repair(upgrade)
    .into()
}

/// How the names of read-only systems by SUSE begin.
const TRANSACTIONAL: [&str; 6] = [
    "opensuse-microos",
    "opensuse-aeon",
    "opensuse-kalpa",
    "opensuse-leap-micro",
    "sle-micro",
    "sl-micro",
];

impl Context<'_> {
    /// Returns the family of the machine's distribution.
    pub(super) fn system(&self) -> System {
        let kernel = &self.machine.kernel;
        if kernel.words.iter().any(|word| word.starts_with("ostree=")) {
            return System::Atomic;
        }
        let name = kernel.distribution.as_deref().unwrap_or_default();
        if TRANSACTIONAL.iter().any(|start| name.starts_with(start)) {
            return System::Transactional;
        }
        let own = name.split('-').next().unwrap_or_default();
        let mut all = [own].into_iter().chain(kernel.like.iter().map(String::as_str));
        all.find_map(System::of).unwrap_or(System::Other)
    }

    /// Returns the family of the system that owns the kernel. It is unknown in a container.
    pub(super) fn kernel_system(&self) -> System {
        if self.machine.container.is_some() { System::Other } else { self.system() }
    }

    /// Returns whether it is Debian itself, whose firmware packages are named differently from
    /// Ubuntu's.
    pub(super) fn is_plain_debian(&self) -> bool {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        name == "debian" || name.starts_with("debian-")
    }

    /// Returns the command that makes changes in modprobe.d take effect, if it is known.
    fn rebuild_initramfs(&self) -> Option<&'static str> {
        let has = |name: &str| self.machine.kernel.has_tool(name);
        match self.kernel_system() {
            System::Debian => Some("sudo update-initramfs -u -k all"),
            // The boot loader Limine needs a copy of the initramfs, which its hook makes.
            System::Arch if has("limine-mkinitcpio") => Some("sudo limine-mkinitcpio"),
            System::Arch if has("dracut-rebuild") => Some("sudo dracut-rebuild"),
            System::Arch if has("dracut") && !has("mkinitcpio") => {
                Some("sudo dracut --force --regenerate-all")
            }
            System::Arch => Some("sudo mkinitcpio -P"),
            System::Transactional => Some("sudo transactional-update initrd"),
            System::Atomic => Some("sudo rpm-ostree initramfs-etc --track=/etc/modprobe.d"),
            System::Nix => Some("sudo nixos-rebuild boot"),
            System::Fedora | System::RedHat | System::Suse => {
                Some("sudo dracut --force --regenerate-all")
            }
            System::Other => None,
        }
    }

    /// Returns the commands that make changes in modprobe.d or of firmware take effect, with a
    /// reboot. If `change` makes the change, they begin with it.
    pub(super) fn reboot_after(&self, change: Option<&str>) -> Vec<String> {
        self.after(change, Some("sudo reboot"), "# rebuild the initramfs, then reboot")
    }

    /// Returns the command `change`, and what makes its change in modprobe.d take effect at the
    /// next boot.
    pub(super) fn initramfs_after(&self, change: &str) -> Vec<String> {
        self.after(Some(change), None, "# rebuild the initramfs")
    }

    /// Joins commands around the one that rebuilds the initramfs. If it is unknown, `otherwise`
    /// says what to do, on a line of its own: a shell would wait for a command after `&&`.
    fn after(&self, before: Option<&str>, then: Option<&str>, otherwise: &str) -> Vec<String> {
        let is_command = |text: &&str| !text.starts_with('#');
        let (command, comment) = (before.filter(is_command), before.filter(|one| !is_command(one)));
        let mut lines: Vec<String> = comment.map(str::to_owned).into_iter().collect();
        match self.rebuild_initramfs() {
            Some(rebuild) => {
                let all = command.into_iter().chain([rebuild]).chain(then);
                lines.push(all.collect::<Vec<_>>().join(" && "));
            }
            None => {
                lines.extend(command.map(str::to_owned));
                lines.push(otherwise.to_owned());
            }
        }
        lines
    }

    /// Returns the commands that set a module parameter from the next boot on.
    pub(super) fn set_parameter(&self, module: &str, name: &str, value: &str) -> Vec<String> {
        match self.kernel_system() {
            System::Atomic => vec![format!(
                "sudo rpm-ostree kargs --append-if-missing={module}.{name}={value} && systemctl reboot"
            )],
            System::Nix => vec![
                format!(
                    "# in configuration.nix: boot.kernelParams = [ \"{module}.{name}={value}\" ];"
                ),
                "sudo nixos-rebuild boot && sudo reboot".to_owned(),
            ],
            _ => {
                let set = format!(
                    "echo 'options {module} {name}={value}' | sudo tee /etc/modprobe.d/{module}.conf"
                );
                [vec![set], self.reboot_after(None)].concat()
            }
        }
    }

    /// Returns the command that updates a read-only system by SUSE as a whole.
    pub(super) fn update_of_system(&self) -> &'static str {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        if name.starts_with("opensuse") {
            "sudo transactional-update dup && sudo reboot"
        } else {
            "sudo transactional-update up && sudo reboot"
        }
    }

    /// Returns the file that contains the kernel's command line for the next boot, and the command
    /// that applies it, if they are known.
    pub(super) fn command_line_file(&self) -> Option<(&'static str, &'static str)> {
        let kernel = &self.machine.kernel;
        let has_word = |start| kernel.words.iter().any(|word| word.starts_with(start));
        let is_proxmox = has_word(r"initrd=\EFI\proxmox");
        // Of the boot loaders of Arch, only GRUB adds this word.
        let has_grub = has_word("BOOT_IMAGE=");
        match self.kernel_system() {
            // Proxmox's own boot loader, for example with ZFS.
            System::Debian if is_proxmox => {
                Some(("/etc/kernel/cmdline", "sudo proxmox-boot-tool refresh"))
            }
            System::Debian => Some(("/etc/default/grub", "sudo update-grub")),
            System::Suse => {
                Some(("/etc/default/grub", "sudo grub2-mkconfig -o /boot/grub2/grub.cfg"))
            }
            System::Transactional => {
                Some(("/etc/default/grub", "sudo transactional-update grub.cfg"))
            }
            System::Arch if kernel.has_tool("limine-mkinitcpio") => {
                Some(("/etc/default/limine", "sudo limine-mkinitcpio"))
            }
            System::Arch if has_grub => {
                Some(("/etc/default/grub", "sudo grub-mkconfig -o /boot/grub/grub.cfg"))
            }
            System::Arch if kernel.has_tool("sdboot-manage") => {
                Some(("/etc/sdboot-manage.conf", "sudo sdboot-manage gen"))
            }
            _ => None,
        }
    }

    /// Returns whether it is Pop!_OS, where `kernelstub` keeps the kernel's command line.
    pub(super) fn has_kernelstub(&self) -> bool {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        self.kernel_system() == System::Debian && name.starts_with("pop")
    }

    /// Returns the command that installs packages.
    pub(super) fn install(&self, packages: &str) -> String {
        match self.system() {
            System::Debian => format!("sudo apt install {packages}"),
            System::Fedora | System::RedHat => format!("sudo dnf install {packages}"),
            System::Suse => format!("sudo zypper install {packages}"),
            System::Arch => format!("sudo pacman -S {packages}"),
            System::Atomic => format!("sudo rpm-ostree install {packages} && systemctl reboot"),
            System::Transactional => {
                format!("sudo transactional-update pkg install {packages} && sudo reboot")
            }
            System::Nix => {
                format!("# add {packages} to configuration.nix, then: sudo nixos-rebuild switch")
            }
            System::Other => format!("# install {packages}"),
        }
    }

    /// Returns the command that updates an installed package.
    pub(super) fn update(&self, package: &str) -> String {
        match self.system() {
            System::Debian => {
                format!("sudo apt update && sudo apt install --only-upgrade {package}")
            }
            System::Fedora | System::RedHat => format!("sudo dnf upgrade --refresh {package}"),
            System::Suse => format!("sudo zypper refresh && sudo zypper update {package}"),
            System::Arch => format!("sudo pacman -Syu {package}"),
            System::Atomic => "sudo rpm-ostree upgrade && systemctl reboot".to_owned(),
            System::Transactional => self.update_of_system().to_owned(),
            System::Nix => "sudo nix-channel --update && sudo nixos-rebuild boot".to_owned(),
            System::Other => format!("# update {package}"),
        }
    }
}
