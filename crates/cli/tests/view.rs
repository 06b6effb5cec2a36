// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab view` serves a file once, to those that ask in the right way, and ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn view(path: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_wakelab"))
        .args(["view", "--no-browser", "--port", "0"])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command was built")
}

/// Returns the answer to a request.
fn ask(address: &str, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_trace_is_served_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.perfetto-trace");
    fs::write(&path, b"\x0a\x02\x40\x01").expect("a file");
    let mut command = view(&path);
    let mut line = String::new();
    BufReader::new(command.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
    let address = line.trim().strip_prefix("https://ui.perfetto.dev/#!/?url=http://").expect("an address");
    let address = address.strip_suffix("/trace").expect("a name");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let head = |answer: &[u8]| String::from_utf8_lossy(answer).into_owned();
    let other = head(&ask(address, &format!("GET /etc/passwd HTTP/1.1\r\nHost: {address}\r\n\r\n")));
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let renamed = head(&ask(address, "GET /trace HTTP/1.1\r\nHost: evil.example:9001\r\n\r\n"));
    assert!(renamed.starts_with("HTTP/1.1 403 "), "{renamed}");
    let asked = head(&ask(address, &format!("OPTIONS /trace HTTP/1.1\r\nHost: {address}\r\n\r\n")));
    assert!(asked.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{asked}");
    let whole = ask(address, &format!("GET /trace HTTP/1.1\r\nhost: {address}\r\n\r\n"));
    assert!(
        whole.starts_with(b"HTTP/1.1 200 OK\r\n") && whole.ends_with(b"\r\n\r\n\x0a\x02\x40\x01"),
        "{whole:?}"
    );
    assert!(command.wait().expect("it ends").success());
}

#[test]
fn a_page_needs_no_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("page.html");
    fs::write(&path, "<!DOCTYPE html>\n").expect("a file");
    let output = view(&path).wait_with_output().expect("it ends");
    let shown = format!("file://{}\n", path.canonicalize().expect("it is there").display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), shown);
    let missing = view(&folder.path().join("missing")).wait().expect("it ends");
    assert_eq!(missing.code(), Some(2));
}
