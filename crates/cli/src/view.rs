// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab view`: shows a Perfetto file in Perfetto's UI, or a page in the browser.
//!
//! The UI is a page of ui.perfetto.dev that reads traces in the browser. It can fetch one from this computer, from port
//! 9001 only, which its rules for content allow. So the command answers one such request with the file, and ends. It
//! listens on 127.0.0.1 only, answers requests for that address only (so that no other name can be made to point to
//! it), and lets no other page than the UI read the answer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::error::bad_input;
use crate::print;

const UI: &str = "https://ui.perfetto.dev";
const UI_PORT: u16 = 9001;
/// The name under which the file is fetched.
const NAME: &str = "/trace";
/// The longest head of a request that is read.
const HEAD_BYTES_MAX: u64 = 1 << 14;
/// How long a client may say nothing.
const SILENCE: Duration = Duration::from_secs(10);

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab run demo --machine smp-8 --policy linux-4.15 --perfetto demo.perfetto-trace\n  \
    wakelab view demo.perfetto-trace")]
pub(crate) struct ViewArgs {
    /// File of --perfetto or --events, or another trace that Perfetto reads; or a page of --report
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only print the address; do not open a browser
    #[arg(long)]
    no_browser: bool,
    /// Port to serve the file from; 0 means any that is free. Perfetto's UI may fetch from the default one only
    #[arg(long, value_name = "PORT", default_value_t = UI_PORT)]
    port: u16,
}

/// Shows the file, and returns when it was fetched.
pub(crate) fn run(args: &ViewArgs) -> Result<()> {
    let refuse = |error: io::Error| bad_input(format!("{}: {error}", args.file.display()));
    let file = File::open(&args.file).map_err(refuse)?;
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head).map_err(refuse)?;
    if head.to_ascii_lowercase().starts_with(b"<!doctype html") {
        let path = args.file.canonicalize().map_err(refuse)?;
        return announce(&format!("file://{}", path.display()), args.no_browser);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on port {}: is another viewer open?", args.port))?;
    let own = listener.local_addr()?.to_string();
    announce(&format!("{UI}/#!/?url=http://{own}{NAME}"), args.no_browser)?;
    print::note("waits until Perfetto's UI has fetched the file; Ctrl-C ends it");
    for stream in listener.incoming() {
        // A client that breaks off is no reason to end.
        if let Ok(Answered::File) = stream.and_then(|stream| answer(stream, &own, &args.file)) {
            break;
        }
    }
    Ok(())
}

/// Prints an address, and opens it in a browser, if there is a desktop.
fn announce(address: &str, no_browser: bool) -> Result<()> {
    print::text(address)?;
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_desktop && !no_browser {
        let opener = Command::new("xdg-open")
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Err(error) = opener {
            print::note(&format!("xdg-open: {error}; open the address yourself"));
        }
    }
    Ok(())
}

/// What a client was sent.
#[derive(Debug, PartialEq, Eq)]
enum Answered {
    /// The whole file.
    File,
    Other,
}

/// Sends the answer to one request, and returns what it was.
fn answer(stream: TcpStream, own: &str, file: &Path) -> io::Result<Answered> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream).take(HEAD_BYTES_MAX).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut host = String::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            value.trim().clone_into(&mut host);
        }
    }
    let shared = format!(
        "Access-Control-Allow-Origin: {UI}\r\nAccess-Control-Allow-Private-Network: true\r\nCache-Control: no-cache\r\n\
         Connection: close\r\n"
    );
    let mut words = request.split(' ');
    match (words.next(), words.next()) {
        _ if host != own => write!(out, "HTTP/1.1 403 Forbidden\r\n{shared}Content-Length: 0\r\n\r\n")?,
        (Some("OPTIONS"), Some(NAME)) => write!(out, "HTTP/1.1 204 No Content\r\n{shared}\r\n")?,
        (Some("GET"), Some(NAME)) => {
            let mut file = File::open(file)?;
            let bytes = file.metadata()?.len();
            write!(
                out,
                "HTTP/1.1 200 OK\r\n{shared}Content-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\r\n"
            )?;
            io::copy(&mut file, &mut out)?;
            out.flush()?;
            return Ok(Answered::File);
        }
        _ => write!(out, "HTTP/1.1 404 Not Found\r\n{shared}Content-Length: 0\r\n\r\n")?,
    }
    Ok(Answered::Other)
}
