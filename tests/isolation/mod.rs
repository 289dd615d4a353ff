//! What a sandbox is made of: namespaces, identity, privileges, Landlock, seccomp, PID 1; and that normal software runs
//! in it all the same.

mod inherited;
mod init;
mod landlock;
mod memory;
mod namespaces;
mod nested;
mod privileges;
mod roles;
mod seccomp;
mod software;

kennel_tests::roles! {
    "layers" => roles::landlock_layers,
    "threads" => roles::threads,
    "abstract-sockets" => roles::abstract_sockets,
    "trace-a-child" => roles::trace_a_child,
    "isolation-embedder" => roles::embedder,
    "ignores-children" => inherited::ignores_children,
}
