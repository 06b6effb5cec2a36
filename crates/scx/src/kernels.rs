// SPDX-License-Identifier: GPL-2.0-only
//! Kernels with known mistakes in sched_ext that this scheduler meets: what the loader says when it starts on one.
//!
//! Versions of the long-term series 6.12 are from its change logs, as Debian's package linux-source-6.12 lists them;
//! those of the stale dispatch are what a review of this scheduler found (the source of 6.12.117 has the fix). In other
//! series older than the fix, a kernel may have the mistake; distributions may also have fixed it in theirs.

/// A mistake of some kernels.
struct Mistake {
    /// What happens, and what it means here.
    what: &'static str,
    /// For series that got the fix: the first patch level without the mistake.
    fixed_in_series: &'static [((u32, u32), u32)],
    /// The first version, major and minor, that never had it, if it is known.
    fixed_in: Option<(u32, u32)>,
}

const MISTAKES: [Mistake; 4] = [
    Mistake {
        what: "a CPU that was woken and found nothing to run is not found idle again (fixed by commit a2a3374c47c4)",
        fixed_in_series: &[((6, 12), 10)],
        fixed_in: Some((6, 14)),
    },
    Mistake {
        what: "attaching can hang with all CPUs busy, unless the loader may become a real-time task (CVE-2026-43392)",
        fixed_in_series: &[((6, 12), 78)],
        fixed_in: Some((7, 0)),
    },
    Mistake {
        what: "a task whose wake-up is undone may later go to a CPU that was chosen before (fixed by commit 7e0ffb72de8a)",
        fixed_in_series: &[((6, 12), 82), ((6, 18), 23)],
        fixed_in: Some((7, 0)),
    },
    Mistake {
        what: "taking a CPU offline can hang while tasks wait on it (\"Fix CPU hotplug hang when a dying CPU's tasks sit in the BPF scheduler\")",
        fixed_in_series: &[((6, 12), 114)],
        fixed_in: None,
    },
];

/// Returns a sentence for each mistake that the kernel of this release has or may have.
pub(crate) fn mistakes(release: &str) -> Vec<String> {
    let Some((version, patch)) = parse(release) else { return Vec::new() };
    let said = |mistake: &Mistake| {
        let of_series = mistake.fixed_in_series.iter().find(|(series, _)| *series == version);
        let (verb, (major, minor, least)) = match (of_series, mistake.fixed_in) {
            (Some(&((major, minor), least)), _) if patch < least => ("has", (major, minor, least)),
            (None, Some((major, minor))) if version < (major, minor) => ("may have", (major, minor, 0)),
            _ => return None,
        };
        Some(format!(
            "Linux {release} {verb} a mistake that {major}.{minor}.{least} does not have: {}",
            mistake.what
        ))
    };
    MISTAKES.iter().filter_map(said).collect()
}

/// Returns the version, major and minor, and the patch level of a release, such as 6.12.9-amd64.
fn parse(release: &str) -> Option<((u32, u32), u32)> {
    let digits = release.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut numbers = digits.split('.').map(str::parse);
    let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((version, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(parse("6.12.117-1~deb12u1-amd64"), Some(((6, 12), 117)));
        assert_eq!(parse("6.18-rc3"), Some(((6, 18), 0)));
        assert_eq!(parse("7.0.3"), Some(((7, 0), 3)));
        assert_eq!(parse("unknown"), None);
    }

    #[test]
    fn what_a_kernel_has_is_named() {
        let numbers = |release: &str| mistakes(release).len();
        assert_eq!(
            ["6.12.0", "6.12.9-1", "6.12.10", "6.12.77", "6.12.78", "6.12.82", "6.12.114"].map(numbers),
            [4, 4, 3, 3, 2, 1, 0]
        );
        assert_eq!(
            ["6.13.1", "6.14.0", "6.18.3", "6.18.23", "6.19.11", "7.0", "8.0"].map(numbers),
            [3, 2, 2, 1, 2, 0, 0]
        );
        assert!(mistakes("6.18.3")[1].starts_with("Linux 6.18.3 has a mistake that 6.18.23 does not have"));
        let said = mistakes("6.12.5");
        assert!(
            said[0].starts_with("Linux 6.12.5 has a mistake that 6.12.10 does not have: a CPU"),
            "{said:?}"
        );
        assert!(mistakes("6.13.1")[0].contains("6.13.1 may have a mistake that 6.14.0 does not have"));
    }
}
