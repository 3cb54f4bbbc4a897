//! Tests tracks that an engine builds: their steps, keys and labels, and the errors.

use super::*;

const BUILT: &str = r#"
[vulkan]
title = "Vulkan"
description = "Built from source."
variant = "packages"

[vulkan.env]
A = "1"

[vulkan.variants.packages]
packages = "lock"
[[vulkan.variants.packages.stage]]
name = "tool"
dockerfile = "dockerfiles/tool.Dockerfile"
sources = { "tree" = "tree" }
packages = ["build", "runtime"]

[vulkan.variants.image]
base = "vendor"
[[vulkan.variants.image.stage]]
name = "tool"
dockerfile = "dockerfiles/tool.Dockerfile"
sources = { "tree" = "tree" }
network = true

[source]
title = "Source"
description = "In stages."
variant = "image"
rehearsal = "small"

[source.variants.image]
base = "vendor"
[[source.variants.image.stage]]
name = "one"
dockerfile = "dockerfiles/one.Dockerfile"
sources = { "tree" = "tree" }
[[source.variants.image.stage]]
name = "two"
dockerfile = "dockerfiles/two.Dockerfile"
sources = { "vendor/release" = "release" }
python = "wheels"

[source.variants.more]
base = "vendor"
[[source.variants.more.stage]]
name = "one"
dockerfile = "dockerfiles/one.Dockerfile"
sources = { "tree" = "tree" }
[[source.variants.more.stage]]
name = "between"
dockerfile = "dockerfiles/tool.Dockerfile"

[source.variants.small]
packages = "lock"
[[source.variants.small.stage]]
name = "one"
dockerfile = "dockerfiles/one.Dockerfile"
sources = { "tree" = "tree" }
args = { DEVICE = "none" }
"#;

const RELEASE: &str = r#"
[archive.release]
project = "release"
version = "2.0"
sha256 = "7777777777777777777777777777777777777777777777777777777777777777"
subdirectory = "inside"
patches = "demo"

[archive.later]
project = "release"
version = "3.0"
sha256 = "unresolved"
"#;

fn input() -> PlanningInput {
    let mut input = input_of(&format!("{VERSIONS}{RELEASE}"), GPUS, &format!("{TRACKS}{BUILT}"));
    input.patches.insert("demo".to_owned(), patches(&[("demo-b", ""), ("demo-a", "")]));
    let files = [
        ("versions/locks/lock.toml", 'c'),
        ("versions/locks/pylock.wheels.toml", '9'),
        ("dockerfiles/tool.Dockerfile", 'd'),
        ("dockerfiles/one.Dockerfile", 'e'),
        ("dockerfiles/two.Dockerfile", 'f'),
    ];
    input.files.extend(files.map(|(name, digit)| (name.to_owned(), digest(digit))));
    let sets = [("base", '4'), ("build", '5'), ("runtime", '6')]
        .map(|(set, digit)| (set.to_owned(), digest(digit)));
    input.sets.insert("versions/locks/lock.toml".to_owned(), sets.into());
    input
}

/// Returns a set of patches, each with an id and the content of its table `[applies]`.
fn patches(all: &[(&str, &str)]) -> patcher::PatchSet {
    let patch = |(id, applies): &(&str, &str)| {
        let applies = if applies.contains("versions") {
            (*applies).to_owned()
        } else {
            format!("versions = \"*\"\n{applies}")
        };
        let text = format!(
            "schema = 1\nid = \"{id}\"\ncomponent = \"demo\"\n\n[provenance]\ndescription = \"d\"\n\
             author = \"a\"\norigin = \"other\"\nforwarded = \"no\"\nlast_update = 2026-11-20\n\n\
             [applies]\n{applies}\n\n[[edit]]\nfiles = [\"a.txt\"]\nop = \"insert-after\"\n\
             anchor = '^{id}$'\nexpect = 1\ntext = \"done\"\nalready = '^done$'\n"
        );
        patcher::parse_patch(id, &text).unwrap_or_else(|error| panic!("{error}"))
    };
    patcher::PatchSet::new(all.iter().map(patch).collect()).unwrap()
}

