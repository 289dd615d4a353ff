//! The zygote that sandboxes are cloned from. A process has one at most, so each test is a program of its own.

mod clones;

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
}
