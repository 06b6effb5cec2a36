// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of policies.

use proptest::prelude::*;
use wakelab_policy::{PolicySpec, Tunables};

use crate::host::spec;

fn refusal(text: &str) -> String {
    text.parse::<PolicySpec>().unwrap_err().to_string()
}

#[test]
fn refusals_say_what_is_possible() {
    assert_eq!(refusal("linux-4.15+push=foo"), "axis `push` has no value `foo`; expected one of: off, on");
    assert_eq!(
        refusal("linux-9"),
        "unknown policy `linux-9`; expected one of: linux-2.6.24, linux-3.10, linux-4.15, linux-5.2, linux-5.12, linux-6.12, wakelab, linux-5.4, linux-5.10, linux-5.14, linux-5.15, linux-6.1, linux-6.6, linux-6.8, linux-6.17, and overrides as in `linux-4.15+idle=smt-balance`"
    );
    assert!(refusal("").starts_with("unknown policy ``; expected one of: linux-2.6.24"));
    assert_eq!(
        refusal("linux-4.15+colour=blue"),
        "unknown axis `colour` in `colour=blue`; expected one of: idle, form, rotor, affine, affine-form, factor, \
         affine-loads, cluster, groups, queue, parity, capacity, balance, push, fork, latency-ns, min-granularity-ns, wakeup-granularity-ns, migration-cost-ns, shares-min-ns, shares-max-ns, wait-max-ns"
    );
    assert!(refusal("linux-4.15+idle").starts_with("`idle` is not an override; expected AXIS=VALUE"));
    assert!(refusal("linux-4.15+").starts_with("`` is not an override"));
    assert_eq!(
        refusal("linux-4.15+idle=scan+idle=scan"),
        "`idle` is given twice in `linux-4.15+idle=scan+idle=scan`; expected it once"
    );
    for value in ["x", "", "-1", "+5", "0", "1000000001", "99999999999999999999"] {
        assert_eq!(
            refusal(&format!("linux-4.15+latency-ns={}", value.replace('+', "%"))),
            format!(
                "tunable `latency-ns` cannot be `{}`; expected nanoseconds from 1 to 1000000000",
                value.replace('+', "%")
            )
        );
    }
    assert_eq!(spec("linux-4.15+migration-cost-ns=0").tunables.migration_cost_ns, Some(0));
}

#[test]
fn values_that_do_not_exist_yet_are_not_offered() {
    for text in ["cluster=near", "form=2.6", "idle=near"] {
        let error = refusal(&format!("linux-4.15+{text}"));
        let axis = text.split('=').next().unwrap();
        assert!(error.starts_with(&format!("axis `{axis}` has no value")), "{error}");
    }
    assert!(refusal("linux-2.6").starts_with("unknown policy"));
}

#[test]
fn every_listed_choice_can_be_made() {
    for axis in PolicySpec::axes() {
        for value in axis.values {
            let text = format!("linux-4.15+{}={}", axis.name, value.name);
            let made = spec(&text);
            assert_eq!(made.to_string().parse::<PolicySpec>().unwrap(), made);
        }
    }
    for (name, _) in PolicySpec::tunables() {
        let text = format!("linux-4.15+{name}=123456");
        assert_eq!(spec(&text).to_string(), text);
    }
    for named in PolicySpec::named() {
        assert_eq!(spec(named.name), named.spec);
        assert_eq!(named.spec.to_string(), named.name);
        assert_eq!(!named.approximations.is_empty(), named.name.starts_with("linux-"));
    }
}

#[test]
fn a_kernel_by_its_version_is_its_nearest_policy_and_takes_overrides() {
    for alias in PolicySpec::aliases() {
        assert_eq!(spec(alias.name), spec(alias.policy));
        assert!(!alias.differences.is_empty());
        // No name has two meanings, and an alias says which policy it begins with.
        assert!(PolicySpec::named().iter().all(|named| named.name != alias.name));
        assert!(alias.description.contains(alias.policy.split('+').next().unwrap()), "{}", alias.name);
    }
    assert_eq!(
        spec("linux-6.6+idle=nearest"),
        spec("linux-6.12+groups=queues+cluster=spread+queue=fair-2023+idle=nearest")
    );
    assert_eq!(spec("linux-6.1+cluster=off"), spec("linux-5.12+form=util+balance=6.12"));
    assert_eq!(spec("linux-6.8").to_string(), "linux-6.12+groups=queues+queue=fair-2023");
}

#[test]
fn every_value_with_a_design_of_its_own_has_its_text() {
    let value = |axis: &str, value: &str| {
        let axis = PolicySpec::axes().iter().find(|its| its.name == axis).unwrap();
        axis.values.iter().find(|its| its.name == value).unwrap()
    };
    assert!(value("idle", "smt-balance").text.starts_with("idle_smt_balance.h - "));
    assert!(value("queue", "fair").text.lines().count() > 5);
    assert_eq!(value("push", "off").text, "");
    assert!(
        PolicySpec::axes().iter().flat_map(|axis| axis.values).all(|value| !value.description.is_empty())
    );
}