#[test]
fn a_change_in_a_set_of_a_lock_concerns_only_the_steps_that_fetch_it() {
    let request = plain("vulkan");
    let (before, mut changed) = (plan_of(&request), input());
    let lock = "versions/locks/lock.toml";
    changed.files.insert(lock.to_owned(), digest('8'));
    changed.sets.get_mut(lock).unwrap().insert("build".to_owned(), digest('9'));
    let after = make(&request, &changed).unwrap().plan;
    let (old, new) = (before.step_keys(), after.step_keys());
    let same = old.keys().filter(|step| old.get(*step) == new.get(*step));
    let same: Vec<&str> = same.copied().collect();
    assert!(same.contains(&"bootstrap-base"), "{same:?}");
    assert!(!same.contains(&"fetch-packages") && !same.contains(&"build-tool"), "{same:?}");

    // A new date in the lock, or a change to another set, does not change any step.
    let mut newer = input();
    newer.files.insert(lock.to_owned(), digest('8'));
    let newer = make(&request, &newer).unwrap().plan;
    let new = newer.step_keys();
    for (step, key) in before.step_keys() {
        assert!(step == "label-image" || new[step] == key, "{step}");
    }
}

#[test]
fn a_lock_without_a_set_of_the_track_is_an_error() {
    let mut input = input();
    input.sets.get_mut("versions/locks/lock.toml").unwrap().remove("runtime");
    let error = make(&plain("vulkan"), &input).unwrap_err();
    let wanted = "`versions/locks/lock.toml` has no set `runtime`, but track `vulkan` needs it";
    assert_eq!(error.to_string(), wanted);
}

fn variant(track: &str, name: &str) -> BuildRequest {
    BuildRequest { variant: Some(name.to_owned()), ..plain(track) }
}

fn plan_of(request: &BuildRequest) -> Plan {
    make(request, &input()).unwrap_or_else(|error| panic!("{request:?}: {error}")).plan
}

#[test]
fn the_plan_of_each_built_variant() {
    for (name, request) in [
        ("built_packages", plain("vulkan")),
        ("built_image", variant("vulkan", "image")),
        ("built_stages", plain("source")),
    ] {
        insta::assert_snapshot!(name, plan_of(&request).canonical_text());
    }
}

#[test]
fn each_step_comes_after_the_steps_it_needs_and_all_names_differ() {
    for request in [plain("vulkan"), plain("source")] {
        let plan = plan_of(&request);
        let mut seen: Vec<&str> = Vec::new();
        for step in &plan.steps {
            assert!(!seen.contains(&step.id.as_str()), "{}", step.id);
            for need in step.action.needs() {
                assert!(seen.contains(&need), "{} needs {need}", step.id);
            }
            seen.push(&step.id);
        }
    }
}

#[test]
fn tracks_share_the_key_of_a_step_that_they_share() {
    let (vulkan, source) = (variant("vulkan", "image"), plain("source"));
    let (vulkan, source) = (plan_of(&vulkan), plan_of(&source));
    let (vulkan, source) = (vulkan.step_keys(), source.step_keys());
    for shared in ["fetch-base", "fetch-tree"] {
        assert_eq!(vulkan[shared], source[shared], "{shared}");
    }
    assert_ne!(vulkan["seal-tool"], source["seal-two"]);
    // Variants share steps too: inserting a stage does not rebuild the stages before it.
    let more = plan_of(&variant("source", "more"));
    let more = more.step_keys();
    assert_eq!(more["seal-one"], source["seal-one"]);
    assert_ne!(more["seal-between"], source["seal-two"]);
}

