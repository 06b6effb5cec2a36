// SPDX-License-Identifier: GPL-2.0-or-later
//! Arguments turned into what they mean: reads files, looks up names, and refuses everything that is wrong before
//! anything runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use wakelab_lab::{DEMO_NAME, Kernel, demo_recording};
use wakelab_machine::{CostChange, Machine, Term, printable};
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario};
use wakelab_trace::{Changed, Header, Options, Recording, WhatIf};
use wakelab_workload::Workload;

use crate::args::{Host, ImportArgs, InputArgs, KernelArgs, RecordingArgs, SeedsArgs, WhatIfArgs};
use crate::error::bad_input;
use crate::print;
use crate::suggest::did_you_mean;

/// The policy of recordings that do not tell their kernel.
pub(crate) const DEFAULT_KERNEL: &str = "linux-6.12";

/// The machine that made the recording.
const RECORDED: &str = "recorded";

/// The argument that stands for standard input.
const STDIN: &str = "-";

/// The runs of `compare` and `run`.
pub(crate) struct Comparison {
    /// One scenario for each policy, the baseline first.
    pub(crate) scenarios: Vec<Scenario>,
    /// The policies as typed, which head the columns.
    pub(crate) policy_names: Vec<String>,
    /// The seeds with which every policy runs.
    pub(crate) seeds: Vec<u64>,
    /// The recording, if the input is one.
    pub(crate) recording: Option<Recording>,
    /// What the tasks of the recording have become, for the machine and by what-if options; one for each machine.
    pub(crate) changed: Vec<Changed>,
}

/// Reads the input and makes a scenario of it for each machine and each policy. `beside`: a what-if of one policy on
/// one machine is compared with that policy and machine unchanged; otherwise everything is changed.
pub(crate) fn comparison(
    args: &InputArgs,
    (machines, without): (&[String], &[Term]),
    policy_names: &[String],
    kernel: &KernelArgs,
    seeds: Vec<u64>,
    beside: bool,
) -> Result<Comparison> {
    let policies = policies(policy_names)?;
    let (workload, recording) = input(args)?;
    let machine = |name: &String| machine_of(name, recording.as_ref(), without);
    let machines = machines.iter().map(machine).collect::<Result<Vec<_>>>()?;
    note_unused(policy_names, &machines);
    let is_one = machines.len() == 1 && policies.len() == 1;
    let sides: &[bool] = if beside && is_one && has_what_if(args) { &[false, true] } else { &[true] };
    let (mut scenarios, mut names, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for &is_changed in sides {
        let what_if = if is_changed { what_if(&args.what_if) } else { WhatIf::default() };
        let costs = if is_changed { &args.cost[..] } else { &[] };
        let options = if is_changed && sides.len() > 1 { what_if_options(&args.what_if) } else { Vec::new() };
        let words: String = options.iter().map(|option| format!(" {option}")).collect();
        for machine in &machines {
            let machine = with_costs(machine, costs)?;
            let mut workload = Arc::clone(&workload);
            changed.push(change(&what_if, &mut workload, &machine, recording.is_some())?);
            note_without_slices(&workload, policy_names.iter().map(String::as_str).zip(&policies));
            scenarios.extend(wakelab_lab::scenarios(&machine, &workload, &policies, self::kernel(kernel)));
            names.extend(policy_names.iter().map(|name| format!("{name}{words}")));
        }
    }
    Ok(Comparison { scenarios, policy_names: names, seeds, recording, changed })
}

/// Notes axes that a policy sets and does not use on machines of two speeds.
pub(crate) fn note_unused(policy_names: &[String], machines: &[Arc<Machine>]) {
    let has_two_speeds = |machine: &Arc<Machine>| {
        let speeds = || machine.topology.cpus.iter().map(|cpu| cpu.capacity);
        speeds().min() != speeds().max()
    };
    if machines.iter().any(has_two_speeds) {
        for name in policy_names {
            let elsewhere = PolicySpec::ignored(name, false);
            let here = PolicySpec::ignored(name, true).into_iter().filter(|line| !elsewhere.contains(line));
            here.for_each(|line| print::note(&format!("--policy {name}: {line}")));
        }
    }
}

/// Whether an option changes tasks or costs.
fn has_what_if(args: &InputArgs) -> bool {
    !args.cost.is_empty() || !what_if_options(&args.what_if).is_empty()
}

/// `--cost`: the machine with these costs replaced.
pub(crate) fn with_costs(machine: &Arc<Machine>, costs: &[CostChange]) -> Result<Arc<Machine>> {
    for (index, cost) in costs.iter().enumerate() {
        if costs[..index].iter().any(|other| other.is_of_same(cost)) {
            return Err(bad_input(format!("--cost {cost}: is given twice; expected it once")));
        }
    }
    costs.iter().try_fold(Arc::clone(machine), |machine, cost| {
        Ok(Arc::new(machine.with_cost(cost).map_err(bad_input)?))
    })
}

/// Says which policies do not know the slices that tasks of a workload ask for.
pub(crate) fn note_without_slices<'a>(
    workload: &Workload,
    policies: impl IntoIterator<Item = (&'a str, &'a PolicySpec)>,
) {
    let asking = workload.tasks.iter().filter(|task| task.slice_ns.is_some()).count();
    let without = policies.into_iter().filter(|(_, policy)| asking > 0 && policy.traits().own_slices == 0);
    for (name, _) in without {
        print::note(&format!(
            "--policy {name}: tasks cannot ask for slices there, as in Linux before 6.12: those of {asking} tasks change \
             nothing"
        ));
    }
}

