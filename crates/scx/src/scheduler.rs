// SPDX-License-Identifier: GPL-2.0-only
//! Loads the BPF side with the policy and the topology, attaches it, and waits for its end.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use scx_utils::compat;
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited, uei_report};
use wakelab_machine::OnlineCpus;
use wakelab_policy::{PolicySpec, Tables};

use super::log::Log;
use super::stats::Stats;
use super::{OpenSkel, Skel, SkelBuilder, groups, types};
use crate::arguments::{Arguments, Bench, Break, Perf};
use crate::entitlement::Entitlement;
use crate::limits::Limits;
use crate::metrics::{Metrics, SCHEMA_VERSION};
use crate::print::say;
use crate::server::Server;
use crate::{
    Ending, MOST_CGROUPS, Starts, again, kernel_has, machine, may_limit, priority, server, verifier,
};

/// WL_MAX_CPUS of a BPF build (policy/base.h).
const MAX_CPUS: usize = 1024;
/// DETAIL_STATS (bpf/state.bpf.h): the level of detail that --stats needs.
const DETAIL_STATS: u32 = 2;

/// WL_CPU_BUSY (policy/policy.h); higher states are busy too.
const CPU_BUSY: u32 = 2;

/// Schedules until a signal, until stdout has no reader any more, until the kernel detaches the scheduler, or until
/// there are more cgroups than there is room for. Once attached, statistics are served.
///
/// # Errors
///
/// Fails if the scheduler cannot be attached, or if the kernel detached it because of an error.
pub(crate) fn attach_and_wait(
    args: &Arguments,
    spec: &PolicySpec,
    stop: &AtomicBool,
    starts: &mut Starts,
) -> Result<Ending> {
    let mut object = MaybeUninit::uninit();
    // This comes first, because it notes how many CPUs have come and gone: the kernel refuses to attach if one comes or
    // goes after that.
    let mut skel = open(&mut object)?;
    let OnlineCpus { topology, numbers } = machine::detect(&args.sysfs, args.machine.as_deref())?;
    let tables = Tables::build(&topology, spec)?.numbered(&numbers)?;
    ensure!(
        args.log.is_none() || tables.nr_cpus() == numbers.len(),
        "--log: a CPU is offline that has a lower number than others; a log needs numbers without gaps"
    );
    say(format_args!("topology: {}", machine::summary(&topology)))?;
    if args.verbose {
        say(machine::levels(&tables, numbers.len()).trim_end())?;
    }
    let bounded = spec.clone().behind_watchdog();
    prepare(&mut skel, args, &bounded, &tables, topology.nr_nodes(), starts.cgroups)?;
    let rodata = skel.maps.rodata_data.as_deref_mut().context("the skeleton has no .rodata")?;
    rodata.has_gaps = (tables.nr_cpus() != numbers.len()).into();
    rodata.break_start = args.break_by.is_some_and(|how| how.fails_start(starts.tries));
    rodata.has_limits = starts.has_limits.into();
    if starts.has_limits {
        // A throttled task must not go on because nothing else can run.
        skel.struct_ops.wakelab_ops_mut().flags |= *compat::SCX_OPS_ENQ_LAST;
    }
    let mut skel = scx_ops_load!(skel, wakelab_ops, uei)?;
    let attached = priority::as_real_time(|| scx_ops_attach!(skel, wakelab_ops));
    // Whether attaching itself fails then depends on the kernel; it has told the reason in any case.
    let data = skel.maps.data_data.as_deref().context("the skeleton has no .data")?;
    let message = again::text(&data.uei.msg);
    if let Some(pause) = again::pause(&message, starts.tries) {
        again::say(&message, starts.tries + 1);
        return Ok(Ending::NoRecord(pause));
    }
    let link = attached?;
    if args.verbose {
        say(verifier::summary(skel.object())?)?;
    }
    let mut limits = Limits::new();
    if starts.has_limits {
        groups::tell_limits(&skel, &mut limits)?;
    }
    say(format_args!("scheduling by {spec}"))?;
    warn_of_delays(&skel, spec, &tables)?;
    let log = Log::begin(&skel, args, &bounded, &topology, starts.count)?;

    // Not earlier: if another scheduler keeps this one out, its socket must stay.
    if starts.server.is_none() {
        starts.server = server::launch();
    }
    let mut observer = Observer::new(args, spec, tables.nr_cpus(), numbers.len());
    let again = wait(&skel, args, stop, starts, &log, &mut observer, &mut limits)?;
    drop(link);
    if args.bench == Some(Bench::Search) {
        say(observer.stats(&skel)?.search())?;
    }
    log.end(&skel, tables.nr_cpus())?;
    report_end(&skel, args, &tables)?;
    let ended =
        uei_report!(&skel, uei).context("the kernel detached the scheduler and uses its own again")?;
    Ok(match () {
        () if ended.should_restart() => Ending::CpusChanged,
        () => again.unwrap_or(Ending::Stopped),
    })
}

