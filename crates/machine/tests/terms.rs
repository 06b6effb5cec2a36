// SPDX-License-Identifier: GPL-2.0-or-later
//! Ablation and sensitivity: which figures each changes, and that the result is still a valid machine.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;
use wakelab_machine::{Distance, Machine, Term, presets};

/// Returns the keys of `costs` in which two machines differ, and `capacity` if their capacities do.
fn differences(a: &Machine, b: &Machine) -> BTreeSet<String> {
    let costs = |machine: &Machine| match serde_json::to_value(&machine.costs).unwrap() {
        Value::Object(costs) => costs,
        other => panic!("{other}"),
    };
    let (costs_a, costs_b) = (costs(a), costs(b));
    let mut keys: BTreeSet<String> =
        costs_a.iter().filter(|(key, value)| costs_b[*key] != **value).map(|(key, _)| key.clone()).collect();
    if a.topology != b.topology {
        let mut even = a.topology.clone();
        even.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
        assert_eq!(even, b.topology);
        keys.insert("capacity".into());
    }
    keys
}

/// Two nodes of two unequal cores with two threads: every term has something to take away.
fn machine() -> Machine {
    let mut machine = Machine::preset("xeon-2s22c2t").unwrap();
    machine.topology.cpus.truncate(4);
    for (cpu, at) in machine.topology.cpus.iter_mut().enumerate() {
        let core = cpu as u32 / 2;
        (at.core, at.llc, at.node, at.capacity) = (core, core, core, 1024 - 512 * core);
    }
    let costs = &mut machine.costs;
    (costs.sleep_ns, costs.dequeue_ns) = (1, 1);
    (costs.interrupt_exit_ns, costs.wakeup_exit_ns) = (1, 1);
    machine.check().unwrap();
    machine
}

#[test]
fn each_term_takes_its_own_figures_away_and_leaves_a_machine() {
    let whole = machine();
    for term in Term::ALL {
        let changed: &[&str] = match term {
            Term::Smt => &["smt_speed"],
            Term::Capacity => &["capacity"],
            Term::Wakeups => &["wakeup_exit_ns", "wakeup_ns"],
            Term::Selects => &["select_ns"],
            Term::Reads => &["charge_reads"],
            Term::ReadHits => &["reads_may_hit"],
            Term::Writes => &["charge_writes"],
            Term::Balancing => &["balance_ns", "push_ns"],
            Term::Switches => &["dequeue_ns", "sleep_ns", "switch_process_ns", "switch_thread_ns"],
            Term::CacheRefill => &["core_cache_bytes", "llc_cache_bytes", "llc_hit_ps"],
            Term::Atomics => &["atomic_ps", "charge_atomics"],
            Term::RunqueueLocks => &["runqueue_lock_ns"],
            Term::Ipis => &["ipi_flight_ns", "ipi_handle_ns", "ipi_send_ns"],
            Term::IdleExit => &["idle_states"],
            Term::Ticks => &["tick_ns"],
            Term::Interrupts => &["interrupt_exit_ns", "interrupt_ns"],
            Term::Data => &["charge_data"],
            Term::Loopback => &["loopback_ns", "loopback_ps_per_byte"],
            Term::Futexes => &["futex_ns"],
            Term::Bandwidth => &["bandwidth_mb_per_s", "remote_bandwidth_percent", "write_traffic_percent"],
            Term::ForkExit => &["exec_ns", "exit_ns", "fork_ns"],
        };
        let without = whole.without(term);
        without.check().unwrap();
        let found: Vec<String> = differences(&whole, &without).into_iter().collect();
        assert_eq!(found, changed, "{term}");
        for (key, source) in &without.sources {
            assert_eq!(
                *source == format!("left out: without {term}"),
                changed.contains(&key.as_str()),
                "{key}"
            );
        }
        assert_eq!(without.without(term), without, "{term}");
    }
}

