// SPDX-License-Identifier: GPL-2.0-or-later
//! What wake-ups cost on this machine: its waker, and until the wakee runs. A recording of one CPU shows no wake-up of
//! another one, yet a replay on two must know what it costs.
//!
//! The waker is a thread that always runs. It writes a byte into a pipe, and a thread waits for that byte:
//! - *none*: no thread waits. This is what the system call costs without a wake-up, and is subtracted below;
//! - *local*: a thread on the same CPU. It may run before the system call is over, so the waker's CPU time counts;
//! - *idle*: a thread on another CPU, which has been idle for a known time.
//!
//! How long a CPU takes to leave idle depends on how long it idled before: the kernel's governor predicts, and a host
//! polls for its guest as long as that has lately been of use. In a program the same idleness comes again and again, so
//! the wake-ups that count follow others of the same idleness. Without these, a wake-up after 10 us of idling took
//! 7 us in some rounds and 20 in others on a virtual machine, because one after 10 ms came before it.
//!
//! For *idle* the wakee reads the clock when it is back in user space. From this latency the time of a hand-over on one
//! CPU (write, wake-up, switch, return) is subtracted; the rest is the interrupt's way and the exit from idle.
//!
//! Then the wakee does the same work twice: *cold*, and *warm* (crates/measure/src/cold.rs).
//!
//! Samples of all kinds take turns, so that other programs hit all of them. Figures are medians with quartiles. The
//! latencies of *idle* have percentiles up to 99.9, too (crates/machine/src/exits.rs): a program's tail is theirs. On a
//! busy machine the other CPU does not idle, so the CPU time that others than the wakee used there is measured, too; a
//! reader may ignore what was measured beside them.
//!
//! It fails where the wakee's CPU is taken by others all the time, and on machines whose CPUs differ: one pair of them
//! is measured.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use wakelab_machine::{Distance, Topology, at_percentiles};
use wakelab_measure::ColdWork;
use wakelab_trace::{Measured, MeasuredWake, WakeKind};

use crate::clock::{cpu_time_ns, now_ns, pin};
use crate::cost::{self, THREAD};

/// For how long the other CPU idles before a wake-up, in how many rounds, and how many wake-ups of a round count: the
/// tail is one in a hundred.
const IDLE: [(u64, usize, usize); 4] =
    [(10_000, 60, 8), (100_000, 60, 4), (1_000_000, 40, 1), (10_000_000, 15, 1)];
/// The most wake-ups before those that count, from which governor and host learn.
const LEARNING: u64 = 10;
/// The most time that they idle together.
const LEARNING_NS: u64 = 1_000_000;
/// Rounds of all kinds.
const ROUNDS: usize = 60;
/// Wake-ups on the waker's CPU in one round. The first of them finds cold caches.
const LOCAL: usize = 5;
/// After this time, the rest is left out.
const LIMIT: Duration = Duration::from_millis(1_500);
/// If a wakee does not run for this time, there are no figures.
const GIVE_UP_NS: u64 = 3_000_000_000;
/// A tick of /proc/stat (USER_HZ is 100).
const TICK_NS: u64 = 10_000_000;
/// The fewest samples of a kind.
const FEWEST: usize = 8;

/// The samples of one kind, in ns.
#[derive(Clone, Debug, Default)]
struct Samples {
    waker_ns: Vec<u64>,
    latency_ns: Vec<u64>,
    cold_ns: Vec<u64>,
    warm_ns: Vec<u64>,
}

/// Returns CPU 0, and the nearest CPU of another core.
pub(crate) fn pair(topology: &Topology) -> (u32, Option<u32>) {
    let distances = topology.distances();
    let others = (1..topology.nr_cpus() as u32).map(|cpu| (distances.between(0, cpu), cpu));
    (0, others.filter(|(distance, _)| *distance > Distance::Smt).min().map(|(_, cpu)| cpu))
}

