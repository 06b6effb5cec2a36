// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads that are bound to CPUs.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs below `nr_cpus` that this thread may use. A set has room for [`CpuSet::MAX_CPU`].
pub(crate) fn allowed(nr_cpus: usize) -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..nr_cpus.min(CpuSet::MAX_CPU)).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Binds the calling thread to a CPU.
pub(crate) fn to(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs `work` in a thread that is bound to a CPU.
pub(crate) fn on<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| to(cpu).map(|()| work()));
        thread.join().expect("measurements do not panic")
    })
}

/// Where threads wait for each other before they begin.
struct Start {
    barrier: Barrier,
    failed: AtomicBool,
}

impl Start {
    fn new(threads: usize) -> Start {
        Start { barrier: Barrier::new(threads), failed: AtomicBool::new(false) }
    }

    /// Waits for the others. Returns what this thread has prepared; `None` if another one could not.
    fn wait<P>(&self, prepared: io::Result<P>) -> io::Result<Option<P>> {
        if prepared.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        self.barrier.wait();
        prepared.map(|prepared| (!self.failed.load(Ordering::Acquire)).then_some(prepared))
    }
}

/// Runs two threads, each bound to its CPU, and returns what the first returns. They begin together, and neither does
/// if one cannot be bound.
pub(crate) fn pair<T: Send>(
    (a, b): (u32, u32),
    first: impl FnOnce() -> T + Send,
    second: impl FnOnce() + Send,
) -> io::Result<T> {
    let start = Start::new(2);
    thread::scope(|scope| {
        let of_b = scope.spawn(|| start.wait(to(b)).map(|go| go.map(|()| second())));
        let of_a = scope.spawn(|| start.wait(to(a)).map(|go| go.map(|()| first())));
        of_b.join().expect("measurements do not panic")?;
        let result = of_a.join().expect("measurements do not panic")?;
        result.ok_or_else(|| io::Error::other("the other thread could not be bound"))
    })
}

/// Runs a thread on each of the CPUs: all prepare, and work begins when the last is ready. `prepare` is given the
/// thread's place in `cpus`. Nothing is run if one of them cannot be bound or prepared.
pub(crate) fn all<P, T: Send>(
    cpus: &[u32],
    prepare: impl Fn(usize) -> io::Result<P> + Sync,
    work: impl Fn(P) -> T + Sync,
) -> io::Result<Vec<T>> {
    let start = Start::new(cpus.len());
    let one = |at: usize, cpu: u32| start.wait(to(cpu).and_then(|()| prepare(at))).map(|go| go.map(&work));
    thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> =
            cpus.iter().enumerate().map(|(at, &cpu)| scope.spawn(move || one(at, cpu))).collect();
        let results: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("measurements do not panic")).collect();
        let results: io::Result<Vec<Option<T>>> = results.into_iter().collect();
        Ok(results?.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_bound() {
        let cpus = allowed(CpuSet::MAX_CPU).unwrap();
        let cpu = *cpus.last().unwrap();
        let own = || allowed(CpuSet::MAX_CPU).unwrap();
        assert_eq!(on(cpu, own).unwrap(), [cpu]);
        assert_eq!(pair((cpu, cpu), own, || {}).unwrap(), [cpu]);
        assert_eq!(own(), cpus);
        assert!(allowed(0).unwrap().is_empty());
        assert_eq!(all(&[cpu, cpu], Ok, |at| (at, own())).unwrap(), [(0, vec![cpu]), (1, vec![cpu])]);
    }

    #[test]
    fn neither_begins_if_one_cannot() {
        let cpu = allowed(CpuSet::MAX_CPU).unwrap()[0];
        let none = (CpuSet::MAX_CPU - 1) as u32;
        let begun = AtomicBool::new(false);
        let begin = || begun.store(true, Ordering::Release);
        assert!(pair((none, cpu), begin, begin).is_err());
        assert!(pair((cpu, none), begin, begin).is_err());
        assert!(all(&[cpu, none], Ok, |_| begin()).is_err());
        assert!(all(&[cpu], |_| Err::<(), _>(io::Error::other("no")), |()| begin()).is_err());
        assert!(!begun.into_inner());
    }
}
