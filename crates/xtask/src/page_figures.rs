// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask page-figures`: what a page of `wakelab compare --report` costs, for docs/guide/timelines.md.
//!
//! A recording is replayed on 176 CPUs under two policies, alternately with and without a page, and Chromium opens the
//! page. Then a run of a million slices is packed. Without a recording, the model of pgbench makes one. Chromium tells
//! the times of a copy of the page that sends what the page notes in its body to this command.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{Skipped, cargo, find_program, output, run as run_command, target_folder};
use crate::setup::BROWSERS;

#[derive(Args)]
pub(crate) struct PageFiguresArgs {
    /// A recording of 5 s [default: what the model of pgbench does in 5 s on 8 CPUs]
    recording: Option<PathBuf>,
    /// Number of times that each is measured
    #[arg(long, default_value_t = 5)]
    times: usize,
}

const MACHINE: [&str; 2] = ["--machine", "power9-2s22c4t"];
const POLICIES: [&str; 4] = ["--policy", "linux-4.15", "--policy", "linux-6.12"];
const PGBENCH: &str = "pgbench:duration-ms=5000";
/// A million slices, together under both policies.
const LARGE: &str = "hackbench:groups=40,loops=300";

/// What a browser says about a page.
struct Opened {
    slices: f64,
    open_ms: f64,
    frame_ms: f64,
}

/// `cargo xtask page-figures`.
pub(crate) fn run(args: &PageFiguresArgs) -> Result<()> {
    let browser = find_program(BROWSERS).ok_or_else(|| Skipped("Chromium is not installed".into()))?;
    run_command(cargo().args(["build", "--release", "--quiet", "--package", "wakelab-cli"]))?;
    let (target, folder) = (target_folder()?, target_folder()?.join("page-figures"));
    std::fs::create_dir_all(&folder)?;
    let wakelab = target.join("release/wakelab");
    let recording = match &args.recording {
        Some(path) => path.clone(),
        None => {
            let path = folder.join("pgbench.ftrace.txt");
            let events = ["run", PGBENCH, "--machine", "smp-8", "--policy", "linux-6.12", "--events"];
            output(Command::new(&wakelab).args(events).arg(&path))?;
            path
        }
    };
    let page = folder.join("page.html");
    let compare = |input: &Path, seeds: &str, page: Option<&Path>| -> Result<f64> {
        let mut command = Command::new(&wakelab);
        command.arg("compare").arg(input).args(MACHINE).args(POLICIES).args(["--seeds", seeds]);
        if let Some(page) = page {
            command.arg("--report").arg(page);
        }
        let begin = Instant::now();
        output(&mut command)?;
        Ok(begin.elapsed().as_secs_f64())
    };
    let (mut without, mut with, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.times {
        without.push(compare(&recording, "2", None)?);
        with.push(compare(&recording, "2", Some(&page))?);
        opened.push(open(&browser, &page, &folder)?);
    }
    let more: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    println!("{} on 176 CPUs, 2 policies, 2 seeds, {} times:", input_name(args), args.times);
    println!("  without a page: {}", seconds(&without));
    println!("  with a page: {}", seconds(&with));
    println!("  the page itself, pair by pair: {}", seconds(&more));
    show(&page, &opened)?;

    let large = folder.join("large.html");
    compare(Path::new(LARGE), "1", Some(&large))?;
    println!("{LARGE} on 176 CPUs, 2 policies, 1 seed:");
    let opened: Result<Vec<Opened>> = (0..args.times).map(|_| open(&browser, &large, &folder)).collect();
    show(&large, &opened?)
}

fn input_name(args: &PageFiguresArgs) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    args.recording.as_ref().map_or_else(|| PGBENCH.to_owned(), name)
}

/// Prints what a page holds and how it opened.
fn show(page: &Path, opened: &[Opened]) -> Result<()> {
    let text = std::fs::read_to_string(page)?;
    let packed: usize =
        text.split("type=\"text/plain\">").skip(1).map(|part| part.find('<').unwrap_or(part.len())).sum();
    let slices = opened.first().map_or(0.0, |opened| opened.slices);
    println!(
        "  {slices} slices, {} bytes: {:.2} bytes a slice, and {} beside them",
        text.len(),
        packed as f64 / slices,
        text.len() - packed
    );
    let of = |value: fn(&Opened) -> f64| middle(&opened.iter().map(value).collect::<Vec<_>>());
    println!("  opened in {}", milliseconds(of(|opened| opened.open_ms)));
    println!("  a frame of a pan over a tenth of the width: {}", milliseconds(of(|opened| opened.frame_ms)));
    Ok(())
}

/// Opens a copy of the page that sends its notes here.
fn open(browser: &Path, page: &Path, folder: &Path) -> Result<Opened> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let send = format!(
        "<script type=\"module\">const said = document.body.dataset;\n\
         const wait = () => said.frameMs || said.error ? fetch(\"http://127.0.0.1:{port}/\", {{ method: \"POST\", mode: \
         \"no-cors\", body: [said.slices, said.openMs, said.frameMs].join(\" \") }}) : setTimeout(wait, 20);\n\
         wait();</script>\n</body>"
    );
    let copy = folder.join("copy.html");
    std::fs::write(&copy, std::fs::read_to_string(page)?.replace("</body>", &send))?;
    let profile = folder.join("profile");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"])
        .args(["--remote-debugging-port=0".to_owned(), format!("--user-data-dir={}", profile.display())])
        .arg(format!("file://{}#measure", copy.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start Chromium")?;
    let said = receive(&listener);
    child.kill()?;
    child.wait()?;
    let numbers: Vec<f64> = said?.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [slices, open_ms, frame_ms] = numbers[..] else { bail!("the page does not open: {page:?}") };
    Ok(Opened { slices, open_ms, frame_ms })
}

/// Returns the body of the first request, or fails after a minute.
fn receive(listener: &TcpListener) -> Result<String> {
    const WAIT: Duration = Duration::from_secs(60);
    listener.set_nonblocking(true)?;
    let begin = Instant::now();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if begin.elapsed() < WAIT => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error).context("Chromium sends nothing"),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(WAIT))?;
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let size = stream.read(&mut buffer)?;
        text.push_str(&String::from_utf8_lossy(&buffer[..size]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if size == 0 || body.len() >= length.unwrap_or(0) {
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            return Ok(body.to_owned());
        }
    }
}

/// The median and the range.
fn middle(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
}

fn seconds(values: &[f64]) -> String {
    let (median, least, most) = middle(values);
    format!("{median:.2} s ({least:.2} to {most:.2})")
}

fn milliseconds((median, least, most): (f64, f64, f64)) -> String {
    format!("{median:.1} ms ({least:.1} to {most:.1})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_told_with_their_range() {
        assert_eq!(seconds(&[3.0, 1.0, 2.0]), "2.00 s (1.00 to 3.00)");
        assert_eq!(milliseconds(middle(&[4.0])), "4.0 ms (4.0 to 4.0)");
    }

    #[test]
    fn a_request_is_received_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n1 ").unwrap();
            stream.write_all(b"2 3").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        assert_eq!(receive(&listener).unwrap(), "1 2 3");
        assert!(sender.join().unwrap().starts_with("HTTP/1.1 204"));
    }
}
