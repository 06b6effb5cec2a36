// SPDX-License-Identifier: GPL-2.0-only
//! The statistics as scx's exporter to OpenMetrics (scxstats_to_openmetrics.py) reads them.
//!
//! The exporter makes a gauge of each number. In maps it accepts nothing but structs, which name a label for the map's
//! keys; at a map of numbers it ends. So what the socket serves has a struct of one number in place of each such
//! number: `"reasons": {"idle-core": 3}` becomes `"reasons": {"idle-core": {"reasons": 3}}`, and the exporter makes
//! `wakelab_reasons{by="idle-core"} 3` of it. Gauges are known by prefix and field, so the field has the map's name.

use anyhow::Result;
use scx_stats::prelude::*;
use serde_json::{Value, json};

use crate::metrics::{GroupMetrics, Metrics};

/// The label of the keys of maps of numbers.
const LABEL: &str = "by";

/// Returns the structs' descriptions: the metrics', one for each map of numbers, and the cgroups'.
pub(crate) fn metas() -> Vec<StatsMeta> {
    let mut top = Metrics::meta();
    let mut metas = Vec::new();
    let prefix = top.attrs.user.get("_om_prefix").cloned().unwrap_or_default();
    for (name, field) in &mut top.fields {
        let StatsData::Dict { datum, .. } = &mut field.data else { continue };
        if matches!(datum, StatsKind::Struct(_)) {
            continue;
        }
        let number = std::mem::replace(datum, StatsKind::Struct(name.clone()));
        let number = StatsField { data: StatsData::Datum(number), attrs: field.attrs.clone() };
        let labels = [("_om_prefix", prefix.as_str()), ("_om_label", LABEL)];
        let attrs = StatsStructAttrs {
            desc: field.attrs.desc.clone(),
            user: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..StatsStructAttrs::default()
        };
        metas.push(StatsMeta { name: name.clone(), attrs, fields: [(name.clone(), number)].into() });
    }
    metas.extend([top, GroupMetrics::meta()]);
    metas
}

/// Returns the metrics with a struct in place of each number in a map.
pub(crate) fn labelled(metrics: &Metrics) -> Result<Value> {
    let mut value = serde_json::to_value(metrics)?;
    for (name, field) in value.as_object_mut().into_iter().flatten() {
        for entry in field.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
            if entry.is_number() {
                *entry = json!({ name.as_str(): entry.take() });
            }
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::server;

    fn metrics() -> Metrics {
        let group = GroupMetrics { shares: 1024, received_ns: 7, ..GroupMetrics::default() };
        Metrics {
            decisions: 5,
            reasons: [("target-idle".to_owned(), 3), ("idle-core".to_owned(), 2)].into(),
            searches_from_ns: [(512, 4)].into(),
            groups: [("/a".to_owned(), group)].into(),
            ..Metrics::default()
        }
    }

    #[test]
    fn numbers_in_maps_become_structs() {
        let value = labelled(&metrics()).unwrap();
        assert_eq!(value["decisions"], 5);
        assert_eq!(value["reasons"], json!({"target-idle": {"reasons": 3}, "idle-core": {"reasons": 2}}));
        assert_eq!(value["searches_from_ns"], json!({"512": {"searches_from_ns": 4}}));
        assert_eq!(value["groups"]["/a"]["received_ns"], 7);
    }

    /// What the exporter asks of the descriptions, where it would end otherwise.
    #[test]
    fn every_map_has_structs_with_a_label_and_gauges_have_names_of_their_own() {
        let metas = metas();
        let find = |name: &str| metas.iter().find(|meta| meta.name == name).unwrap();
        let mut gauges = BTreeSet::new();
        for meta in &metas {
            for (name, field) in &meta.fields {
                match &field.data {
                    StatsData::Datum(StatsKind::String) => assert!(field.attrs.user.contains_key("_om_skip")),
                    StatsData::Datum(_) => {
                        assert!(gauges.insert(format!("{}{name}", meta.attrs.user["_om_prefix"])), "{name}");
                    }
                    StatsData::Dict { datum: StatsKind::Struct(of), .. } => {
                        assert!(meta.attrs.top.is_some(), "a map in {}", meta.name);
                        assert!(!find(of).attrs.user["_om_label"].is_empty());
                    }
                    other => panic!("{name} is {other}"),
                }
            }
        }
        assert!(gauges.contains("wakelab_reasons") && gauges.contains("wakelab_cgroup_received_ns"));
    }

    /// The exporter out of the package of scx_stats that this is built with.
    fn exporter() -> PathBuf {
        let cargo = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--filter-platform"])
            // Else it would fetch the packages of all systems.
            .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let stats = packages.iter().find(|package| package["name"] == "scx_stats").unwrap();
        PathBuf::from(stats["manifest_path"].as_str().unwrap())
            .with_file_name("scripts/scxstats_to_openmetrics.py")
    }

    #[test]
    fn the_exporter_of_scx_reads_them() {
        let Some(python) = std::env::var_os("WAKELAB_OPENMETRICS_PYTHON") else {
            eprintln!("skipped: `cargo xtask test` names a Python with prometheus_client");
            return;
        };
        let path = std::env::temp_dir().join(format!("wakelab-openmetrics-{}", std::process::id()));
        let server = StatsServer::new(server::data()).set_path(&path).launch().unwrap();
        let (answers, requests) = server.channels();
        // The main loop's part. The first answer starts the interval; the second has all counts.
        thread::spawn(move || {
            for asked in 0.. {
                let now = if asked == 0 { Metrics::default() } else { metrics() };
                if requests.recv().is_err() || answers.send(now).is_err() {
                    break;
                }
            }
        });
        let mut child = Command::new(python)
            .arg(exporter())
            .arg("--path")
            .arg(&path)
            .args(["--intv", "60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, read) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        let mut missing = BTreeSet::from([
            "wakelab_decisions 5.0",
            "wakelab_reasons{by=\"target-idle\"} 3.0",
            "wakelab_searches_from_ns{by=\"512\"} 4.0",
            "wakelab_cgroup_received_ns{cgroup=\"/a\"} 7.0",
        ]);
        while !missing.is_empty() {
            let Ok(line) = read.recv_timeout(Duration::from_secs(20)) else { break };
            // The exporter passes each list of labels as one label.
            let line = line.replace("\"['", "\"").replace("']\"", "\"");
            missing.remove(line.as_str());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(missing.is_empty(), "not printed: {missing:?}");
    }
}
