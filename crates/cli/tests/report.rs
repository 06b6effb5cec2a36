// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages of `--report`: what is in them, and what a browser makes of them.

use std::fs;
use std::path::Path;
use std::process::Command;

const MACHINE: [&str; 2] = ["--machine", "smp-8"];
const POLICIES: [&str; 2] = ["linux-4.15", "linux-6.12"];
/// Names of the browser. `cargo xtask test` installs it where it can, and counts its stage `page` as skipped elsewhere.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn wakelab(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_wakelab")).args(arguments).output();
    let output = output.expect("the command was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a page of the built-in recording and returns it.
fn page(path: &Path) -> String {
    let shown = path.to_str().expect("UTF-8");
    let policies = POLICIES.map(|policy| ["--policy", policy]).concat();
    wakelab(&[&["compare", "demo", "--seeds", "2", "--report", shown][..], &MACHINE, &policies].concat());
    fs::read_to_string(path).expect("it was written")
}

#[test]
fn a_page_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = page(&folder.path().join("page.html"));
    for part in [
        "<h1>demo on smp-8 (8 CPUs), host mainline, 2 seeds from 1 to 2</h1>",
        "linux-6.12 against linux-4.15",
        "done after",
        "replay\nerror",
        "<h2>Recorded, and replayed</h2>",
        "hackbench: wake-up latency",
        "Behind whom they waited",
        "context switches",
        "<canvas id=\"lower\"",
        "wakelab compare demo --seeds 2 --report",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let code = page.len()
        - page.split("type=\"text/plain\">").skip(1).map(|part| part.find('<').unwrap_or(0)).sum::<usize>();
    assert!(code < 150_000, "{code} bytes beside the slices");
}

/// Pages of one run, of a map and of experiments: they have their result, their command, and nothing from outside.
#[test]
fn other_commands_have_pages_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/small.toml");
    let map = ["map", "pingpong:pairs={tasks/2},loops=5", "--load", "1"];
    let policies = POLICIES.map(|policy| ["--policy", policy]).concat();
    let run = [&["run", "demo", "--policy", POLICIES[0]][..], &MACHINE].concat();
    let map = [&map[..], &["--seeds", "2"], &MACHINE, &policies].concat();
    let cases: [(&[&str], &[&str]); 3] = [
        (&run, &["<h2>Result</h2>", "<canvas id=\"upper\"", "<h3>Longest waits</h3>"]),
        (&map, &["<svg class=\"map\"", "over linux-4.15, 2 seeds", "<h2>linux-6.12</h2>", "smp-8 (8)"]),
        (&["experiments", small, "--seeds", "2"], &["DOES NOT HOLD", "small/pairs=1", "published\nbefore"]),
    ];
    for (arguments, parts) in cases {
        let path = folder.path().join("page.html");
        let shown = path.to_str().expect("UTF-8");
        wakelab(&[arguments, &["--report", shown]].concat());
        let page = fs::read_to_string(&path).expect("it was written");
        let command = format!("wakelab {}", arguments[0]);
        for part in parts.iter().copied().chain(["</html>", command.as_str()]) {
            assert!(page.contains(part), "{arguments:?}: no {part}");
        }
        for outside in ["http://", "https://", "src=", "href=", "url("] {
            assert!(!page.contains(outside), "{arguments:?}: {outside}");
        }
    }
    // Which estimates decide.
    let path = folder.path().join("uncertain.html");
    let shown = path.to_str().expect("UTF-8");
    let drawn = ["compare", "pingpong:pairs=8,loops=10", "--uncertainty=8", "--report", shown];
    wakelab(&[&drawn[..], &["--seeds", "2"], &MACHINE, &policies].concat());
    let page = fs::read_to_string(&path).expect("it was written");
    for part in ["If the model's figures are others", "8 draws of the", "Which figures decide: linux-6.12"] {
        assert!(page.contains(part), "no {part}");
    }
    // The table of the slices is Parquet: its magic number.
    let path = folder.path().join("slices.parquet");
    wakelab(&[&run[..], &["--parquet", path.to_str().expect("UTF-8")]].concat());
    assert!(fs::read(&path).expect("it was written").starts_with(b"PAR1"));
}

/// The number of slices of a run and their time, from its ftrace text.
fn slices(policy: &str, folder: &Path) -> (u64, u64) {
    let path = folder.join("events.txt");
    let shown = path.to_str().expect("UTF-8");
    wakelab(&[&["run", "demo", "--policy", policy, "--events", shown][..], &MACHINE].concat());
    let text = fs::read_to_string(&path).expect("it was written");
    let mut since = [None; 8];
    let (mut count, mut ran_ns, mut end_ns) = (0, 0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (head, event) = line.split_once(": ").expect("a time");
        let cpu: usize = head.split(['[', ']']).nth(1).and_then(|cpu| cpu.parse().ok()).expect("a CPU");
        let time = head.rsplit(' ').next().expect("a time").replace('.', "");
        end_ns = time.parse::<u64>().expect("a time");
        if !event.starts_with("sched_switch") {
            continue;
        }
        ran_ns += since[cpu].take().map_or(0, |begin_ns| end_ns - begin_ns);
        if !event.contains("next_pid=0 ") {
            count += 1;
            since[cpu] = Some(end_ns);
        }
    }
    ran_ns += since.iter().flatten().map(|begin_ns| end_ns - begin_ns).sum::<u64>();
    (count, ran_ns)
}

