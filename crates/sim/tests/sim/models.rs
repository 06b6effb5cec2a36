// SPDX-License-Identifier: GPL-2.0-or-later
//! The workload models as a whole: without costs, results computed by hand; on real machines only bounds.

use wakelab_machine::{Bandwidth, Machine};
use wakelab_policy::PolicySpec;
use wakelab_sim::{Ending, Outcome, Scenario, run};
use wakelab_workload::{Barrier, Op, Workload};

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, scenario, values};

/// Runs on a machine of one LLC without SMT and without costs, in both hosts.
fn free(spec: &str, cores: u32, check: impl Fn(&Outcome)) {
    for host in HOSTS {
        let workload = Workload::parse_spec(spec).unwrap_or_else(|error| panic!("{error}"));
        let found =
            outcome(&Scenario { workload: workload.into(), ..scenario(machine(1, cores, 1), vec![], host) });
        assert_eq!(found.ending, Ending::Completed, "{spec} {host:?}");
        check(&found);
    }
}

/// Runs on a preset with all its costs, with seed 1.
fn on(preset: &str, policy: &str, spec: &str) -> Outcome {
    let policy: PolicySpec = policy.parse().unwrap();
    let workload = Workload::parse_spec(spec).unwrap_or_else(|error| panic!("{error}"));
    let machine = Machine::preset(preset).unwrap();
    let found =
        run(&Scenario { workload: workload.into(), policy, ..scenario(machine, vec![], HOSTS[1]) }, 1);
    let found = found.unwrap_or_else(|error| panic!("{preset} {spec}: {error}"));
    assert_eq!(found.ending, Ending::Completed, "{preset} {spec}");
    found
}

fn makespan(spec: &str, cores: u32, expected_ns: u64) {
    free(spec, cores, |found| assert_eq!(found.makespan_ns, expected_ns, "{spec}"));
}

fn units(spec: &str, cores: u32, expected: u64) {
    free(spec, cores, |found| assert_eq!(found.units, expected, "{spec}"));
}

/// Each loop takes the time of the slowest thread, 120 us, and 30 us of thread 0 alone, however the others wait.
#[test]
fn openmp_takes_the_longest_part() {
    for policy in ["default", "active", "passive"] {
        let spec = format!(
            "openmp:loops=10,work-us=100,imbalance-percent=20,serial-us=30,bind-stride=1,spread-percent=0,wait-policy={policy}"
        );
        makespan(&spec, 4, 10 * 150_000);
    }
}

/// Two threads, 90 us for each in a loop, in chunks of 30 us: 90 us a loop, shared out or not.
#[test]
fn openmp_shares_out_evenly() {
    let spec = "openmp:threads=2,loops=10,work-us=90,chunks=3,bind-stride=1,spread-percent=0,schedule=";
    makespan(&format!("{spec}static"), 2, 10 * 90_000);
    makespan(&format!("{spec}dynamic"), 2, 10 * 90_000);
}

/// Each round taken is an update of a counter, and so is finding that there is none: 4 x 5 ns and 3 x 100 ns. The
/// barrier's own is another 5 ns. It opens, and there are three rounds again: 650 ns.
#[test]
fn shared_rounds_are_taken_from_a_counter() {
    for host in HOSTS {
        let (share, end) = (Op::LoopShared { barrier: 0, times: 3 }, Op::LoopEnd);
        let (twice, meet) = (Op::LoopBegin { times: Some(2) }, Op::Barrier { barrier: 0 });
        for (program, elapsed_ns) in [
            (vec![twice, share, compute(100), end, meet, end], 650),
            // The loop is the first thing in the outer one's body, and all of it: 320 ns, then 5 ns to find no round.
            (vec![twice, share, compute(100), end, end], 325),
        ] {
            let mut scenario = scenario(machine(1, 1, 1), vec![bound(&[0], program)], host);
            scenario.machine_mut().costs.atomic_ps = 5_000;
            scenario.workload_mut().barriers = vec![Barrier { parties: 1, spin_ns: 0, recorded: false }];
            let found = outcome(&scenario);
            assert_eq!(found.elapsed_ns, elapsed_ns, "{host:?}");
            assert_eq!(found.time.work_ns + found.time.atomic_ns, elapsed_ns);
        }
    }
}