#[test]
fn a_change_reaches_the_keys_of_the_steps_that_depend_on_it_and_no_others() {
    let keys = |input: &PlanningInput| -> Vec<(String, Digest)> {
        let plan = make(&plain("source"), input).unwrap().plan;
        let keys = plan.step_keys().into_iter();
        keys.map(|(step, key)| (step.to_owned(), key)).collect()
    };
    let changed = |change: fn(&mut PlanningInput)| {
        let (before, mut input) = (keys(&input()), input());
        change(&mut input);
        let after = keys(&input);
        let differs = |(old, new): &(&(String, Digest), &(String, Digest))| old.1 != new.1;
        let pairs = before.iter().zip(&after).filter(differs);
        pairs.map(|(old, _)| old.0.clone()).collect::<Vec<_>>()
    };
    let dockerfile = |input: &mut PlanningInput| {
        input.files.insert("dockerfiles/two.Dockerfile".to_owned(), digest('0'));
    };
    assert_eq!(changed(dockerfile), ["build-two", "label-image", "seal-two"]);
    let patch = |input: &mut PlanningInput| {
        input.patches.insert("demo".to_owned(), patches(&[("demo-c", "")]));
    };
    assert_eq!(changed(patch), ["build-two", "fetch-release", "label-image", "seal-two"]);
    let commit = |input: &mut PlanningInput| {
        let tree = input.pins.sources.get_mut(&pin("tree")).unwrap();
        tree.commit = pins::Pinned::Resolved("6".repeat(40).parse().unwrap());
    };
    assert_eq!(
        changed(commit),
        ["build-one", "build-two", "fetch-tree", "label-image", "seal-one", "seal-two"]
    );
    // A pin's arguments apply to the stages with its tree. A stage's own arguments win.
    let args = |input: &mut PlanningInput| {
        let release = input.pins.archives.get_mut(&pin("release")).unwrap();
        release.args.insert("NUMBER".to_owned(), "7".to_owned());
    };
    assert_eq!(changed(args), ["build-two", "label-image", "seal-two"]);
    let overridden = |input: &mut PlanningInput| {
        let tree = input.pins.sources.get_mut(&pin("tree")).unwrap();
        tree.args.insert("DEVICE".to_owned(), "all".to_owned());
    };
    let args_of = |request: &BuildRequest| {
        let mut input = input();
        overridden(&mut input);
        let plan = make(request, &input).unwrap().plan;
        let mut args = plan.steps.iter().filter_map(|step| match &step.action {
            plan::Action::BuildImage { args, .. } => args.get("DEVICE").cloned(),
            _ => None,
        });
        args.next().unwrap()
    };
    assert_eq!(args_of(&plain("source")), "all");
    assert_eq!(args_of(&variant("source", "small")), "none");
    // A title affects only a label.
    let title = |input: &mut PlanningInput| {
        input.tracks.tracks.get_mut("source").unwrap().title = "Other".to_owned();
    };
    assert_eq!(changed(title), ["label-image"]);
}

