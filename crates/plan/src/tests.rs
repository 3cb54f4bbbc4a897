//! Tests plans: their text, their digest and the errors.

use super::*;
use crate::draft::InvalidPlan;

const BASE: &str = "registry.example.org/base@sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn edit() -> ImageEdit {
    ImageEdit {
        created: "2027-01-15T08:00:00Z".to_owned(),
        created_by: "a test".to_owned(),
        env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
        entrypoint_prefix: vec!["/bin/sh".to_owned()],
        reset: labels::RESET.map(str::to_owned).to_vec(),
        labels: BTreeMap::from([(labels::TRACK.to_owned(), "official".to_owned())]),
        ..ImageEdit::default()
    }
}

fn image() -> Input {
    Input::Image { reference: BASE.parse().unwrap(), manifest: Some(ManifestKind::Index) }
}

fn step(id: &str, action: Action) -> Step {
    Step { id: id.to_owned(), action }
}

fn derive(base: &str) -> Action {
    Action::DeriveImage { base: base.to_owned(), contract: DeriveContract::Derive1, edit: edit() }
}

/// Returns a plan that only adds metadata.
fn draft() -> Draft {
    let fetch = Action::FetchBase { input: "base".to_owned(), platform: Platform::linux_amd64() };
    Draft {
        schema: SCHEMA,
        track: "official".to_owned(),
        name: "official".to_owned(),
        gpu: "gfx1151".parse().unwrap(),
        rehearsal: false,
        source_date_epoch: 1_800_000_000,
        revision: Some(Revision { url: None, commit: "1".repeat(40).parse().unwrap() }),
        overrides: BTreeMap::new(),
        inputs: BTreeMap::from([("base".to_owned(), image())]),
        steps: vec![step("fetch-base", fetch), step("derive-image", derive("fetch-base"))],
    }
}

fn plan() -> Plan {
    draft().finish().unwrap()
}

fn sha256(digit: char) -> names::Sha256 {
    digit.to_string().repeat(64).parse().unwrap()
}

fn digest(digit: char) -> Digest {
    format!("sha256:{}", sha256(digit)).parse().unwrap()
}

fn patch(id: &str, effect: char) -> PatchUse {
    PatchUse {
        component: "vllm".to_owned(),
        id: id.to_owned(),
        effect: sha256(effect),
        expect: Expectation::InEffect,
    }
}

/// Returns a plan with one step of every kind.
fn built() -> Draft {
    let text = str::to_owned;
    let seal = || Seal { contract: SealContract::Seal1, scrub: Vec::new(), epoch: 1 };
    let created = text("2027-01-15T08:00:00Z");
    let commit = "2".repeat(40).parse().unwrap();
    let inputs = [
        ("lock.toml", Input::Lock { digest: digest('3') }),
        ("wheels.toml", Input::Lock { digest: digest('4') }),
        ("Dockerfile", Input::File { digest: digest('5') }),
        (
            "vllm",
            Input::Source {
                url: text("https://git.example.org/v"),
                commit,
                version: Some(text("1.0")),
            },
        ),
        (
            "flash",
            Input::Archive {
                project: text("flash-attn"),
                version: text("2.8"),
                sha256: sha256('6'),
                subdirectory: None,
            },
        ),
    ];
    let source = |input: &str, patches| Action::FetchSource { input: text(input), patches };
    let context =
        ["vllm", "flash", "packages", "wheels"].map(|of| (text(of), format!("fetch-{of}")));
    Draft {
        inputs: inputs.map(|(name, input)| (text(name), input)).into(),
        steps: vec![
            step(
                "fetch-packages",
                Action::FetchPackages {
                    input: text("lock.toml"),
                    sets: [(text("base"), digest('6'))].into(),
                },
            ),
            step(
                "bootstrap-base",
                Action::BootstrapBase {
                    contract: crate::BootstrapContract::Bootstrap1,
                    packages: text("fetch-packages"),
                    set: text("base"),
                    created,
                    seal: seal(),
                },
            ),
            step("fetch-vllm", source("vllm", vec![patch("a", '7'), patch("b", '8')])),
            step("fetch-flash", source("flash", Vec::new())),
            step("fetch-wheels", Action::FetchWheels { input: text("wheels.toml") }),
            step(
                "build",
                Action::BuildImage {
                    base: text("bootstrap-base"),
                    dockerfile: text("Dockerfile"),
                    args: BTreeMap::new(),
                    context: context.into(),
                    files: OwnFiles::new(),
                    network: false,
                },
            ),
            step(
                "seal",
                Action::SealImage {
                    image: text("build"),
                    base: text("bootstrap-base"),
                    seal: seal(),
                    edit: ImageEdit { labels: BTreeMap::new(), ..edit() },
                },
            ),
            step("label", derive("seal")),
        ],
        ..draft()
    }
}

