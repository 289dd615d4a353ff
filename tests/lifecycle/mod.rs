//! How sandboxes end: by themselves, by the clock, by the death of any of their processes; and that nothing is left of
//! them then.

mod embedder;
mod endings;
mod kills;
mod leftovers_are_found;
mod many;
mod timeouts;

kennel_tests::roles! {
    "lifecycle-killer" => kills::killer,
    "lifecycle-embedder" => embedder::embedder,
    "embedder-killer" => embedder::killer,
    "two-hundred" => many::two_hundred,
    "planter" => leftovers_are_found::planter,
}
