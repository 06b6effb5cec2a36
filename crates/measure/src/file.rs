// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine file: the topology, the base, and each measured figure with its source and its range. Quantities that
//! are no figures are comments.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::Value;
use wakelab_machine::{Costs, Distance, Machine};

use crate::figures::{Figures, Row};

/// Quantities that are tables by distance.
const BY_DISTANCE: [&str; 3] = ["line_transfer_ps", "ipi_flight_ns", "remote_bandwidth_percent"];
const BANDWIDTH: &str = "bandwidth_mb_per_s";

/// The text of a machine file with the topology of `machine`, and its costs where nothing was measured; these come from
/// `base`, which it names.
pub fn machine_file(machine: &Machine, base: &str, description: &str, figures: &Figures) -> String {
    let mut text = format!("description = {}\n\n{}\n", Value::from(description), machine.topology_toml());
    for line in &figures.missing {
        writeln!(text, "# Not measured: {}", one_line(line)).expect("a string grows");
    }
    for row in figures.rows.iter().filter(|row| !row.is_cost) {
        let (quantity, spread) = (&row.quantity, row.spread);
        let (low, median, high) = (spread.low, spread.median, spread.high);
        writeln!(text, "# Also measured: {quantity}: {median} [{low}, {high}], {}", one_line(&row.how))
            .expect("a string grows");
    }
    write!(text, "[costs]\nbase = {}\n", Value::from(base)).expect("a string grows");
    let present = machine.topology.distances_present();
    let mut tables: BTreeMap<&str, Vec<(&str, &Row)>> = BTreeMap::new();
    for row in figures.rows.iter().filter(|row| row.is_cost) {
        match row.quantity.split_once('.') {
            Some((key, part)) => tables.entry(key).or_default().push((part, row)),
            None => {
                let (value, range) = (row.spread.median.to_string(), range(row.spread.low, row.spread.high));
                push(&mut text, &row.quantity, &value, &source(row), &range);
            }
        }
    }
    for (key, parts) in tables {
        if BY_DISTANCE.contains(&key) {
            by_distance(&mut text, key, &parts, &present, &machine.costs);
        } else if key == BANDWIDTH {
            bandwidth(&mut text, &parts);
        }
    }
    if !figures.speeds.is_empty() {
        let speeds: Vec<String> = figures.speeds.iter().map(|speed| speed.median.to_string()).collect();
        let last = figures.speeds[figures.speeds.len() - 1];
        let source = format!(
            "measured, median of {}: work in the core and loads from its second cache, on threads of one core",
            last.samples
        );
        push(
            &mut text,
            "smt_speed",
            &format!("[{}]", speeds.join(", ")),
            &source,
            &range(last.low, last.high),
        );
    }
    if !figures.idle_states.is_empty() {
        idle_states(&mut text, figures);
    }
    text
}

/// A key with its value, source and range.
fn push(text: &mut String, key: &str, value: &str, source: &str, range: &str) {
    let source = Value::from(one_line(source));
    let range = if range.is_empty() { String::new() } else { format!(", range = {range}") };
    writeln!(text, "{key} = {{ value = {value}, source = {source}{range} }}").expect("a string grows");
}

/// The range of a figure; none of what is exact or was measured once.
fn range(low: u64, high: u64) -> String {
    if low == high { String::new() } else { format!("[{low}, {high}]") }
}

/// The ranges of a table's parts.
fn ranges(parts: impl IntoIterator<Item = (String, u64, u64)>) -> String {
    let each = parts.into_iter().filter(|(_, low, high)| low != high);
    let each: Vec<String> = each.map(|(part, low, high)| format!("{part} = {}", range(low, high))).collect();
    if each.is_empty() { String::new() } else { format!("{{ {} }}", each.join(", ")) }
}

fn source(row: &Row) -> String {
    match row.spread.samples {
        0 => row.how.clone(),
        samples => format!("measured, median of {samples}: {}", row.how),
    }
}

