//! Measures how fast a build's output is split into lines, and how much memory that takes.
//!
//! `cargo run --release -p engine --example log_throughput [MEGABYTES]`: an engine inside this
//! process streams that much log (1024 by default) in records of 32 KiB, as docker does. Prints
//! MB/s of text and the peak memory of the process. Time and memory cover both sides.

#![expect(clippy::print_stdout, reason = "an example prints its measurements")]

use std::error::Error;
use std::time::{Duration, Instant};

use engine::{BuildEvent, BuildRequest, DockerBuilder, Engine, Network, RunId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// The image ID in the stream. The inspect returns the same ID.
const ID: &str = "5e27e72e4e939428e3b474a87ea19a26c3152839b06a52b6b0f88f274a49c8d9";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let megabytes = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse::<usize>())?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket)?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer(connection, megabytes));
        }
    });
    let request = BuildRequest {
        run: RunId::parse("throughput").ok_or("a bad run")?,
        dockerfile: "Dockerfile".to_owned(),
        dockerfile_text: "FROM scratch\n".to_owned(),
        target: None,
        build_args: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        network: Network::None,
        use_cache: false,
        idle_limit: Duration::from_secs(60),
    };
    let (mut lines, mut bytes) = (0u64, 0u64);
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event {
            lines += 1;
            bytes += line.text.len() as u64 + 1;
        }
    };
    let begin = Instant::now();
    let context = Box::pin(futures_util::stream::empty());
    let engine = Engine::docker_at(socket, DockerBuilder::Classic);
    engine.build(&request, context, &mut on_event).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    let rate = bytes as f64 / 1e6 / seconds;
    println!("{lines} lines, {bytes} bytes in {seconds:.2} s: {rate:.0} MB/s; {peak}");
    Ok(())
}

/// Answers one request, either the build or another call.
async fn answer(mut connection: UnixStream, megabytes: usize) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = connection.read(&mut buffer).await?;
        head.extend_from_slice(&buffer[..length]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let plain =
        |body: String| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    if text.contains("/version") {
        let body = plain(r#"{"ApiVersion":"1.41"}"#.to_owned());
        return connection.write_all(body.as_bytes()).await;
    }
    if text.contains("/json ") {
        let body = format!(
            r#"{{"Id":"sha256:{ID}","Architecture":"amd64","Config":{{"Labels":{{"{}":"throughput"}}}}}}"#,
            engine::RUN_LABEL
        );
        return connection.write_all(plain(body).as_bytes()).await;
    }
    let headers = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write_all(headers.as_bytes()).await?;
    let line =
        "[ 42%] Building CXX object ggml/src/CMakeFiles/ggml-base.dir/ggml-opt.cpp.o \\\"x\\\"\\n";
    let record = format!("{{\"stream\":\"{}\"}}\r\n", line.repeat((32 << 10) / line.len()));
    let chunk = format!("{:x}\r\n{record}\r\n", record.len());
    for _ in 0..(megabytes << 20) / (32 << 10) {
        connection.write_all(chunk.as_bytes()).await?;
    }
    let end = format!("{{\"aux\":{{\"ID\":\"sha256:{ID}\"}}}}\r\n");
    let end = format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len());
    connection.write_all(end.as_bytes()).await
}