#[test]
fn a_plan_is_read_back_from_its_text() {
    for draft in [
        draft(),
        built(),
        Draft { revision: None, ..draft() },
        Draft { name: "\"\\\u{7f}\n\u{1f300}".to_owned(), ..draft() },
    ] {
        let plan = draft.finish().unwrap();
        let text = plan.canonical_text();
        assert!(text.ends_with("}\n") && !text.contains('\r'));
        let read = Plan::parse(&text).unwrap();
        assert_eq!(read, plan);
        assert_eq!(read.canonical_text(), text);
        assert_eq!(read.digest(), Digest::of(text.as_bytes()));
    }
}

#[test]
fn parse_refuses_what_is_not_a_plan_of_this_schema() {
    let text = plan().canonical_text();
    let changed = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    };
    let not_a_plan = "the text is not a plan of schema 2";
    let newer =
        "the plan has schema 3, but this build-pipeline reads only up to 2; update build-pipeline";
    let older =
        "the plan has schema 1, from before the first release, but this build-pipeline reads 2";
    for (text, message, source) in [
        (String::new(), not_a_plan, "EOF"),
        ("[]".to_owned(), not_a_plan, "invalid length 0"),
        ("{}".to_owned(), not_a_plan, "missing field `schema`"),
        (changed("\"schema\": 2,", ""), not_a_plan, "missing field `schema`"),
        (changed("\"schema\": 2", "\"schema\": -1"), not_a_plan, "invalid value"),
        (changed("\"schema\": 2", "\"schema\": 3"), newer, ""),
        (changed("\"schema\": 2", "\"schema\": 1"), older, ""),
        // A different version is recognised before the fields are read.
        ("{\"schema\": 3, \"nodes\": []}".to_owned(), newer, ""),
        (changed("\"gpu\":", "\"cpu\":"), not_a_plan, "unknown field `cpu`"),
        (changed("\"gpu\": \"gfx1151\",", ""), not_a_plan, "missing field `gpu`"),
        (changed("\"gfx1151\"", "\"Strix Halo\""), not_a_plan, "not a GPU target"),
        (changed("\"gpu\":", "\"gpu\": \"x\", \"gpu\":"), not_a_plan, "not a GPU target"),
        (changed("\"manifest\":", "\"sort\":"), not_a_plan, "unknown field `sort`"),
        (changed("\"os\":", "\"variant\": \"v8\", \"os\":"), not_a_plan, "`variant`"),
        (changed("\"env\":", "\"shell\": \"0\", \"env\":"), not_a_plan, "`shell`"),
        (changed("\"commit\":", "\"branch\": \"b\", \"commit\":"), not_a_plan, "`branch`"),
        (changed("\"do\": \"fetch-base\"", "\"do\": \"fetch\""), not_a_plan, "unknown variant"),
        (changed("\"derive/1\"", "\"derive/2\""), not_a_plan, "unknown variant `derive/2`"),
        (
            changed("\"base\": \"fetch-base\"", "\"base\": \"fetch-bose\""),
            "the plan is not valid",
            "step `derive-image` needs `fetch-bose`",
        ),
    ] {
        let error = Plan::parse(&text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert!(cause.unwrap_or_default().contains(source), "{error:?} for {text}");
    }
}

