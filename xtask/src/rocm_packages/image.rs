//! Images of the packages' files: sealed, slimmed, unpacked and opened.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::root::ROOT;
use super::{Programs, WORK, root};
use crate::bench::{Layer, peak_memory, write_layout};
use crate::layout::{Layout, blob};
use crate::run::{at_root, output, root as workspace};

/// Opens a library, resolves all its symbols, and prints which HIP runtime is loaded with it.
const OPEN: &str = "import ctypes, os, sys\n\
    ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\n\
    maps = {line.split()[-1] for line in open('/proc/self/maps') if 'libamdhip64' in line}\n\
    print('opened', sys.argv[1], 'with', *sorted(maps))\n";

/// Opens libraries in a copy of the root in which a layer replaces files. `$1` is the folder of the
/// copy, `$2` the root, `$3` the layer, `$4` the list of the replaced files, `$5` the program; the
/// libraries follow. The mounts are in a separate mount namespace, so they end with this script,
/// even if it fails.
const OPEN_ALL: &str = r#"set -eu
copy=$1 lower=$2 layer=$3 files=$4 program=$5; shift 5
mkdir -p "$copy/changes" "$copy/work" "$copy/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$copy/changes,workdir=$copy/work" "$copy/root"
sed "s|^|$copy/root|" "$files" | tr '\n' '\0' | xargs -0 rm
tar -xzf "$layer" -C "$copy/root"
mount -t proc proc "$copy/root/proc"
for library do chroot "$copy/root" python3 -c "$program" "$library"; done
"#;

/// An image whose only layer has the files of packages.
pub(super) struct Image {
    /// Its layout, relative to the root of the workspace.
    pub(super) layout: String,
    /// The digest of its manifest.
    pub(super) digest: String,
    /// The packages.
    pub(super) packages: Vec<&'static str>,
}

/// What `slim` did.
pub(super) struct Slimmed {
    /// The layout of the new image, relative to the root of the workspace.
    pub(super) layout: String,
    /// The largest resident memory of `slim`, in bytes.
    pub(super) memory: u64,
}

impl Image {
    /// Makes an image of the files of packages. Its layer is sealed like that of a build, so its
    /// size can be compared with that of a slimmed layer, which is compressed in the same way.
    pub(super) fn of(programs: &Programs, name: &str, packages: &[&'static str]) -> Result<Self> {
        let (tree, layout) = (tree(name, packages)?, format!("{WORK}/{name}"));
        let place = workspace()?.join(&layout);
        std::fs::create_dir_all(place.join("blobs/sha256"))?;
        let (tar, packed) = (format!("{layout}/layer.tar"), format!("{layout}/layer"));
        output("tar", &["-cf", &tar, "-C", &tree, "."])?;
        let said = output(&programs.seal, &[&tar, &packed])?;
        std::fs::remove_file(workspace()?.join(&tar))?;
        let last = said.lines().last().and_then(|line| line.split_once(' '));
        let (diff_id, digest) = last.context("the example `seal` printed no digests")?;
        let packed = workspace()?.join(packed);
        let size = std::fs::metadata(&packed)?.len();
        std::fs::rename(packed, place.join(blob(digest)))?;
        let (digest, diff_id) = (digest.to_owned(), diff_id.to_owned());
        let digest = write_layout(&place, &[Layer { form: "tar+gzip", digest, diff_id, size }])?;
        Ok(Self { layout, digest, packages: packages.to_vec() })
    }

    /// Slims the image for a GPU.
    pub(super) fn slim(&self, programs: &Programs, gpu: &str) -> Result<Slimmed> {
        let layout = format!("{}-slim", self.layout);
        let mut command = at_root(&programs.tool)?;
        command.args(["slim", &self.layout, "--gpu", gpu, "--output", &format!("oci:{layout}")]);
        Ok(Slimmed { memory: peak_memory(&command)?, layout })
    }
}

/// Returns a folder with the files of packages, as hard links to those of the root.
pub(super) fn tree(name: &str, packages: &[&str]) -> Result<String> {
    let tree = format!("{WORK}/{name}-tree");
    let place = workspace()?.join(&tree);
    std::fs::create_dir_all(&place)?;
    let files: Vec<String> =
        root::files(packages)?.iter().map(|path| path.trim_start_matches('/').to_owned()).collect();
    let mut copy = Command::new("cp");
    copy.current_dir(workspace()?.join(ROOT)).args(["--archive", "--link", "--parents"]);
    let status = copy.arg("--target-directory").arg(&place).args(&files).status()?;
    ensure!(status.success(), "the files of {} cannot be linked: {status}", packages.join(", "));
    Ok(tree)
}

/// Checks that the libraries of a slimmed image still open: replaces the packages' files in a
/// copy of the root with the image's layer, and opens each library there.
pub(super) fn open(slimmed: &str, packages: &[&str]) -> Result<usize> {
    let layers = Layout::read(slimmed)?.layers;
    let layer = format!("{slimmed}/{}", blob(&layers.first().context("there is no layer")?.0));
    let (list, copy) = (format!("{WORK}/replaced"), format!("{WORK}/copy"));
    std::fs::write(workspace()?.join(&list), root::files(packages)?.join("\n") + "\n")?;
    let libraries = root::libraries(packages)?;
    let mut words = vec!["--mount", "--propagation=private", "--", "sh", "-c", OPEN_ALL, "sh"];
    words.extend([copy.as_str(), ROOT, &layer, &list, OPEN]);
    words.extend(libraries.iter().map(String::as_str));
    let said = output("unshare", &words)?;
    let opened = said.lines().filter(|line| line.contains("libamdhip64.so"));
    ensure!(
        opened.count() == libraries.len() && !libraries.is_empty(),
        "a library was opened without the HIP runtime:\n{said}"
    );
    std::fs::remove_dir_all(workspace()?.join(&copy)).context("cannot remove the copy")?;
    Ok(libraries.len())
}