/// `--host`, `--limit-s` and `--limit-events`.
pub(crate) fn kernel(args: &KernelArgs) -> Kernel {
    let host = match args.host {
        Host::Mainline => HostProfile::Mainline,
        Host::SchedExt => HostProfile::SchedExt,
    };
    Kernel { host, limit_ns: args.limit_ns, limit_events: args.limit_events }
}

/// `--policy`, which may be repeated.
pub(crate) fn policies(names: &[String]) -> Result<Vec<PolicySpec>> {
    names.iter().map(|name| policy(name)).collect()
}

/// `--policy`. Notes axes that it sets and that another of its axes overrides.
pub(crate) fn policy(name: &str) -> Result<PolicySpec> {
    let spec =
        name.parse().map_err(|error| bad_input(format!("--policy {name}: {error}{}", policy_meant(name))))?;
    let ignored = PolicySpec::ignored(name, false);
    ignored.iter().for_each(|line| print::note(&format!("--policy {name}: {line}")));
    Ok(spec)
}

/// Suggests a name, an axis or a value for a policy that is not known.
pub(crate) fn policy_meant(text: &str) -> String {
    let mut words = text.split('+');
    let base = words.next().unwrap_or_default();
    let aliases = || PolicySpec::aliases().iter().map(|alias| alias.name);
    let names = || PolicySpec::named().iter().map(|policy| policy.name).chain(aliases());
    if !names().any(|name| name == base) {
        return did_you_mean(base, names());
    }
    let axes = PolicySpec::axes();
    for word in words {
        let Some((axis, value)) = word.split_once('=') else { continue };
        match axes.iter().find(|known| known.name == axis) {
            Some(known) if known.values.iter().any(|known| known.name == value) => {}
            Some(known) => return did_you_mean(value, known.values.iter().map(|value| value.name)),
            None => {
                let tunables = PolicySpec::tunables().map(|(name, _)| name);
                return did_you_mean(axis, axes.iter().map(|axis| axis.name).chain(tunables));
            }
        }
    }
    String::new()
}

/// `--machine`, without some terms of the cost model.
pub(crate) fn machine(name: &str, without: &[Term]) -> Result<Arc<Machine>> {
    let machine = Machine::load(name).map_err(|error| {
        let meant = match error {
            wakelab_machine::MachineError::Unknown { .. } => {
                did_you_mean(name, wakelab_machine::presets().iter().map(|(name, _)| *name))
            }
            _ => String::new(),
        };
        bad_input(format!("{error}{meant}"))
    })?;
    Ok(Arc::new(without.iter().fold(machine, |machine, &term| machine.without(term))))
}

