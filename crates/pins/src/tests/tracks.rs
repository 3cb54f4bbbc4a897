//! Tracks: how they are read, found, chained and checked against pins and each other.

use crate::{
    Base, Build, ImageSettings, ParseError, References, Tracks, parse_tracks, parse_tracks_with,
    parse_versions,
};
use names::TrackName;

const PINS: &str = "schema = 1\nsource-date-epoch = 1795132800\n\
    source.code = { url = 'https://h.example/a/b', commit = 'unresolved' }\n\
    archive.sdist = { project = 'a', version = '1', sha256 = 'unresolved' }\n\
    image.fedora = { repository = 'docker.io/a/a', tag = 'a', digest = 'unresolved' }\n\
    release.wheels = { index = 'https://h.example/w/', packages = { torch = '1' } }\n";

/// A table with a title, and these lines.
fn track(name: &str, lines: &str) -> String {
    format!("[{name}]\ntitle = \"t\"\ndescription = \"d\"\n{lines}\n")
}

const STAGE: &str = "[[NAME.stage]]\nname = \"s\"\ndockerfile = \"D\"\n";

fn built(name: &str, lines: &str) -> String {
    format!("{}{}", track(name, lines), STAGE.replace("NAME", name))
}

fn read(text: &str) -> Result<Tracks, ParseError> {
    let pins = parse_versions("versions.toml", PINS).unwrap();
    let known = References { pins: Some(&pins), tracks: None };
    parse_tracks_with("tracks.toml", &format!("schema = 1\ngpu = \"gfx1151\"\n{text}"), known)
}