/// Says that a queue of tasks that sleep is none here.
fn warn_of_delays(skel: &Skel<'_>, spec: &PolicySpec, tables: &Tables) -> Result<()> {
    let bss = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?;
    let nr_groups = bss.policy.params.nr_groups as usize;
    if spec.params_on(tables, machine::tick_ns()?, nr_groups)?.traits().delays != 0 {
        eprintln!(
            "scx_wakelab: a task that sleeps leaves its queue at once, whatever queue={} says, because the queues of sched_ext hold runnable tasks only",
            spec.queue.name()
        );
    }
    Ok(())
}

/// Opens the BPF side; the kernel has not seen it yet.
fn open(object: &mut MaybeUninit<OpenObject>) -> Result<OpenSkel<'_>> {
    let builder = SkelBuilder::default();
    let options = LibbpfOpts::default().into_bpf_open_opts();
    Ok(scx_ops_open!(builder, object, wakelab_ops, options)?)
}

/// Writes the policy, the topology and the options into the BPF side.
fn prepare(
    skel: &mut OpenSkel<'_>,
    args: &Arguments,
    spec: &PolicySpec,
    tables: &Tables,
    nodes: usize,
    cgroups: u32,
) -> Result<()> {
    let ops = skel.struct_ops.wakelab_ops_mut();
    ops.exit_dump_len = args.exit_dump_len;
    ops.flags |= kernel_has::flags(nodes);
    if !kernel_has::has_hook("cpu_release") {
        ops.cpu_release = std::ptr::null_mut();
    }
    if args.partial {
        ops.flags |= *compat::SCX_OPS_SWITCH_PARTIAL;
    }
    let nr_groups = groups::reserve(skel, cgroups, args.cgroups.is_none(), tables.nr_cpus())?;
    if args.verbose {
        say(groups::room(nr_groups, tables.nr_cpus()))?;
    }
    install(skel, spec, tables, nr_groups)?;
    let params = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?.policy.params;
    let rodata = skel.maps.rodata_data.as_deref_mut().context("the skeleton has no .rodata")?;
    rodata.policy_params = params;
    rodata.break_stall = args.break_by == Some(Break::Stall);
    rodata.detail = if args.stats.is_some() { DETAIL_STATS } else { tables.times_scans(spec).into() };
    rodata.is_partial = args.partial.into();
    rodata.tells_perf = tells_perf(args.perf, &args.sysfs).into();
    rodata.bench_search = (args.bench == Some(Bench::Search)).into();
    if args.bench == Some(Bench::Empty) {
        remove_hooks(skel);
    }
    Log::prepare(skel, args)
}

/// Is the governor told how fast CPUs should run?
fn tells_perf(perf: Perf, sysfs: &Path) -> bool {
    match perf {
        Perf::Auto => machine::governors(sysfs).contains("schedutil"),
        Perf::On => true,
        Perf::Off => false,
    }
}

/// Serves, logs and prints statistics until the scheduler should end, or has ended. Returns why it should start again,
/// if it should.
fn wait(
    skel: &Skel<'_>,
    args: &Arguments,
    stop: &AtomicBool,
    starts: &Starts,
    log: &Log,
    observer: &mut Observer,
    limits: &mut Limits,
) -> Result<Option<Ending>> {
    let channels = starts.server.as_ref().map(Server::channels);
    let every = args.stats.filter(|&seconds| seconds > 0).map(Duration::from_secs);
    let mut last = Instant::now();
    let mut printed = observer.metrics(skel)?;
    let mut without_slot = 0;
    let may_limit = may_limit(args, starts.cgroups);
    while !stop.load(Ordering::Relaxed) && !uei_exited!(skel, uei) {
        // Not a wait in the channel, because that spins before it sleeps. On a real machine this costs little, but an
        // emulated CPU that spins gives its turn away, and the loader would seem to compute all the time.
        thread::sleep(log.pause());
        if let Some((answers, requests)) = &channels {
            while requests.try_recv().is_ok() {
                // A client that has gone waits for no answer.
                let _ = answers.send(observer.metrics(skel)?);
            }
        }
        log.drain()?;
        observer.sample_if_due(skel)?;
        let bss = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?;
        let left_out = groups::without_slot(&bss.group_counts);
        if args.cgroups.is_none() && starts.cgroups < MOST_CGROUPS && left_out > 0 {
            return Ok(Some(Ending::MoreCgroups));
        }
        if starts.has_limits {
            groups::tell_limits(skel, limits)?;
        } else if may_limit && limits.look().is_some_and(|found| !found.is_empty()) {
            return Ok(Some(Ending::Limits));
        }
        groups::warn_without_slot(left_out, starts.cgroups, &mut without_slot);
        if every.is_some_and(|every| last.elapsed() >= every) {
            last = Instant::now();
            let now = observer.metrics(skel)?;
            if !server::print(&now.since(&printed), args.format)? {
                break;
            }
            printed = now;
        }
    }
    Ok(None)
}

