// SPDX-License-Identifier: GPL-2.0-or-later
//! Mutated files and random specs must not panic, and a hackbench of any size receives as many messages as it sends.

use proptest::prelude::*;
use wakelab_workload::{Op, Workload, WorkloadFile, presets};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A preset with bytes replaced, removed or doubled gives an error with a place, or a workload that passes its
    /// check.
    #[test]
    fn mutated_files_never_panic(which in 0..presets().count(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4, any::<u8>()), 1..6)) {
        let name = presets().nth(which).unwrap();
        let path = format!("{}/../../workloads/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let mut bytes = std::fs::read(path).unwrap();
        for (index, what, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.truncate(at + 1),
                _ => bytes.insert(at, bytes[at]),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match WorkloadFile::parse("m.toml", &text) {
            Err(error) => prop_assert!(error.to_string().starts_with("m.toml:"), "{}", error),
            Ok(file) => {
                // Parameters that survived get small values, so that a case stays quick.
                let small = |key: &str| file.description().params.iter().any(|param| param.name == key);
                let settings: Vec<_> = ["groups", "fds", "pairs", "tasks", "threads", "clients"].iter().filter(|key| small(key)).map(|key| (key.to_string(), "2".to_owned())).collect();
                if let Ok(workload) = file.expand("m", &settings) {
                    prop_assert_eq!(workload.check(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn random_specs_never_panic(spec in "(hackbench|spin|pingpong|schbench|stream|openmp|x)?[:]?([a-z-]{1,8}=[0-9a-z_-]{0,6},?){0,3}\\PC{0,4}") {
        let _ = Workload::parse_spec(&spec);
    }

    #[test]
    fn small_hackbenches_send_what_they_receive(groups in 1_u64..4, fds in 1_u64..5, loops in 1_u64..9) {
        let found = Workload::parse_spec(&format!("hackbench:groups={groups},fds={fds},loops={loops}")).unwrap();
        prop_assert_eq!(found.tasks.len() as u64, 1 + 2 * groups * fds);
        let mut balance = vec![0_i64; found.channels.len()];
        for task in &found.tasks {
            let mut times = 1;
            for op in &task.program {
                match *op {
                    Op::LoopBegin { times: Some(count) } => times = count as i64,
                    Op::LoopEnd => times = 1,
                    Op::Send { channel, .. } => balance[channel as usize] += times,
                    Op::Recv { channel, .. } => balance[channel as usize] -= times,
                    _ => {}
                }
            }
        }
        prop_assert!(balance.iter().all(|&difference| difference == 0));
    }
}