fn tracks(text: &str) -> Tracks {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the messages and the help of each problem.
fn told(text: &str) -> Vec<(String, String)> {
    let problems = read(text).map(drop).unwrap_err().problems;
    problems.into_iter().map(|one| (one.message, one.help)).collect()
}

fn messages(text: &str) -> Vec<String> {
    told(text).into_iter().map(|(message, _)| message).collect()
}

fn name(text: &str) -> TrackName {
    text.parse().unwrap()
}

/// Everything in a track can get into an image, a plan or a record.
#[test]
fn no_text_of_a_track_contains_a_secret() {
    let url = "https://u:canary@h.example/";
    let token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567";
    let label = format!("labels = {{ \"x.url\" = \"{url}\" }}");
    let other = format!("labels = {{ env = \"{url}\" }}");
    let lines = [
        label.clone(),
        other,
        "labels = { \"x.token\" = \"canary\" }".to_owned(),
        format!("env.URL = \"{url}\""),
        format!("env.X = \"{token}\""),
        "env.DBPASS = \"canary\"".to_owned(),
        "cmd = [\"--token=canary\"]".to_owned(),
        "cmd = [\"serve\", \"--api-key\", \"canary\"]".to_owned(),
        "entrypoint = [\"sh\", \"-c\", \"serve --api-key canary\"]".to_owned(),
        format!("files = [{{ from = \"{token}\", to = \"/opt/x\" }}]"),
        format!("files = [{{ from = \"x\", to = \"/opt/{token}\" }}]"),
        format!("disk = {{ gb = 1, source = \"{url}\" }}"),
    ];
    let refused = |text: &str| {
        let all = messages(text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("contains a password or token"), "{all:?}");
        assert!(!all[0].contains("canary") && !all[0].contains(token), "{all:?}");
    };
    for line in &lines {
        refused(&track("one", &format!("base = \"fedora\"\n{line}")));
    }
    // A track may have the name of a table whose reader checks its own values.
    refused(&track("env", &format!("base = \"fedora\"\n{label}")));
    let described = track("one", "base = \"fedora\"");
    for key in ["title = \"t", "description = \"d"] {
        refused(&described.replace(key, &format!("{key} {url}")));
    }
    let stage = built("one", "base = \"fedora\"");
    refused(&format!("{stage}args.NPM_TOKEN = \"canary\"\n"));
    refused(&format!("{stage}args.URL = \"{url}\"\n"));
    refused(&format!("{stage}files = [\"{token}\"]\n"));

    let accepted = "base = \"fedora\"\ncmd = [\"--token=${TOKEN}\", \"--api-key\", \"EMPTY\"]\n\
        env = { API_KEY = \"\", B_TOKEN = \"changeme\" }\n\
        labels = { \"x.url\" = \"https://h.example/?page=2\", by = \"Team: a@h.example\" }";
    tracks(&track("one", accepted));
}

#[test]
fn the_settings_of_an_image_are_read_key_by_key() {
    let lines = "base = \"fedora\"\nletter = \"B\"\nspoof = false\nslim = [\"gfx1151\"]\n\
        entrypoint = [\"a\", \"b c\"]\ncmd = []\nuser = \"1000:video\"\nworkdir = \"/srv/x\"\n\
        env = { A = \"\", B = \"2\" }\nlabels = { \"org.example/team\" = \"x\" }\n\
        disk = { gb = 65535, source = \"measured\" }\nvariants = { large = { slim = [\"gfx1150\"] } }";
    let all = tracks(&track("one", lines));
    let one = &all.tracks[&name("one")];
    assert_eq!((all.gpu.as_str(), one.letter), ("gfx1151", Some('B')));
    assert_eq!((one.title.as_str(), one.description.as_str()), ("t", "d"));
    let image = &one.image;
    assert_eq!(image.entrypoint.as_ref().unwrap().join("|"), "a|b c");
    assert_eq!((image.cmd.as_deref(), image.user.as_deref()), (Some(&[][..]), Some("1000:video")));
    assert_eq!((image.workdir.as_deref(), image.env["A"].as_str()), (Some("/srv/x"), ""));
    assert_eq!(image.labels["org.example/team"], "x");
    assert_eq!(
        one.disk.as_ref().map(|disk| (disk.gigabytes, disk.source.as_str())),
        Some((65535, "measured"))
    );
    let Build::Derive { base: Base::Image(base), spoof, slim, variants } = &one.build else {
        panic!("{:?}", one.build)
    };
    assert_eq!((base.as_str(), *spoof, slim[0].as_str()), ("fedora", Some(false), "gfx1151"));
    assert_eq!(variants["large"][0].as_str(), "gfx1150");
    assert_eq!(one.derived_variants().collect::<Vec<_>>(), ["large"]);
    assert_eq!(
        (one.spoof(), one.base_pin().map(|pin| pin.as_str())),
        (Some(false), Some("fedora"))
    );
    assert!(one.variants().is_none());
}

#[test]
fn the_stages_of_a_track_are_read_key_by_key() {
    let stage = "[[one.variants.v.stage]]\nname = \"first\"\ndockerfile = \"docker/D\"\nnetwork = true\n\
        sources = { \"src/a\" = \"code\", b = \"sdist\" }\npackages = [\"tools\"]\npython = \"py\"\n\
        args = { A_1 = \"x\" }\nfiles = [\"f\"]\n";
    let lines = "variant = \"v\"\nrehearsal = \"w\"\n[one.variants.v]\npackages = \"lock\"\ngpu-code = true\nslim = [\"gfx1151\"]";
    let other = "[one.variants.w]\nbase = \"fedora\"\n[[one.variants.w.stage]]\nname = \"s\"\ndockerfile = \"E\"\n";
    let all = tracks(&format!("{}\n{stage}{other}", track("one", lines)));
    let one = &all.tracks[&name("one")];
    let variants = one.variants().unwrap();
    assert_eq!((variants.variant.as_str(), variants.rehearsal.as_deref()), ("v", Some("w")));
    let v = &variants.variants["v"];
    assert_eq!(
        (&v.base, v.has_gpu_code, v.slim.len()),
        (&Base::Packages("lock".to_owned()), true, 1)
    );
    let first = &v.stages[0];
    assert_eq!(
        (first.name.as_str(), first.dockerfile.as_str(), first.network),
        ("first", "docker/D", true)
    );
    let sources: Vec<_> =
        first.sources.iter().map(|(folder, pin)| format!("{folder}={pin}")).collect();
    assert_eq!(sources, ["b=sdist", "src/a=code"]);
    assert_eq!(
        (first.packages.join(" "), first.python.as_deref()),
        ("tools".to_owned(), Some("py"))
    );
    assert_eq!((first.args["A_1"].as_str(), first.files[0].from.as_str()), ("x", "f"));
    let w = &variants.variants["w"];
    assert!(!w.has_gpu_code && w.slim.is_empty() && !w.stages[0].network);
    assert!(w.stages[0].python.is_none() && w.stages[0].sources.is_empty());
    let pins: Vec<&str> = one.pins().into_iter().map(|pin| pin.as_str()).collect();
    assert_eq!(pins, ["fedora", "sdist", "code"], "bases, then sources");
    assert!(one.base_pin().is_none() && one.derived_variants().next().is_none());
}

#[test]
fn stages_without_variants_are_one_variant() {
    let all = tracks(&built("one", "base = \"fedora\""));
    let variants = all.tracks[&name("one")].variants().unwrap();
    assert_eq!((variants.variant.as_str(), variants.variants.len()), ("default", 1));
    assert!(variants.rehearsal.is_none());
}

#[test]
fn tracks_are_found_by_name_or_letter_and_those_with_letters_come_first() {
    let letter = |name: &str, letter: &str| {
        track(name, &format!("base = \"fedora\"\nletter = \"{letter}\""))
    };
    let text = letter("zz", "A")
        + &letter("bb", "C")
        + &letter("yy", "B")
        + &track("aa", "base = \"fedora\"")
        + &track("a0", "base = \"fedora\"");
    let all = tracks(&text);
    let found = |text: &str| all.find(text).map(ToString::to_string);
    assert_eq!(found("zz").as_deref(), Some("zz"));
    assert_eq!((found("A").as_deref(), found("a").as_deref()), (Some("zz"), Some("zz")));
    assert_eq!(found("B").as_deref(), Some("yy"));
    assert_eq!((found("D"), found("AA"), found("")), (None, None, None));
    let order: Vec<String> = all.in_order().iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(order, ["zz", "yy", "bb", "a0", "aa"]);
    assert_eq!(all.first().map(ToString::to_string).as_deref(), Some("zz"));
}

#[test]
fn what_a_track_does_not_say_is_said_by_the_track_that_it_is_based_on() {
    let text = built("root", "base = \"fedora\"")
        + &track("plain", "track = \"root\"")
        + &track("top", "track = \"plain\"")
        + &track("image", "base = \"fedora\"\nspoof = true")
        + &track("above", "track = \"image\"")
        + &track("off", "track = \"image\"\nspoof = false");
    let all = tracks(&text);
    let chain = |of: &str| {
        let chain = all.chain(&name(of));
        chain.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (chain("top"), chain("off"), chain("gone")),
        ("top plain root".to_owned(), "off image".to_owned(), String::new())
    );
    let spoof = |of: &str| all.is_spoof(&name(of));
    assert_eq!(
        [spoof("image"), spoof("above"), spoof("off"), spoof("top")],
        [true, true, false, false]
    );
    let engine = |of: &str| all.needs_engine(&name(of));
    assert_eq!(
        [engine("root"), engine("top"), engine("image"), engine("gone")],
        [true, true, false, false]
    );
    let rehearsed = |of: &str| all.can_be_rehearsed(&name(of));
    assert_eq!([rehearsed("top"), rehearsed("image")], [false, true]);
}

#[test]
fn settings_of_a_track_come_before_those_of_its_base() {
    let settings = |lines: &str| {
        let all = tracks(&track("one", &format!("base = \"fedora\"\n{lines}")));
        all.tracks[&name("one")].image.clone()
    };
    let lower = settings(
        "entrypoint = [\"low\"]\ncmd = [\"c\"]\nuser = \"u\"\nworkdir = \"/w\"\nenv = { A = \"1\", B = \"1\" }\nlabels = { x = \"1\", y = \"1\" }",
    );
    let nothing = settings("");
    assert_eq!(nothing, ImageSettings::default());
    assert_eq!(nothing.over(&lower), lower);
    assert_eq!(lower.over(&nothing), lower);
    let upper = settings("user = \"v\"\nenv = { B = \"2\", C = \"2\" }\nlabels = { y = \"2\" }");
    let both = upper.over(&lower);
    let env: Vec<_> = both.env.iter().map(|(name, value)| format!("{name}{value}")).collect();
    assert_eq!(env, ["A1", "B2", "C2"]);
    assert_eq!((both.labels["x"].as_str(), both.labels["y"].as_str()), ("1", "2"));
    assert_eq!((both.user.as_deref(), both.workdir.as_deref()), (Some("v"), Some("/w")));
    // As in a Dockerfile, a new entrypoint drops the arguments of the old one.
    let entry = settings("entrypoint = [\"new\"]").over(&lower);
    assert_eq!((entry.entrypoint.unwrap().join(" "), entry.cmd), ("new".to_owned(), None));
    let cmd = settings("cmd = [\"d\"]").over(&lower);
    assert_eq!(
        (cmd.entrypoint.unwrap().join(" "), cmd.cmd.unwrap().join(" ")),
        ("low".to_owned(), "d".to_owned())
    );
}

#[test]
fn values_of_an_image_have_limits() {
    let one = |line: &str| match read(&track("one", &format!("base = \"fedora\"\n{line}"))) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.into_iter().map(|one| one.message).collect::<Vec<_>>(),
    };
    let name = "u".repeat(32);
    let path = format!("/{}", "w".repeat(399));
    let label = "l".repeat(200);
    for good in [
        format!("user = \"{name}:{name}\""),
        "user = \"a_b.c-d\"".to_owned(),
        format!("workdir = \"{path}\""),
        "workdir = \"/a..b\"".to_owned(),
        format!("labels = {{ {label} = \"{}\" }}", "x".repeat(1000)),
        "disk = { gb = 1, source = \"s\" }".to_owned(),
    ] {
        assert_eq!(one(&good), Vec::<String>::new(), "{good}");
    }
    for (bad, message) in [
        (format!("user = \"{name}u\""), format!("`{name}u` is not a user")),
        ("user = \"a:b:c\"".to_owned(), "`a:b:c` is not a user".to_owned()),
        ("user = \"a:\"".to_owned(), "`a:` is not a user".to_owned()),
        ("workdir = \"srv\"".to_owned(), "`srv` is not an absolute path".to_owned()),
        ("workdir = \"/a/..\"".to_owned(), "`/a/..` is not an absolute path".to_owned()),
        ("labels = { \"a b\" = \"x\" }".to_owned(), "`a b` is not the name of a label".to_owned()),
        ("labels = { \"\" = \"x\" }".to_owned(), "`` is not the name of a label".to_owned()),
        (
            "labels = { vcs-ref = \"x\" }".to_owned(),
            "label `vcs-ref` is set by build-pipeline".to_owned(),
        ),
        (
            "labels.\"io.github.build-pipeline.x\" = \"x\"".to_owned(),
            "label `io.github.build-pipeline.x` is set by build-pipeline".to_owned(),
        ),
        ("letter = \"a\"".to_owned(), "`a` is not one upper-case letter".to_owned()),
        ("letter = \"AB\"".to_owned(), "`AB` is not one upper-case letter".to_owned()),
        (
            "disk = { gb = 0, source = \"s\" }".to_owned(),
            "`gb` is the number `0`, but should be a number from 1 to 65535".to_owned(),
        ),
        (
            "disk = { gb = 65536, source = \"s\" }".to_owned(),
            "`gb` is the number `65536`, but should be a number from 1 to 65535".to_owned(),
        ),
        ("slim = []".to_owned(), "`slim` lists no GPU".to_owned()),
    ] {
        assert_eq!(one(&bad), [message]);
    }
    assert_eq!(one(&format!("workdir = \"{path}w\"")).len(), 1);
    assert_eq!(one(&format!("labels = {{ {label}l = \"x\" }}")).len(), 1);
    assert_eq!(one(&format!("labels = {{ x = \"{}\" }}", "x".repeat(1001))).len(), 1);
}

