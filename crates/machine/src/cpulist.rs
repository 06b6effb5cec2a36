// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of CPUs as Linux writes them: `0-3,8,10-11`.

use crate::MAX_CPUS;

/// Reads a list of CPUs below [`MAX_CPUS`]. Returns it sorted, each CPU once. Spaces and line ends around parts do not
/// matter, and an empty text is an empty list.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    // A table, not a list, because ranges may overlap, and a text may repeat a range thousands of times.
    let mut listed = [false; MAX_CPUS];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| match digits.parse::<u32>() {
            Ok(n) if (n as usize) < MAX_CPUS => Ok(n),
            _ => Err(format!("`{part}` in a list of CPUs")),
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}` in a list of CPUs"));
        }
        listed[first as usize..=last as usize].fill(true);
    }
    Ok((0..).zip(listed).filter(|(_, listed)| *listed).map(|(cpu, _)| cpu).collect())
}

/// Writes an ascending list, with ranges where CPUs follow each other: `0-3,8`.
pub fn format(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let parts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        assert_eq!(parse("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("5").unwrap(), [5]);
        assert_eq!(parse("\n").unwrap(), []);
        assert_eq!(parse("2,0-2").unwrap(), [0, 1, 2]);
        let repeated = parse(&"0-4095,".repeat(20_000)).unwrap();
        assert_eq!((repeated.len(), repeated.capacity() <= 8192), (MAX_CPUS, true));
    }

    #[test]
    fn refuses_other_text() {
        for text in ["a", "1-", "-1", "3-2", "0-99999999", "4096", "0x1", "1-2-3"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn writes_ranges() {
        assert_eq!(format(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(format(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(format(&[5]), "5");
        assert_eq!(format(&[]), "");
    }
}