/// Changes one thing in the plan with every kind of step, and returns the error.
fn refused(change: impl FnOnce(&mut Draft)) -> String {
    let mut draft = built();
    change(&mut draft);
    draft.finish().unwrap_err().to_string()
}

#[test]
fn every_contradiction_is_refused_by_name() {
    let text = str::to_owned;
    let of =
        |draft: &mut Draft, id: &str| draft.steps.iter().position(|step| step.id == id).unwrap();
    assert!(built().finish().is_ok());
    let mut said = String::new();
    let mut note = |words: String| {
        said.push_str(&words);
        said.push('\n');
    };
    note(refused(|draft| draft.steps.clear()));
    note(refused(|draft| drop(draft.steps.pop())));
    note(refused(|draft| draft.steps.insert(0, step("early", derive("seal")))));
    note(refused(|draft| draft.steps.swap(0, 1)));
    note(refused(|draft| draft.steps[1].id = text("fetch-packages")));
    note(refused(|draft| draft.steps[3].id = text("fetch-flush")));
    note(refused(|draft| {
        let wheels = of(draft, "fetch-wheels");
        let more = Step { id: text("more"), ..draft.steps[wheels].clone() };
        draft.steps.insert(0, more);
    }));
    note(refused(|draft| {
        // Wheels are not packages.
        let at = of(draft, "bootstrap-base");
        let wheels = of(draft, "fetch-wheels");
        let wheels = draft.steps.remove(wheels);
        draft.steps.insert(at, wheels);
        if let Action::BootstrapBase { packages, .. } = &mut draft.steps[at + 1].action {
            *packages = text("fetch-wheels");
        }
    }));
    note(refused(|draft| {
        // The output of a build is not a base before it is sealed.
        if let Some(Step { action: Action::DeriveImage { base, .. }, .. }) = draft.steps.last_mut()
        {
            *base = text("build");
        }
    }));
    note(refused(|draft| drop(draft.inputs.remove("Dockerfile"))));
    note(refused(|draft| {
        drop(draft.inputs.insert(text("Dockerfile"), Input::Lock { digest: digest('5') }));
    }));
    note(refused(|draft| drop(draft.inputs.insert(text("spare"), image()))));
    for (name, value) in [
        ("vllm", "v1@sha256:0"),
        ("gpu", "gfx1100"),
        ("debian", "sha256:0"),
        ("source-date-epoch", "1"),
    ] {
        note(refused(|draft| drop(draft.overrides.insert(text(name), text(value)))));
    }
    for (label, value) in [
        (labels::TRACK, "vulkan"),
        (labels::GPU, "gfx1100"),
        (labels::REHEARSAL, "true"),
        (labels::PINS_DIGEST, "sha256:0"),
        (labels::OVERRIDES, "gpu=gfx1151"),
        (labels::PATCHES, "vllm/a"),
        (labels::PATCHES_DIGEST, "sha256:0"),
        (labels::REVISION, "0"),
        (labels::SOURCE, "https://example.org"),
    ] {
        note(refused(|draft| {
            if let Some(Step { action: Action::DeriveImage { edit, .. }, .. }) =
                draft.steps.last_mut()
            {
                edit.labels.insert(text(label), text(value));
            }
        }));
    }
    let no_digest = Draft {
        inputs: BTreeMap::from([(
            text("base"),
            Input::Image {
                reference: "registry.example.org/base:1".parse().unwrap(),
                manifest: None,
            },
        )]),
        ..draft()
    };
    note(no_digest.finish().unwrap_err().to_string());
    insta::assert_snapshot!(said);
}