#[test]
fn names_of_pins_are_checked_and_the_nearest_is_told() {
    for (lines, message, help) in [
        (
            "base = \"fedroa\"",
            "`fedroa` is not an image in versions/versions.toml",
            "did you mean `fedora`?",
        ),
        (
            "base = \"zz\"",
            "`zz` is not an image in versions/versions.toml",
            "add `[image.zz]` to versions/versions.toml, or write one of `fedora`",
        ),
        (
            "base = \"code\"",
            "`code` is a pin of kind `source`, not an image",
            "a base is one of `fedora`",
        ),
        (
            "base = \"docker.io/a/b\"",
            "`docker.io/a/b` is an image, not the name of a pin",
            "write the name of an image pin in versions/versions.toml, for example `ollama`",
        ),
    ] {
        assert_eq!(told(&track("one", lines)), [(message.to_owned(), help.to_owned())]);
    }
    let source = |pin: &str| {
        told(&(built("one", "base = \"fedora\"") + &format!("sources = {{ a = \"{pin}\" }}\n")))
    };
    assert_eq!(source("coed")[0].1, "did you mean `code`?");
    let wrong = (
        "`wheels` is not a pin of kind `source` and `archive`".to_owned(),
        "versions/versions.toml lists the pins".to_owned(),
    );
    assert_eq!(source("wheels"), [wrong]);
    let folder = told(&(built("one", "base = \"fedora\"") + "sources = { \"../a\" = \"code\" }\n"));
    let wrong = (
        "`../a` is outside the build context".to_owned(),
        "write a path inside the build context, without `..`, for example `vllm`".to_owned(),
    );
    assert_eq!(folder, [wrong]);
    // Without a list of pins, any name is accepted.
    let text = format!("schema = 1\ngpu = \"gfx1151\"\n{}", track("one", "base = \"zz\""));
    assert!(parse_tracks("tracks.toml", &text).is_ok());
}

