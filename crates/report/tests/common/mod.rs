// SPDX-License-Identifier: GPL-2.0-or-later
//! What all tests of documents do.

use serde_json::Value;

/// The schema is one, and the document keeps it: all that it breaks is in the failure.
pub(crate) fn validate(schema: &str, document: &Value) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new());
}
