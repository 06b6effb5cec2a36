// SPDX-License-Identifier: GPL-2.0-or-later
//! The models with locks, barriers and memory, expanded for small parameters and written out by hand; and all presets
//! with random parameters.

use proptest::prelude::*;
use wakelab_workload::{
    Allowed, Barrier, Channel, End, Home, Lock, Measure, Op, Source, Task, Workload, describe, presets,
};

const FOREVER: Op = Op::LoopBegin { times: None };
const END: Op = Op::LoopEnd;

fn expand(spec: &str) -> Workload {
    Workload::parse_spec(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn repeat(times: u64) -> Op {
    Op::LoopBegin { times: Some(times) }
}

fn compute(work_ns: u64, spread_percent: u32) -> Op {
    Op::Compute { work_ns, spread_percent }
}

fn send(channel: u32, bytes: u32, work_ns: u64) -> Op {
    Op::Send { channel, bytes, work_ns }
}

fn recv(channel: u32, work_ns: u64) -> Op {
    Op::Recv { channel, work_ns }
}

fn fork(task: u32) -> Op {
    Op::Fork { task }
}

fn sleep(delay_ns: u64, source: Source) -> Op {
    Op::Sleep { delay_ns, source }
}

fn barrier() -> Op {
    Op::Barrier { barrier: 0 }
}

fn count(units: u64) -> Op {
    Op::Count { units }
}

/// Returns a task of weight 1024 that starts at 0 and may run anywhere.
fn task(name: &str, process: u32, footprint_bytes: u64, program: &[Op]) -> Task {
    Task {
        name: name.to_owned(),
        parent: None,
        start_ns: 0,
        process,
        weight: 1024,
        slice_ns: None,
        allowed: None,
        last_cpu: None,
        footprint_bytes,
        judged: false,
        awaited: false,
        cut_off: false,
        polls: false,
        after_sleep_ns: 0,
        group: None,
        program: program.to_vec(),
    }
}

fn futex(capacity_bytes: u64) -> Channel {
    Channel { capacity_bytes, ..Channel::default() }
}

fn duration_ms(ms: u64) -> End {
    End::After { duration_ns: ms * 1_000_000 }
}

#[test]
fn schbench_requests() {
    let found = expand("schbench:message-threads=2,threads=2,operations=3,spread-percent=0,warmuptime-ms=4");
    // 256 KiB / 24 = 10,922 = 104.5 squared. A multiplication takes 104 cubed = 1,124,864 steps of 0.67 ns, which is
    // 753,658 ns.
    let worker = |m: u32| {
        let program = [
            FOREVER,
            send(m, 1, 240),
            recv(2 + m, 310),
            sleep(100_000, Source::Timer),
            compute(3 * 753_658, 0),
            count(1),
            END,
        ];
        Task { judged: true, ..task("worker", 0, 262_144, &program) }
    };
    let message = |m| task("message", 0, 32_768, &[FOREVER, recv(m, 310), send(2 + m, 1, 240), END]);
    let warmup = Task { start_ns: 4_000_000, ..task("warmup", 2, 32_768, &[Op::MarkBegin]) };
    assert_eq!(found.tasks, [message(0), message(1), worker(0), worker(0), worker(1), worker(1), warmup]);
    assert_eq!(found.channels, [futex(2); 4]);
    assert_eq!((found.measure, found.end), (Measure::WakeupLatency, duration_ms(1000)));
}

#[test]
fn schbench_messages_as_first_written() {
    let spec = "schbench:shape=messages,message-threads=2,threads=1,cputime-us=7,message-cputime-us=3,\
                sleeptime-us=32,background=2,background-stride=4,spread-percent=5";
    let found = expand(spec);
    // A sleep takes 32 us and k times 1 us, an eighth of a quarter of it. The next k is (3 k + m) mod 8.
    let message = |m: u32, eighths: [u64; 8]| {
        let mut program = vec![fork(3 + m), FOREVER];
        for eighth in eighths {
            program.extend([
                recv(m, 310),
                compute(3000, 5),
                sleep(32_000 + 1000 * eighth, Source::Timer),
                repeat(0),
                recv(m, 0),
                END,
                Op::BeginBatch,
                repeat(1),
                send(2 + m, 1, 240),
                END,
            ]);
        }
        program.push(END);
        Task { parent: Some(0), ..task("message", 0, 32_768, &program) }
    };
    let worker = |m: u32| Task {
        judged: true,
        awaited: false,
        cut_off: false,
        polls: false,
        after_sleep_ns: 0,
        group: None,
        parent: Some(1 + m),
        ..task(
            "worker",
            0,
            32_768,
            &[FOREVER, compute(7000, 5), send(m, 1, 240), recv(2 + m, 310), count(1), END],
        )
    };
    let background = |cpu| Task {
        allowed: Some(vec![cpu]),
        ..task("background", 1, 32_768, &[FOREVER, compute(1_000_000, 5), END])
    };
    let main = [fork(1), fork(2), Op::Join];
    let expected = [
        task("main", 0, 32_768, &main),
        message(0, [0, 3, 6, 1, 4, 7, 2, 5]),
        message(1, [1, 4, 7, 2, 5, 0, 3, 6]),
        worker(0),
        worker(1),
        background(0),
        background(4),
    ];
    assert_eq!(found.tasks, expected);
}

/// With 2 message threads and 4000 requests a second, each thread hands out 8 requests in 4 ms, then sleeps.
#[test]
fn schbench_at_a_rate() {
    let found = expand("schbench:rps=4000,message-threads=2,threads=3");
    let mut hand_out = vec![FOREVER];
    for workers in [[0, 1, 2, 0, 1, 2, 0, 1], [2, 0, 1, 2, 0, 1, 2, 0], [1, 2, 0, 1, 2, 0, 1, 2]] {
        hand_out.extend(workers.map(|worker| send(worker, 1, 240)));
        hand_out.push(sleep(4_000_000, Source::Timer));
    }
    hand_out.push(END);
    assert_eq!(found.tasks[0].program, hand_out);
    assert_eq!(found.channels, [futex(8); 6]);
    assert_eq!((found.tasks[7].name.as_str(), found.tasks[7].program[1]), ("worker", recv(5, 310)));
}

#[test]
fn uperf_pairs() {
    let found = expand("uperf:threads=2,response-bytes=400,duration-ms=3,work-ns=11,spread-percent=2");
    // Writing takes 600 ns and reading 970, after the wake-up; before it, reading takes 1 ns for every 40 bytes, 204 ns
    // for a request of 8192 bytes and 10 ns for a response of 400.
    let master = |t: u32| {
        let program =
            [FOREVER, send(t, 8192, 0), compute(1570, 2), recv(2 + t, 0), compute(21, 2), count(1), END];
        task("master", 0, 65_536, &program)
    };
    let slave = |t: u32| {
        let program = [FOREVER, recv(t, 0), compute(215, 2), send(2 + t, 400, 0), compute(1570, 2), END];
        task("slave", 1, 65_536, &program)
    };
    let tcp = Channel { capacity_bytes: 212_992, sync: true, loopback: true, ..Channel::default() };
    assert_eq!(found.tasks, [master(0), master(1), slave(0), slave(1)]);
    assert_eq!(found.channels, [tcp; 4]);
    assert_eq!((found.measure, found.end), (Measure::Rate, duration_ms(3)));
    let processes = expand("uperf:threads=2,mode=process");
    assert_eq!(processes.tasks.iter().map(|task| task.process).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // Three pairs divide eight CPUs: 0, 8 / 3 and 16 / 3.
    let spread = expand("uperf:threads=3,spread-cpus=8").tasks;
    let last: Vec<_> = spread.iter().map(|task| task.last_cpu).collect();
    assert_eq!(last, [0, 2, 5, 0, 2, 5].map(Some));
    assert_eq!(processes.tasks[0].last_cpu, None);
}

#[test]
fn uperf_starts_as_netperf_and_tbench_do() {
    // A shell forks two clients, which exec and connect; for each of them a daemon forks the other end.
    let netperf = expand("uperf:threads=2,mode=process,start=netperf").tasks;
    assert_eq!(netperf[4].program, [fork(0), fork(1)]);
    assert_eq!(netperf[5].program, [recv(4, 0), fork(2), recv(4, 0), fork(3)]);
    assert_eq!(netperf[1].program[..3], [Op::Exec, send(4, 1, 0), FOREVER]);
    assert_eq!(netperf.iter().map(|task| task.parent).collect::<Vec<_>>()[..4], [4, 4, 5, 5].map(Some));
    // tbench's clients exec nothing, and wait until their parent lets all go.
    let tbench = expand("uperf:threads=2,mode=process,start=tbench").tasks;
    assert_eq!(tbench[0].program[..3], [send(4, 1, 0), Op::WaitGate { gate: 0 }, FOREVER]);
    assert_eq!(tbench[4].program[2..], [sleep(10_000_000, Source::Timer), Op::OpenGate { gate: 0 }]);
    // Pairs that have spread already are there from the beginning.
    let spread = expand("uperf:threads=2,start=tbench,spread-cpus=8").tasks;
    assert_eq!(spread.len(), 5);
    assert!(spread.iter().all(|task| task.parent.is_none()));
    assert_eq!(spread[4].program, [sleep(10_000_000, Source::Timer), Op::OpenGate { gate: 0 }]);
}

#[test]
fn lock_server_with_fewer_servers_than_clients() {
    let spec = "lock-server:clients=3,servers=2,statements=3,cpu-us=30,hold-ns=70,spin-ns=9,handoff=yes,reads=1,\
                read-us=8,log-us=50,client-us=4,spread-percent=1";
    let found = expand(spec);
    let client = |number: u32, server: u32| {
        let program = [FOREVER, compute(4000, 1), send(server, 200, 0), recv(2 + server, 0), END];
        task("client", number, 65_536, &program)
    };
    let (lock, unlock) = (Op::Lock { lock: 0 }, Op::Unlock { lock: 0 });
    let server = |number: u32, s: u32| {
        let mut program = vec![FOREVER, recv(s, 0), repeat(1)];
        program.extend([compute(10_000, 1), lock, compute(70, 0), unlock, sleep(8000, Source::Device), END]);
        program.push(repeat(2));
        program.extend([compute(10_000, 1), lock, compute(70, 0), unlock, END]);
        program.extend([send(4, 1, 0), recv(6, 0), count(1), send(2 + s, 200, 0), END]);
        task("server", number, 1_048_576, &program)
    };
    // The first record, and the other server's if it is there.
    let take = [recv(4, 0), send(5, 1, 0)];
    let others = [repeat(1), Op::WhenReady { channel: 4 }, take[0], take[1], END, END];
    let write = [compute(20_000, 1), sleep(50_000, Source::Device)];
    let answer = [repeat(2), Op::WhenReady { channel: 5 }, recv(5, 0), send(6, 1, 0), END, END, END];
    let log_writer = [&[FOREVER][..], &take, &others, &write, &answer].concat();
    let log_writer = task("log-writer", 5, 65_536, &log_writer);
    let expected = [client(0, 0), client(1, 1), client(2, 0), server(3, 0), server(4, 1), log_writer];
    assert_eq!(found.tasks, expected);
    assert_eq!(found.locks, [Lock { spin_ns: 9, handoff: true, ..Lock::default() }]);
    let (socket, semaphore) = (Channel { sync: true, ..futex(212_992) }, futex(212_992));
    assert_eq!(found.channels, [socket, socket, socket, socket, semaphore, semaphore, semaphore]);
}

/// There are at most as many servers as clients, and no log writer without a log.
#[test]
fn lock_server_without_a_log() {
    let found = expand("lock-server:clients=2,servers=9,log-us=0");
    assert_eq!(found.tasks.iter().map(|task| &task.name[..1]).collect::<String>(), "ccss");
    assert!(!found.tasks[2].program.contains(&recv(6, 0)));
}

#[test]
fn pgbench_written_out() {
    let found = expand(
        "pgbench:clients=2,client-ns=7,server-ns=100,misses=2,miss-percent=30,lock-ns=3,stats-every=5,background-cpus=1,\
         background-hz=1000,spread-percent=4",
    );
    // Queries go through channels 0 and 1, answers through 2 and 3, statistics through 4.
    let ask = |c: u32| [compute(7, 4), send(c, 100, 0)];
    let take = |c: u32| {
        let [think, query] = ask(c);
        [Op::WhenReady { channel: 2 + c }, recv(2 + c, 0), Op::Count { units: 1 }, think, query, END]
    };
    let poll = [FOREVER, Op::Poll { first: 2, count: 2, work_ns: 1200 }];
    let client = [&ask(0)[..], &ask(1), &poll, &take(0), &take(1), &[END]].concat();
    let half = compute(80, 4);
    let server = |c: u32| {
        let locked = [Op::Lock { lock: 0 }, compute(3, 0), Op::Unlock { lock: 0 }];
        let query = [&[recv(c, 0), half][..], &locked, &[half, send(2 + c, 200, 0), END]].concat();
        [&[FOREVER, repeat(5)][..], &query, &[send(4, 1000, 0), END]].concat()
    };
    let collector = [FOREVER, recv(4, 0), compute(20_000, 0), END];
    let thread = [FOREVER, sleep(1_000_000, Source::Timer), compute(3000, 0), END];
    let expected = [
        task("pgbench", 0, 65_536, &client),
        task("postgres", 1, 131_072, &server(0)),
        task("postgres", 2, 131_072, &server(1)),
        task("stats-collector", 3, 32_768, &collector),
        Task { allowed: Some(vec![0]), ..task("kworker", 4, 32_768, &thread) },
    ];
    assert_eq!(found.tasks, expected);
}

#[test]
fn openmp_written_out() {
    let found = expand("openmp:threads=3,loops=5,work-us=20,imbalance-percent=10,serial-us=2,bind-stride=2");
    let thread = |t: u32, begin: &[Op], work_ns: u64, alone: &[Op], end: &[Op]| {
        let around = [repeat(5), compute(work_ns, 10), barrier()];
        let program = [begin, &around[..], alone, &[barrier(), END], end].concat();
        let parent = (t > 0).then_some(0);
        Task { parent, allowed: Some(vec![2 * t]), ..task("thread", 0, 262_144, &program) }
    };
    let first = [fork(1), fork(2), barrier(), Op::MarkBegin];
    // The threads have 10 % less, the average, and 10 % more.
    let expected = [
        thread(0, &first, 18_000, &[compute(2000, 10)], &[Op::MarkEnd]),
        thread(1, &[barrier()], 20_000, &[], &[]),
        thread(2, &[barrier()], 22_000, &[], &[]),
    ];
    assert_eq!(found.tasks, expected);
    assert_eq!(found.barriers, [Barrier { parties: 3, spin_ns: 7_500_000, recorded: false }]);
    assert_eq!((found.measure, found.end), (Measure::Makespan, End::AllExited));
    assert_eq!(expand("openmp:threads=1,imbalance-percent=10").tasks[0].program[3], compute(100_000, 10));
}

#[test]
fn openmp_shares_chunks_out() {
    let found = expand("openmp:threads=3,loops=5,work-us=20,imbalance-percent=10,schedule=dynamic,chunks=4");
    // 12 chunks of 5 us go to the threads as they come.
    let rounds =
        [repeat(5), Op::LoopShared { barrier: 0, times: 12 }, compute(5000, 10), END, barrier(), END];
    assert_eq!(found.tasks[2].program, [&[barrier()], &rounds[..]].concat());
}

/// libgomp spins for a number of steps of 25 ns that depends on its policy, and on whether there are enough CPUs.
#[test]
fn openmp_spins_as_libgomp_does() {
    for (settings, steps) in [
        ("threads=4", 300_000),
        ("threads=4,cpus=4", 300_000),
        ("threads=4,cpus=3", 100),
        ("wait-policy=active", 30_000_000_000),
        ("wait-policy=active,cpus=3", 1000),
        ("wait-policy=passive", 0),
        ("spin-count=500", 500),
        ("spin-count=500,cpus=3", 100),
        ("spin-count=50,cpus=3", 50),
    ] {
        let found = expand(&format!("openmp:{settings}")).barriers;
        assert_eq!(found, [Barrier { parties: 4, spin_ns: 25 * steps, recorded: false }], "{settings}");
    }
}

#[test]
fn stream_written_out() {
    // 2 x 50,000 elements.
    let found = expand("stream:threads=2,kernel=triad,array-bytes=800_000,times=3,bind-stride=1");
    let memory = |work_ns, read_bytes, write_bytes| Op::Memory {
        work_ns,
        read_bytes,
        write_bytes,
        home: Home::FirstTouch,
        llc_percent: 0,
    };
    let rounds = [repeat(3), memory(9400, 800_000, 400_000), count(1_200_000), barrier(), END];
    let thread = |t: u32, before: &[Op], after: &[Op]| {
        let touch = [memory(0, 0, 1_200_000), barrier()];
        let program = [before, &touch[..], after, &rounds[..]].concat();
        Task { parent: (t > 0).then_some(0), allowed: Some(vec![t]), ..task("thread", 0, 32_768, &program) }
    };
    assert_eq!(found.tasks, [thread(0, &[fork(1)], &[Op::MarkBegin]), thread(1, &[], &[])]);
    assert_eq!(found.barriers, [Barrier { parties: 2, spin_ns: 7_500_000, recorded: false }]);
    // Bytes per element, as STREAM counts them.
    for (kernel, bytes) in [("copy", 16), ("scale", 16), ("add", 24), ("triad", 24), ("all", 80)] {
        let found = expand(&format!("stream:threads=4,times=1,kernel={kernel}"));
        let counted: u64 = found.tasks[3]
            .program
            .iter()
            .map(|op| match op {
                Op::Count { units } => *units,
                _ => 0,
            })
            .sum();
        assert_eq!(counted, bytes * 10_000_000 / 4, "{kernel}");
    }
    // A copy by memcpy() loads the memory with 16 bytes an element, and fetches nothing before it writes.
    let found = expand("stream:threads=1,times=1,copy-fetches=no,array-bytes=800_000");
    assert!(found.tasks[0].program.contains(&memory(23_600, 1_600_000, 0)));
}

/// Returns small values of every parameter; for parameters that are large by nature, their smallest value.
fn settings(name: &str) -> impl Strategy<Value = Vec<String>> + use<> {
    let description = describe(name).unwrap();
    let one = |param: &wakelab_workload::Param| {
        let key = param.name.clone();
        let values = match &param.allowed {
            Allowed::Choices(words) => words.clone(),
            Allowed::Range { min, max } => {
                (*min..=(min + 6).min(*max)).map(|value| value.to_string()).collect()
            }
        };
        (any::<bool>(), prop::sample::select(values))
            .prop_map(move |(given, value)| given.then(|| format!("{key}={value}")))
    };
    description.params.iter().map(one).collect::<Vec<_>>().prop_map(|all| all.into_iter().flatten().collect())
}

fn any_preset() -> impl Strategy<Value = String> {
    prop::sample::select(presets().map(str::to_owned).collect::<Vec<_>>()).prop_flat_map(|name| {
        settings(&name).prop_map(move |settings| match settings.as_slice() {
            [] => name.clone(),
            some => format!("{name}:{}", some.join(",")),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// With any parameters in their ranges, a preset expands, passes the check, and survives JSON.
    #[test]
    fn presets_expand_with_any_parameters(spec in any_preset()) {
        let found = Workload::parse_spec(&spec);
        prop_assert!(found.is_ok(), "{}: {}", spec, found.unwrap_err());
        let found = found.unwrap();
        prop_assert_eq!(found.check(), Ok(()));
        prop_assert_eq!(&serde_json::from_str::<Workload>(&serde_json::to_string(&found).unwrap()).unwrap(), &found);
        // The name says what differs from the defaults, so it makes the same workload again.
        prop_assert_eq!(Workload::parse_spec(&found.name).unwrap(), found);
    }
}

/// 20 users. Bursts take 300 / 4 = 75 us. There are three kernel threads on CPUs 0 to 2, whose first runs are 40 ms
/// apart.
#[test]
fn oltp_is_bursts_reads_and_a_commit() {
    let found = expand("oltp:users=20,spread-percent=0,kworkers=3");
    let device = |us: u64| Op::Sleep { delay_ns: us * 1000, source: Source::Device };
    let burst = compute(75_000, 0);
    let server = [FOREVER, device(50), repeat(3), burst, device(100), END, burst, send(0, 1, 0), recv(2, 0)];
    let server = [&server[..], &[Op::Count { units: 1 }, END]].concat();
    assert!(found.tasks[..20].iter().all(|task| task.program == server && task.allowed.is_none()));
    let take = [recv(0, 1000), send(1, 1, 0)];
    let others = [repeat(19), Op::WhenReady { channel: 0 }, take[0], take[1], END, END];
    let answer = [repeat(20), Op::WhenReady { channel: 1 }, recv(1, 0), send(2, 1, 0), END, END, END];
    let log = [&[FOREVER][..], &take, &others, &[compute(20_000, 0), device(100)], &answer].concat();
    assert_eq!(found.tasks[20].program, log);
    let kworkers = &found.tasks[21..];
    let starts: Vec<_> = kworkers.iter().map(|task| (task.allowed.clone().unwrap(), task.start_ns)).collect();
    assert_eq!(starts, [(vec![0], 0), (vec![1], 40_000_000), (vec![2], 80_000_000)]);
    let of_uperf = expand("uperf:threads=1,kworkers=3,kworker-ms=120").tasks;
    assert_eq!((of_uperf.len(), &of_uperf[2].program), (5, &kworkers[0].program));
}