#[test]
fn arguments_of_a_dockerfile_are_not_those_that_are_always_set() {
    let argument = |name: &str| {
        let text = built("one", "base = \"fedora\"") + &format!("args = {{ {name} = \"x\" }}\n");
        read(&text).map(drop).map_err(|error| error.problems[0].message.clone())
    };
    for good in ["A", "A1_B", "BASE_2"] {
        assert_eq!(argument(good), Ok(()), "{good}");
    }
    for ours in ["BASE", "GPU_TARGET", "SOURCE_DATE_EPOCH"] {
        assert_eq!(
            argument(ours),
            Err(format!("`{ours}` is set automatically for every Dockerfile"))
        );
    }
    let buildkit = "`BUILDKIT_SYNTAX` is an option of BuildKit, not of the Dockerfile".to_owned();
    assert_eq!(argument("BUILDKIT_SYNTAX"), Err(buildkit));
    for bad in ["a", "1A", "_A", "A-B", "Ab"] {
        assert_eq!(argument(bad), Err(format!("`{bad}` is not the name of a build argument")));
    }
}

#[test]
fn tracks_that_contradict_each_other_are_refused() {
    let packages = built("one", "base = \"fedora\"") + "packages = [\"tools\"]\n";
    assert_eq!(
        messages(&packages),
        ["`packages` needs a lock, but this variant is not based on packages"]
    );
    let both = built("one", "base = \"fedora\"\nvariant = \"v\"");
    assert_eq!(messages(&both), ["`[one]` has both `stage` and `variant`"]);
    let twice = built("one", "base = \"fedora\"") + &STAGE.replace("NAME", "one");
    assert_eq!(messages(&twice), ["two stages are called `s`"]);
    // An image that is built for the GPU needs no override.
    let spoof = built("root", "base = \"fedora\"")
        + &track("mid", "track = \"root\"")
        + &track("one", "track = \"mid\"\nspoof = true");
    assert_eq!(messages(&spoof), ["track `one` has `spoof`, but an engine builds its base `mid`"]);
    let off = spoof.replace("spoof = true", "spoof = false");
    assert!(read(&off).is_ok());
    // A variant's image must not have the name of another track.
    let same = track("one", "base = \"fedora\"\nvariants = { large = { slim = [\"gfx1151\"] } }")
        + &track("one-large", "base = \"fedora\"");
    let message = "two tracks or variants would write the image `one-large`";
    assert_eq!(messages(&same), [message, message]);
    let missing = track("one", "track = \"tow\"") + &track("two", "base = \"fedora\"");
    assert_eq!(
        told(&missing),
        [(
            "track `one` is based on `tow`, which is not a track".to_owned(),
            "did you mean `two`?".to_owned()
        )]
    );
}