#[test]
fn without_every_term_nothing_costs_anything() {
    let mut machine = machine();
    for term in Term::ALL {
        machine = machine.without(term);
    }
    let mut free = wakelab_machine::Costs::free(2);
    free.line_transfer_ps = machine.costs.line_transfer_ps;
    free.tick_period_ns = machine.costs.tick_period_ns;
    free.line_bytes = machine.costs.line_bytes;
    free.lines_in_flight = machine.costs.lines_in_flight;
    free.reads_may_hit = false;
    (free.charge_reads, free.charge_writes) = (false, false);
    (free.charge_data, free.charge_atomics) = (false, false);
    assert_eq!(machine.costs, free);
}

#[test]
fn terms_are_found_by_name() {
    for term in Term::ALL {
        assert_eq!(term.name().parse::<Term>().unwrap(), term);
        assert_eq!(serde_json::to_value(term).unwrap(), term.name());
        assert!(term.about().len() > 10 && !term.about().ends_with('.'), "{term}");
    }
    let error = "lines".parse::<Term>().unwrap_err().to_string();
    assert!(error.starts_with("unknown term `lines`; expected one of smt, capacity, wakeups, "), "{error}");
}

#[test]
fn a_machine_whose_terms_were_switched_off_is_not_written_as_a_file() {
    let error = machine().without(Term::Reads).to_toml().unwrap_err().to_string();
    assert!(error.starts_with("a machine without one of its cost terms; expected "), "{error}");
    machine().without(Term::Ticks).to_toml().unwrap();
}

/// Returns the machine with the estimate of that name times `numerator` / `denominator`.
fn scaled(machine: &Machine, name: &str, numerator: u32, denominator: u32) -> Machine {
    let estimates = machine.estimates();
    let estimate = estimates.iter().find(|estimate| estimate.to_string() == name);
    machine.scaled(estimate.unwrap_or_else(|| panic!("{name} is no estimate")), numerator, denominator)
}

#[test]
fn estimates_are_whole_figures_or_parts_that_say_so() {
    let machine = Machine::preset("xeon-2s22c2t").unwrap();
    let names: Vec<String> = machine.estimates().iter().map(ToString::to_string).collect();
    assert_eq!(names[..3], ["line_transfer_ps.cpu", "lines_in_flight", "atomic_ps"]);
    assert!(names.contains(&"bandwidth_mb_per_s.core".to_owned()), "{names:?}");
    // These are measured, from a table, or the architecture's.
    for key in ["smt_speed", "line_transfer_ps", "idle_states", "line_bytes", "bandwidth_mb_per_s"] {
        assert!(!names.contains(&key.to_owned()), "{key}");
    }
}