/// Measures wake-ups from the first CPU onto itself and onto the second, if there is one.
pub(crate) fn measure((here, there): (u32, Option<u32>)) -> io::Result<Measured> {
    thread::scope(|scope| {
        let waker = thread::Builder::new().name(format!("{THREAD}-waker"));
        let samples = waker.spawn_scoped(scope, move || wake(here, there))?;
        samples.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}

/// What the waker and a wakee tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// When the wakee began to wait last.
    waits_since_ns: AtomicU64,
    /// When it was back from its last wait; 0 until then.
    back_ns: AtomicU64,
    /// By how much its first work took longer than the second.
    cold_ns: AtomicU64,
    /// How long the second took.
    warm_ns: AtomicU64,
    /// Its CPU time until then.
    used_ns: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    /// Whether the wakee waits, and for how long.
    fn waited_ns(&self) -> io::Result<Option<u64>> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("the wakee cannot run on the other CPU"));
        }
        let since_ns = self.waits_since_ns.load(Ordering::Acquire);
        Ok(if since_ns == 0 { None } else { Some(now_ns()?.saturating_sub(since_ns)) })
    }
}

/// The thread that wakes others.
fn wake(here: u32, there: Option<u32>) -> io::Result<Measured> {
    pin(here as usize)?;
    let before = there.and_then(ticks);
    let (near, far) = (Shared::default(), Shared::default());
    thread::scope(|scope| {
        let began = Instant::now();
        let (mut spare_out, mut spare_in) = io::pipe()?;
        let (mut back_out, back_in) = io::pipe()?;
        let mut near_in = wakee(scope, here, &near, Some(back_in))?;
        let mut far_in = there.map(|cpu| wakee(scope, cpu, &far, None)).transpose()?;
        let (mut none, mut none_cpu, mut local) =
            (Samples::default(), Samples::default(), Samples::default());
        let mut idle: [Samples; IDLE.len()] = Default::default();
        let mut byte = [0];
        for round in 0..ROUNDS {
            for _ in 0..LOCAL {
                none.waker_ns.push(write_ns(&mut spare_in)?.1);
                spare_out.read_exact(&mut byte)?;
                none_cpu.waker_ns.push(write_cpu_ns(&mut spare_in)?);
                spare_out.read_exact(&mut byte)?;
                local.waker_ns.push(write_cpu_ns(&mut near_in)?);
                back_out.read_exact(&mut byte)?;
            }
            let Some(far_in) = &mut far_in else { continue };
            for (samples, &(idle_ns, rounds, counted)) in idle.iter_mut().zip(&IDLE) {
                if round < rounds && began.elapsed() < LIMIT {
                    for _ in 0..LEARNING.min(LEARNING_NS / idle_ns) {
                        wake_idle(far_in, &far, idle_ns, &mut Samples::default())?;
                    }
                    for _ in 0..counted {
                        wake_idle(far_in, &far, idle_ns, samples)?;
                    }
                }
            }
        }
        drop((near_in, far_in));
        let used_ns = far.used_ns.load(Ordering::Acquire);
        let busy_percent = before
            .zip(there.and_then(ticks))
            .and_then(|(before, after)| busy_percent(before, after, used_ns));
        Ok(Measured {
            wakes: figures([&none, &none_cpu, &local], &idle, cost::hand_over_ns()?),
            busy_percent,
        })
    })
}

/// Wakes a thread once its CPU has been idle for `idle_ns`.
fn wake_idle(pipe: &mut PipeWriter, far: &Shared, idle_ns: u64, samples: &mut Samples) -> io::Result<()> {
    // It spins, so that its own CPU does not idle.
    while far.waited_ns()?.is_none_or(|waited_ns| waited_ns < idle_ns) {}
    far.back_ns.store(0, Ordering::Release);
    let (began_ns, waker_ns) = write_ns(pipe)?;
    let back_ns = loop {
        let back_ns = far.back_ns.load(Ordering::Acquire);
        if back_ns != 0 {
            break back_ns;
        }
        if far.waited_ns()?.is_some_and(|waited_ns| waited_ns > idle_ns + GIVE_UP_NS) {
            return Err(io::Error::other("other programs keep the other CPU busy"));
        }
    };
    samples.waker_ns.push(waker_ns);
    samples.latency_ns.push(back_ns.saturating_sub(began_ns));
    samples.cold_ns.push(far.cold_ns.load(Ordering::Acquire));
    samples.warm_ns.push(far.warm_ns.load(Ordering::Acquire));
    Ok(())
}