/// CPU 0 is shared with a task of the same weight, so its thread of two has half of it. With fixed parts a loop takes
/// twice its time; shared out, CPU 1 takes two chunks while CPU 0 takes one.
#[test]
fn openmp_shares_out_by_speed() {
    let loops = 10;
    let spec = format!(
        "openmp:threads=2,loops={loops},work-us=90000,chunks=90,bind-stride=1,spread-percent=0,schedule="
    );
    for host in HOSTS {
        let took = |schedule: &str| {
            let mut workload = Workload::parse_spec(&format!("{spec}{schedule}")).unwrap();
            // The other task has as much to do as there is: 10 loops of at most 180 ms.
            workload.tasks.push(bound(&[0], vec![compute(loops * 90 * MS)]));
            let found =
                outcome(&Scenario { workload: workload.into(), ..scenario(machine(1, 2, 1), vec![], host) });
            assert_eq!(found.ending, Ending::Completed);
            found.makespan_ns / MS
        };
        // 1800 ms; two thirds of it. Slices of some ms leave a loop's last chunk unfinished at its end.
        let (fixed, shared) = (took("static"), took("dynamic"));
        assert!((1780..=1820).contains(&fixed), "{host:?}: {fixed} ms");
        assert!((1190..=1290).contains(&shared), "{host:?}: {shared} ms");
    }
}

/// 5 us of the client, 40 of CPU time, two times 1 us under the lock, 100 for the read, 20 and 50 for the log: 217 us.
/// In 100 ms 460.8 of them.
#[test]
fn lock_server_of_one_client() {
    let spec =
        "lock-server:clients=1,statements=2,cpu-us=40,hold-ns=1000,reads=1,duration-ms=100,spread-percent=0";
    units(spec, 4, 460);
}

/// A transaction holds the lock for 4 x 5 us, and eight clients always want it: 1000 in 20 ms, less what is unfinished
/// of eight.
#[test]
fn lock_server_saturates_at_its_lock() {
    for (handoff, spin_ns) in [("no", 0), ("no", 10_000), ("yes", 0), ("yes", 10_000)] {
        let spec = format!(
            "lock-server:clients=8,statements=4,cpu-us=4,hold-ns=5000,reads=0,log-us=0,client-us=1,duration-ms=20,\
             spread-percent=0,handoff={handoff},spin-ns={spin_ns}"
        );
        free(&spec, 16, |found| assert!((991..=1000).contains(&found.units), "{spec}: {}", found.units));
    }
}

/// The records of 8 clients come at the same time, so one write of 70 us has all of them, and 2 us later they come
/// again: 8 in each 72 us, 972 times. A group of one would make 1,000 writes in that time.
#[test]
fn lock_server_commits_in_groups() {
    let spec = "lock-server:clients=8,statements=1,cpu-us=1,hold-ns=0,reads=0,client-us=1,duration-ms=70,\
                spread-percent=0";
    free(spec, 24, |found| assert_eq!(found.units, 8 * 972));
}

/// The client's 15 us, the server's 60, and 800 + 200 ns of select(): 76 us. In 10 ms 131.6 of them.
#[test]
fn pgbench_of_one_client() {
    units("pgbench:clients=1,duration-ms=10,spread-percent=0,lock-ns=0,stats-every=0", 4, 131);
    // With two pages missed at 25 % each the server takes 90 us: 94.3 in 10 ms.
    units(
        "pgbench:clients=1,duration-ms=10,spread-percent=0,lock-ns=0,stats-every=0,misses=2,miss-percent=25",
        4,
        94,
    );
}

/// The client is busy always: a transaction costs it 15 us, and select() 2.4 us for the 1 to 8 answers that it finds.
#[test]
fn pgbench_saturates_its_client() {
    let spec = "pgbench:clients=8,duration-ms=100,spread-percent=0,lock-ns=0,stats-every=0";
    free(spec, 16, |found| {
        let range = 100_000_000 / 17_400 - 8..=100_000_000 / 15_000;
        assert!(range.contains(&found.units), "{}", found.units);
    });
}

/// 240 ns to post, 310 and 240 ns of the message thread, 310 ns to go on, 100 us of sleep, and 10 multiplications of 6
/// x 6 matrices (216 steps of 0.67 ns: 144 ns): 102,540 ns. In 10 ms 97.5 of them.
#[test]
fn schbench_of_one_worker() {
    let spec = "schbench:threads=1,cache-footprint-kb=1,operations=10,runtime-ms=10,spread-percent=0";
    free(spec, 4, |found| {
        assert_eq!(found.units, 97);
        assert_eq!(values(&found.judged_latency).iter().sum::<u64>(), 0);
    });
    // After 5 ms come the answers 49 to 97 (each at 790 ns and its number of rounds) and the sleeps 48 to 96 (at
    // 101,100 ns).
    free(&format!("{spec},warmuptime-ms=5"), 4, |found| {
        assert_eq!(values(&found.judged_latency).len(), 49 + 49);
    });
}