#[test]
fn an_image_is_sealed_over_the_base_that_it_was_built_on() {
    let mut draft = built();
    let fetch = Action::FetchBase { input: "base".to_owned(), platform: Platform::linux_amd64() };
    draft.inputs.insert("base".to_owned(), image());
    draft.steps.insert(0, step("fetch-base", fetch));
    let seal = draft.steps.iter_mut().find(|step| step.id == "seal").unwrap();
    let Action::SealImage { base, .. } = &mut seal.action else { unreachable!() };
    *base = "fetch-base".to_owned();
    let need = InvalidPlan::Need { step: "seal".to_owned(), need: "fetch-base".to_owned() };
    assert_eq!(draft.finish().unwrap_err(), need);
}

#[test]
fn the_derived_labels_say_what_the_plan_says() {
    let labels_of = |draft: &Draft| {
        let all = draft.derived_labels().into_iter();
        all.map(|(key, value)| format!("{key}={}\n", value.unwrap_or_default())).collect::<String>()
    };
    let overridden = Draft {
        overrides: BTreeMap::from([("gpu".to_owned(), "gfx1151".to_owned())]),
        revision: Some(Revision {
            url: Some("https://git.example.org/p".to_owned()),
            commit: "9".repeat(40).parse().unwrap(),
        }),
        ..built()
    };
    insta::assert_snapshot!(format!("{}\n{}", labels_of(&draft()), labels_of(&overridden)));
}

/// Returns a plan that removes code for other GPUs.
fn slimmed(if_present: &[&str]) -> Draft {
    let target = |text: &str| text.parse().unwrap();
    let slim = Action::SlimImage {
        image: "fetch-base".to_owned(),
        contract: crate::SlimContract::Slim1,
        gpus: vec![target("gfx1151"), target("gfx1100")],
        if_present: if_present.iter().map(|text| target(text)).collect(),
    };
    let mut draft = draft();
    draft.steps.insert(1, step("slim-image", slim));
    draft.steps[2].action = derive("slim-image");
    draft
}

#[test]
fn a_slimmed_image_is_labelled_with_the_targets_that_are_left() {
    let labels_of = |if_present| {
        let draft = slimmed(if_present);
        assert_eq!(draft.slim_step().unwrap().id, "slim-image");
        let mut labels = draft.derived_labels();
        let mut label = |key| labels.remove(key).unwrap().unwrap_or_default();
        (label(labels::GPU_TARGETS), label(labels::SLIM))
    };
    let both = "gfx1100 gfx1151".to_owned();
    assert_eq!(labels_of(&[]), (both.clone(), format!("slim/1 {both}")));
    // The image imitates another GPU, so nothing shows whether it has code for its own.
    assert_eq!(labels_of(&["gfx1200"]), (String::new(), format!("slim/1 {both} gfx1200")));
    assert_eq!(draft().slim_step(), None);
}

#[test]
fn steps_decide_which_layers_a_layout_must_contain() {
    let plan = plan();
    assert!(!plan.is_built() && !plan.needs_all_layers() && !plan.makes_layers());
    let plan = built().finish().unwrap();
    assert!(plan.is_built() && plan.needs_all_layers() && plan.makes_layers());
    let plan = slimmed(&[]).finish().unwrap();
    assert!(!plan.is_built() && plan.needs_all_layers() && plan.makes_layers());
}

#[test]
fn the_names_of_images_say_what_differs_from_the_defaults() {
    assert_eq!(image_name("vulkan", None, None), "vulkan");
    assert_eq!(image_name("vulkan", Some("tiny"), None), "vulkan-tiny");
    assert_eq!(image_name("vulkan", None, Some("gfx1200")), "vulkan-gfx1200");
    assert_eq!(image_name("vulkan", Some("tiny"), Some("gfx1200")), "vulkan-tiny-gfx1200");
}