/// Returns an attribute of the page's body.
fn said(dom: &str, name: &str) -> f64 {
    let body = dom.split("<body").nth(1).and_then(|rest| rest.split('>').next()).expect("a body");
    let value = body.split(&format!("data-{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("expected {name}, found {body}"))
}

/// Opens a page in a browser, and returns what the browser made of it, without complaints; `None` without a browser.
fn opened(page: &Path, folder: &Path) -> Option<String> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let dom = BROWSERS.iter().find_map(|browser| {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
            .args(["--virtual-time-budget=20000", "--window-size=1400,1000", &profile])
            .arg(format!("file://{}#check", page.display()))
            .output();
        output.ok()
    });
    let Some(dom) = dom else {
        eprintln!("skipped: Chromium is not installed");
        return None;
    };
    let log = String::from_utf8_lossy(&dom.stderr);
    assert!(!log.contains("CONSOLE"), "{log}");
    let dom = String::from_utf8_lossy(&dom.stdout).into_owned();
    assert!(!dom.contains("data-error"), "{}", dom.split("id=\"status\"").nth(1).unwrap_or_default());
    Some(dom)
}

/// The timeline has the slices that the ftrace text of the same runs has, draws them, and lists the longest waits.
#[test]
fn a_browser_draws_every_slice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("page.html");
    page(&path);
    let Some(dom) = opened(&path, folder.path()) else { return };
    let expected = POLICIES.map(|policy| slices(policy, folder.path()));
    let sum = |of: fn(&(u64, u64)) -> u64| expected.iter().map(of).sum::<u64>() as f64;
    assert_eq!(said(&dom, "slices"), sum(|run| run.0));
    assert_eq!(said(&dom, "ran-ns"), sum(|run| run.1));
    // At least a tenth of the plots has the colour of a task.
    assert!(said(&dom, "painted") > 0.1, "{}", said(&dom, "painted"));
    for list in ["upper-worst", "lower-worst"] {
        let items = dom.split(&format!("id=\"{list}\"")).nth(1).and_then(|rest| rest.split("</ol>").next());
        assert_eq!(items.expect("a list").matches("<li>").count(), 10, "{list}");
    }
}

/// Presses keys on the upper timeline, and compares its pictures; then follows the longest waits up to one that a
/// wake-up began.
const PRESS_KEYS: &str = r##"<script>
(async () => {
  const wait = () => new Promise((done) => setTimeout(done, 200));
  const said = document.body.dataset;
  while (!said.openMs) await wait();
  const canvas = document.getElementById("upper");
  const picture = async (key) => {
    if (key) canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await wait();
    return canvas.toDataURL();
  };
  const whole = await picture();
  const zoomed = await picture("+");
  const panned = await picture("ArrowRight");
  const back = await picture("ArrowLeft");
  const again = await picture("0");
  said.keys = [zoomed !== whole, panned !== zoomed, back === zoomed, again === whole].join();
  const status = document.getElementById("status");
  const woken = () => /woken by .* before/.test(status.textContent);
  let marked;
  for (const button of document.querySelectorAll("#upper-worst button")) {
    button.click();
    marked = await picture();
    if (woken()) break;
  }
  const told = woken();
  const unmarked = await picture("Escape");
  said.wait = [marked !== whole, unmarked !== marked, told].join();
  said.focus = document.activeElement.id;
})();
</script>"##;

/// A browser without a window draws hardly any frame by itself.
const FRAMES_BY_TIMER: &str =
    "<script>window.requestAnimationFrame = (draw) => setTimeout(draw, 16);</script>";

/// All of the timeline can be used by keyboard: zoom, pan, everything, the waits, and unmarking.
#[test]
fn a_browser_obeys_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("page.html");
    let page = page(&path).replace("</head>", &format!("{FRAMES_BY_TIMER}</head>"));
    let page = page.replace("</body>", &format!("{PRESS_KEYS}</body>"));
    assert!(
        page.contains(FRAMES_BY_TIMER) && page.contains(PRESS_KEYS),
        "expected the ends of head and body"
    );
    fs::write(&path, page).expect("a temporary file");
    let Some(dom) = opened(&path, folder.path()) else { return };
    for part in ["data-keys=\"true,true,true,true\"", "data-wait=\"true,true,true\"", "data-focus=\"upper\""]
    {
        assert!(
            dom.contains(part),
            "{part}: {}",
            dom.split("<body").nth(1).unwrap_or_default().get(..400).unwrap_or("")
        );
    }
}
