// SPDX-License-Identifier: GPL-2.0-only
//! The machine to schedule: its CPUs from sysfs or from a machine file, its tick, and how it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use wakelab_machine::{Machine, OnlineCpus, Topology};
use wakelab_policy::Tables;

/// Returns the CPUs that are online, according to `sysfs`; their topology is that of a machine file or preset, if one
/// is named, which must have as many.
pub(crate) fn detect(sysfs: &Path, machine: Option<&str>) -> Result<OnlineCpus> {
    let mut online = OnlineCpus::read(sysfs).context("cannot read this machine's topology")?;
    let Some(name) = machine else { return Ok(online) };
    let topology = Machine::load(name)?.topology;
    ensure!(
        topology.nr_cpus() == online.numbers.len(),
        "--machine {name} has {} CPUs, this machine {}",
        topology.nr_cpus(),
        online.numbers.len()
    );
    online.topology = topology;
    Ok(online)
}

/// Returns the period of the kernel's tick: the resolution of its coarse clock, which ticks advance.
pub(crate) fn tick_ns() -> Result<u64> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` lives, and is only written.
    #[allow(unsafe_code)]
    let error = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    ensure!(error == 0, "cannot read the kernel's tick: {}", std::io::Error::last_os_error());
    Ok(resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64)
}

/// Returns the names of the governors that choose the CPUs' frequencies.
pub(crate) fn governors(sysfs: &Path) -> BTreeSet<String> {
    let folders = std::fs::read_dir(sysfs.join("devices/system/cpu/cpufreq")).into_iter().flatten().flatten();
    folders
        .filter_map(|folder| std::fs::read_to_string(folder.path().join("scaling_governor")).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}

/// Returns one line: `8 CPUs, 4 cores of 2, 2 LLCs of 4, 1 node`.
pub(crate) fn summary(topology: &Topology) -> String {
    let mut text = count(topology.nr_cpus(), "CPU");
    let mut domains = |name: &str, of: &dyn Fn(u32) -> Option<u32>| {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for id in (0..topology.nr_cpus() as u32).filter_map(of) {
            *sizes.entry(id).or_default() += 1;
        }
        let (Some(least), Some(most)) = (sizes.values().min(), sizes.values().max()) else { return };
        let _ = match least == most {
            true => write!(text, ", {} of {most}", count(sizes.len(), name)),
            false => write!(text, ", {} of {least} to {most}", count(sizes.len(), name)),
        };
    };
    let cpu = |cpu: u32| &topology.cpus[cpu as usize];
    domains("core", &|at| Some(cpu(at).core));
    domains("cluster", &|at| cpu(at).cluster);
    domains("LLC", &|at| Some(cpu(at).llc));
    let _ = write!(text, ", {}", count(topology.nr_nodes(), "node"));
    text
}

/// Returns the levels that the policy sees of this number of CPUs, a line for each: ` smt {0,4} {1,5} {2,6} {3,7}`.
pub(crate) fn levels(tables: &Tables, online: usize) -> String {
    let mut text = String::new();
    for level in &tables.levels[1..] {
        let _ = write!(text, "  {:<8}", level.kind.name());
        // Numbers without a CPU come last.
        for domain in (0..level.first.len()).filter(|&domain| usize::from(level.first[domain]) < online) {
            let cpus: Vec<String> = level.domain(domain).iter().map(u16::to_string).collect();
            let _ = write!(text, " {{{}}}", cpus.join(","));
        }
        text.push('\n');
    }
    text
}

fn count(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelab_machine::Cpu;
    use wakelab_policy::PolicySpec;

    fn cpu(core: u32, llc: u32) -> Cpu {
        Cpu { core, cluster: None, llc, node: 0, capacity: 1024 }
    }

    #[test]
    fn two_sockets_of_two_cores_of_two_threads() {
        let cpus = [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (3, 1), (3, 1)]
            .map(|(core, llc)| cpu(core, llc));
        let topology = Topology { cpus: cpus.to_vec(), node_distance: vec![vec![10]] };
        assert_eq!(summary(&topology), "8 CPUs, 4 cores of 2, 2 LLCs of 4, 1 node");
        let tables = Tables::build(&topology, &"linux-4.15".parse::<PolicySpec>().unwrap()).unwrap();
        let expected = "  smt      {0,1} {2,3} {4,5} {6,7}\n  llc      {0,1,2,3} {4,5,6,7}\n  node     {0,1,2,3,4,5,6,7}\n";
        assert_eq!(levels(&tables, 8), expected);
        let tables = tables.numbered(&[0, 2, 3, 4, 5, 6, 7, 9]).unwrap();
        let expected = "  smt      {0,2} {3,4} {5,6} {7,9}\n  llc      {0,2,3,4} {5,6,7,9}\n  node     {0,2,3,4,5,6,7,9}\n";
        assert_eq!(levels(&tables, 8), expected);
    }

    #[test]
    fn unequal_cores() {
        let topology =
            Topology { cpus: vec![cpu(0, 0), cpu(0, 0), cpu(1, 0)], node_distance: vec![vec![10]] };
        assert_eq!(summary(&topology), "3 CPUs, 2 cores of 1 to 2, 1 LLC of 3, 1 node");
    }

    /// CONFIG_HZ is 100, 250, 300 or 1000, and ten times as much on Alpha.
    #[test]
    fn the_tick_is_one_that_kernels_have() {
        let tick_ns = tick_ns().unwrap();
        assert!([10_000_000, 4_000_000, 3_333_333, 1_000_000].contains(&tick_ns), "{tick_ns}");
    }

    #[test]
    fn a_machine_file_must_have_the_hosts_cpus() {
        let error = detect(Path::new("/sys"), Some("power9-2s22c4t")).unwrap_err().to_string();
        assert!(error.starts_with("--machine power9-2s22c4t has 176 CPUs, this machine "), "{error}");
    }
}
