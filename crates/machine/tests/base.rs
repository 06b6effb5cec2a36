// SPDX-License-Identifier: GPL-2.0-or-later
//! `[costs] base = "MACHINE"`: a machine file that states some figures and takes the others from another machine.

use wakelab_machine::Machine;

/// A machine file with these costs below `[costs]`, which is line 5.
fn file(topology: &str, costs: &str) -> String {
    format!("description = \"mine\"\n[topology]\nsockets = 1\n{topology}\n[costs]\n{costs}\n")
}

fn read(topology: &str, costs: &str) -> Result<Machine, String> {
    Machine::from_toml(&file(topology, costs), "m.toml").map_err(|error| error.to_string())
}

#[test]
fn the_file_has_precedence_and_the_rest_is_marked_as_an_estimate() {
    let own = "wakeup_ns = { value = 777, source = \"measured\" }";
    let machine = read("cores_per_llc = 4", &format!("base = \"xeon-2s22c2t\"\n{own}")).unwrap();
    let preset = Machine::preset("xeon-2s22c2t").unwrap();
    assert_eq!((machine.costs.wakeup_ns, machine.sources["wakeup_ns"].as_str()), (777, "measured"));
    let mut expected = preset.costs.clone();
    expected.wakeup_ns = 777;
    assert_eq!(machine.costs, expected);
    for (key, source) in machine.sources.iter().filter(|(key, _)| *key != "wakeup_ns") {
        assert_eq!(*source, format!("estimate: as on xeon-2s22c2t, from there: {}", preset.sources[key]));
    }
    // A figure that the preset has from a publication is an estimate here, so that sensitivity varies it.
    let estimates =
        |machine: &Machine| machine.estimates().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(!estimates(&preset).contains(&"line_transfer_ps".to_owned()));
    assert!(estimates(&machine).contains(&"line_transfer_ps".to_owned()));
    assert!(!estimates(&machine).contains(&"wakeup_ns".to_owned()));
}

#[test]
fn a_base_alone_is_enough_and_is_written_out_in_full() {
    let machine = read(
        "cores_per_llc = 22\nthreads_per_core = 2\nnumbering = \"linux-x86\"",
        "base = \"xeon-2s22c2t\"",
    )
    .unwrap();
    let text = machine.to_toml().unwrap();
    assert!(!text.contains("base ="), "{text}");
    let again = Machine::from_toml(&text, "m.toml").unwrap();
    assert_eq!(again, machine);
    assert!(text.contains("# Work of one tick.\ntick_ns = { value = "), "{text}");
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(comments.iter().all(|line| line.len() <= 100 && line.matches('#').count() == 1), "{comments:#?}");
}

#[test]
fn bases_that_do_not_fit() {
    let refused = |topology: &str, costs: &str| read(topology, costs).unwrap_err();
    let error = refused("cores_per_llc = 4", "base = \"pdp-11\"");
    assert!(error.starts_with("m.toml:6: `base` is `pdp-11`; expected one of epyc-7713-2s, "), "{error}");
    assert!(error.ends_with(", host, or the path of a .toml file"), "{error}");
    assert_eq!(
        refused("cores_per_llc = 4", "base = \"other.toml\""),
        "m.toml:6: `base` is the path `other.toml` in a text that is not read from a file; expected the name of a preset"
    );
    assert_eq!(
        refused("llcs_per_node = 2\ncores_per_llc = 4", "base = \"smp-8\"").replace("m.toml:7", "m.toml:6"),
        "m.toml:6: `line_transfer_ps` of smp-8 has no value for `node`; expected `line_transfer_ps` in this file, for each \
         distance of this machine"
    );
    let error =
        refused("cores_per_llc = 4\nthreads_per_core = 2\nnumbering = \"consecutive\"", "base = \"smp-8\"");
    assert!(error.contains("`line_transfer_ps` of smp-8 has no value for `smt`"), "{error}");
}

