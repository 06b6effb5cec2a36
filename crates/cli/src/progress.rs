// SPDX-License-Identifier: GPL-2.0-or-later
//! The progress bar on stderr.

use std::io;
use std::num::NonZeroUsize;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wakelab_lab::{Progress, Runner};

use crate::args::ThreadsArg;
use crate::print;

/// A bar of runs, with the remaining time. It draws nothing if stderr is not a terminal.
pub(crate) struct Bar(pub(crate) ProgressBar);

impl Bar {
    pub(crate) fn new() -> Bar {
        Bar::with("{bar:40} {pos}/{len} runs, {eta} left")
    }

    /// A bar of this template, which must be valid.
    pub(crate) fn with(template: &'static str) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("the template is a constant that parses");
        Bar(bar.with_style(style))
    }

    /// Returns a runner that shows its progress in this bar.
    pub(crate) fn runner(&self, threads: &ThreadsArg) -> Runner<'_> {
        Runner::new(threads.threads.and_then(|threads| NonZeroUsize::new(threads as usize)), self)
    }
}

impl Progress for Bar {
    fn begin(&self, runs: usize) {
        self.0.reset();
        self.0.set_length(runs as u64);
    }

    fn run_done(&self) {
        self.0.inc(1);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }

    fn fewer_threads(&self, running: usize, wanted: usize, error: &io::Error) {
        self.0.suspend(|| {
            print::note(&format!(
                "going on with {running} of {wanted} threads: cannot start another: {error}"
            ));
        });
    }
}