#[test]
fn tracks_of_another_file_are_kept_replaced_and_referred_to() {
    let pins = parse_versions("versions.toml", PINS).unwrap();
    let lower = tracks(
        &(track("one", "base = \"fedora\"\nletter = \"A\"") + &track("two", "base = \"fedora\"")),
    );
    let over = |text: &str| {
        let known = References { pins: Some(&pins), tracks: Some(&lower) };
        parse_tracks_with("tracks.toml", &format!("schema = 1\n{text}"), known)
    };
    let all = over(&track("two", "track = \"one\"")).unwrap();
    assert_eq!((all.gpu.as_str(), all.tracks.len()), ("gfx1151", 2), "the target is inherited");
    assert_eq!(all.chain(&name("two")).len(), 2);
    let own = over("gpu = \"gfx1150\"\n").unwrap();
    assert_eq!((own.gpu.as_str(), own.tracks.len()), ("gfx1150", 2));
    let problems = |text: &str| {
        over(text).unwrap_err().problems.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    assert_eq!(
        problems(&track("three", "base = \"fedora\"\nletter = \"A\"")),
        ["tracks `three` and `one` have the same letter"]
    );
    // A track with an error also replaces the other one, whose old content is not checked any more.
    let wrong = problems(
        &(track("one", "base = 1") + &track("three", "base = \"fedora\"\nletter = \"A\"")),
    );
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let large =
        tracks(&track("one", "base = \"fedora\"\nvariants.large = { slim = [\"gfx1151\"] }"));
    let text = format!(
        "schema = 1\n{}{}",
        track("one", "base = 1"),
        track("one-large", "base = \"fedora\"")
    );
    let known = References { pins: Some(&pins), tracks: Some(&large) };
    let error = parse_tracks_with("tracks.toml", &text, known).unwrap_err();
    assert_eq!(error.problems.len(), 1, "its variant writes no image any more: {error}");
}

#[test]
fn a_key_of_the_file_that_is_no_table_is_told_with_the_right_form() {
    assert_eq!(
        told("gup = \"gfx1151\"\n"),
        [(
            "`gup` is not a table or a key of this file".to_owned(),
            "did you mean `gpu`?".to_owned()
        )]
    );
    assert_eq!(told("server = 1\n")[0].1, "a track is a table: write `[server]`");
    assert_eq!(
        told(&track("\"a b\"", "base = \"fedora\""))[0].1,
        "rename the table, for example `[my-track]`"
    );
}
