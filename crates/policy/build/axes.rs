// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the axes of params.h as Rust: an enumeration for each, a struct with one choice on each, and access by name.

use std::fmt::Write;
use std::path::Path;

use wakelab_mirror::rust::Writer;
use wakelab_mirror::words::{self, Comment};
use wakelab_mirror::{Error, Field, Headers, opening_comment};

/// An axis: a field of `struct wl_params` whose comment names an enumeration.
struct Axis {
    /// The axis' name in `AXIS=VALUE`.
    word: String,
    /// The name of Rust's field in PolicySpec.
    field: String,
    /// The name of C's field.
    c_field: String,
    /// The C name of its enumeration.
    c_enum: String,
    comment: Comment,
}

impl Axis {
    fn of(field: &Field) -> Option<Axis> {
        let c_enum = field.values.clone()?;
        let comment = Comment::of(&field.doc);
        let word = comment.word.clone().unwrap_or_else(|| field.name.replace('_', "-"));
        Some(Axis { field: word.replace('-', "_"), word, c_field: field.name.clone(), c_enum, comment })
    }
}

/// Writes the axes.
pub(crate) fn write(writer: &mut Writer<'_>, headers: &Headers, policy: &Path) -> Result<(), Error> {
    let params = headers.find("wl_params").map_or(&[][..], |params| &params.fields);
    let axes: Vec<Axis> = params.iter().filter_map(Axis::of).collect();
    for axis in &axes {
        let rename = |word: &str| format!("    #[serde(rename = {word:?})]\n");
        writer.enumeration(&axis.c_enum, ", Serialize, Deserialize", &rename)?;
    }
    let entries = axes.iter().map(|axis| entry(writer, axis, policy)).collect::<Result<Vec<_>, _>>()?;
    let mut out = format!(
        "/// All axes, in the order of `struct wl_params`.\npub(crate) static AXES: [Axis; {}] = [\n{}];\n\n",
        axes.len(),
        entries.concat()
    );
    spec(&mut out, writer, headers, &axes).expect("a string");
    writer.push(&out);
    Ok(())
}

/// Returns an axis as a value of Rust's `Axis`.
fn entry(writer: &Writer<'_>, axis: &Axis, policy: &Path) -> Result<String, Error> {
    let found = writer.find_enum(&axis.c_enum)?;
    let with = axis.comment.with.as_ref();
    let with = with.map_or("None".to_owned(), |(other, values)| format!("Some(({other:?}, &{values:?}))"));
    let mut out = format!(
        "    Axis {{ name: {:?}, description: {:?}, with: {with}, values: &[\n",
        axis.word, found.doc
    );
    for value in found.choices() {
        let comment = Comment::of(&value.doc);
        let text = match &comment.file {
            Some(file) => opening_comment(&policy.join(file))?,
            None => String::new(),
        };
        writeln!(
            out,
            "        AxisValue {{ name: {:?}, description: {:?}, text: {text:?} }},",
            words::word(found, value),
            comment.text
        )
        .expect("a string");
    }
    Ok(out + "    ] },\n")
}

/// Writes `PolicySpec`, and what sets and returns its axes by name.
fn spec(out: &mut String, writer: &Writer<'_>, headers: &Headers, axes: &[Axis]) -> std::fmt::Result {
    out.push_str(
        "/// A policy: one choice on each axis, and its tunables.\n#[derive(Clone, Debug, PartialEq, Eq, Serialize, \
         Deserialize)]\n#[serde(rename_all = \"kebab-case\", deny_unknown_fields)]\npub struct PolicySpec {\n",
    );
    let description = |axis: &Axis| headers.find_enum(&axis.c_enum).map_or("", |found| &found.doc);
    for axis in axes {
        out.push_str(&words::doc(description(axis), "    "));
        writeln!(out, "    pub {}: {},", axis.field, writer.name(&axis.c_enum))?;
    }
    out.push_str(
        "    /// Overrides of the kernel's defaults.\n    #[serde(default, skip_serializing_if = \
         \"Tunables::is_default\")]\n    pub tunables: Tunables,\n}\n\nimpl PolicySpec {\n    /// The first value of \
         each axis.\n    pub(crate) const FIRST: PolicySpec = PolicySpec {\n",
    );
    for axis in axes {
        let name = writer.name(&axis.c_enum);
        writeln!(out, "        {}: {name}::ALL[0],", axis.field)?;
    }
    out.push_str("        tunables: Tunables::NONE,\n    };\n\n");
    writeln!(
        out,
        "    /// Each axis with the chosen value, in the order of [`PolicySpec::axes`].\n    pub(crate) fn \
         choices(&self) -> [(&'static str, &'static str); {}] {{\n        [",
        axes.len()
    )?;
    for axis in axes {
        writeln!(out, "            ({:?}, self.{}.name()),", axis.word, axis.field)?;
    }
    out.push_str(
        "        ]\n    }\n\n    /// Sets an axis to its value of this number; false if there is no such axis.\n    \
         pub(crate) fn choose(&mut self, axis: &str, value: usize) -> bool {\n        match axis {\n",
    );
    for axis in axes {
        let name = writer.name(&axis.c_enum);
        writeln!(out, "            {:?} => self.{} = {name}::ALL[value],", axis.word, axis.field)?;
    }
    out.push_str(
        "            _ => return false,\n        }\n        true\n    }\n\n    /// The axes as C has them; the rest is \
         0.\n    pub(crate) fn axes_as_params(&self) -> Params {\n        Params {\n",
    );
    for axis in axes {
        writeln!(out, "            {}: self.{} as u32,", axis.c_field, axis.field)?;
    }
    out.push_str("            ..Params::default()\n        }\n    }\n}\n\n");
    Ok(())
}

/// Writes where the fields of topology.h's structs begin in a build with any number of CPUs, computed from two builds.
pub(crate) fn write_places(writer: &mut Writer<'_>, most: &Headers, few: &Headers) -> Result<(), Error> {
    let max_cpus = |headers: &Headers| headers.constant("WL_MAX_CPUS").map(|value| value as usize);
    let (large, small) = (max_cpus(most)?, max_cpus(few)?);
    let place = |at_large: usize, at_small: usize| {
        let per_cpu = (at_large - at_small) / (large - small);
        format!("Place {{ bytes: {}, per_cpu: {per_cpu} }}", at_small - per_cpu * small)
    };
    let mut out = String::new();
    for name in ["wl_topo", "wl_level", "wl_policy"] {
        let (Some(in_most), Some(in_few)) = (most.find(name), few.find(name)) else { continue };
        let rust = name.trim_start_matches("wl_").to_ascii_uppercase();
        out += &format!("pub(crate) const {rust}_PLACES: &[(&str, Place)] = &[\n");
        for (a, b) in in_most.fields.iter().zip(&in_few.fields) {
            // Of the policy only the fields that hosts fill in are needed.
            if name == "wl_policy" && !["params", "topo"].contains(&a.name.as_str()) {
                continue;
            }
            out += &format!("    ({:?}, {}),\n", a.name, place(a.offset, b.offset));
        }
        out += "];\n";
        if name != "wl_policy" {
            let size = place(in_most.size, in_few.size);
            out += &format!("pub(crate) const {rust}_SIZE: Place = {size};\n");
        }
    }
    writer.push(&out);
    Ok(())
}