/// `--machine` of a command that may read a recording: `recorded` is the machine that made it, as far as it tells.
pub(crate) fn machine_of(
    name: &str,
    recording: Option<&Recording>,
    without: &[Term],
) -> Result<Arc<Machine>> {
    let (base, times) = Machine::split_times(name).map_err(bad_input)?;
    let Some(recording) = recording.filter(|_| base == RECORDED) else { return machine(name, without) };
    let own = wakelab_lab::recorded_machine(recording).map_err(bad_input)?;
    let machine = times.map_or(Ok(own.clone()), |times| own.times(times)).map_err(bad_input)?;
    Ok(Arc::new(without.iter().fold(machine, |machine, &term| machine.without(term))))
}

/// `--machine`, which may be repeated.
pub(crate) fn machines(names: &[String]) -> Result<Vec<Arc<Machine>>> {
    names.iter().map(|name| machine(name, &[])).collect()
}

/// `--seed` and `--seeds`.
pub(crate) fn seeds(args: &SeedsArgs) -> Vec<u64> {
    wakelab_lab::consecutive_seeds(args.first.seed, args.seeds)
}

/// Parses text that can only be a workload.
pub(crate) fn workload(spec: &str) -> Result<Arc<Workload>> {
    let parsed = Workload::parse_spec(spec);
    Ok(Arc::new(parsed.map_err(|error| bad_input(format!("{error}{}", workload_meant(spec))))?))
}

/// Parses `WORKLOAD...`.
pub(crate) fn workloads(specs: &[String]) -> Result<Vec<Arc<Workload>>> {
    specs.iter().map(|spec| workload(spec)).collect()
}

/// Suggests a name for a workload that is not known.
pub(crate) fn workload_meant(spec: &str) -> String {
    let name = name_of(spec);
    if is_workload(spec) { String::new() } else { did_you_mean(name, wakelab_workload::presets()) }
}

/// Returns the files from which the input is read; no output may replace them.
pub(crate) fn files<'a>(args: &'a InputArgs, machine: &'a str) -> Vec<&'a Path> {
    let import = args.import.recorded_on.as_deref();
    let texts = [args.input.as_deref(), args.workload.as_deref().map(name_of), import, Some(machine)];
    texts.into_iter().flatten().map(Path::new).chain(args.recording.as_deref()).collect()
}

/// `--recording`, `--workload`, or INPUT.
pub(crate) fn input(args: &InputArgs) -> Result<(Arc<Workload>, Option<Recording>)> {
    let InputArgs { input, recording, workload, import, .. } = args;
    if let Some(path) = recording {
        return read_without_recorder(path, import);
    }
    if let Some(spec) = workload {
        return only_workload(spec, args);
    }
    let Some(input) = input else { return Err(bad_input("an INPUT is needed: a recording or a workload")) };
    let path = Path::new(input);
    // A pipe is a recording too: the shell's <(perf script).
    let is_file = path.metadata().is_ok_and(|file| !file.is_dir());
    // LTTng's trace is one, but a folder may have a workload's name.
    let is_folder = path.is_dir() && !is_workload(input);
    if is_toml(input) {
        return only_workload(input, args);
    }
    if is_file || is_folder || input == STDIN || (input == DEMO_NAME && !is_workload(input)) {
        return read_without_recorder(path, import);
    }
    only_workload(input, args).map_err(|error| {
        if is_workload(input) {
            return error;
        }
        bad_input(format!("{error}; and there is no recording of that name, because there is no such file"))
    })
}

fn only_workload(spec: &str, args: &InputArgs) -> Result<(Arc<Workload>, Option<Recording>)> {
    match for_recordings(args) {
        Some(option) => Err(bad_input(format!("{option}: '{spec}' is a workload; expected a recording"))),
        None => Ok((workload(spec)?, None)),
    }
}

/// Reads a recording from a file, from standard input, or the built-in one if no file has its name.
fn read_recording(path: &Path, args: &ImportArgs) -> Result<(Arc<Workload>, Recording)> {
    let recording = read_as(path, &options(args)?)?;
    Ok((Arc::new(recording.workload.clone()), recording))
}