#[test]
fn an_override_is_one_that_the_plan_uses() {
    let base: &str = BASE.split('@').next_back().unwrap();
    let with = |name: &str, value: &str| {
        let overrides = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        Draft { overrides, ..draft() }.finish()
    };
    for (name, value) in [
        ("variant", "tiny"),
        ("spoof", "11.0.0"),
        ("gpu", "gfx1151"),
        ("source-date-epoch", "1800000000"),
        ("slim", "off"),
        ("base", base),
        ("base", BASE),
    ] {
        with(name, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }
    for (name, value) in [
        ("gpu", "gfx1150"),
        ("source-date-epoch", "1800000001"),
        ("slim", "gfx1151"),
        ("base", &base.replace('1', "2")),
        ("other", base),
    ] {
        let refused = with(name, value).unwrap_err();
        let expected =
            InvalidPlan::UnusedOverride { name: name.to_owned(), value: value.to_owned() };
        assert_eq!(refused, expected);
    }
    let kept = BTreeMap::from([("slim".to_owned(), "gfx1100,gfx1151".to_owned())]);
    assert!(Draft { overrides: kept, ..slimmed(&[]) }.finish().is_ok());
}

#[test]
fn a_plan_is_shown_with_each_kind_of_step() {
    let mut draft = built();
    let root = |mode: &str| (mode.parse().unwrap(), 0, 0);
    let file = |mode| {
        let (mode, uid, gid) = root(mode);
        OwnFile::File { from: "run.sh".to_owned(), mode, uid, gid }
    };
    let folder = |mode| {
        let (mode, uid, gid) = root(mode);
        OwnFile::Folder { mode, uid, gid }
    };
    let link = || OwnFile::Link { target: "run.sh".to_owned(), uid: 0, gid: 0 };
    let files = |at: &str| {
        let entries = [("", folder("0755")), ("/run", link()), ("/run.sh", file("0644"))];
        OwnFiles::from(entries.map(|(name, entry)| (format!("{at}{name}"), entry)))
    };
    draft.inputs.insert("run.sh".to_owned(), Input::File { digest: digest('9') });
    for step in &mut draft.steps {
        if let Action::BuildImage { files: own, args, .. } = &mut step.action {
            *own = files("opt");
            args.insert("JOBS".to_owned(), "2".to_owned());
        }
    }
    let slim = Action::SlimImage {
        image: "seal".to_owned(),
        contract: crate::SlimContract::Slim1,
        gpus: vec!["gfx1151".parse().unwrap()],
        if_present: Vec::new(),
    };
    let add = Action::AddFiles {
        base: "slim".to_owned(),
        contract: FilesContract::Files1,
        files: files("/opt"),
        epoch: 1,
        created: "2027-01-15T08:00:00Z".to_owned(),
        created_by: "a test".to_owned(),
    };
    draft.steps.pop();
    draft.steps.extend([step("slim", slim), step("add", add), step("label", derive("add"))]);
    let plan = draft.finish().unwrap();
    let sizes = SlimmedSizes { before: 3_000_000, after: 1_000_000 };
    let all = [outline(&plan, Some(sizes)).into_text(), dot(&plan), mermaid(&plan)];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn the_final_labels_are_those_of_the_edit_and_the_plan_digest() {
    let plan = plan();
    assert_eq!(
        plan.final_labels(),
        BTreeMap::from([
            (labels::TRACK.to_owned(), "official".to_owned()),
            (labels::PLAN_DIGEST.to_owned(), plan.digest().to_string()),
        ])
    );
}

#[test]
fn whatever_differs_between_plans_differs_in_their_digests() {
    let other = || "other".to_owned();
    let with_edit = |change: fn(&mut ImageEdit)| {
        let mut draft = draft();
        if let Action::DeriveImage { edit, .. } = &mut draft.steps[1].action {
            change(edit);
        }
        draft
    };
    let gpu = "gfx1100".parse().unwrap();
    let overrides = BTreeMap::from([("spoof".to_owned(), "off".to_owned())]);
    let unlabelled = || with_edit(|edit| edit.labels.clear());
    let changed = [
        Draft { track: other(), ..unlabelled() },
        Draft { name: other(), ..draft() },
        Draft { gpu, ..draft() },
        Draft { rehearsal: true, ..draft() },
        Draft { source_date_epoch: 0, ..draft() },
        Draft { revision: None, ..draft() },
        Draft { overrides, ..draft() },
        built(),
        with_edit(|edit| edit.created.push('0')),
        with_edit(|edit| edit.created_by.push('0')),
        with_edit(|edit| edit.env.clear()),
        with_edit(|edit| edit.entrypoint_prefix.clear()),
        with_edit(|edit| edit.reset.clear()),
        unlabelled(),
    ];
    let count = changed.len();
    let mut digests: Vec<_> =
        changed.into_iter().map(|draft| draft.finish().unwrap().digest()).collect();
    digests.push(plan().digest());
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count + 1);
}

#[test]
fn a_key_depends_on_everything_that_its_step_is_made_from_and_on_nothing_else() {
    let keys = |draft: Draft| -> BTreeMap<String, Digest> {
        let plan = draft.finish().unwrap();
        plan.step_keys().into_iter().map(|(id, key)| (id.to_owned(), key)).collect()
    };
    let before = keys(built());
    let changed = |change: fn(&mut Draft)| {
        let mut draft = built();
        change(&mut draft);
        let after = keys(draft);
        let is_other = |id: &&String| after[*id] != before[*id];
        before.keys().filter(is_other).cloned().collect::<Vec<_>>().join(" ")
    };
    let lock = |draft: &mut Draft| {
        draft.inputs.insert("wheels.toml".to_owned(), Input::Lock { digest: digest('a') });
    };
    assert_eq!(changed(lock), "build fetch-wheels label seal");
    let dockerfile = |draft: &mut Draft| {
        draft.inputs.insert("Dockerfile".to_owned(), Input::File { digest: digest('a') });
    };
    assert_eq!(changed(dockerfile), "build label seal");
    // Patches insert the name of the GPU target.
    let gpu = |draft: &mut Draft| draft.gpu = "gfx1100".parse().unwrap();
    assert_eq!(changed(gpu), "build fetch-vllm label seal");
    let effect = |draft: &mut Draft| {
        let Action::FetchSource { patches, .. } = &mut draft.steps[2].action else {
            unreachable!()
        };
        patches[0].effect = sha256('b');
    };
    assert_eq!(changed(effect), "build fetch-vllm label seal");
    assert_eq!(changed(|draft| draft.name = "other".to_owned()), "");
}

#[test]
fn the_labels_that_would_lie_are_reset_and_the_others_are_not() {
    let plan = plan();
    let edit = plan.image_edit();
    for key in [
        labels::CREATED,
        labels::SOURCE,
        labels::REVISION,
        labels::VERSION,
        labels::BASE_NAME,
        labels::ARCHITECTURE,
        labels::BUILD_DATE,
        labels::VCS_REF,
        labels::VCS_TYPE,
        labels::PLAN_DIGEST,
        labels::OVERRIDES,
        "org.opencontainers.image.ref.name",
        "org.opencontainers.image.licenses",
        "org.label-schema.build-date",
        "maintainer",
        "vendor",
    ] {
        assert!(edit.resets(key), "{key}");
    }
    for key in ["com.example.kept", "com.nvidia.volumes.needed", "vendors", "License", ""] {
        assert!(!edit.resets(key), "{key}");
    }
    // All labels that this tool sets are also dropped from a base, so an image based on one of this
    // tool's images has no label twice.
    assert!(labels::TRACK.starts_with(labels::OWN_PREFIX));
}

#[test]
fn entries_that_no_layer_can_have_are_refused() {
    let file =
        || OwnFile::File { from: "f".to_owned(), mode: names::FileMode::PLAIN, uid: 0, gid: 0 };
    let link = |target: &str| OwnFile::Link { target: target.to_owned(), uid: 0, gid: 0 };
    let with = |files: &[(&str, OwnFile)]| {
        let mut draft = draft();
        draft.inputs.insert("f".to_owned(), Input::File { digest: digest('7') });
        let files: OwnFiles =
            files.iter().map(|(path, file)| ((*path).to_owned(), file.clone())).collect();
        let action = Action::AddFiles {
            base: "fetch-base".to_owned(),
            contract: FilesContract::Files1,
            files,
            epoch: 1,
            created: "2027-01-15T08:00:00Z".to_owned(),
            created_by: "a test".to_owned(),
        };
        draft.steps.insert(1, step("add-files", action));
        draft.steps[2].action = derive("add-files");
        draft.finish()
    };
    let plan = with(&[("/a/b", file()), ("/a/c", link("b"))]).unwrap();
    assert!(plan.makes_layers() && !plan.needs_all_layers());
    assert_eq!(Plan::parse(&plan.canonical_text()).unwrap(), plan);
    for (path, other) in [
        ("a", file()),
        ("/a/../b", file()),
        ("/a//b", file()),
        ("/", file()),
        ("/a/.wh.b", file()),
        ("/a\n", file()),
        ("/l", link("/etc")),
        ("/l", link("")),
        ("/f/below", file()),
    ] {
        let refused = with(&[("/f", file()), (path, other)]).unwrap_err();
        assert!(matches!(refused, InvalidPlan::OwnFile { .. }), "{path}: {refused}");
    }
    let unused = with(&[("/l", link("x"))]).unwrap_err();
    assert_eq!(unused, InvalidPlan::UnusedInput("f".to_owned()));
}

#[test]
fn own_files_in_a_build_context_are_those_that_git_could_store() {
    let with = |path: &str, file: OwnFile| {
        let mut draft = built();
        draft.inputs.insert("f".to_owned(), Input::File { digest: digest('7') });
        let build = draft.steps.iter_mut().find(|step| step.id == "build").unwrap();
        let Action::BuildImage { files, .. } = &mut build.action else { unreachable!() };
        files.insert("f".to_owned(), plain(names::FileMode::PLAIN, 0));
        files.insert(path.to_owned(), file);
        draft.finish().map(drop).map_err(|error| error.to_string())
    };
    fn plain(mode: names::FileMode, uid: u32) -> OwnFile {
        OwnFile::File { from: "f".to_owned(), mode, uid, gid: 0 }
    }
    let mode = |bits: &str| bits.parse::<names::FileMode>().unwrap();
    let folder = |bits: &str, gid| OwnFile::Folder { mode: mode(bits), uid: 0, gid };
    let link = |uid| OwnFile::Link { target: "f".to_owned(), uid, gid: 0 };
    for (path, file) in [
        ("a", plain(mode("0755"), 0)),
        ("a", folder("0755", 0)),
        ("a", link(0)),
        ("vllm.txt", plain(mode("0644"), 0)),
    ] {
        with(path, file).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let owners = "keeps no owners";
    for (path, file, why) in [
        ("a", plain(mode("0600"), 0), owners),
        ("a", plain(mode("0644"), 1), owners),
        ("a", folder("0700", 0), owners),
        ("a", folder("0755", 1), owners),
        ("a", link(1), owners),
        ("Dockerfile", plain(mode("0644"), 0), "special meaning"),
        (".dockerignore", plain(mode("0644"), 0), "special meaning"),
        ("vllm", plain(mode("0644"), 0), "another step provides"),
        ("vllm/a", plain(mode("0644"), 0), "another step provides"),
        ("../a", plain(mode("0644"), 0), "plain relative path"),
    ] {
        let error = with(path, file).unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
}

#[test]
fn the_schema_is_named_after_the_plan() {
    assert_eq!(<Plan as schemars::JsonSchema>::schema_name(), "Plan");
}
