// SPDX-License-Identifier: GPL-2.0-or-later
//! How far replays of a recording are from it: what `wakelab compare` and `wakelab why` print beside their gains.

use anyhow::Result;
use wakelab_lab::{Kernel, observe_replays, replay_on_itself};
use wakelab_report::{Check, ReplayErrors};
use wakelab_sim::HostProfile;
use wakelab_trace::Recording;

use crate::args::{InputArgs, KernelArgs, SeedsArgs};
use crate::error::bad_input;
use crate::progress::Bar;
use crate::{input, print};

/// Replays the recording as `wakelab check` does, unless `no_check`. `None` without a recording, and if it cannot be
/// replayed on its own machine.
pub(crate) fn replay_errors(
    args: &InputArgs,
    kernel: &KernelArgs,
    seeds: &SeedsArgs,
    no_check: bool,
    recording: Option<&Recording>,
) -> Result<Option<(ReplayErrors, Check)>> {
    let recording = match recording {
        Some(recording) if !no_check => recording,
        None if no_check => {
            return Err(bad_input("--no-check: the input is a workload; expected a recording"));
        }
        _ => return Ok(None),
    };
    let Some((recording, machine)) = input::replayed_on_itself(args, recording)? else {
        print::note("no replay error: a pipe can be read only once, and --repeat asks for several runs");
        return Ok(None);
    };
    let (policy, _) = input::recorded_policy(&recording);
    // The recorded kernel had its policy built in, whatever `--host` asks of the policies that are compared.
    let kernel = Kernel { host: HostProfile::Mainline, ..input::kernel(kernel) };
    let scenario = replay_on_itself(&recording, &machine, input::policy(&policy)?, kernel);
    let replays = observe_replays(&scenario, &input::seeds(seeds), &Bar::new().runner(&seeds.threads))?;
    let errors = ReplayErrors::new(&recording, &replays, &machine.name, &policy);
    Ok(Some((errors, Check::new(&recording, &replays, &machine.name, &policy))))
}
