// SPDX-License-Identifier: GPL-2.0-or-later
//! wake_flips.h. Two nodes of 6 CPUs, one LLC each, unless said otherwise: the factor is 6.

use wakelab_policy::{AffineReason, Task};

use crate::host::{Host, MS, machine, policy};

const FLIPS: &str = "linux-4.15+affine=flips+affine-form=3.10";

fn host(spec: &str) -> Host {
    Host::new(policy(spec, &machine(2, None, 6, 1)))
}

/// A client on CPU 0, where loads allow a pull: it runs there alone; its wakee last ran on CPU 7, where another task
/// runs.
fn loaded(spec: &str) -> (Host, Task, Task) {
    let mut host = host(spec);
    let client = host.running(1024, 0);
    host.running(1024, 7);
    let server = host.sleeper(1024, 7);
    (host, client, server)
}

/// The header's example: a server that was interrupted four times has 9 flips.
#[test]
fn interrupts_make_a_server_flip_and_keep_it_away() {
    for (spec, expected) in [
        (FLIPS.to_owned(), AffineReason::TooWide),
        (format!("{FLIPS}+factor=machine"), AffineReason::ZeroLoad),
        ("linux-4.15+affine=always+affine-form=3.10".to_owned(), AffineReason::ZeroLoad),
    ] {
        let (mut host, mut client, _) = loaded(&spec);
        let mut server = host.running(1024, 7);
        let mut others: Vec<Task> = (0..8).map(|cpu| host.sleeper(1024, cpu)).collect();
        for turn in 0..400 {
            host.wake_sync(&mut others[turn % 8], &mut client, 1);
        }
        let answer = |host: &mut Host, server: &mut Task, client: &mut Task| {
            host.wake_sync(client, server, 0);
        };
        answer(&mut host, &mut server, &mut client);
        for thread in &mut others[..4] {
            // In an interrupt the current task counts as the waker.
            host.select(thread, Some(&mut server), 7, 7, wakelab_policy::WAKE_IRQ);
            answer(&mut host, &mut server, &mut client);
        }
        if spec.contains("flips") {
            assert_eq!((client.wakee_flips, server.wakee_flips), (400, 9), "9 > 6 and 400 > 54");
        }
        host.policy.stopping(&mut server, 7, 0, false);
        host.policy.quiescent(&mut server, 0);
        let decision = host.wake_sync(&mut server, &mut client, 7);
        assert_eq!(decision.affine_reason(), expected, "{spec}");
        assert_eq!(decision.target, if expected == AffineReason::TooWide { 7 } else { 0 });
    }
}

#[test]
fn both_sides_of_the_rule_are_strict() {
    for (waker, wakee, factor, expected) in [
        (43, 7, "node", AffineReason::TooWide),
        (42, 7, "node", AffineReason::ZeroLoad),
        (1000, 6, "node", AffineReason::ZeroLoad),
        (157, 13, "machine", AffineReason::TooWide),
        (156, 13, "machine", AffineReason::ZeroLoad),
        (1000, 12, "machine", AffineReason::ZeroLoad),
    ] {
        let (mut host, mut client, mut server) = loaded(&format!("{FLIPS}+factor={factor}"));
        client.wakee_flips = waker;
        client.last_wakee = server.id;
        server.wakee_flips = wakee;
        let decision = host.wake_sync(&mut server, &mut client, 7);
        assert_eq!(decision.affine_reason(), expected, "{waker} and {wakee}, {factor}");
    }
}

#[test]
fn the_factor_counts_cpus_of_the_node_the_llc_or_the_machine() {
    // One node of 2 LLCs of 4 CPUs each: 8, 4 and 8.
    let mut topology = machine(2, None, 4, 1);
    topology.cpus.iter_mut().for_each(|cpu| cpu.node = 0);
    topology.node_distance = vec![vec![10]];
    for (factor, few) in [("node", 8), ("llc", 4), ("machine", 8)] {
        for more in 0..2 {
            let mut host = Host::new(policy(&format!("{FLIPS}+factor={factor}"), &topology));
            let mut client = host.running(1024, 0);
            let mut server = host.sleeper(1024, 5);
            server.wakee_flips = few + more;
            client.wakee_flips = 1000;
            client.last_wakee = server.id;
            let stays = host.wake_sync(&mut server, &mut client, 5).affine_reason() == AffineReason::TooWide;
            assert_eq!(stays, more == 1, "{factor}");
        }
    }
}

#[test]
fn flips_are_forgotten_when_the_waker_wakes_a_second_later() {
    let (mut host, mut client, mut server) = loaded(FLIPS);
    client.wakee_flips = 100;
    host.now_ns = 1_000 * MS;
    host.wake_sync(&mut server, &mut client, 7);
    assert_eq!((client.wakee_flips, client.flip_stamp_ns), (101, 0), "a second, not more");
    host.now_ns += 1;
    host.wake_sync(&mut server, &mut client, 7);
    assert_eq!((client.wakee_flips, client.flip_stamp_ns), (0, host.now_ns), "the same wakee again");
    let mut other = host.sleeper(1024, 1);
    host.wake_sync(&mut other, &mut client, 1);
    assert_eq!((client.wakee_flips, client.last_wakee), (1, other.id));
}

#[test]
fn pinned_wakees_count() {
    let (mut host, mut client, mut server) = loaded(FLIPS);
    host.policy.set_affinity(&mut server, Some(&[7]));
    host.wake_sync(&mut server, &mut client, 7);
    assert_eq!((client.wakee_flips, client.last_wakee), (1, server.id));
}
