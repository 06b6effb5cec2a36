// SPDX-License-Identifier: GPL-2.0-or-later
//! The length of Rust functions, from the line of `fn` to the closing brace. Macros are not expanded, so a function in
//! the body of a macro is not measured.

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

/// Lines of a function that is not a test.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a test or of what only tests call: a scenario and its expected numbers read best in one place.
const TEST_LINES_MAX: usize = 120;

/// Appends every function of `file` that is too long. Files below tests/ and benches/ hold tests only.
///
/// # Errors
///
/// Fails if `text` is not Rust.
pub(crate) fn check_functions(file: &str, text: &str, findings: &mut Vec<String>) -> Result<()> {
    let tree = syn::parse_file(text).with_context(|| format!("cannot parse {file}"))?;
    let is_test = file.contains("/tests/") || file.contains("/benches/") || file.ends_with("_tests.rs");
    Functions { file, is_test, findings }.visit_file(&tree);
    Ok(())
}

struct Functions<'a> {
    file: &'a str,
    is_test: bool,
    findings: &'a mut Vec<String>,
}

impl Functions<'_> {
    fn check(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.fn_token.span.start().line, block.brace_token.span.close().end().line);
        let is_test = self.is_test || attributes.iter().any(|attribute| attribute.path().is_ident("test"));
        let (lines, most) = (last - first + 1, if is_test { TEST_LINES_MAX } else { FUNCTION_LINES_MAX });
        if lines > most {
            let (file, name) = (self.file, &signature.ident);
            self.findings.push(format!("{file}:{first}: {name}() has {lines} lines, more than {most}"));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let before = self.is_test;
        self.is_test |= module.attrs.iter().any(is_test_only);
        visit::visit_item_mod(self, module);
        self.is_test = before;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check(&function.attrs, &function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.attrs, &function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.check(&function.attrs, &function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn is_test_only(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_functions(file, text, &mut found).unwrap();
        found
    }

    /// A function of this many lines.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_is_found_by_its_line() {
        let text = format!("{}{}", function("fits", 70), function("long", 71));
        assert_eq!(findings("a.rs", &text), ["a.rs:71: long() has 71 lines, more than 70"]);
    }

    #[test]
    fn methods_count_and_their_documentation_does_not() {
        let method = |lines| format!("impl A {{\n/// Does\n/// it.\n{}}}\n", function("m", lines));
        assert_eq!(findings("a.rs", &method(70)), Vec::<String>::new());
        assert_eq!(findings("a.rs", &method(71)), ["a.rs:4: m() has 71 lines, more than 70"]);
        let default = format!("trait T {{\n{}}}\n", function("m", 71));
        assert_eq!(findings("a.rs", &default).len(), 1);
    }

    #[test]
    fn tests_may_be_longer() {
        let module = |lines| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("t", lines));
        assert_eq!(findings("a.rs", &module(120)), Vec::<String>::new());
        assert_eq!(findings("a.rs", &module(121)), ["a.rs:3: t() has 121 lines, more than 120"]);
        assert_eq!(findings("crates/a/tests/b.rs", &function("t", 120)), Vec::<String>::new());
        // The bound of tests ends with their module.
        assert_eq!(findings("a.rs", &format!("{}{}", module(3), function("f", 71))).len(), 1);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(check_functions("a.rs", "fn {", &mut Vec::new()).is_err());
    }
}