/// 8 requests each 800 us and 8 x 240 ns: 13 times in 10 ms.
#[test]
fn schbench_at_a_rate() {
    let spec =
        "schbench:rps=10000,threads=8,cache-footprint-kb=1,operations=10,runtime-ms=10,spread-percent=0";
    units(spec, 16, 13 * 8);
}

/// As first written: 30 ms of a worker, its message thread's sleep of 30 ms and up to 7 eighths of a quarter more.
/// Rounds of 60 ms, 240 ns, 310 ns, 240 ns, 310 ns, and of the first eight the sum of 0 to 7 times 937,500 ns:
/// 506,258,800 ns.
#[test]
fn schbench_as_first_written() {
    let spec = "schbench:shape=messages,message-threads=2,threads=1,spread-percent=0,runtime-ms=";
    units(&format!("{spec}506"), 8, 2 * 7);
    units(&format!("{spec}507"), 8, 2 * 8);
}

/// After each message an end is busy for 1570 ns, and reads one in 204 ns, while the other end does the same: a
/// round in 1774 ns. In 10 ms 5636.9 of them, for each of three pairs.
#[test]
fn uperf_of_three_pairs() {
    units("uperf:threads=3,duration-ms=10,spread-percent=0", 6, 3 * 5636);
}

/// 100,000 elements in one thread: 1.6 MB read and written at 10,000 MB/s, 160 us, ten times. Bytes written that count
/// for 150 %: 2 MB, 200 us; and for add 2.8 MB, 280 us.
#[test]
fn stream_of_one_thread_gets_what_a_core_gets() {
    for (kernel, write_percent, round_ns) in
        [("copy", 100, 160_000), ("copy", 150, 200_000), ("add", 150, 280_000)]
    {
        for host in HOSTS {
            let mut machine = machine(1, 2, 1);
            machine.costs.bandwidth_mb_per_s = Bandwidth { core: 10_000, ..Bandwidth::default() };
            machine.costs.write_traffic_percent = write_percent;
            let spec = format!("stream:threads=1,array-bytes=800_000,kernel={kernel}");
            let workload = Workload::parse_spec(&spec).unwrap();
            let found = outcome(&Scenario { workload: workload.into(), ..scenario(machine, vec![], host) });
            assert_eq!(found.makespan_ns, 10 * round_ns, "{spec} {write_percent} {host:?}");
            assert_eq!(found.units, 10 * if kernel == "add" { 2_400_000 } else { 1_600_000 });
        }
    }
}

/// MB/s of STREAM by threads on presets, against the sharing rule by hand (docs of memory.rs), with `g(d, c)` for d c /
/// sqrt(d^2 + c^2). Kunpeng: core 13.2, cluster 43, node 65.6 GB/s. One thread: g(g(13.2, 43), 65.6) = 12.39. Four in a
/// cluster: g(g(52.8, 43), 65.6) = 29.72, in four: g(4 x 12.62, 65.6) = 40.01; 24: g(6 x 33.34, 65.6) = 62.33.
/// (Measured were 12.4, 30.7, 40.8 and 63.3.) smp-8: core 12, node 25, of 20 bytes that move 16 count: g(12, 25) x 16 /
/// 20 = 8.65.
#[test]
fn stream_on_real_machines() {
    for (preset, settings, mb_per_s) in [
        ("kunpeng920-1n24c", "threads=1,bind-stride=1", 12_390),
        ("kunpeng920-1n24c", "threads=4,bind-stride=1", 29_720),
        ("kunpeng920-1n24c", "threads=4,bind-stride=4", 40_010),
        ("kunpeng920-1n24c", "threads=24,bind-stride=1", 62_330),
        ("smp-8", "threads=1,bind-stride=1", 8_650),
    ] {
        let found = on(preset, "linux-4.15", &format!("stream:times=2,{settings}"));
        let rate = found.units * 1000 / found.makespan_ns;
        // Barriers, ticks and the start cost a little.
        assert!((mb_per_s * 97 / 100..=mb_per_s).contains(&rate), "{preset} {settings}: {rate} MB/s");
    }
}

