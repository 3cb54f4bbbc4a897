//! The files for rehearsals have the format of GPU code.

use gpu_code::{Slimmed, Spool, sample_bundle, sample_object, slim};
use names::GpuTarget;

use crate::support::list;

#[test]
fn sample_files_have_code_for_each_gpu_and_can_be_slimmed() {
    let gpus = ["gfx1151", "gfx942", "gfx1100"].map(|gpu| gpu.parse::<GpuTarget>().unwrap());
    let bundle = sample_bundle(&gpus);
    let sizes = gpus.each_ref().map(|gpu| sample_object(gpu).unwrap().len());
    let wanted = format!(
        "0 gfx1151 4096 {}\n0 gfx942 8192 {}\n0 gfx1100 12288 {}\n",
        sizes[0], sizes[1], sizes[2]
    );
    assert_eq!(list("kernels.bundle", &bundle), wanted);
    assert_eq!(
        list("a.co", &sample_object(&gpus[0]).unwrap()),
        format!("- gfx1151 0 {}\n", sizes[0])
    );
    let keep = |target: &gpu_code::CodeTarget| target.may_fit(&gpus[0]);
    let slimmed = slim("kernels.bundle", &Spool::from(bundle), &keep, None).unwrap();
    assert!(matches!(slimmed, Slimmed::Rewritten(_)), "{slimmed:?}");
    // A GPU whose ELF number this program does not know has no code.
    let new = "gfx1999".parse::<GpuTarget>().unwrap();
    assert_eq!(sample_object(&new), None);
    assert_eq!(list("none.bundle", &sample_bundle(&[new])), "");
}
