//! What the types of a prompt refuse.

#[test]
fn wrong_types_are_compile_errors() {
    trybuild::TestCases::new().compile_fail("tests/types/*.rs");
}
