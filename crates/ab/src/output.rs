// SPDX-License-Identifier: GPL-2.0-or-later
//! What a program writes while it runs.
//!
//! It goes to temporary files, because a reader at the other end of a pipe would take CPU time during the run. However
//! much a program writes, this process holds only one line of it, or the last few, in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::process::{Command, Stdio};

use regex::Regex;
use wakelab_machine::printable;

use crate::error::{AbError, system};
use crate::interrupt::Interrupt;

/// Number of last lines that an error message shows.
const LAST_LINES: usize = 10;
/// Bytes at the end of each file in which the last lines are looked for.
const TAIL_BYTES: u64 = 16 << 10;
/// A longer line is searched in pieces of this length.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Number of lines between two looks at the interrupt.
const LINES_PER_LOOK: u64 = 1 << 10;

/// Standard output and standard error of one program.
pub(crate) struct Output {
    stdout: File,
    stderr: File,
}

impl Output {
    pub(crate) fn new() -> Result<Output, AbError> {
        let file = || tempfile::tempfile().map_err(system("create a temporary file"));
        Ok(Output { stdout: file()?, stderr: file()? })
    }

    /// Lets the program write to these files. It gets no input.
    pub(crate) fn attach_to(&self, command: &mut Command) -> Result<(), AbError> {
        let clone = |file: &File| file.try_clone().map_err(system("share a temporary file"));
        command.stdin(Stdio::null()).stdout(clone(&self.stdout)?).stderr(clone(&self.stderr)?);
        Ok(())
    }

    /// Returns the number that the last match of `regex` has in its first group: line by line, standard error after
    /// standard output. `None` if nothing matches, or if the last match has no finite number there. Invalid UTF-8 is
    /// replaced.
    pub(crate) fn last_number(
        &mut self,
        regex: &Regex,
        interrupt: &Interrupt,
    ) -> Result<Option<f64>, AbError> {
        let mut last = None;
        for file in [&mut self.stdout, &mut self.stderr] {
            file.rewind().map_err(system("read a program's output"))?;
            let mut reader = BufReader::new(file);
            let mut line = Vec::new();
            for count in 0_u64.. {
                if count % LINES_PER_LOOK == 0 && interrupt.is_stopped() {
                    return Err(AbError::Interrupted);
                }
                line.clear();
                let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
                if read.map_err(system("read a program's output"))? == 0 {
                    break;
                }
                let text = String::from_utf8_lossy(&line);
                if let Some(found) = regex.captures_iter(text.trim_end_matches(['\n', '\r'])).last() {
                    last = found.get(1).and_then(|group| group.as_str().trim().parse::<f64>().ok());
                }
            }
        }
        Ok(last.filter(|value| value.is_finite()))
    }

    /// Returns the last lines that are not empty, each after a line break and two blanks, and without control
    /// characters. Standard error comes after standard output.
    pub(crate) fn last_lines(&mut self) -> Result<String, AbError> {
        let mut text = String::new();
        for file in [&mut self.stdout, &mut self.stderr] {
            text.push_str(&tail(file).map_err(system("read a program's output"))?);
            text.push('\n');
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        Ok(last.iter().map(|line| format!("\n  {}", printable(line.trim_end()))).collect())
    }
}

/// Returns the last [`TAIL_BYTES`] of a file as text; invalid UTF-8 is replaced.
fn tail(file: &mut File) -> std::io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn output(stdout: &str, stderr: &str) -> Output {
        let mut output = Output::new().unwrap();
        output.stdout.write_all(stdout.as_bytes()).unwrap();
        output.stderr.write_all(stderr.as_bytes()).unwrap();
        output
    }

    fn last_number(regex: &str, stdout: &str, stderr: &str) -> Option<f64> {
        let regex = Regex::new(regex).unwrap();
        output(stdout, stderr).last_number(&regex, &Interrupt::default()).unwrap()
    }

    #[test]
    fn the_last_match_counts() {
        let time = "Time: ([0-9.]+)";
        assert_eq!(last_number(time, "Time: 1.5\nTime: 2.25 s\nthe end\n", ""), Some(2.25));
        assert_eq!(last_number(time, "Time: 1.5, Time: 2.5", ""), Some(2.5), "two on one line");
        assert_eq!(last_number(time, "Time: 1.5\n", "Time: 3\n"), Some(3.0), "standard error comes last");
        assert_eq!(last_number(time, "Time: 1.5\nTime: 2.2.5\n", ""), None, "the last is no number");
        assert_eq!(last_number("Time: ([a-z]+)", "Time: inf\n", ""), None);
        assert_eq!(last_number(time, "time 3", ""), None);
        assert_eq!(last_number("(a)?b", "b", ""), None);
        assert_eq!(last_number("^([0-9]+)$", "1\r\n2\r\n", ""), Some(2.0), "anchors hold for a line");
    }

    /// A line of 200 kB is searched in pieces of 64 KiB; the number stands within the third.
    #[test]
    fn a_long_line_is_searched_in_pieces() {
        let line = format!("{} Time: 7 {}", "x".repeat(150_000), "x".repeat(50_000));
        assert_eq!(last_number("Time: ([0-9.]+)", &line, ""), Some(7.0));
    }

    #[test]
    fn a_stop_ends_the_search() {
        let interrupt = Interrupt::default();
        interrupt.stop();
        let result = output("Time: 1\n", "").last_number(&Regex::new("(1)").unwrap(), &interrupt);
        assert!(matches!(result, Err(AbError::Interrupted)));
    }

    #[test]
    fn the_last_lines_are_shown() {
        let numbers: String = (1..=30).map(|line| format!("{line}\n")).collect();
        let expected: String = (21..=30).map(|line| format!("\n  {line}")).collect();
        assert_eq!(output(&format!("{numbers}\n"), "").last_lines().unwrap(), expected);
        assert_eq!(output("one", "two \n").last_lines().unwrap(), "\n  one\n  two");
        assert_eq!(output("\x1b[2J", "").last_lines().unwrap(), "\n  \\x1b[2J");
        let long = output(&"x".repeat(1 << 20), "end").last_lines().unwrap();
        assert_eq!(long.len(), "\n  ".len() + (16 << 10) + "\n  end".len());
    }
}