/// Reads a recording for replays on any machine, without what recording cost its tasks. That stands at the end of a
/// recording, so the lines are read twice; a pipe's cannot be, and it keeps the cost. The built-in one has no header.
fn read_without_recorder(path: &Path, args: &ImportArgs) -> Result<(Arc<Workload>, Option<Recording>)> {
    let options = options(args)?;
    let header = if path.exists() && can_be_read_again(path) {
        wakelab_trace::read_header(path).map_err(bad_input)?
    } else {
        None
    };
    let event_cost_ns = header.and_then(|header| header.event_cost_ns);
    let recording = read_as(path, &Options { event_cost_ns, ..options })?;
    Ok((Arc::new(recording.workload.clone()), Some(recording)))
}

/// The options for reading a recording.
fn options(args: &ImportArgs) -> Result<Options> {
    let recorded_on = args.recorded_on.as_deref().map(|name| machine(name, &[])).transpose()?;
    Ok(Options {
        strict: args.strict,
        recorded_on: recorded_on.map(Arc::unwrap_or_clone),
        event_cost_ns: None,
        of: args.of.clone(),
        open: args.open_loop.clone(),
        closed: args.closed_loop.clone(),
        recorded_waits_only: args.recorded_waits_only,
        repeat: args.repeat,
    })
}

/// Changes the tasks of a workload, and fits those of a recording onto the machine. Other workloads stay strict: a
/// file that names a CPU means that CPU.
pub(crate) fn change(
    what_if: &WhatIf,
    workload: &mut Arc<Workload>,
    machine: &Machine,
    is_recording: bool,
) -> Result<Changed> {
    let refuse = |(option, error)| bad_input(format!("{option}: {error}"));
    if is_recording {
        return what_if.apply(Arc::make_mut(workload), machine.topology.nr_cpus() as u32).map_err(refuse);
    }
    if *what_if == WhatIf::default() {
        return Ok(Changed::default());
    }
    what_if.apply_to_model(Arc::make_mut(workload)).map_err(refuse)
}

/// Refuses options that change tasks where a recording is compared with itself.
pub(crate) fn refuse_what_if(args: &WhatIfArgs) -> Result<()> {
    match what_if_options(args).into_iter().next() {
        None => Ok(()),
        Some(option) => Err(bad_input(format!(
            "{option} is for `wakelab check` only with --against TRUTH: what was recorded had no such change"
        ))),
    }
}

/// Reads the recording with which a what-if is compared.
pub(crate) fn truth(path: &Path, of: &[String]) -> Result<Recording> {
    read_as(path, &Options { of: of.to_vec(), ..Options::default() })
}

/// The options that change tasks, as typed.
pub(crate) fn what_if_options(args: &WhatIfArgs) -> Vec<String> {
    let faster = args.faster.iter().map(|change| format!("--faster {change}"));
    of_recordings(args).chain(faster).collect()
}

/// Those of them that only a recording has.
fn of_recordings(args: &WhatIfArgs) -> impl Iterator<Item = String> {
    let nice = args.nice.iter().map(|change| format!("--nice {change}"));
    let nice = nice.chain(args.slice.iter().map(|change| format!("--slice {change}")));
    let cpus = args.cpus.iter().map(|change| format!("--cpus {change}"));
    let weight = args.weight.iter().map(|change| format!("--weight {change}"));
    nice.chain(cpus).chain(weight).chain(args.quota.iter().map(|change| format!("--quota {change}")))
}

/// The options that change tasks.
pub(crate) fn what_if(args: &WhatIfArgs) -> WhatIf {
    WhatIf {
        nice: args.nice.clone(),
        slices: args.slice.clone(),
        cpus: args.cpus.clone(),
        weights: args.weight.clone(),
        quotas: args.quota.clone(),
        faster: args.faster.clone(),
    }
}

