//! How the crates are built, read from their own source: what a reader may count on wherever he looks.

mod documents;
mod gate;
mod module_order;
mod one_of_each;
mod recipe;
mod unsafe_homes;
mod walk;
