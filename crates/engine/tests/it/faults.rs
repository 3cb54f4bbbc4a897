//! A fake engine with scripted responses, for behaviour that is rare in a real engine.

use std::path::PathBuf;
use std::time::Duration;

use engine::{BuildEvent, Built, DockerBuilder, Engine, EngineError, RUN_LABEL};
use tempfile::TempDir;
use testkit::{gate_cases, gate_passed, peak_memory, reset_peak_memory};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use crate::support::{LIMIT, context, lines, request};

const ID: &str = "5e27e72e4e939428e3b474a87ea19a26c3152839b06a52b6b0f88f274a49c8d9";

/// The responses of the fake engine.
#[derive(Clone)]
struct Script {
    /// The status line and body of the response to a build.
    status: &'static str,
    body: Vec<u8>,
    /// The data that it sends before the body: how many times, the bytes, and the pause before
    /// each.
    before: Option<(usize, Vec<u8>, Duration)>,
    after: After,
    /// The ID that an inspect finds, and the run that the image belongs to.
    inspect: Option<(String, &'static str)>,
}

#[derive(Clone, Copy, PartialEq)]
enum After {
    /// The response ends normally.
    End,
    /// The connection breaks.
    Break,
    /// Nothing more is sent.
    Silence,
}

impl Script {
    fn of(records: &[&str]) -> Self {
        let body = records.iter().map(|record| format!("{record}\n")).collect::<String>();
        let inspect = Some((ID.to_owned(), "faults"));
        let body = body.into_bytes();
        Self { status: "200 OK", body, before: None, after: After::End, inspect }
    }
}

fn stream(text: &str) -> String {
    serde_json::json!({ "stream": text }).to_string()
}

/// Serves the script on a new socket.
fn serve(script: Script) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer(connection, script.clone()));
        }
    });
    (folder, socket)
}

