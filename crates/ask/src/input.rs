// SPDX-License-Identifier: GPL-2.0-or-later
//! What is asked turned into what it means: reads files, looks up names, and refuses everything that is wrong before
//! anything runs. Options are named as the command has them, and so are Python's.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakelab_lab::{DEMO_NAME, Kernel, demo_recording};
use wakelab_machine::{CostChange, Machine, Term, printable};
use wakelab_policy::PolicySpec;
use wakelab_sim::Scenario;
use wakelab_trace::beside::Kinds;
use wakelab_trace::{Changed, Header, Options, Recording, Span, WhatIf};
use wakelab_workload::Workload;

use crate::error::{AskError, bad_input};
use crate::suggest::did_you_mean;

type Result<T> = std::result::Result<T, AskError>;

/// Receives what a reader should know beside the result, a line at a time.
pub type Note<'a> = &'a dyn Fn(&str);

/// The policy of recordings that do not tell their kernel, and whose replay under another one is not nearer.
pub const DEFAULT_KERNEL: &str = "linux-6.12";

/// The machine that made the recording.
const RECORDED: &str = "recorded";

/// The argument that stands for standard input.
const STDIN: &str = "-";

/// What is run.
#[derive(Clone, Debug)]
pub enum Source {
    /// INPUT: a recording or a workload, by what there is of that name.
    Any(String),
    /// The path of `--recording`.
    Recording(PathBuf),
    /// The text of `--workload`.
    Workload(String),
    /// A workload that the caller has.
    Given(Arc<Workload>),
}

/// How to read a recording; the fields are options of the command.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The machine of `--recorded-on`.
    pub recorded_on: Option<MachineChoice>,
    /// The patterns of `--of`.
    pub of: Vec<String>,
    /// The patterns of `--open-loop`.
    pub open_loop: Vec<String>,
    /// The patterns of `--closed-loop`.
    pub closed_loop: Vec<String>,
    /// Whether `--recorded-waits-only` is given.
    pub recorded_waits_only: bool,
    /// Whether `--recorded-times` is given.
    pub recorded_times: bool,
    /// The number of `--repeat`.
    pub repeat: Option<NonZeroU32>,
    /// The part of `--time`.
    pub time: Option<Span>,
    /// Whether `--strict` is given.
    pub strict: bool,
}

/// The input of a run, and its what-ifs.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The input.
    pub source: Option<Source>,
    /// How to read it, if it is a recording.
    pub import: Import,
    /// Changes to tasks.
    pub what_if: WhatIf,
    /// The changes of `--cost`.
    pub cost: Vec<CostChange>,
}

/// A machine of `--machine`.
#[derive(Clone, Debug)]
pub enum MachineChoice {
    /// By a name that [`machine`] knows, or `recorded`.
    Name(String),
    /// A machine that the caller has.
    Given(Arc<Machine>),
}

/// The runs of `compare` and `run`.
#[derive(Clone, Debug)]
pub struct Question {
    /// One scenario for each policy, the baseline first.
    pub scenarios: Vec<Scenario>,
    /// The policies as typed, which head the columns.
    pub policy_names: Vec<String>,
    /// The seeds with which every policy runs.
    pub seeds: Vec<u64>,
    /// The recording, if the input is one.
    pub recording: Option<Recording>,
    /// What the tasks of the recording have become, for the machine and by what-if options; one for each machine.
    pub changed: Vec<Changed>,
}

