// SPDX-License-Identifier: GPL-2.0-or-later
//! Data that messages carry, and the protocol work of loopback sockets.

use wakelab_machine::Machine;
use wakelab_workload::{Channel, Op};

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, recv, scenario};

/// 2 LLCs x 2 cores x 2 threads. A line of 64 bytes takes 40 ns inside an LLC, 100 ns from the other; 4 lines are in
/// flight at once.
fn priced() -> Machine {
    let mut machine = machine(2, 2, 2);
    machine.costs.line_transfer_ps = [0, 10_000, 0, 40_000, 0, 100_000, 100_000, 100_000];
    machine.costs.lines_in_flight = 4;
    machine.costs.charge_reads = false;
    machine.costs.charge_writes = false;
    machine
}

fn channel(loopback: bool) -> Channel {
    Channel { capacity_bytes: 1 << 30, loopback, ..Channel::default() }
}

/// 1,000 bytes are 16 lines: 16 x 40 / 4 = 160 ns from the other core, 16 x 100 / 4 = 400 ns from the other LLC,
/// nothing from the same core.
#[test]
fn a_message_is_fetched_from_where_it_was_written() {
    for host in HOSTS {
        for (reader, ns) in [(0, 0), (1, 0), (2, 160), (4, 400)] {
            let writes = vec![compute(10_000), Op::Send { channel: 0, bytes: 1_000, work_ns: 0 }];
            let tasks =
                vec![bound(&[0], writes), bound(&[reader], vec![Op::Recv { channel: 0, work_ns: 7 }])];
            let mut scenario = scenario(priced(), tasks, host);
            scenario.workload_mut().channels[0] = channel(false);
            let run = outcome(&scenario);
            // A reader on CPU 0 itself starts first or last; the message is there by 10,000 ns.
            assert_eq!(run.time.data_ns, ns, "{host:?} CPU {reader}");
            assert_eq!(run.elapsed_ns, 10_007 + ns, "{host:?} CPU {reader}");
            assert_eq!(run.time.work_ns, 10_007);
        }
    }
}

/// A sends two messages of 1,000 bytes to B, on a channel of which a sender takes over 2 lines and a receiver 3, one
/// after the other. From another core of the LLC, B fetches 3 x 40 + 160 = 280 ns with each message, and A's second
/// send takes the channel back in 2 x 40 = 80 ns. From the other LLC: 3 x 100 + 400 = 700 and 200 ns. Within a core
/// there is nothing to fetch, and a new channel has no holder.
#[test]
fn a_channel_s_own_lines_go_to_and_fro() {
    for host in HOSTS {
        for (reader, send_ns, recv_ns) in [(0, 0, 0), (1, 0, 0), (2, 80, 280), (4, 200, 700)] {
            let send = Op::Send { channel: 0, bytes: 1_000, work_ns: 0 };
            let recv = Op::Recv { channel: 0, work_ns: 7 };
            let tasks = vec![
                bound(&[0], vec![compute(10_000), send, compute(10_000), send]),
                bound(&[reader], vec![recv, recv]),
            ];
            let mut scenario = scenario(priced(), tasks, host);
            scenario.workload_mut().channels[0] = Channel { send_lines: 2, recv_lines: 3, ..channel(false) };
            let run = outcome(&scenario);
            assert_eq!(run.time.data_ns, send_ns + 2 * recv_ns, "{host:?} CPU {reader}");
            if reader > 1 {
                assert_eq!(run.elapsed_ns, 20_007 + send_ns + recv_ns, "{host:?} CPU {reader}");
            }
        }
    }
}

/// A message of 1 GiB less a byte keeps its reader busy for 2^24 lines x 100 / 4 ns = 419 ms. Ticks interrupt it, after
/// and inside the work that comes first; nothing is lost or paid twice.
#[test]
fn fetching_can_be_interrupted() {
    for host in HOSTS {
        let mut machine = priced();
        machine.costs.tick_ns = 1_000;
        let bytes = (1 << 30) - 1;
        let tasks = vec![
            bound(&[0], vec![Op::Send { channel: 0, bytes, work_ns: 0 }]),
            bound(&[4], vec![Op::Recv { channel: 0, work_ns: 3 * MS }]),
        ];
        let mut scenario = scenario(machine, tasks, host);
        scenario.workload_mut().channels[0] = channel(false);
        let run = outcome(&scenario);
        let data_ns = (1 << 24) * 100 / 4;
        assert_eq!((run.time.data_ns, run.time.work_ns), (data_ns, 3 * MS), "{host:?}");
        assert!(run.counts.ticks > 400, "{host:?}");
        assert_eq!(run.elapsed_ns, data_ns + 3 * MS + run.time.tick_ns, "{host:?}");
    }
}

/// 500 ns per message and 300 ps per byte: 1,000 bytes take 800 ns of the sender's time before the reader is woken. A
/// channel that is not a loopback socket has no such cost.
#[test]
fn loopback_s_protocol_is_the_sender_s_work() {
    for host in HOSTS {
        for (loopback, ns) in [(true, 800), (false, 0)] {
            let mut machine = machine(1, 2, 1);
            machine.costs.loopback_ns = 500;
            machine.costs.loopback_ps_per_byte = 300;
            let writes = vec![compute(10_000), Op::Send { channel: 0, bytes: 1_000, work_ns: 50 }];
            let tasks = vec![bound(&[0], writes), bound(&[1], vec![recv(0), compute(20)])];
            let mut scenario = scenario(machine, tasks, host);
            scenario.workload_mut().channels[0] = channel(loopback);
            let run = outcome(&scenario);
            assert_eq!(run.time.protocol_ns, ns, "{host:?}");
            assert_eq!(run.task_cpu_time_ns, [10_050 + ns, 20], "{host:?}");
            assert_eq!(run.elapsed_ns, 10_050 + ns + 20, "{host:?}");
        }
    }
}