async fn answer(mut connection: tokio::net::UnixStream, script: Script) {
    let mut head = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let end = loop {
        let length = connection.read(&mut buffer).await.unwrap();
        head.extend_from_slice(&buffer[..length]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        assert!(length > 0, "a request has no head");
    };
    let text = String::from_utf8_lossy(&head[..end]).into_owned();
    let path = text.split(' ').nth(1).unwrap().to_owned();
    let plain = |status: &str, json: serde_json::Value| {
        let body = json.to_string();
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    if path.contains("/build?") {
        // Reads the whole context, as an engine does. The last chunk is empty.
        while !head.ends_with(b"0\r\n\r\n") {
            let length = connection.read(&mut buffer).await.unwrap();
            assert!(length > 0, "the context is incomplete");
            head.extend_from_slice(&buffer[..length]);
        }
        let status = script.status;
        let begin = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.write_all(begin.as_bytes()).await.unwrap();
        if let Some((count, piece, pause)) = &script.before {
            for _ in 0..*count {
                tokio::time::sleep(*pause).await;
                write_chunk(&mut connection, piece).await;
            }
        }
        for piece in script.body.chunks(1 << 20) {
            write_chunk(&mut connection, piece).await;
        }
        match script.after {
            After::End => connection.write_all(b"0\r\n\r\n").await.unwrap(),
            After::Break => {}
            After::Silence => std::future::pending().await,
        }
    } else if path.contains("/version") {
        let version = serde_json::json!({ "ApiVersion": "1.41", "Version": "false" });
        connection.write_all(&plain("200 OK", version)).await.unwrap();
    } else if let Some((id, run)) = script.inspect {
        let image = serde_json::json!({
            "Id": format!("sha256:{id}"), "Architecture": "amd64",
            "Config": { "Labels": { RUN_LABEL: run } },
        });
        connection.write_all(&plain("200 OK", image)).await.unwrap();
    } else {
        let missing = serde_json::json!({ "message": "no such image" });
        connection.write_all(&plain("404 Not Found", missing)).await.unwrap();
    }
}

async fn write_chunk(connection: &mut tokio::net::UnixStream, piece: &[u8]) {
    let size = format!("{:x}\r\n", piece.len());
    for part in [size.as_bytes(), piece, b"\r\n"] {
        connection.write_all(part).await.unwrap();
    }
}

async fn build_on(
    engine: &Engine,
    idle_limit: Duration,
) -> (Result<Built, EngineError>, Vec<BuildEvent>) {
    let mut request = request("faults", "FROM scratch\nRUN x\n");
    request.idle_limit = idle_limit;
    let mut events = Vec::new();
    let input = context(&request.dockerfile_text, &[]);
    let built = engine.build(&request, input, &mut |event| events.push(event)).await;
    (built, events)
}

async fn on_podman(script: Script) -> Result<Built, EngineError> {
    let (_folder, socket) = serve(script);
    build_on(&Engine::podman_at(socket), LIMIT).await.0
}

async fn on_docker(script: Script) -> Result<Built, EngineError> {
    on_docker_with(DockerBuilder::Classic, script).await
}

async fn on_docker_with(builder: DockerBuilder, script: Script) -> Result<Built, EngineError> {
    let (_folder, socket) = serve(script);
    build_on(&Engine::docker_at(socket, builder), LIMIT).await.0
}

fn good_podman() -> Script {
    Script::of(&[
        &stream("STEP 1/2: FROM scratch\n"),
        &stream("COMMIT\n"),
        &stream(&format!("{ID}\n")),
    ])
}

fn good_docker() -> Script {
    let aux = format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}");
    Script::of(&[
        &stream("Step 1/2 : FROM scratch"),
        &aux,
        &stream("Successfully built 5e27e72e4e93\n"),
    ])
}

/// Returns streams of many steps, from podman and both of docker's builders. The last record names
/// the image.
fn long() -> [Script; 3] {
    let of = |colon: &str, last: &str| {
        let step = |number| stream(&format!("STEP {number}/20{colon} RUN touch /{number}\n"));
        let records: Vec<String> = (1..=20).map(step).chain([last.to_owned()]).collect();
        Script::of(&records.iter().map(String::as_str).collect::<Vec<_>>())
    };
    [
        of(":", &stream(&format!("{ID}\n"))),
        of(" :", &format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}")),
        Script::of(&[
            LOG_OF_BUILDKIT,
            LOG_OF_BUILDKIT,
            &format!("{{\"id\":\"moby.image.id\",\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}"),
        ]),
    ]
}

/// What dockerd 20.10.24 sent for the output of a `RUN`.
const LOG_OF_BUILDKIT: &str = "{\"id\":\"moby.buildkit.trace\",\"aux\":\"GmsKR3NoYTI1Njo0NWFhN2FlNTRlMmUyYjExMGIzMTFjMTVhMDNhMjhkMGVlODVlYWM2Njg4Njc5YjQ3OGQzNzkxNWI2YjE1OGE2EgwI6+CH2AYQq7yC9AIYASIQaGVsbG8Kbm8gbmV3bGluZQ==\"}";

#[tokio::test]
async fn a_good_stream_is_a_success() {
    assert_eq!(on_podman(good_podman()).await.unwrap().image.as_str(), format!("sha256:{ID}"));
    assert_eq!(on_docker(good_docker()).await.unwrap().image.as_str(), format!("sha256:{ID}"));
}

/// Wherever the stream is cut, and whether or not it ends normally, a build without the record of
/// its image fails.
#[tokio::test]
async fn a_stream_that_is_cut_is_never_a_success() {
    let mut cases = 0;
    let builders = [None, Some(DockerBuilder::Classic), Some(DockerBuilder::BuildKit)];
    for (script, builder) in long().into_iter().zip(builders) {
        let on = async |script| match builder {
            None => on_podman(script).await,
            Some(builder) => on_docker_with(builder, script).await,
        };
        on(script.clone()).await.unwrap();
        for cut in 0..script.body.len() - 2 {
            for after in [After::End, After::Break] {
                let body = script.body[..cut].to_vec();
                let built = on(Script { body, after, ..script.clone() }).await;
                let is_told = match after {
                    After::Break => matches!(built, Err(EngineError::Lost { .. })),
                    _ => {
                        matches!(built, Err(EngineError::NoImageId | EngineError::Nonsense { .. }))
                    }
                };
                assert!(is_told, "cut at {cut}: {built:?}");
                cases += 1;
            }
        }
        let built = on(Script { after: After::Break, ..script }).await;
        assert!(matches!(built, Err(EngineError::Lost { .. })), "{built:?}");
        cases += 1;
    }
    gate_passed(4, cases);
}

/// Returns the outcome of a build as a short text.
fn verdict(built: &Result<Built, EngineError>) -> &'static str {
    match built {
        Ok(_) => "built",
        Err(EngineError::NoImageId) => "no image",
        Err(EngineError::Nonsense { .. }) => "nonsense",
        Err(EngineError::Dockerfile { .. }) => "dockerfile",
        Err(EngineError::Run(_)) => "run",
        Err(EngineError::DiskFull { .. }) => "disk",
        Err(EngineError::BaseMissing { .. }) => "base",
        Err(EngineError::CacheGone { .. }) => "cache",
        Err(EngineError::Runtime { .. }) => "runtime",
        Err(EngineError::ImageDiffers { .. }) => "differs",
        Err(_) => "something else",
    }
}