#[test]
fn defaults_are_the_kernels_scaled_by_size() {
    let tunables = |nr_cpus| {
        let params = spec("linux-4.15").params(nr_cpus, 4_000_000).unwrap();
        [
            params.latency_ns,
            params.min_granularity_ns,
            params.wakeup_granularity_ns,
            params.migration_cost_ns,
            params.tick_ns,
        ]
    };
    assert_eq!(tunables(1), [6_000_000, 750_000, 1_000_000, 500_000, 4_000_000]);
    assert_eq!(tunables(3), [12_000_000, 1_500_000, 2_000_000, 500_000, 4_000_000]);
    assert_eq!(tunables(4), [18_000_000, 2_250_000, 3_000_000, 500_000, 4_000_000]);
    for nr_cpus in [8, 9, 176, 4096] {
        assert_eq!(tunables(nr_cpus), [24_000_000, 3_000_000, 4_000_000, 500_000, 4_000_000]);
    }
    let of_2007 = |nr_cpus| {
        let params = spec("linux-2.6.24").params(nr_cpus, 4_000_000).unwrap();
        [params.latency_ns, params.min_granularity_ns, params.wakeup_granularity_ns].map(|ns| ns / 1_000_000)
    };
    assert_eq!(of_2007(1), [20, 4, 10]);
    assert_eq!(of_2007(12), [80, 16, 40]);
    assert_eq!(of_2007(4096), [200, 52, 130], "at most 200 ms");
    let set = spec("linux-4.15+latency-ns=6000000").params(176, 1).unwrap();
    assert_eq!(set.latency_ns, 6_000_000, "taken as it stands");
    assert!(spec("linux-4.15").params(8, 0).is_err());
}

#[test]
fn data_is_checked_like_text() {
    let mut made = spec("linux-4.15");
    made.tunables = Tunables { latency_ns: Some(0), ..Tunables::default() };
    assert!(made.params(8, 1_000_000).unwrap_err().to_string().contains("latency-ns"));
}

#[test]
fn as_data_a_policy_is_its_axes() {
    let made = spec("linux-4.15+idle=smt-balance+latency-ns=7000000");
    let json = serde_json::to_value(&made).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "idle": "smt-balance", "form": "4.15", "rotor": "published", "affine": "always", "affine-form": "4.15",
            "factor": "node", "affine-loads": "runnable", "cluster": "off", "groups": "load", "queue": "cfs-2018", "parity": "on", "capacity": "ignored", "balance": "4.15",
            "push": "on", "fork": "idlest",
            "tunables": { "latency-ns": 7_000_000 },
        })
    );
    assert_eq!(serde_json::from_value::<PolicySpec>(json).unwrap(), made);
    assert!(serde_json::to_value(spec("linux-4.15")).unwrap().get("tunables").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "(linux-2\\.6\\.24|linux-4\\.15|linux-5\\.12|linux-6\\.12)?[+=a-z0-9.-]{0,40}") {
        if let Ok(made) = text.parse::<PolicySpec>() {
            prop_assert_eq!(made.to_string().parse::<PolicySpec>().unwrap(), made);
        }
    }
}

#[test]
fn axes_that_another_overrides_are_told_and_do_not_make_another_policy() {
    let policy = |text: &str| text.parse::<PolicySpec>().unwrap();
    let base = policy("linux-4.15").canonical();
    for other in ["+rotor=mixed", "+factor=llc"] {
        let text = format!("linux-4.15{other}");
        assert_ne!(policy(&text), base);
        assert_eq!(policy(&text).canonical(), base, "{text}");
    }
    // Where there are no groups, the queue decides.
    let exact = policy("linux-4.15+groups=exact").canonical();
    assert_ne!(policy("linux-4.15+groups=exact+queue=fair").canonical(), exact);
    assert_eq!(PolicySpec::ignored("wakelab+queue=cfs-2007+affine=always", false), Vec::<String>::new());
    assert_eq!(
        PolicySpec::ignored("wakelab+form=util", false),
        ["form=util has no effect with idle=nearest"]
    );
    assert_eq!(PolicySpec::ignored("wakelab+idle=scan", false), Vec::<String>::new());
    assert_eq!(PolicySpec::ignored("wakelab+idle=scan", true).len(), 1);
    assert_eq!(PolicySpec::ignored("linux-4.15+idle=narrow", true), Vec::<String>::new());
    assert!(PolicySpec::named().iter().all(|named| named.spec.canonical() == named.spec));
}
