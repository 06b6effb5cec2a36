// SPDX-License-Identifier: GPL-2.0-only
//! `--monitor`: both ends of the socket that serves the scheduler's statistics. It is scx_stats' socket, so the tools
//! of the other scx schedulers can read it, in the form that labels.rs gives it; `--monitor` asks for the plain one.
//!
//! The socket's threads ask the loader's main loop, because only the main loop can read the BPF side's counters.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use scx_stats::prelude::*;

use crate::arguments::Format;
use crate::labels;
use crate::metrics::{GroupMetrics, Metrics};
use crate::print::say;

/// The socket on which scx's schedulers listen.
const SOCKET: &str = "/var/run/scx/root/stats";

/// The server's end of the socket, with the main loop's ends of its channels.
pub(crate) type Server = StatsServer<(), Metrics>;

/// The name under which the plain form is served.
const PLAIN: &str = "plain";

/// Returns what gives each client the counts since it last asked, in the form that `write` gives them.
fn counts(write: fn(&Metrics) -> Result<serde_json::Value>) -> StatsOps<(), Metrics> {
    let open: Box<dyn StatsOpener<(), Metrics>> = Box::new(move |(requests, answers)| {
        requests.send(())?;
        let mut last = answers.recv()?;
        Ok(Box::new(move |_, (requests, answers)| {
            requests.send(())?;
            let now = answers.recv()?;
            let since = now.since(&last);
            last = now;
            write(&since)
        }))
    });
    StatsOps { open, close: None }
}

/// Returns what the socket serves. `top` is what a client gets that asks for no name.
pub(crate) fn data() -> StatsServerData<(), Metrics> {
    let data = StatsServerData::new()
        .add_ops("top", counts(labels::labelled))
        .add_ops(PLAIN, counts(|metrics| Ok(serde_json::to_value(metrics)?)));
    labels::metas().into_iter().fold(data, StatsServerData::add_meta)
}

/// Starts to listen. A failure is only reported: the scheduler works without statistics.
pub(crate) fn launch() -> Option<Server> {
    match StatsServer::new(data()).launch() {
        Ok(server) => Some(server),
        Err(error) => {
            eprintln!("scx_wakelab: --monitor will not work: {error:#}");
            None
        }
    }
}

/// Prints the counts of the running scheduler every `seconds`, until it is killed or stdout has no reader any more.
/// Waits for a scheduler if there is none.
pub(crate) fn monitor(seconds: u64, format: Format) -> Result<()> {
    let mut waits = false;
    loop {
        let mut client = match StatsClient::new().set_path(SOCKET).connect(None) {
            Ok(client) => client,
            Err(error) if is_absent(&error) => {
                if !waits {
                    eprintln!("scx_wakelab: no scheduler listens at {SOCKET}, waiting for one");
                    waits = true;
                }
                thread::sleep(Duration::from_secs(1));
                continue;
            }
            Err(error) => return Err(error).context(format!("cannot connect to {SOCKET}")),
        };
        waits = false;
        // The first answer only starts the first interval.
        while let Some(metrics) = ask(&mut client)? {
            if metrics.interval_ns >= seconds * 500_000_000 && !print(&metrics, format)? {
                return Ok(());
            }
            thread::sleep(Duration::from_secs(seconds));
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the counts since this client last asked, or `None` if the scheduler has gone.
fn ask(client: &mut StatsClient) -> Result<Option<Metrics>> {
    let error = match client.request::<serde_json::Value>("stats", vec![("target".into(), PLAIN.into())]) {
        Ok(value) => {
            return match serde_json::from_value(value) {
                Ok(metrics) => Ok(Some(metrics)),
                Err(error) => Err(error).context("the running scheduler is not this version of scx_wakelab"),
            };
        }
        Err(error) => error,
    };
    if error.downcast_ref::<StatsErrno>().is_some() {
        bail!("the scheduler has no statistics: {error:#}");
    }
    Ok(None)
}

fn is_absent(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused))
}

/// Prints a table, or a line of JSON. Returns whether stdout still has a reader.
pub(crate) fn print(metrics: &Metrics, format: Format) -> Result<bool> {
    match format {
        Format::Text => say(metrics),
        Format::Json => say(serde_json::to_string(metrics)?),
    }
}

/// The descriptions of the plain form.
fn plain_meta() -> StatsServerData<(), Metrics> {
    StatsServerData::new().add_meta(Metrics::meta()).add_meta(GroupMetrics::meta())
}

/// Prints the meaning of each number.
pub(crate) fn describe() -> Result<()> {
    plain_meta().describe_meta(&mut std::io::stdout(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_what_was_counted_since_it_asked_last() {
        let path = std::env::temp_dir().join(format!("wakelab-stats-{}", std::process::id()));
        let server = StatsServer::new(data()).set_path(&path).launch().unwrap();
        let (answers, requests) = server.channels();
        // The main loop's part: 10 decisions more each second.
        thread::spawn(move || {
            for second in 1.. {
                let Ok(()) = requests.recv() else { break };
                let metrics = Metrics { interval_ns: second, decisions: 10 * second, ..Metrics::default() };
                if answers.send(metrics).is_err() {
                    break;
                }
            }
        });
        let mut client = StatsClient::new().set_path(&path).connect(Some(10_000)).unwrap();
        for _ in 0..3 {
            let metrics = ask(&mut client).unwrap().unwrap();
            assert_eq!((metrics.interval_ns, metrics.decisions), (1, 10));
        }
        let meta: serde_json::Value = client.request("stats_meta", vec![]).unwrap();
        assert_eq!(meta["Metrics"]["top"], "true");
        assert_eq!(meta["GroupMetrics"]["fields"]["received_ns"]["datum"], "u64");
        drop(server);
        assert!(ask(&mut client).unwrap().is_none(), "the server has gone");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_number_is_described() {
        let mut text = Vec::new();
        plain_meta().describe_meta(&mut text, None).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("[Metrics     ] what scx_wakelab decided"), "{text}");
        assert!(
            text.lines().filter(|line| line.starts_with("  ")).all(|line| line.contains(" : ")),
            "{text}"
        );
    }
}