/// Responses of docker, each with its expected outcome.
#[tokio::test]
async fn every_answer_has_its_verdict() {
    let image = format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}\n");
    let other = image.replace(ID, &"a".repeat(64));
    let step = format!("{}\n", stream("Step 2/2 : RUN x"));
    let line = |text: &str| format!("{}\n", stream(text));
    let failed = |text: &str| {
        format!(
            "{step}{}\n",
            serde_json::json!({ "errorDetail": { "message": text }, "error": text })
        )
    };
    let good = format!("{step}{image}");
    let cases = [
        (good.clone(), "built"),
        (good.replace('\n', "\r\n"), "built"),
        (good.replace('\n', "\n\n \n"), "built"),
        (good.trim_end().to_owned(), "built"),
        (good.replace('\n', ""), "nonsense"),
        (format!("{image}{}", line("Successfully tagged x")), "built"),
        (format!("{image}{image}"), "built"),
        (format!("{other}{image}"), "built"),
        (format!("{}{image}", line("nul\0, bell\u{7}, \u{1b}[2J, \u{202e}")), "built"),
        (format!("{}{image}", line(&"x".repeat(1 << 20))), "built"),
        (format!("{}{image}", line("grün").repeat(10_000)), "built"),
        (format!("{{\"new\":[1,2,{{}}]}}\n{image}"), "built"),
        (format!("{image}{other}"), "differs"),
        (image.replace(&ID[..1], "X"), "differs"),
        (String::new(), "no image"),
        ("\n\n".to_owned(), "no image"),
        (step.clone(), "no image"),
        ("{\"aux\":{}}\n".to_owned(), "no image"),
        ("{\"aux\":null}\n".to_owned(), "no image"),
        (line(&format!("Successfully built {ID}")), "no image"),
        (format!("{step}\0{image}"), "nonsense"),
        (image[..image.len() - 4].to_owned(), "nonsense"),
        (format!("{}{image}", &step[..9]), "nonsense"),
        (format!("<html>login</html>{image}"), "nonsense"),
        (format!("[1]\n{image}"), "nonsense"),
        (format!("{}{image}", "[".repeat(100_000)), "nonsense"),
        (failed("no"), "dockerfile"),
        (format!("{}{image}", failed("no")), "dockerfile"),
        (format!("{image}{}", failed("no")), "dockerfile"),
        (format!("{{\"error\":\"no\"}}\n{image}"), "dockerfile"),
        (format!("{}{image}", failed("write /x: no space left on device")), "disk"),
        (format!("{}{image}", failed("The command 'x' returned a non-zero code: 7")), "run"),
        (format!("{}{image}", failed("OCI runtime create failed: runc: no")), "runtime"),
        (format!("{}{image}", failed("pull access denied for x")), "base"),
        (format!("{}{image}", failed("layer does not exist")), "cache"),
        (failed("snapshot vwhf does not exist: not found"), "cache"),
        (failed("process 'echo snapshot x does not exist: not found' failed: exit code: 7"), "run"),
    ];
    let mut wrong = Vec::new();
    for (body, wanted) in &cases {
        let script = Script { body: body.clone().into_bytes(), ..good_docker() };
        let built = on_docker(script).await;
        let shown: String = body.chars().take(200).collect();
        if verdict(&built) != *wanted {
            wrong.push(format!("{shown}: {built:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gate_passed(4, cases.len());
}

#[tokio::test]
async fn an_error_in_a_good_answer_is_an_error() {
    let detail = |text: &str| serde_json::json!({ "errorDetail": { "message": text } }).to_string();
    let full = detail("committing: write /x: no space left on device");
    let script = Script::of(&[&stream(&format!("{ID}\n")), &full]);
    assert!(matches!(on_podman(script).await, Err(EngineError::DiskFull { .. })));
    let old = serde_json::json!({ "error": "exit status 3" }).to_string();
    let script = Script::of(&[&stream("STEP 2/2: RUN x\n"), &old]);
    let built = on_podman(script).await;
    let Err(EngineError::Run(failure)) = built else { panic!("{built:?}") };
    assert_eq!((failure.status, failure.line), (3, Some(2)));
    let aux = format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}");
    let script = Script::of(&[&aux, &detail("after all, no")]);
    assert!(matches!(on_docker(script).await, Err(EngineError::Dockerfile { .. })));
}

#[tokio::test]
async fn an_image_the_inspect_does_not_confirm_is_none() {
    for (inspect, words) in [
        (None, "does not find it"),
        (Some(("a".repeat(64), "faults")), "`inspect` returns"),
        (Some((ID.to_owned(), "another")), "to the run `another`"),
    ] {
        let script = Script { inspect, ..good_docker() };
        let built = on_docker(script).await;
        let Err(EngineError::ImageDiffers { found, .. }) = built else { panic!("{built:?}") };
        assert!(found.contains(words), "{found}");
    }
    let script = Script::of(&["{\"aux\":{\"ID\":\"latest\"}}"]);
    assert!(matches!(on_docker(script).await, Err(EngineError::ImageDiffers { .. })));
    let script = Script::of(&[&stream("Successfully built 5e27e72e4e93\n")]);
    assert!(matches!(on_docker(script).await, Err(EngineError::NoImageId)));
}

#[tokio::test]
async fn a_refusal_before_the_stream_is_judged_too() {
    let body = serde_json::json!({ "message": "dockerfile parse error line 2" });
    let script = Script { status: "400 Bad Request", ..Script::of(&[&body.to_string()]) };
    let built = on_docker(script).await;
    let Err(EngineError::Dockerfile { detail, .. }) = built else { panic!("{built:?}") };
    assert_eq!(detail, "dockerfile parse error line 2");
}

#[tokio::test]
async fn silence_ends_and_says_so() {
    let mut script = good_podman();
    script.body.truncate(40);
    script.after = After::Silence;
    let (_folder, socket) = serve(script);
    let (built, _) = build_on(&Engine::podman_at(socket), Duration::from_millis(300)).await;
    assert!(matches!(built, Err(EngineError::Silent { .. })), "{built:?}");
}

/// The clock of this test jumps to the next event.
#[tokio::test(start_paused = true)]
async fn a_build_that_says_a_word_now_and_then_may_take_ten_hours() {
    let hour = Duration::from_secs(3600);
    let said = format!("{}\n", stream("still there\n")).into_bytes();
    let begin = tokio::time::Instant::now();
    let (pause, count) = (hour - Duration::from_secs(60), 11);
    let script = Script { before: Some((count, said, pause)), ..good_podman() };
    let (_folder, socket) = serve(script.clone());
    let (built, events) = build_on(&Engine::podman_at(socket), hour).await;
    built.unwrap();
    assert_eq!(lines(&events).iter().filter(|line| **line == "still there").count(), count);
    assert!(begin.elapsed() > 10 * hour, "{:?}", begin.elapsed());
    // Control: a longer pause counts as silence.
    let before = script.before.map(|(count, said, _)| (count, said, hour + hour));
    let (_folder, socket) = serve(Script { before, ..good_podman() });
    let (built, _) = build_on(&Engine::podman_at(socket), hour).await;
    assert!(matches!(built, Err(EngineError::Silent { .. })), "{built:?}");
    gate_passed(24, 1);
}

/// A log with lines of 100 bytes, 1 GB in total for `cargo xtask gates`.
#[tokio::test]
async fn a_long_log_needs_no_memory() {
    let count = gate_cases(100_000, 10_000_000);
    let line = "x".repeat(99);
    let piece = format!("{}\n", stream(&format!("{line}\n"))).repeat(1000).into_bytes();
    let before = Some((count / 1000, piece, Duration::ZERO));
    let (_folder, socket) = serve(Script { before, ..good_podman() });
    let request = request("faults", "FROM scratch\nRUN x\n");
    let mut found = 0;
    let mut on_event = |event| {
        found += usize::from(matches!(event, BuildEvent::Line(told) if told.text == line));
    };
    let before = reset_peak_memory();
    let input = context(&request.dockerfile_text, &[]);
    Engine::podman_at(socket).build(&request, input, &mut on_event).await.unwrap();
    let grown = peak_memory().saturating_sub(before);
    assert_eq!(found, count);
    assert!(grown < 100 << 20, "{grown} bytes more for a log of {count} lines");
    gate_passed(24, 1);
}

#[tokio::test]
async fn nobody_on_the_socket_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::podman_at(folder.path().join("none"));
    let (built, _) = build_on(&engine, LIMIT).await;
    let error = built.unwrap_err();
    assert!(matches!(error, EngineError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("none"), "{error}");
    assert!(matches!(engine.inspect("x").await, Err(EngineError::Unreachable { .. })));
}

#[tokio::test]
async fn lines_carry_what_the_engine_said() {
    let long = "x".repeat(1 << 20);
    let nasty = ["\u{1b}]0;pwn\u{7}\u{1b}[2J\u{202e}", "nul\0", "grün", "two\r\n", &long, "\nlast"];
    let mut records: Vec<String> = nasty.iter().map(|text| stream(text)).collect();
    records.push(format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}"));
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let (_folder, socket) = serve(Script::of(&records));
    let engine = Engine::docker_at(socket, DockerBuilder::Classic);
    let (built, events) = build_on(&engine, LIMIT).await;
    built.unwrap();
    let said = lines(&events);
    assert_eq!(said[0], "\u{1b}]0;pwn\u{7}\u{1b}[2J\u{202e}nul\0grüntwo");
    assert_eq!(said[1].len(), engine::LINE_CAP);
    assert_eq!(said[2], "last");
    let dropped = events.iter().find_map(|event| match event {
        BuildEvent::Line(line) if line.dropped > 0 => Some(line.dropped),
        _ => None,
    });
    assert_eq!(dropped, Some((1 << 20) - engine::LINE_CAP as u64));
}