/// Reports what the policy's accounts still hold once the scheduler is detached.
fn report_end(skel: &Skel<'_>, args: &Arguments, tables: &Tables) -> Result<()> {
    let bss = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?;
    let mut left = leftovers(&bss.policy, tables);
    left.extend(groups::leftovers(
        &skel.maps.wl_group_cpus,
        bss.group_counts.highest_slot,
        tables.nr_cpus() as u32,
    )?);
    report_leftovers(&left, args.verbose)?;
    let told = bss.scratch[..tables.nr_cpus()].iter().map(|cpu| (cpu.told, cpu.most_told));
    if args.verbose && told.clone().any(|(times, _)| times > 0) {
        let times: u64 = told.clone().map(|(times, _)| times).sum();
        let most: Vec<String> = told.map(|(_, most)| most.to_string()).collect();
        say(format_args!("performance: asked for {times} times, at most {} of 1024", most.join(" ")))?;
    }
    if args.verbose && bss.timer_stats.firings > 1 {
        say(groups::monitor(&bss.timer_stats))?;
    }
    Ok(())
}

/// Reads the counters and, with --stats, samples what each cgroup is entitled to.
struct Observer {
    policy: String,
    /// One more than the highest number of a CPU.
    nr_cpus: usize,
    /// The number of CPUs.
    online: u64,
    attached: Instant,
    entitlement: Option<Entitlement>,
}

impl Observer {
    fn new(args: &Arguments, spec: &PolicySpec, nr_cpus: usize, online: usize) -> Observer {
        let entitlement = args.stats.map(|_| Entitlement::new(args.partial));
        let (policy, online) = (spec.to_string(), online as u64);
        Observer { policy, nr_cpus, online, attached: Instant::now(), entitlement }
    }

    fn stats(&self, skel: &Skel<'_>) -> Result<Stats> {
        let bss = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?;
        Ok(Stats::read(&bss.stats, self.nr_cpus))
    }

    /// Returns the counts since the scheduler was attached.
    fn metrics(&mut self, skel: &Skel<'_>) -> Result<Metrics> {
        // The last sample of the groups must end where the interval does.
        self.sample(skel)?;
        let groups = match &mut self.entitlement {
            Some(entitlement) => entitlement.metrics(),
            None => BTreeMap::new(),
        };
        Ok(Metrics {
            schema_version: SCHEMA_VERSION,
            kind: "stats".to_owned(),
            policy: self.policy.clone(),
            cpus: self.online,
            interval_ns: self.attached.elapsed().as_nanos() as u64,
            detailed: self.entitlement.is_some().into(),
            groups,
            ..self.stats(skel)?.metrics()
        })
    }

    /// Samples the groups if the next sample is due.
    fn sample_if_due(&mut self, skel: &Skel<'_>) -> Result<()> {
        if self.entitlement.as_ref().is_some_and(Entitlement::is_due) {
            self.sample(skel)?;
        }
        Ok(())
    }

    fn sample(&mut self, skel: &Skel<'_>) -> Result<()> {
        let Some(entitlement) = &mut self.entitlement else { return Ok(()) };
        let began = Instant::now();
        let (groups, root_tasks) = groups::look(skel, self.nr_cpus)?;
        entitlement.add(groups, root_tasks, self.online, began);
        Ok(())
    }
}

