// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's release, which binary recordings tell apart from their events.

use crate::event::Item;
use crate::header::HeaderLine;

/// The release, until it was delivered.
#[derive(Debug, Default)]
pub(crate) struct Release {
    text: String,
    is_delivered: bool,
}

impl Release {
    /// Notes the release, as `uname -r` prints it.
    pub(crate) fn note(&mut self, text: &str) {
        *self = Release { text: text.trim_matches(['\0', ' ', '\n']).to_owned(), is_delivered: false };
    }

    /// Whether the recording tells it, and it was not delivered.
    pub(crate) fn is_new(&self) -> bool {
        !self.text.is_empty() && !self.is_delivered
    }

    /// Returns the release as an item, which delivers it.
    pub(crate) fn deliver(&mut self) -> Item<'_> {
        self.is_delivered = true;
        Item::Header(HeaderLine::of_kernel(&self.text))
    }
}