/// Writes a byte. Returns when that began, and how long it took.
fn write_ns(pipe: &mut PipeWriter) -> io::Result<(u64, u64)> {
    let began_ns = now_ns()?;
    pipe.write_all(&[0])?;
    Ok((began_ns, now_ns()?.saturating_sub(began_ns)))
}

/// Writes a byte. Returns the CPU time of that.
fn write_cpu_ns(pipe: &mut PipeWriter) -> io::Result<u64> {
    let began_ns = cpu_time_ns()?;
    pipe.write_all(&[0])?;
    Ok(cpu_time_ns()?.saturating_sub(began_ns))
}

/// Starts a thread that waits on `cpu` again and again until its pipe is closed. Returns its pipe. With `back` it says
/// so there.
fn wakee<'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpu: u32,
    shared: &'scope Shared,
    back: Option<PipeWriter>,
) -> io::Result<PipeWriter> {
    let (from, to) = io::pipe()?;
    thread::Builder::new().name(format!("{THREAD}-wakee")).spawn_scoped(scope, move || {
        if wait(cpu, shared, from, back).is_err() {
            shared.failed.store(true, Ordering::Release);
        }
    })?;
    Ok(to)
}

fn wait(cpu: u32, shared: &Shared, mut from: PipeReader, mut back: Option<PipeWriter>) -> io::Result<()> {
    pin(cpu as usize)?;
    let work = ColdWork::new()?;
    let mut byte = [0];
    loop {
        shared.waits_since_ns.store(now_ns()?, Ordering::Release);
        if from.read(&mut byte)? == 0 {
            return Ok(());
        }
        let back_ns = now_ns()?;
        shared.waits_since_ns.store(0, Ordering::Release);
        if let Some(back) = &mut back {
            back.write_all(&byte)?;
            continue;
        }
        let took = work.twice()?;
        shared.cold_ns.store(took.more_ns, Ordering::Release);
        shared.warm_ns.store(took.warm_ns, Ordering::Release);
        shared.used_ns.store(cpu_time_ns()?, Ordering::Release);
        shared.back_ns.store(back_ns, Ordering::Release);
    }
}

/// Turns samples into figures: the system call without a wake-up by the clock and in CPU time, with a wake-up on the
/// same CPU, and with one on another. `hand_over_ns` is the time from one thread to another on one CPU.
fn figures([none, none_cpu, local]: [&Samples; 3], idle: &[Samples], hand_over_ns: u64) -> Vec<MeasuredWake> {
    let [call_ns, call_cpu_ns] = [none, none_cpu].map(|samples| quartiles(&samples.waker_ns, 0)[1]);
    let of = |kind: WakeKind, idle_ns: u64, samples: &Samples, call_ns: u64| MeasuredWake {
        kind,
        idle_ns,
        samples: samples.waker_ns.len() as u64,
        waker_ns: quartiles(&samples.waker_ns, call_ns),
        latency_ns: quartiles(&samples.latency_ns, hand_over_ns),
        latency_percentiles_ns: at_percentiles(samples.latency_ns.clone())
            .map(|all_ns| all_ns.map(|ns| ns.saturating_sub(hand_over_ns))),
        cold_ns: quartiles(&samples.cold_ns, 0),
        warm_ns: quartiles(&samples.warm_ns, 0),
    };
    let local = of(WakeKind::Local, 0, local, call_cpu_ns);
    let mut all = vec![MeasuredWake { latency_ns: [hand_over_ns; 3], latency_percentiles_ns: None, ..local }];
    let idle = idle.iter().zip(IDLE);
    all.extend(idle.map(|(samples, (idle_ns, ..))| of(WakeKind::Idle, idle_ns, samples, call_ns)));
    all.retain(|wake| wake.samples >= FEWEST as u64);
    all
}