fn read_as(path: &Path, options: &Options) -> Result<Recording> {
    let read = if path == Path::new(STDIN) {
        wakelab_trace::read_from(std::io::stdin().lock(), "standard input", "standard input", options)
    } else if path == Path::new(DEMO_NAME) && !path.exists() {
        wakelab_trace::read_from(demo_recording(), DEMO_NAME, DEMO_NAME, options)
    } else if is_descriptor(path) {
        // The name of the shell's <(perf script), such as /dev/fd/63, would mean nothing in a title.
        std::fs::File::open(path)
            .map_err(|source| bad_input(format!("{}: {source}", path.display())))
            .map(|file| wakelab_trace::read_from(file, &path.display().to_string(), "recording", options))?
    } else {
        wakelab_trace::read(path, options)
    };
    read.map_err(bad_input)
}

/// Reads a recording, and returns the machine that made it: `--machine`, or what the recording itself tells.
pub(crate) fn recorded(args: &RecordingArgs, name: Option<&str>) -> Result<(Recording, Arc<Machine>)> {
    let given = name.map(|name| machine(name, &[])).transpose()?;
    let (_, recording) = read_recording(&args.recording, &args.import)?;
    let machine = match given {
        Some(machine) => machine,
        None => Arc::new(wakelab_lab::recorded_machine(&recording).map_err(bad_input)?),
    };
    check_recording(&recording, &machine)?;
    Ok((recording, machine))
}

/// Reads a recording as made by [`recorded`]'s machine, so that a replay charges for the kernel what was subtracted. A
/// pipe can be read only once, so its CPU time counts as work.
pub(crate) fn recorded_on_itself(
    args: &RecordingArgs,
    name: Option<&str>,
) -> Result<(Recording, Arc<Machine>)> {
    let (recording, machine) = recorded(args, name)?;
    let path = &args.recording;
    if args.import.recorded_on.is_some() || !can_be_read_again(path) {
        return Ok((recording, machine));
    }
    let mut options = options(&args.import)?;
    options.recorded_on = Some((*machine).clone());
    Ok((read_as(path, &options)?, machine))
}

/// Returns the recording of a comparison as its own machine replays it once, and that machine: `--recorded-on`, or what
/// the recording itself tells. `None` if there is no such recording: several runs of a pipe.
pub(crate) fn replayed_on_itself(
    args: &InputArgs,
    recording: &Recording,
) -> Result<Option<(Recording, Arc<Machine>)>> {
    let machine = match args.import.recorded_on.as_deref() {
        Some(name) => machine(name, &[])?,
        None => Arc::new(wakelab_lab::recorded_machine(recording).map_err(|error| {
            bad_input(format!("{error}; --no-check compares without the error of a replay on that machine"))
        })?),
    };
    let path = args.recording.as_deref().or(args.input.as_deref().map(Path::new));
    let again = path.filter(|path| can_be_read_again(path));
    // What is compared with the recording has a recorder, too.
    let has_recorder = recording.event_cost_ns.is_none();
    let is_the_same = args.import.recorded_on.is_some() && recording.runs == 1 && has_recorder;
    let recording = match again {
        Some(path) if !is_the_same => {
            let recorded_on = Some((*machine).clone());
            read_as(path, &Options { recorded_on, repeat: None, ..options(&args.import)? })?
        }
        _ if recording.runs == 1 => recording.clone(),
        _ => return Ok(None),
    };
    Ok(Some((recording, machine)))
}

/// Whether a recording is no pipe, which can be read only once.
fn can_be_read_again(path: &Path) -> bool {
    path.is_file() || path.is_dir() || (path == Path::new(DEMO_NAME) && !path.exists())
}

/// Returns the policy nearest to the recorded kernel's, and why it was chosen. Without a header that tells the kernel
/// it is [`DEFAULT_KERNEL`].
pub(crate) fn recorded_policy(recording: &Recording) -> (String, Option<String>) {
    let Some((header, nearest)) =
        recording.header.as_ref().and_then(|header| Some((header, PolicySpec::of_kernel(&header.kernel)?)))
    else {
        return (DEFAULT_KERNEL.to_owned(), None);
    };
    let axes = header.patched_axes();
    let tunables = changed_tunables(header, recording, nearest);
    let name = format!("{nearest}{axes}{tunables}");
    let as_patched = if axes.is_empty() { "" } else { ", and the axes nearest to its patch" };
    let as_tuned = if tunables.is_empty() { "" } else { ", with the tunables that it had" };
    let why = format!(
        "policy {name}: the newest kernel's that is not newer than the recorded one ({}){as_patched}{as_tuned}",
        printable(&header.kernel)
    );
    (name, Some(why))
}

