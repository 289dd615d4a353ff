//! The zygote that sandboxes are cloned from, and pools of sandboxes that wait for their commands. A process has one at most, so each test is a program of its own.

mod clones;
mod pools;

kennel_tests::roles! {
    "cloning" => clones::cloning,
    "losing" => clones::losing,
    "forking" => clones::forking,
    "crowded" => clones::crowded,
    "careless" => clones::careless,
    "changing" => clones::changing,
    "letting-go" => clones::letting_go,
    "owning" => clones::owning,
    "limited" => clones::limited,
    "pool-late" => pools::late,
    "pool-once" => pools::once,
    "pool-changing" => pools::changing,
    "pool-failing" => pools::failing,
    "pool-losing" => pools::losing,
    "pool-limited" => pools::limited,
    "confining" => clones::confining,
    "flying" => clones::flying,
    "standing" => clones::standing,
    "pool-networked" => pools::networked,
    "pool-refused" => pools::refused,
    "pool-networks" => pools::networks,
    "pool-workspaces" => pools::workspaces,
}