#[test]
fn scaling_by_hand() {
    let mut machine = Machine::preset("xeon-2s22c2t").unwrap();
    for key in ["smt_speed", "idle_states"] {
        machine.sources.insert(key.into(), "estimate: for this test".into());
    }
    machine
        .sources
        .insert("line_transfer_ps".into(), "measured; llc: estimate; numa1: estimate, doubtful".into());

    assert_eq!(scaled(&machine, "wakeup_ns", 1, 2).costs.wakeup_ns, 250);
    assert_eq!(scaled(&machine, "wakeup_ns", 2, 1).costs.wakeup_ns, 1_000);
    // 604 of 1024 is a loss of 420. Half of it leaves 1024 - 210 = 814, and twice it 1024 - 840 = 184. Four times the
    // loss would leave nothing, so the result is the least speed, 1.
    assert_eq!(scaled(&machine, "smt_speed", 1, 2).costs.smt_speed, [1024, 814]);
    assert_eq!(scaled(&machine, "smt_speed", 2, 1).costs.smt_speed, [1024, 184]);
    assert_eq!(scaled(&machine, "smt_speed", 4, 1).costs.smt_speed, [1024, 1]);
    // The figures are 7.6, 44 and 118 ns. Half and twice 44, 22 and 88, lie between the other two. 11 / 4 of 44 = 121
    // stops at 118. Half of 118 = 59 stays above 44; a quarter of it stops at 44.
    let llc =
        |n, d| scaled(&machine, "line_transfer_ps.llc", n, d).costs.line_transfer_ps[Distance::Llc.index()];
    assert_eq!([llc(1, 2), llc(2, 1), llc(11, 4), llc(1, 100)], [22_000, 88_000, 118_000, 7_600]);
    let numa = |n, d| {
        scaled(&machine, "line_transfer_ps.numa1", n, d).costs.line_transfer_ps[Distance::Numa1.index()]
    };
    assert_eq!([numa(1, 2), numa(2, 1), numa(1, 4)], [59_000, 236_000, 44_000]);
    let exits = |n, d| {
        let machine = scaled(&machine, "idle_states", n, d);
        machine.costs.idle_states.iter().map(|s| (s.after_ns, s.exit_latency_ns)).collect::<Vec<_>>()
    };
    assert_eq!(exits(1, 2), [(0, 1_000), (20_000, 5_000), (100_000, 20_000), (400_000, 66_500)]);
    // 50 % more than the bytes read becomes 25 % and 100 % more.
    assert_eq!(scaled(&machine, "write_traffic_percent", 1, 2).costs.write_traffic_percent, 125);
    assert_eq!(scaled(&machine, "write_traffic_percent", 2, 1).costs.write_traffic_percent, 200);
    let remote = |n, d| scaled(&machine, "remote_bandwidth_percent", n, d).costs.remote_bandwidth_percent;
    assert_eq!(remote(1, 2), [100, 100, 100, 100, 100, 30, 30, 30]);
    assert_eq!(remote(2, 1), [100; 8]);
    // A thread switch takes at most as long as a process switch, 1,000 ns. A tick's work takes less than its period, 1
    // ms.
    assert_eq!(scaled(&machine, "switch_thread_ns", 3, 1).costs.switch_thread_ns, 1_000);
    assert_eq!(scaled(&machine, "switch_process_ns", 1, 4).costs.switch_process_ns, 400);
    assert_eq!(scaled(&machine, "tick_ns", 5_000, 1).costs.tick_ns, 999_999);
    assert_eq!(scaled(&machine, "tick_period_ns", 1, 2_000).costs.tick_period_ns, 100_000);

    let doubled = scaled(&machine, "wakeup_ns", 2, 1);
    assert!(doubled.sources["wakeup_ns"].starts_with("wakeup_ns times 2/1; estimate: "));
}

#[test]
fn what_scaling_cannot_change_is_not_listed() {
    let mut machine = Machine::preset("smp-8").unwrap();
    machine.sources.insert("remote_bandwidth_percent".into(), "estimate: no other node here".into());
    assert!(machine.estimates().iter().all(|estimate| estimate.key() != "remote_bandwidth_percent"));
    let free = Machine { costs: wakelab_machine::Costs::free(1), ..machine };
    let names: Vec<String> = free.estimates().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["lines_in_flight", "tick_period_ns"]);
}

#[test]
fn every_preset_is_a_machine_without_any_term_and_with_any_estimate_scaled() {
    for (name, _) in presets() {
        let whole = Machine::preset(name).unwrap();
        for term in Term::ALL {
            whole.without(term).check().unwrap();
        }
        for estimate in whole.estimates() {
            let mut changed = BTreeSet::new();
            for (numerator, denominator) in [(1, 2), (2, 1)] {
                let machine = whole.scaled(&estimate, numerator, denominator);
                machine.check().unwrap_or_else(|e| panic!("{name}, {estimate}: {e}"));
                changed.append(&mut differences(&whole, &machine));
            }
            assert_eq!(changed, BTreeSet::from([estimate.key().to_owned()]), "{name}");
        }
    }
}

proptest! {
    #[test]
    fn any_factor_leaves_a_machine(which in any::<prop::sample::Index>(), numerator in 0u32.., denominator in 1u32..) {
        let whole = Machine::preset("power9-2s22c4t").unwrap();
        let estimates = whole.estimates();
        let machine = whole.scaled(&estimates[which.index(estimates.len())], numerator, denominator);
        prop_assert!(machine.check().is_ok(), "{:?}", machine.check());
    }
}
