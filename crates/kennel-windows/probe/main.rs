//! The program that the tests on Windows start.

fn main() {}