#[test]
fn every_error_of_a_built_track_says_what_cannot_be_planned() {
    let without = |name: &str| {
        let mut input = input();
        input.files.remove(name);
        input
    };
    let with_source = |name: &str| {
        let mut input = input();
        let Build::Stages(all) = &mut input.tracks.tracks.get_mut("source").unwrap().build else {
            unreachable!();
        };
        let stage = all.variants.get_mut("image").unwrap().stages.last_mut().unwrap();
        stage.sources.insert(name.to_owned(), pin(name));
        input
    };
    let with_patches = |all: &[(&str, &str)]| {
        let mut input = input();
        match all {
            [] => drop(input.patches.remove("demo")),
            all => drop(input.patches.insert("demo".to_owned(), patches(all))),
        }
        input
    };
    let with_version = |version: &str| {
        let mut input = input();
        let release = input.pins.archives.get_mut(&pin("release")).unwrap();
        version.clone_into(&mut release.version);
        input
    };
    let cases: Vec<(BuildRequest, PlanningInput)> = vec![
        (plain("vulkan"), super::input()),
        (variant("vulkan", "imag"), input()),
        (variant("official", "image"), input()),
        (BuildRequest { rehearse: true, ..plain("vulkan") }, input()),
        (with_spoof("vulkan", "11.0.0"), input()),
        (for_gpu("vulkan", "gfx942"), input()),
        (plain("vulkan"), without("versions/locks/lock.toml")),
        (plain("vulkan"), without("dockerfiles/tool.Dockerfile")),
        (plain("source"), with_source("later")),
        (plain("source"), with_source("vendor")),
        (plain("source"), without("versions/locks/pylock.wheels.toml")),
        (BuildRequest { rehearse: true, ..variant("source", "image") }, input()),
        (overridden("vulkan", "vendor", None, 'a'), input()),
        (overridden("source", "vendr", None, 'a'), input()),
        (plain("source"), with_patches(&[])),
        (plain("source"), with_patches(&[("demo-a", REFUSES)])),
        (plain("source"), with_version("two point zero")),
    ];
    let errors = cases.iter().map(|(request, input)| make(request, input).unwrap_err());
    let messages: Vec<String> = errors.map(|error| error.to_string()).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_rehearsal_is_a_variant_of_its_own_and_says_so() {
    let plan = plan_of(&BuildRequest { rehearse: true, ..plain("source") });
    assert_eq!((plan.name.as_str(), plan.rehearsal), ("rehearsal-source", true));
    assert_eq!(label(&plan, labels::REHEARSAL).as_deref(), Some("true"));
    assert_eq!(label(&plan, labels::VARIANT).as_deref(), Some("small"));
    let args = plan.steps.iter().find_map(|step| match &step.action {
        Action::BuildImage { args, .. } => Some(args.clone()),
        _ => None,
    });
    assert_eq!(args.unwrap()["DEVICE"], "none");
    // A rehearsal variant is a rehearsal even if it is requested by name, so it cannot pass for the
    // real image.
    assert_eq!(plan_of(&variant("source", "small")), plan);
    // Likewise, the default variant gives the default image.
    let usual = plan_of(&plain("source"));
    assert_eq!(plan_of(&variant("source", "image")), usual);
}

#[test]
fn what_a_request_changes_is_read_back() {
    let request = variant("vulkan", "image");
    let plan = plan_of(&request);
    let spelled = label(&plan, labels::OVERRIDES).unwrap();
    let mut read = plain("vulkan");
    read.read_overrides(&spelled).unwrap();
    assert_eq!(read, request);
}

/// A patch that breaks the version in the fixture.
const REFUSES: &str = "versions = \"<2.0\"\nabove = { then = \"refuse\", because = \"it breaks\" }";

#[test]
fn patches_are_chosen_by_target_and_version_and_recorded_with_what_is_expected() {
    let all = [
        ("demo-a", ""),
        ("demo-b", "gpus = \"gfx11[0-9]{2}\""),
        ("demo-c", "gpus = \"gfx103[0-9]\""),
        ("demo-d", "versions = \"<2.0\"\nabove = { then = \"skip\", because = \"old\" }"),
        (
            "demo-e",
            "versions = \"<2.0\"\nabove = { then = \"expect-satisfied\", because = \"merged\" }",
        ),
        ("demo-f", "versions = \">=3\"\nbelow = { then = \"skip\", because = \"new\" }"),
    ];
    let set = patches(&all);
    let chosen = |gpu: Option<&str>| {
        let mut input = input();
        input.patches.insert("demo".to_owned(), set.clone());
        let gpu = gpu.map(|gpu| gpu.parse().unwrap());
        let plan = make(&BuildRequest { gpu, ..plain("source") }, &input).unwrap().plan;
        let uses: Vec<String> = plan
            .patches()
            .iter()
            .map(|patch| {
                let of_set = set.patches().iter().find(|one| one.id == patch.id).unwrap();
                assert_eq!(patch.effect, of_set.sha256());
                format!("{}:{:?}", patch.id, patch.expect)
            })
            .collect();
        (uses.join(" "), label(&plan, labels::PATCHES))
    };
    let (uses, named) = chosen(None);
    assert_eq!(uses, "demo-a:InEffect demo-b:InEffect demo-e:Upstream");
    assert_eq!(named.as_deref(), Some("demo/demo-a demo/demo-b demo/demo-e"));
    let (uses, named) = chosen(Some("gfx1031"));
    assert_eq!(uses, "demo-a:InEffect demo-c:InEffect demo-e:Upstream");
    assert_eq!(named.as_deref(), Some("demo/demo-a demo/demo-c demo/demo-e"));
}

#[test]
fn an_override_of_a_pin_that_has_the_name_of_a_lock_is_refused() {
    // The variant is made from the packages of a lock; here an image pin has the same name.
    let image = "[image.lock]\nrepository = \"registry.example.org/lock\"\ntag = \"1\"\ndigest = \"unresolved\"\n";
    let text = format!("{VERSIONS}{RELEASE}\n{image}");
    let with_lock = input_of(&text, GPUS, &format!("{TRACKS}{BUILT}"));
    let input = PlanningInput { pins: with_lock.pins, ..input() };
    let error = make(&overridden("vulkan", "lock", None, '0'), &input).unwrap_err();
    let PlanError::UnusedPin { used, .. } = error else { panic!("{error}") };
    assert_eq!(used.images, [""; 0]);
    assert_eq!(used.others, ["tree", "versions/locks/lock.toml"]);
}

#[test]
fn a_plan_depends_on_the_files_that_it_needs_and_on_no_other() {
    for request in [
        plain("official"),
        plain("vulkan"),
        plain("source"),
        variant("vulkan", "image"),
        BuildRequest { rehearse: true, ..plain("source") },
    ] {
        let needs = crate::needs(&request, &input()).unwrap();
        let mut bare = input();
        bare.patches.retain(|component, _| needs.components.contains(component));
        bare.files.retain(|file, _| needs.files.contains(file));
        let mut more = input();
        more.patches.insert("other".to_owned(), patches(&[("demo-z", "")]));
        more.files.insert("dockerfiles/other.Dockerfile".to_owned(), digest('0'));
        assert_eq!(make(&request, &bare), make(&request, &more), "{request:?}");
        for file in &needs.files {
            let mut without = bare.clone();
            without.files.remove(file);
            assert!(make(&request, &without).is_err(), "{file} is needed");
        }
    }
}
