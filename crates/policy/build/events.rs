// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the kinds of event.h as Rust, with what each takes and which struct answers it.

use wakelab_mirror::rust::Writer;
use wakelab_mirror::words::Comment;
use wakelab_mirror::{Error, Headers};

/// Writes `EventKind`, and the table of its calls.
pub(crate) fn write(writer: &mut Writer<'_>, headers: &Headers) -> Result<(), Error> {
    writer.enumeration("wl_event_kind", "", &|_| String::new())?;
    writer.constant("WL_EVENT_LAST_QUESTION", "LAST_QUESTION", "u32")?;
    let found = writer.find_enum("wl_event_kind")?;
    let answer = headers.find("wl_answer").map_or(0, |answer| answer.size);
    let mut out = format!(
        "/// Bytes of `union wl_answer`.\npub(crate) const ANSWER_BYTES: usize = {answer};\n\n/// By kind.\npub(crate) \
         static CALLS: [Call; {}] = [\n",
        found.choices().len()
    );
    for kind in found.choices() {
        let comment = Comment::of(&kind.doc);
        let mut task = "Need::None";
        let mut fields = Vec::new();
        for field in &comment.takes {
            match field.as_str() {
                "task" => task = "Need::Always",
                "maybe task" => task = "Need::Maybe",
                _ => fields.push(field),
            }
        }
        let event = headers.find("wl_event").map_or(&[][..], |event| &event.fields);
        if let Some(unknown) = fields.iter().find(|name| !event.iter().any(|field| field.name == ***name)) {
            let text = format!("found `takes {unknown}`; expected a field of struct wl_event");
            return Err(Error { file: headers.files[0].clone(), line: kind.line, text });
        }
        let answer = match &comment.answers {
            Some(c) => format!("{}_FIELDS", c.to_ascii_uppercase()),
            None => "&[]".to_owned(),
        };
        out += &format!("    Call {{ task: {task}, fields: &{fields:?}, answer: {answer} }},\n");
    }
    writer.push(&(out + "];\n\n"));
    Ok(())
}