/// Writes the parameters and the tables to the head of the BPF side's `policy`; only possible before it is loaded.
fn install(skel: &mut OpenSkel<'_>, spec: &PolicySpec, tables: &Tables, nr_groups: u32) -> Result<()> {
    let params = spec.params_on(tables, machine::tick_ns()?, nr_groups as usize)?;
    let bss = skel.maps.bss_data.as_deref_mut().context("the skeleton has no .bss")?;
    let policy: *mut types::wl_policy = &mut bss.policy;
    // SAFETY: a live, exclusive reference; every bit pattern is a valid value of its fields, which are all integers.
    #[allow(unsafe_code)]
    let bytes = unsafe { std::slice::from_raw_parts_mut(policy.cast::<u8>(), size_of::<types::wl_policy>()) };
    tables.write_image(&params, MAX_CPUS, bytes)?;
    Ok(())
}

/// Removes all hooks, so that the kernel's defaults schedule.
fn remove_hooks(skel: &mut OpenSkel<'_>) {
    let ops = skel.struct_ops.wakelab_ops_mut();
    *ops = types::sched_ext_ops {
        exit: ops.exit,
        timeout_ms: ops.timeout_ms,
        exit_dump_len: ops.exit_dump_len,
        hotplug_seq: ops.hotplug_seq,
        name: ops.name,
        ..Default::default()
    };
    for mut program in skel.open_object_mut().progs_mut() {
        if program.name() != "wakelab_exit" {
            program.set_autoload(false);
        }
    }
}

/// Reports every account that does not balance, which is a bug of this scheduler; with `verbose` also that all do.
fn report_leftovers(found: &[String], verbose: bool) -> Result<()> {
    if found.is_empty() && verbose {
        say("accounting: balanced")?;
    }
    for line in found {
        eprintln!("scx_wakelab: accounting: {line}");
    }
    Ok(())
}

/// Returns every account that does not balance after detaching: all tasks have left, so each CPU must count none, and
/// each domain must count the CPUs that were busy last.
fn leftovers(policy: &types::wl_policy, tables: &Tables) -> Vec<String> {
    let mut found = Vec::new();
    for (number, cpu) in policy.cpu[..tables.nr_cpus()].iter().enumerate() {
        let (queued, running, load) = (cpu.nr_queued as i32, cpu.nr_running as i32, cpu.load as i64);
        let slots = cpu.exact.slots as i64;
        if (queued, running, load, slots) != (0, 0, 0, 0) {
            found.push(format!(
                "CPU {number} still counts {queued} queued, {running} running, load {load}, slots {slots}"
            ));
        }
    }
    for level in tables.levels.iter().filter(|level| level.has_counters) {
        for domain in 0..level.first.len() {
            let counted = policy.counter[level.counter_base as usize + domain].busy;
            let is_busy = |&&cpu: &&u16| policy.cpu[cpu as usize].state >= CPU_BUSY;
            let busy = level.domain(domain).iter().filter(is_busy).count();
            if busy != counted as usize {
                let cpus = level.domain(domain);
                found.push(format!("{} {cpus:?} counts {counted} busy CPUs, not {busy}", level.kind.name()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a policy of zeroes, as the BPF side has at its start.
    fn no_policy() -> Box<types::wl_policy> {
        // SAFETY: integers only, for which zero is a value; boxed, because it is half a megabyte.
        #[allow(unsafe_code)]
        unsafe {
            Box::<types::wl_policy>::new_zeroed().assume_init()
        }
    }

    #[test]
    fn leftovers_are_named() {
        let topology = wakelab_machine::Machine::preset("xeon-2s22c2t").unwrap().topology;
        let tables = Tables::build(&topology, &"linux-4.15+idle=smt-balance".parse().unwrap()).unwrap();
        let mut policy = no_policy();
        policy.cpu[1].state = CPU_BUSY;
        policy.counter[tables.levels[1].dom_of[1] as usize].busy = 1;
        assert_eq!(leftovers(&policy, &tables), Vec::<String>::new());
        policy.cpu[3].nr_queued = u32::MAX;
        policy.cpu[4].load = 1024;
        policy.cpu[5].exact.slots = 2;
        policy.cpu[1].state = 0;
        let found = leftovers(&policy, &tables);
        assert_eq!(found[0], "CPU 3 still counts -1 queued, 0 running, load 0, slots 0");
        assert_eq!(found[1], "CPU 4 still counts 0 queued, 0 running, load 1024, slots 0");
        assert_eq!(found[2], "CPU 5 still counts 0 queued, 0 running, load 0, slots 2");
        assert_eq!(found[3], "smt [1, 45] counts 1 busy CPUs, not 0");
        assert_eq!(found.len(), 4);
    }
}