#[test]
fn large_files_and_escapes() {
    let long = format!("{}#{}", file("cores_per_llc = 4", "base = \"smp-8\""), " ".repeat(4 << 20));
    let error = Machine::from_toml(&long, "m.toml").unwrap_err().to_string();
    assert!(error.ends_with(" bytes; expected at most 4194304, a machine file"), "{error}");
    let error = read("cores_per_llc = 4", "base = \"\\u001b[31m\"").unwrap_err();
    assert!(error.contains(r"`base` is `\x1b[31m`"), "{error}");
    let named = Machine::load("\x1b]0;x\x07").unwrap_err().to_string();
    assert!(named.starts_with(r"unknown machine `\x1b]0;x\x07`"), "{named}");
}

/// The range of a preset is meant for that machine, so that a base widens it to what an estimate has.
#[test]
fn ranges_are_kept_written_and_inherited() {
    let costs = "base = \"xeon-2s22c2t\"\n\
        wakeup_ns = { value = 700, source = \"test\", range = [600, 900] }\n\
        idle_states = { value = [{ after_ns = 0, exit_latency_ns = 2_000 }], source = \"test\", range = { 0 = [500, 2_500] } }";
    let machine = read("cores_per_llc = 4", costs).unwrap();
    let ranges: Vec<(&str, [u64; 2])> =
        machine.ranges.iter().map(|(name, range)| (name.as_str(), *range)).collect();
    let expected = [
        ("idle_states.0", [500, 2_500]),
        ("loopback_ns", [400, 3_400]),
        ("tick_period_ns", [500_000, 4_000_000]),
        ("wakeup_ns", [600, 900]),
    ];
    assert_eq!(ranges, expected);
    let text = machine.to_toml().unwrap();
    assert!(text.contains("source = \"test\", range = [600, 900] }"), "{text}");
    assert!(text.contains("range = { 0 = [500, 2500] } }"), "{text}");
    assert_eq!(Machine::from_toml(&text, "m.toml").unwrap(), machine);
    let free = machine.without(wakelab_machine::Term::Wakeups);
    assert!(
        free.uncertain().iter().all(|uncertain| uncertain.key() != "wakeup_ns"),
        "nothing is charged for it"
    );
}

#[test]
fn the_base_host_is_a_generic_machine_of_any_shape() {
    let shape = "llcs_per_node = 2\ncores_per_llc = 4\nthreads_per_core = 2\nnumbering = \"consecutive\"";
    let machine = read(shape, "base = \"host\"").unwrap();
    assert_eq!(machine.topology.nr_cpus(), 16);
    assert!(
        machine.sources["fork_ns"].starts_with("estimate: as on host, from there: estimate: as xeon-2s22c2t")
    );
    let conflict = "base = \"host\"\nswitch_thread_ns = { value = 5_000, source = \"measured\" }";
    let error = read(shape, conflict).unwrap_err();
    assert!(error.contains("switch_thread_ns") && error.contains("switch_process_ns"), "{error}");
}

#[test]
fn files_as_bases() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, costs: &str| {
        std::fs::write(folder.path().join(name), file("cores_per_llc = 4", costs)).unwrap();
    };
    write("one.toml", "base = \"smp-8\"\nwakeup_ns = { value = 777, source = \"here\" }");
    write("two.toml", "base = \"one.toml\"\ntick_ns = { value = 888, source = \"there\" }");
    let machine = Machine::load(&path("two.toml")).unwrap();
    assert_eq!((machine.costs.wakeup_ns, machine.costs.tick_ns), (777, 888));
    assert_eq!(machine.sources["wakeup_ns"], "estimate: as on one, from there: here");
    // Each is the other's base, by other names of the same files.
    write("three.toml", "base = \"./four.toml\"");
    std::fs::create_dir(folder.path().join("four")).unwrap();
    write("four.toml", "base = \"four/../three.toml\"");
    let error = Machine::load(&path("three.toml")).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:6: `base`: ", path("three.toml"))), "{error}");
    assert!(error.contains("`base` leads back to "), "{error}");
    write("self.toml", "base = \"self.toml\"");
    let error = Machine::load(&path("self.toml")).unwrap_err().to_string();
    assert!(error.ends_with("; expected a file that does not have this one as its base"), "{error}");
    write("lost.toml", "base = \"nowhere.toml\"");
    let error = Machine::load(&path("lost.toml")).unwrap_err().to_string();
    assert!(error.contains("nowhere.toml: No such file") && error.ends_with("can be read"), "{error}");
}