/// Reads the input and makes a scenario of it for each machine and each policy. `beside`: a what-if of one policy on
/// one machine is compared with that policy and machine unchanged; otherwise everything is changed.
pub fn question(
    ask: &Ask,
    (machines, without): (&[MachineChoice], &[Term]),
    policy_names: &[String],
    kernel: Kernel,
    seeds: Vec<u64>,
    beside: bool,
    note: Note<'_>,
) -> Result<Question> {
    let policies = policies(policy_names, note)?;
    let (workload, recording) = input(ask)?;
    let told = recording.as_ref().map(|recording| (recording, ask.import.recorded_on.as_ref()));
    let machine = |choice: &MachineChoice| machine_of(choice, told, without);
    let machines = machines.iter().map(machine).collect::<Result<Vec<_>>>()?;
    note_unused(policy_names, &machines, note);
    let is_one = machines.len() == 1 && policies.len() == 1;
    let sides: &[bool] = if beside && is_one && has_what_if(ask) { &[false, true] } else { &[true] };
    let (mut scenarios, mut names, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for &is_changed in sides {
        let what_if = if is_changed { ask.what_if.clone() } else { WhatIf::default() };
        let costs = if is_changed { &ask.cost[..] } else { &[] };
        let options = if is_changed && sides.len() > 1 { what_if_options(&ask.what_if) } else { Vec::new() };
        let words: String = options.iter().map(|option| format!(" {option}")).collect();
        for machine in &machines {
            let machine = with_costs(machine, costs)?;
            let mut workload = Arc::clone(&workload);
            changed.push(change(&what_if, &mut workload, &machine, recording.is_some())?);
            note_without_slices(&workload, policy_names.iter().map(String::as_str).zip(&policies), note);
            scenarios.extend(wakelab_lab::scenarios(&machine, &workload, &policies, kernel));
            names.extend(policy_names.iter().map(|name| format!("{name}{words}")));
        }
    }
    Ok(Question { scenarios, policy_names: names, seeds, recording, changed })
}

/// Notes axes that a policy sets and does not use on machines of two speeds.
pub fn note_unused(policy_names: &[String], machines: &[Arc<Machine>], note: Note<'_>) {
    let has_two_speeds = |machine: &Arc<Machine>| {
        let speeds = || machine.topology.cpus.iter().map(|cpu| cpu.capacity);
        speeds().min() != speeds().max()
    };
    if machines.iter().any(has_two_speeds) {
        for name in policy_names {
            let elsewhere = PolicySpec::ignored(name, false);
            let here = PolicySpec::ignored(name, true).into_iter().filter(|line| !elsewhere.contains(line));
            here.for_each(|line| note(&format!("--policy {name}: {line}")));
        }
    }
}

/// Whether an option changes tasks or costs.
fn has_what_if(ask: &Ask) -> bool {
    !ask.cost.is_empty() || !what_if_options(&ask.what_if).is_empty()
}

/// `--cost`: the machine with these costs replaced.
pub fn with_costs(machine: &Arc<Machine>, costs: &[CostChange]) -> Result<Arc<Machine>> {
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
pub fn note_without_slices<'a>(
    workload: &Workload,
    policies: impl IntoIterator<Item = (&'a str, &'a PolicySpec)>,
    note: Note<'_>,
) {
    let asking = workload.tasks.iter().filter(|task| task.slice_ns.is_some()).count();
    let without = policies.into_iter().filter(|(_, policy)| asking > 0 && policy.traits().own_slices == 0);
    for (name, _) in without {
        note(&format!(
            "--policy {name}: tasks cannot ask for slices there, as in Linux before 6.12: those of {asking} tasks change \
             nothing"
        ));
    }
}

/// `--policy`, which may be repeated.
pub fn policies(names: &[String], note: Note<'_>) -> Result<Vec<PolicySpec>> {
    names.iter().map(|name| policy(name, note)).collect()
}

/// `--policy`. Notes axes that it sets and that another of its axes overrides.
pub fn policy(name: &str, note: Note<'_>) -> Result<PolicySpec> {
    let spec =
        name.parse().map_err(|error| bad_input(format!("--policy {name}: {error}{}", policy_meant(name))))?;
    let ignored = PolicySpec::ignored(name, false);
    ignored.iter().for_each(|line| note(&format!("--policy {name}: {line}")));
    Ok(spec)
}

/// Suggests a name, an axis or a value for a policy that is not known.
pub fn policy_meant(text: &str) -> String {
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
pub fn machine(name: &str, without: &[Term]) -> Result<Arc<Machine>> {
    let machine = Machine::load(name).map_err(|error| {
        // What follows is a shape or a factor.
        let base = name.split(['@', '*']).next().unwrap_or(name);
        let meant = match error {
            wakelab_machine::MachineError::Unknown { .. } => {
                did_you_mean(base, wakelab_machine::presets().iter().map(|(name, _)| *name))
            }
            _ => String::new(),
        };
        bad_input(format!("{error}{meant}"))
    })?;
    Ok(leave_out(&Arc::new(machine), without))
}

fn leave_out(machine: &Arc<Machine>, without: &[Term]) -> Arc<Machine> {
    without.iter().fold(Arc::clone(machine), |machine, &term| Arc::new(machine.without(term)))
}

/// `--machine` of a command that may read a recording, which comes with the choice of `--recorded-on`: `recorded` is
/// that machine, or the one that made the recording, as far as it tells.
pub fn machine_of(
    choice: &MachineChoice,
    recording: Option<(&Recording, Option<&MachineChoice>)>,
    without: &[Term],
) -> Result<Arc<Machine>> {
    let name = match choice {
        MachineChoice::Name(name) => name,
        MachineChoice::Given(machine) => return Ok(leave_out(machine, without)),
    };
    let (base, times) = Machine::split_times(name).map_err(bad_input)?;
    let Some((recording, told)) = recording.filter(|_| base == RECORDED) else {
        return machine(name, without);
    };
    let own = match told {
        Some(choice) => Arc::unwrap_or_clone(named(choice)?),
        None if recording.event_cost_ns.is_some() => {
            wakelab_lab::machine_without_recorder(recording).map_err(bad_input)?
        }
        None => wakelab_lab::recorded_machine(recording).map_err(bad_input)?,
    };
    let machine = times.map_or(Ok(own.clone()), |times| own.times(times)).map_err(bad_input)?;
    Ok(leave_out(&Arc::new(machine), without))
}

/// `--machine`, which may be repeated.
pub fn machines(names: &[String]) -> Result<Vec<Arc<Machine>>> {
    names.iter().map(|name| machine(name, &[])).collect()
}

/// Parses text that can only be a workload.
pub fn workload(spec: &str) -> Result<Arc<Workload>> {
    let parsed = Workload::parse_spec(spec);
    Ok(Arc::new(parsed.map_err(|error| bad_input(format!("{error}{}", workload_meant(spec))))?))
}

/// Parses `WORKLOAD...`.
pub fn workloads(specs: &[String]) -> Result<Vec<Arc<Workload>>> {
    specs.iter().map(|spec| workload(spec)).collect()
}

/// Suggests a name for a workload that is not known.
pub fn workload_meant(spec: &str) -> String {
    let name = name_of(spec);
    if is_workload(spec) { String::new() } else { did_you_mean(name, wakelab_workload::presets()) }
}

/// `--recording`, `--workload`, or INPUT.
pub fn input(ask: &Ask) -> Result<(Arc<Workload>, Option<Recording>)> {
    let input = match &ask.source {
        Some(Source::Recording(path)) => return read_for_replays(path, &ask.import),
        Some(Source::Workload(spec)) => return only_workload(spec, ask),
        Some(Source::Given(workload)) => return given(workload, ask),
        Some(Source::Any(input)) => input,
        None => return Err(bad_input("an INPUT is needed: a recording or a workload")),
    };
    let path = Path::new(input);
    // A pipe is a recording too: the shell's <(perf script).
    let is_file = path.metadata().is_ok_and(|file| !file.is_dir());
    // LTTng's trace is one, but a folder may have a workload's name.
    let is_folder = path.is_dir() && !is_workload(input);
    if is_toml(input) {
        return only_workload(input, ask);
    }
    if is_file || is_folder || input == STDIN || (input == DEMO_NAME && !is_workload(input)) {
        return read_for_replays(path, &ask.import);
    }
    only_workload(input, ask).map_err(|error| {
        if is_workload(input) {
            return error;
        }
        bad_input(format!("{error}; and there is no recording of that name, because there is no such file"))
    })
}

fn only_workload(spec: &str, ask: &Ask) -> Result<(Arc<Workload>, Option<Recording>)> {
    refuse_for_recordings(spec, ask)?;
    Ok((workload(spec)?, None))
}

fn given(workload: &Arc<Workload>, ask: &Ask) -> Result<(Arc<Workload>, Option<Recording>)> {
    refuse_for_recordings(&workload.name, ask)?;
    Ok((Arc::clone(workload), None))
}

/// Refuses options that only a recording has, for a workload of this name.
fn refuse_for_recordings(name: &str, ask: &Ask) -> Result<()> {
    match for_recordings(ask) {
        Some(option) => Err(bad_input(format!("{option}: '{name}' is a workload; expected a recording"))),
        None => Ok(()),
    }
}

/// Reads a recording for replays on any machine: as made by `--recorded-on`, or by the machine that the recording
/// itself tells, and without what recording cost. The recording is read twice for that. A pipe cannot be; its CPU time
/// counts as work.
fn read_for_replays(path: &Path, args: &Import) -> Result<(Arc<Workload>, Option<Recording>)> {
    let options = options(args)?;
    let options = if can_be_read_again(path) { told(path, options)? } else { options };
    let recording = read_as(path, &options)?;
    Ok((Arc::new(recording.workload.clone()), Some(recording)))
}

/// Adds to the options what a first reading tells: the machine, and what an event cost.
fn told(path: &Path, options: Options) -> Result<Options> {
    let recording = read_as(path, &Options { repeat: None, ..options.clone() })?;
    let recorded_on = match options.recorded_on {
        Some(machine) => machine,
        None => wakelab_lab::machine_without_recorder(&recording).map_err(bad_input)?,
    };
    let has_cost = recording.header.as_ref().is_some_and(|header| header.event_cost_ns.is_some());
    let event_cost_ns = has_cost.then_some(recording.learnt.event_cost_ns);
    Ok(Options { event_cost_ns, recorded_on: Some(recorded_on), ..options })
}

/// A machine that is not `recorded`.
fn named(choice: &MachineChoice) -> Result<Arc<Machine>> {
    machine_of(choice, None, &[])
}

/// The options for reading a recording.
fn options(args: &Import) -> Result<Options> {
    let recorded_on = args.recorded_on.as_ref().map(named).transpose()?;
    Ok(Options {
        strict: args.strict,
        recorded_on: recorded_on.map(Arc::unwrap_or_clone),
        topology: None,
        event_cost_ns: None,
        of: args.of.clone(),
        open: args.open_loop.clone(),
        closed: args.closed_loop.clone(),
        recorded_waits_only: args.recorded_waits_only,
        recorded_times: args.recorded_times,
        repeat: args.repeat,
        time: args.time,
    })
}

/// Changes the tasks of a workload, and fits those of a recording onto the machine. Other workloads stay strict: a
/// file that names a CPU means that CPU.
pub fn change(
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
pub(crate) fn refuse_what_if(what_if: &WhatIf) -> Result<()> {
    match what_if_options(what_if).into_iter().next() {
        None => Ok(()),
        Some(option) => Err(bad_input(format!(
            "{option} is for `wakelab check` only with --against TRUTH: what was recorded had no such change"
        ))),
    }
}

/// The options that change tasks, as typed.
pub fn what_if_options(what_if: &WhatIf) -> Vec<String> {
    let faster = what_if.faster.iter().map(|change| format!("--faster {change}"));
    of_recordings(what_if).chain(faster).collect()
}

/// Those of them that only a recording has.
fn of_recordings(what_if: &WhatIf) -> impl Iterator<Item = String> {
    let nice = what_if.nice.iter().map(|change| format!("--nice {change}"));
    let nice = nice.chain(what_if.slices.iter().map(|change| format!("--slice {change}")));
    let cpus = what_if.cpus.iter().map(|change| format!("--cpus {change}"));
    let weight = what_if.weights.iter().map(|change| format!("--weight {change}"));
    nice.chain(cpus).chain(weight).chain(what_if.quotas.iter().map(|change| format!("--quota {change}")))
}

pub(crate) fn read_as(path: &Path, options: &Options) -> Result<Recording> {
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
pub fn recorded(
    path: &Path,
    import: &Import,
    choice: Option<&MachineChoice>,
) -> Result<(Recording, Arc<Machine>)> {
    let given = choice.map(named).transpose()?;
    let topology = given.as_ref().map(|machine| machine.topology.clone());
    let recording = read_as(path, &Options { topology, ..options(import)? })?;
    let machine = match given {
        Some(machine) => machine,
        None => Arc::new(wakelab_lab::recorded_machine(&recording).map_err(bad_input)?),
    };
    check_recording(&recording, &machine)?;
    Ok((recording, machine))
}

/// Reads another recording of a machine, and returns how much its tasks did beside busy and idle neighbours.
pub fn recorded_work(path: &Path, machine: &Machine) -> Result<Kinds> {
    let options = Options { topology: Some(machine.topology.clone()), ..Options::default() };
    let recording = read_as(path, &options)?;
    check_recording(&recording, machine)?;
    Ok(recording.learnt.beside)
}

/// Reads a recording as made by [`recorded`]'s machine, so that a replay charges for the kernel what was subtracted. A
/// pipe can be read only once, so its CPU time counts as work.
pub fn recorded_on_itself(
    path: &Path,
    import: &Import,
    choice: Option<&MachineChoice>,
) -> Result<(Recording, Arc<Machine>)> {
    let (recording, machine) = recorded(path, import, choice)?;
    if import.recorded_on.is_some() || !can_be_read_again(path) {
        return Ok((recording, machine));
    }
    let mut options = options(import)?;
    options.recorded_on = Some((*machine).clone());
    Ok((read_as(path, &options)?, machine))
}

/// Returns the recording of a comparison as its own machine replays it once, and that machine: `--recorded-on`, or what
/// the recording itself tells. `None` if there is no such recording: several runs of a pipe.
pub fn replayed_on_itself(ask: &Ask, recording: &Recording) -> Result<Option<(Recording, Arc<Machine>)>> {
    let machine = match &ask.import.recorded_on {
        Some(choice) => named(choice)?,
        None => Arc::new(wakelab_lab::recorded_machine(recording).map_err(|error| {
            bad_input(format!("{error}; --no-check compares without the error of a replay on that machine"))
        })?),
    };
    let path = match &ask.source {
        Some(Source::Recording(path)) => Some(path.as_path()),
        Some(Source::Any(input)) => Some(Path::new(input)),
        _ => None,
    };
    let again = path.filter(|path| can_be_read_again(path));
    // What is compared with the recording has a recorder, too.
    let is_the_same = recording.event_cost_ns.is_none() && recording.runs == 1;
    let recording = match again {
        Some(path) if !is_the_same => {
            let recorded_on = Some((*machine).clone());
            read_as(path, &Options { recorded_on, repeat: None, ..options(&ask.import)? })?
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
pub fn explanation(recording: &Recording, changed: &[Changed]) -> String {
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
fn for_recordings(ask: &Ask) -> Option<String> {
    let Ask { import, what_if, .. } = ask;
    let name = |choice: &MachineChoice| match choice {
        MachineChoice::Name(name) => format!("--recorded-on {name}"),
        MachineChoice::Given(machine) => format!("--recorded-on {}", machine.name),
    };
    let machine = import.recorded_on.iter().map(name);
    let of = import.of.iter().map(|comm| format!("--of {comm}"));
    let open = import.open_loop.iter().map(|comm| format!("--open-loop {comm}"));
    let closed = import.closed_loop.iter().map(|comm| format!("--closed-loop {comm}"));
    let repeat = import.repeat.iter().map(|runs| format!("--repeat {runs}"));
    let time = import.time.iter().map(|span| format!("--time {span}"));
    let waits = import.recorded_waits_only.then(|| "--recorded-waits-only".to_owned());
    let times = import.recorded_times.then(|| "--recorded-times".to_owned());
    machine
        .chain(of)
        .chain(open)
        .chain(closed)
        .chain(waits)
        .chain(times)
        .chain(repeat)
        .chain(time)
        .chain(of_recordings(what_if))
        .next()
}

/// A workload's name or file, without its parameters.
pub fn name_of(spec: &str) -> &str {
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
