//! Throughput through each door.

fn main() {}