/// Returns the quartiles and the median, less `before_ns`.
fn quartiles(samples: &[u64], before_ns: u64) -> [u64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    [1, 2, 3].map(|quarter| {
        let at = sorted.get((sorted.len() * quarter / 4).min(sorted.len().saturating_sub(1)));
        at.map_or(0, |&ns| ns.saturating_sub(before_ns))
    })
}

/// Returns the ticks during which a CPU was busy, and all its ticks.
fn ticks(cpu: u32) -> Option<[u64; 2]> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
    // user, nice, system, idle, iowait, ..; guests are in user already.
    let ticks: Vec<u64> = line.split(' ').skip(1).take(8).map_while(|ticks| ticks.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    Some([all - ticks.get(3)? - ticks.get(4)?, all])
}

/// Returns the share of ticks in which others used a CPU, where the wakee used it for `used_ns`.
fn busy_percent(before: [u64; 2], after: [u64; 2], used_ns: u64) -> Option<u32> {
    let [busy, all] = [0, 1].map(|which| after[which].saturating_sub(before[which]));
    let others = busy.saturating_sub(used_ns / TICK_NS);
    u32::try_from((others * 100).checked_div(all)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let of = |waker_ns: &[u64], latency_ns: &[u64]| Samples {
            waker_ns: waker_ns.to_vec(),
            latency_ns: latency_ns.to_vec(),
            cold_ns: latency_ns.iter().map(|ns| ns / 10).collect(),
            warm_ns: latency_ns.to_vec(),
        };
        let (none, none_cpu) = (of(&[200; 8], &[]), of(&[300; 8], &[]));
        let local = of(&[1_300, 1_300, 1_300, 1_300, 1_400, 1_400, 1_500, 9_000], &[]);
        let idle = [of(&[20_200; 8], &[35_000; 8]), of(&[20_200; 7], &[90_000; 7])];
        let figures = figures([&none, &none_cpu, &local], &idle, 5_000);
        assert_eq!(figures.len(), 2, "seven samples are too few");
        assert_eq!((figures[0].kind, figures[0].waker_ns), (WakeKind::Local, [1_000, 1_100, 1_200]));
        assert_eq!((figures[1].kind, figures[1].idle_ns), (WakeKind::Idle, 10_000));
        assert_eq!(
            (figures[0].latency_percentiles_ns, figures[1].latency_percentiles_ns),
            (None, Some([30_000; 11]))
        );
        assert_eq!(
            (figures[1].waker_ns[1], figures[1].latency_ns[1], figures[1].cold_ns, figures[1].warm_ns),
            (20_000, 30_000, [3_500; 3], [35_000; 3])
        );
    }

    #[test]
    fn a_wake_up_on_the_same_cpu_is_measured() {
        let figures = measure((0, None)).expect("CPU 0 is there").wakes;
        let kinds: Vec<WakeKind> = figures.iter().map(|wake| wake.kind).collect();
        assert_eq!(kinds, [WakeKind::Local]);
        assert!(ticks(0).is_some_and(|[busy, all]| busy <= all), "this system has CPU 0");
    }

    #[test]
    fn the_share_of_others_by_hand() {
        assert_eq!(busy_percent([5, 100], [8, 130], 0), Some(10));
        assert_eq!(busy_percent([5, 100], [8, 130], 25_000_000), Some(3));
        assert_eq!(busy_percent([5, 100], [8, 130], 50_000_000), Some(0));
        assert_eq!(busy_percent([5, 100], [5, 100], 0), None);
    }

    #[test]
    fn the_other_cpu_is_on_another_core() {
        let machine = wakelab_machine::Machine::preset("xeon-2s22c2t").expect("a preset");
        let (here, there) = pair(&machine.topology);
        let there = there.expect("it has two cores");
        assert_ne!(machine.topology.cpus[there as usize].core, machine.topology.cpus[here as usize].core);
        assert_eq!(machine.topology.cpus[there as usize].llc, machine.topology.cpus[here as usize].llc);
    }
}
