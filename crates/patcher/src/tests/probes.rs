//! Jobs of probes, and which probes run.

use super::*;
use crate::probe::{ProbeRun, Tool, probe_job};
use crate::{ProbeJob, Probes};

/// Two lists, the second of which may be absent, and a probe of each.
const TWO: &str = "[[edit]]\nfiles = [\"f.cpp\"]\nanchor = '''\\{(?P<list>[^}]*)\\}'''\nexpect = 1\n\
                   op = \"list-append\"\nitem = \"{gpu}\"\nsep = \";\"\n\n\
                   [[edit]]\nfiles = [\"g.cpp\"]\nif_absent = \"skip\"\nguards = '''gfx'''\n\
                   anchor = '''\\{(?P<list>[^}]*)\\}'''\nexpect = 1\nop = \"list-append\"\n\
                   item = \"{gpu}\"\nsep = \";\"\n\n\
                   [[probe]]\nname = \"first\"\nkind = \"cpp-macro\"\ndefines = [\"A\"]\nfiles = [\"f.cpp\"]\nmatches = 'x'\n\n\
                   [[probe]]\nname = \"second\"\nkind = \"cpp-macro\"\ndefines = [\"A\"]\nfiles = [\"g.cpp\"]\nmatches = 'x'\n";

fn job_of(text: &str) -> ProbeJob {
    let patch = patch("p", TWO);
    let read = |_: &TreePath| Some(text.as_bytes().to_vec());
    probe_job("p", &patch.probes[0], &gpu(), &std::collections::BTreeSet::new(), read).unwrap()
}

#[test]
fn macros_that_only_headers_define_are_zero() {
    let text = "#include <x>\n#define OWN(x) 1\n#if AT_MKL_ENABLED() && defined(A) && OWN(2)\n#elif(B)\n\
                # if !__has_include(<y>) || \\\n  SECOND (3)\n#endif\nint f(int x);\n";
    let job = job_of(text);
    assert_eq!(job.tool, Tool::Cpp);
    let defined: Vec<&str> =
        job.arguments.iter().filter_map(|one| one.strip_prefix("-D")).collect();
    assert_eq!(defined, ["A", "AT_MKL_ENABLED(...)=0", "SECOND(...)=0"]);
    assert_eq!(job.arguments.last().unwrap(), "-", "the file comes last");
}

/// A runner whose probes all end with `stderr`.
struct Failing(&'static str);

impl Probes for Failing {
    fn run(&self, _: &ProbeJob) -> ProbeRun {
        let stderr = self.0.as_bytes().to_vec();
        ProbeRun::Ended { success: false, stdout: Vec::new(), stderr }
    }
}

fn run_with(tree: &Files, probes: &dyn Probes) -> Outcome {
    let (gpu, base) = (gpu(), BTreeMap::new());
    let subject = unversioned(&gpu, &base);
    apply(&set(&[("p", TWO)]), &subject, tree, probes)
}

#[test]
fn an_edit_without_its_code_needs_no_probe() {
    let one: &[(&str, &[u8])] = &[("f.cpp", b"{gfx900}")];
    let other: &[(&str, &[u8])] = &[("f.cpp", b"{gfx900}"), ("g.cpp", b"unrelated")];
    for tree in [one, other] {
        let outcome = run_with(&files(tree), &NoProbes);
        assert_eq!(verdicts(&outcome), ["applied(1)"], "{tree:?}");
        let names: Vec<&str> =
            outcome.patches[0].probes.iter().map(|probe| probe.name.as_str()).collect();
        assert_eq!(names, ["first"], "{tree:?}");
    }
    // The guard shows that the code is there, in a form that the anchor does not match.
    let moved = files(&[("f.cpp", b"{gfx900}"), ("g.cpp", b"gfx900")]);
    assert_eq!(verdicts(&run_with(&moved, &NoProbes)), ["anchor-missing"]);
}

#[test]
fn a_python_that_is_too_old_judges_nothing() {
    let tree = files(&[("f.cpp", b"{gfx900}")]);
    let told = "the file may need Python 3.12, but this machine has 3.11\n";
    let outcome = run_with(&tree, &Failing(told));
    assert!(outcome.ok);
    let json = serde_json::to_value(&outcome.patches[0].probes[0]).unwrap();
    assert_eq!(json["reason"], told.trim_end());
    assert!(!run_with(&tree, &Failing("SyntaxError: f-string\n")).ok);
}
