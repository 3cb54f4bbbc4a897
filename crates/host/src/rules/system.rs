//! The package manager and the boot files of the distribution, for the commands in repairs.

use super::Context;

/// A family of distributions that share commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Debian, Ubuntu and their descendants.
    Debian,
    /// Fedora.
    Fedora,
    /// RHEL and the distributions that are built from its sources.
    RedHat,
    /// SLES and openSUSE.
    Suse,
    /// Arch and its descendants.
    Arch,
    /// Any other distribution.
    Other,
}

impl Context<'_> {
    /// Returns the family of the machine's distribution.
    pub(super) fn system(&self) -> System {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        match name.split('-').next().unwrap_or_default() {
            "ubuntu" | "debian" | "linuxmint" | "pop" => System::Debian,
            "fedora" => System::Fedora,
            "rhel" | "centos" | "almalinux" | "rocky" | "ol" => System::RedHat,
            "sles" | "sled" | "opensuse" => System::Suse,
            "arch" | "cachyos" | "manjaro" => System::Arch,
            _ => System::Other,
        }
    }

    /// Returns whether it is Debian itself, whose firmware packages have other names than Ubuntu's.
    pub(super) fn is_plain_debian(&self) -> bool {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        name == "debian" || name.starts_with("debian-")
    }

    /// Returns the command that makes changes in modprobe.d take effect.
    pub(super) fn rebuild_initramfs(&self) -> String {
        match self.system() {
            System::Debian => "sudo update-initramfs -u -k all",
            System::Arch => "sudo mkinitcpio -P",
            _ => "sudo dracut --force --regenerate-all",
        }
        .to_owned()
    }

    /// Returns the command that installs packages.
    pub(super) fn install(&self, packages: &str) -> String {
        match self.system() {
            System::Debian => format!("sudo apt install {packages}"),
            System::Fedora | System::RedHat => format!("sudo dnf install {packages}"),
            System::Suse => format!("sudo zypper install {packages}"),
            System::Arch => format!("sudo pacman -S {packages}"),
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
            System::Other => format!("# update {package}"),
        }
    }
}