/// Returns the tunables of the recorded kernel that are not the policy's defaults on as many CPUs, to be added to its
/// name. A kernel has them from its boot on, whatever became of its CPUs.
fn changed_tunables(header: &Header, recording: &Recording, policy: &str) -> String {
    let machine = header.machine(&recording.workload.name).ok().flatten();
    let nr_cpus = machine.map_or(recording.nr_cpus as usize, |machine| machine.topology.nr_cpus());
    let default = |name: &str| {
        let params = policy.parse::<PolicySpec>().ok()?.params(nr_cpus, 1_000_000).ok()?;
        Some(match name {
            "latency-ns" => params.latency_ns,
            "min-granularity-ns" => params.min_granularity_ns,
            "wakeup-granularity-ns" => params.wakeup_granularity_ns,
            "migration-cost-ns" => params.migration_cost_ns,
            _ => return None,
        })
    };
    let changed = header.tunables.iter().filter(|(name, ns)| default(name).is_some_and(|its| its != **ns));
    changed
        .map(|(name, ns)| format!("+{name}={ns}"))
        .filter(|word| format!("{policy}{word}").parse::<PolicySpec>().is_ok())
        .collect()
}

/// What the reader must know about the recording, in a few lines.
pub(crate) fn explanation(recording: &Recording, changed: &[Changed]) -> String {
    let mut notes = recording.notes();
    for note in changed.iter().flat_map(Changed::notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.join("\n  ") + "\n"
}

fn is_descriptor(path: &Path) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"];
    path == Path::new("/dev/stdin")
        || path.parent().is_some_and(|folder| folders.map(Path::new).contains(&folder))
}

/// Returns an option that has no meaning for a workload, if one was given.
fn for_recordings(args: &InputArgs) -> Option<String> {
    let InputArgs { import: args, what_if, .. } = args;
    let machine = args.recorded_on.iter().map(|name| format!("--recorded-on {name}"));
    let of = args.of.iter().map(|comm| format!("--of {comm}"));
    let open = args.open_loop.iter().map(|comm| format!("--open-loop {comm}"));
    let closed = args.closed_loop.iter().map(|comm| format!("--closed-loop {comm}"));
    let repeat = args.repeat.iter().map(|runs| format!("--repeat {runs}"));
    let waits = args.recorded_waits_only.then(|| "--recorded-waits-only".to_owned());
    machine
        .chain(of)
        .chain(open)
        .chain(closed)
        .chain(waits)
        .chain(repeat)
        .chain(of_recordings(what_if))
        .next()
}

/// A workload's name or file, without its parameters.
fn name_of(spec: &str) -> &str {
    spec.split(':').next().unwrap_or_default()
}

/// Whether this is a workload from a file: `FILE.toml`, with or without parameters.
fn is_toml(spec: &str) -> bool {
    PathBuf::from(name_of(spec)).extension().is_some_and(|suffix| suffix == "toml")
}

/// Whether the name before the parameters exists. If it does, an error is about the parameters.
fn is_workload(spec: &str) -> bool {
    wakelab_workload::presets().any(|preset| preset == name_of(spec))
}

/// Refuses a machine that cannot have made the recording.
fn check_recording(recording: &Recording, machine: &Machine) -> Result<()> {
    let nr_cpus = machine.topology.nr_cpus();
    if recording.nr_cpus as usize <= nr_cpus {
        return Ok(());
    }
    Err(bad_input(format!(
        "{}: was recorded on a machine with CPU {}, but {} has CPUs 0 to {}",
        printable(&recording.workload.name),
        recording.nr_cpus - 1,
        printable(&machine.name),
        nr_cpus - 1
    )))
}