/// A table by distance. Distances that were not measured have the base's figure, but no less than a nearer one and no
/// more than the next that was measured; percentages no more than a nearer one.
fn by_distance(text: &mut String, key: &str, parts: &[(&str, &Row)], present: &[Distance], base: &Costs) {
    let falls = key == "remote_bandwidth_percent";
    let of_base = match key {
        "line_transfer_ps" => base.line_transfer_ps,
        "ipi_flight_ns" => base.ipi_flight_ns,
        _ => base.remote_bandwidth_percent,
    };
    let (mut values, mut of_parts, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    let measured = |distance: &Distance| parts.iter().find(|(part, _)| *part == distance.name());
    let mut nearer = if falls { 100 } else { 0 };
    for (at, distance) in present.iter().enumerate() {
        let name = distance.name();
        let value = match measured(distance) {
            Some((_, row)) => {
                let spread = row.spread;
                let value = if falls { spread.median.min(nearer) } else { spread.median.max(nearer) };
                of_parts.push((name.to_owned(), spread.low.min(value), spread.high.max(value)));
                value
            }
            None => {
                let own = of_base[distance.index()];
                let farther = present[at..].iter().find_map(measured).map(|(_, row)| row.spread.median);
                // Inside a node all is the CPU's own memory.
                if !(falls && *distance <= Distance::Node) {
                    sources.push(format!("{name}: estimate, from the base"));
                }
                let within = |own: u64| farther.map_or(own, |farther| own.min(farther));
                if falls { own.min(nearer) } else { within(own).max(nearer) }
            }
        };
        nearer = value;
        values.push(format!("{name} = {value}"));
    }
    sources.insert(0, source(parts[0].1));
    push(text, key, &format!("{{ {} }}", values.join(", ")), &sources.join("; "), &ranges(of_parts));
}

fn bandwidth(text: &mut String, parts: &[(&str, &Row)]) {
    let values: Vec<String> =
        parts.iter().map(|(part, row)| format!("{part} = {}", row.spread.median)).collect();
    let ranges =
        ranges(parts.iter().map(|(part, row)| ((*part).to_owned(), row.spread.low, row.spread.high)));
    push(text, BANDWIDTH, &format!("{{ {} }}", values.join(", ")), &source(parts[0].1), &ranges);
}

fn idle_states(text: &mut String, figures: &Figures) {
    let (mut values, mut of_parts, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for (at, state) in figures.idle_states.iter().enumerate() {
        let exit = state.exit;
        let cold = match state.cold_percent {
            0 => String::new(),
            percent => format!(", cold_percent = {percent}"),
        };
        let (after_ns, exit_ns) = (state.after_ns, exit.median);
        values.push(format!("{{ after_ns = {after_ns}, exit_latency_ns = {exit_ns}{cold} }}"));
        of_parts.push((at.to_string(), exit.low, exit.high));
        let of = if exit.samples == 0 { String::new() } else { format!(", median of {}", exit.samples) };
        sources.push(format!("{at}: {}{of}", state.how));
    }
    push(text, "idle_states", &format!("[{}]", values.join(", ")), &sources.join("; "), &ranges(of_parts));
}

/// A text without line ends and control characters, as comments and sources need it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::IdleFigure;
    use crate::spread::Spread;

    fn spread(low: u64, median: u64, high: u64) -> Spread {
        Spread { low, median, high, samples: 7 }
    }

    #[test]
    fn the_file_is_read_back_with_ranges_and_the_base_s_rest() {
        let preset = Machine::preset("xeon-2s22c2t").unwrap();
        let mut figures = Figures::default();
        figures.number("wakeup_ns", spread(700, 800, 950), "a test");
        figures.number("llc_cache_bytes", Spread::known(1 << 20, 1 << 20, 1 << 20), "sysfs");
        figures.part("line_transfer_ps", "smt", spread(9_000, 10_000, 11_000), "a test");
        figures.part("line_transfer_ps", "llc", spread(40_000, 50_000, 60_000), "a test");
        figures.part("remote_bandwidth_percent", "numa1", spread(60, 60, 60), "a test");
        figures.part(BANDWIDTH, "core", spread(9_000, 10_000, 11_000), "a test");
        figures.part(BANDWIDTH, "node", spread(9_000, 50_000, 51_000), "a test");
        figures.beside("pipe_handover_ns.llc".into(), spread(1, 2, 3), "two\nlines");
        figures.missing("nothing\nto say".into());
        figures.speeds = vec![spread(1024, 1024, 1024), spread(560, 600, 650)];
        figures.idle_states = vec![
            IdleFigure { after_ns: 0, exit: spread(1_000, 2_000, 3_000), cold_percent: 0, how: "C1".into() },
            IdleFigure {
                after_ns: 90_000,
                exit: spread(20_000, 30_000, 40_000),
                cold_percent: 30,
                how: "C6".into(),
            },
        ];
        let text = machine_file(&preset, "xeon-2s22c2t", "a \"test\"", &figures);
        let machine = Machine::from_toml(&text, "m.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(machine.topology, preset.topology);
        assert_eq!(machine.description, "a \"test\"");
        let costs = &machine.costs;
        assert_eq!(
            (costs.wakeup_ns, costs.llc_cache_bytes, costs.tick_ns),
            (800, 1 << 20, preset.costs.tick_ns)
        );
        assert_eq!(&costs.line_transfer_ps[..2], &[preset.costs.line_transfer_ps[0], 10_000]);
        // The other socket was not measured.
        let far = Distance::Numa1.index();
        assert_eq!(costs.line_transfer_ps[far], preset.costs.line_transfer_ps[far]);
        assert_eq!((costs.remote_bandwidth_percent[0], costs.remote_bandwidth_percent[far]), (100, 60));
        assert_eq!((costs.bandwidth_mb_per_s.core, costs.bandwidth_mb_per_s.node), (10_000, 50_000));
        assert_eq!(costs.smt_speed, [1024, 600]);
        let states: Vec<_> =
            costs.idle_states.iter().map(|state| (state.exit_latency_ns, state.cold_percent)).collect();
        assert_eq!(states, [(2_000, 0), (30_000, 30)]);
        for (key, range) in [
            ("wakeup_ns", [700, 950]),
            ("line_transfer_ps.llc", [40_000, 60_000]),
            ("bandwidth_mb_per_s.node", [9_000, 51_000]),
            ("smt_speed", [560, 650]),
            ("idle_states.1", [20_000, 40_000]),
        ] {
            assert_eq!(machine.ranges[key], range, "{key}");
        }
        assert!(!machine.ranges.contains_key("llc_cache_bytes"));
        assert!(!machine.ranges.contains_key("remote_bandwidth_percent.numa1"));
        assert!(machine.sources["tick_ns"].starts_with("estimate: as on xeon-2s22c2t"));
        let marked =
            "measured, median of 7: a test; cpu: estimate, from the base; numa1: estimate, from the base";
        assert_eq!(machine.sources["line_transfer_ps"], marked);
        assert!(text.contains("# Not measured: nothing to say\n"), "{text}");
        assert!(text.contains("# Also measured: pipe_handover_ns.llc: 2 [1, 3], two lines\n"), "{text}");
    }
}
