//! Sandboxes that stand before their commands are known.

mod commands;
mod late;

kennel_tests::roles! {
    "low-numbers-caller" => late::low_numbers,
}
