//! Measures how fast logs are read: `diagnose CATALOGUE MEGABYTES`. Prints the rate for a log of
//! ordinary lines, and for the same bytes as one line.

#![expect(clippy::print_stdout, reason = "a measurement prints its result")]

use std::io::Read;
use std::time::Instant;

use host::failures::parse_failures;

/// Lines as builds and servers print them; some contain fixed texts of patterns.
const LINES: &str = "\
[1422/2610] Building HIP object CMakeFiles/_C.dir/csrc/attention/paged_attention_v1.hip.o
/opt/rocm/bin/clang++ -O3 --offload-arch=gfx1151 -DUSE_ROCM -I/src/vllm/csrc -c attention.hip
(EngineCore pid=211) INFO 03-02 18:44:21 [gpu_worker.py:298] Available KV cache memory: 82.11 GiB
INFO:     127.0.0.1:51222 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK
[  612.220104] amdgpu 0000:c5:00.0: amdgpu: SMU is resumed successfully!
warning: unused function 'is_available' [-Wunused-function]
";

/// A reader that repeats a text until it has returned a number of bytes.
struct Repeated {
    text: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let part = &self.text[self.at..];
        let length = part.len().min(buffer.len()).min(self.left);
        buffer[..length].copy_from_slice(&part[..length]);
        self.at = (self.at + length) % self.text.len();
        self.left -= length;
        Ok(length)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(catalogue), Some(megabytes)) = (arguments.next(), arguments.next()) else {
        return Err("give the catalogue and the number of megabytes".into());
    };
    let bytes = megabytes.parse::<usize>()? * 1_000_000;
    let failures = parse_failures(&catalogue, &std::fs::read_to_string(&catalogue)?)?;
    let many: Vec<u8> = LINES.bytes().cycle().take(1 << 20).collect();
    let one: Vec<u8> = many.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    for (name, text) in [("lines", many), ("one line", one)] {
        let begin = Instant::now();
        let found = failures.diagnose(Repeated { text, at: 0, left: bytes })?;
        let seconds = begin.elapsed().as_secs_f64();
        let rate = found.bytes as f64 / 1e6 / seconds;
        println!("{name}: {} lines, {seconds:.2} s, {rate:.0} MB/s", found.lines);
    }
    Ok(())
}