/// With all costs no model does more than without, or stands still; and two runs are equal.
#[test]
fn models_on_real_machines() {
    for preset in ["smp-8", "xeon-2s22c2t"] {
        for policy in ["linux-4.15", "linux-4.15+idle=smt-balance"] {
            let loops = on(preset, policy, "openmp:loops=50,spread-percent=0,wait-policy=passive");
            assert!((5_000_000..10_000_000).contains(&loops.makespan_ns), "{preset}: {}", loops.makespan_ns);
            // The lock allows 10,000 in 100 ms: 5 x 2 us each.
            let server = "lock-server:clients=30,statements=5,cpu-us=20,reads=0,duration-ms=100";
            let found = on(preset, policy, server);
            assert!((1000..10_000).contains(&found.units), "{preset}: {}", found.units);
            assert_eq!(found, on(preset, policy, server));
            // More servers than CPUs: CPUs that pull a task while the one that it left still balances.
            let crowd = on(preset, policy, "lock-server:clients=160,duration-ms=50");
            assert!((100..2500).contains(&crowd.units), "{preset}: {}", crowd.units);
            let woken = on(preset, policy, "schbench:threads=4,runtime-ms=50");
            assert!(values(&woken.judged_latency).iter().all(|&ns| ns > 0), "{preset}");
            let pairs = on(preset, policy, "uperf:threads=3,duration-ms=10");
            assert!((100..3 * 2818).contains(&pairs.units), "{preset}: {}", pairs.units);
        }
    }
}

/// If caches are small and many, a task is often pulled from a CPU that has not yet noticed that it is left. Once,
/// caches then counted what had come in from another core's sum.
#[test]
fn hackbench_runs_on_machines_of_many_small_caches() {
    for preset in ["power9-2s22c4t", "epyc-7742-2s", "epyc-9654-2s"] {
        let found = on(preset, "linux-4.15", "hackbench:groups=2,loops=20");
        assert!(found.migrations.iter().sum::<u64>() > 0, "{preset}");
    }
}

/// Reading a block takes 180 us and sending it 0.5: blocks are there at 180.5, 361, 541.5 and 722 us. Taking one takes
/// 0.5, 1,000 to compress, 0.5 to hand it over: the first worker is done at 1,181.5 and 2,182.5, the second at 1,362
/// and 2,363. The writer takes 0.5 and 30: 2,393.5 us.
#[test]
fn pbzip2_of_four_blocks() {
    let spec = "pbzip2:threads=2,file-kb=3600,block-us=1000,spread-percent=0";
    free(spec, 4, |found| assert_eq!((found.elapsed_ns, found.units), (2_393_500, 3_600_000)));
}

/// A block of 16,777 thousand bytes is read in 3,355,400 ns and sent in 500; taking it takes 500, 100 ns a thousand
/// bytes 1,677,700, handing it over 500. The second is there at 6,711,800, and out at 8,390,500; the writer takes 500
/// and 419,425.
#[test]
fn pixz_of_two_blocks() {
    let spec = "pixz:threads=1,file-kb=34000,kb-ns=100,spread-percent=0";
    free(spec, 4, |found| assert_eq!((found.elapsed_ns, found.units), (8_810_425, 33_554_000)));
}

/// 1 ms before and after. A target takes 0.3005 ms of make, 1 of the shell, 2 of the driver, and 0.4 or (the eighth
/// class) 1.2 and 0.05 of compiler and assembler. One job at a time: 3.7505 and 4.5505. Two: the second's begins 0.3005
/// after the first's.
#[test]
fn kernbench_of_two_targets() {
    let spec = "kernbench:files=2,compile-us=1000,before-ms=1,after-ms=1,spread-percent=0,jobs=";
    makespan(&format!("{spec}1"), 4, 10_301_000);
    makespan(&format!("{spec}2"), 4, 6_851_000);
}

/// A machine without clusters has nothing to spread over: the run is the same to the byte, except for the policy's
/// name.
#[test]
fn without_clusters_the_level_changes_nothing() {
    for spec in ["hackbench:groups=1,loops=3", "pbzip2:threads=3,file-kb=9000,block-us=500"] {
        let run = |cluster: &str| on("epyc-7742-2s", &format!("linux-5.12+cluster={cluster}"), spec);
        let off = run("off");
        assert_eq!(run("spread"), off, "{spec}");
        assert_eq!(run("spread-and-pack"), off, "{spec}");
    }
}

/// On a node of 6 clusters, 4 threads of STREAM start beside each other, or each in a separate cluster: 30 and 41 GB/s
/// by the figures to which the machine was fitted.
#[test]
fn threads_spread_over_clusters_get_more_memory_bandwidth() {
    let spec = "stream:threads=4,times=4,barrier-spin-us=1000000";
    let rate = |policy: &str| {
        let found = on("kunpeng920-1n24c", policy, spec);
        found.units as f64 / found.makespan_ns as f64
    };
    let (packed, spread) = (rate("linux-5.12"), rate("linux-5.12+cluster=spread"));
    assert!(spread > 1.2 * packed, "{packed} and {spread} GB/s");
}
