//! The four profiles, told apart by the answers to real calls.

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{args, ran};
use libc::{EAFNOSUPPORT, EINVAL, ENOSYS, EPERM};

const STRICT: &[&str] = &["--seccomp", "strict"];
const DEFAULT: &[&str] = &["--seccomp", "default"];
const PERMISSIVE: &[&str] = &["--seccomp", "permissive"];
const NONE: &[&str] = &["--seccomp", "none"];

/// One call, and what it gives under strict, default, permissive and none; 0 is success.
fn each_profile(call: &Script, expected: [&[i32]; 4]) {
    for (profile, errors) in [STRICT, DEFAULT, PERMISSIVE, NONE].into_iter().zip(expected) {
        let errno = call.inside(profile).errno(0);
        assert!(errors.contains(&errno), "{profile:?}: errno {errno}, not one of {errors:?}: {call:?}");
    }
}

#[test]
fn default_is_the_default() {
    let script = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER])
        .call(libc::SYS_ptrace, args![0, 0, 0, 0]);
    let (said, unsaid) = (script.inside(DEFAULT), script.inside(&[]));
    assert_eq!([said.errno(0), said.errno(1)], [unsaid.errno(0), unsaid.errno(1)]);
}

#[test]
fn what_undoes_the_sandbox_is_refused_by_every_profile_that_filters() {
    // Without a filter the kernel looks at the arguments, or the capability.
    each_profile(
        &Script::new().call(libc::SYS_keyctl, args![0, -3, 0]),
        [&[EPERM], &[EPERM], &[EPERM], &[0, ENOSYS, libc::ENOKEY]],
    );
    each_profile(
        &Script::new().call(libc::SYS_open_by_handle_at, args![-1, 0, 0]),
        [&[EPERM], &[EPERM], &[EPERM], &[EPERM, libc::EFAULT, libc::EBADF]],
    );
    each_profile(
        &Script::new().call(libc::SYS_mount, args![0, "/", 0, 0, 0]),
        [&[EPERM], &[EPERM], &[EPERM], &[EPERM]],
    );
    each_profile(
        &Script::new().call(libc::SYS_io_uring_setup, args![0, Arg::Zeros(120)]),
        [&[EPERM], &[EPERM], &[EPERM], &[EINVAL, EPERM, ENOSYS]],
    );
}

#[test]
fn nested_namespaces_are_for_permissive_and_none() {
    each_profile(
        &Script::new().call(libc::SYS_unshare, args![libc::CLONE_NEWUSER]),
        [&[EPERM], &[EPERM], &[0], &[0]],
    );
    each_profile(
        &Script::new().call(libc::SYS_clone3, args![0, 0]),
        [&[ENOSYS], &[ENOSYS], &[EINVAL], &[EINVAL]],
    );
}

#[test]
fn kernel_surface_is_for_permissive_and_none() {
    each_profile(
        &Script::new().call(libc::SYS_move_pages, args![0, 0, 0, 0, 0, 0]),
        [&[EPERM], &[EPERM], &[0, ENOSYS], &[0, ENOSYS]],
    );
    each_profile(
        &Script::new().call(libc::SYS_personality, args![0x0040_0000]),
        [&[EPERM], &[EPERM], &[0], &[0]],
    );
}

#[test]
fn tracing_and_networks_are_not_for_strict() {
    each_profile(
        &Script::new().call(libc::SYS_process_vm_readv, args![0, 0, 0, 0, 0, 0]),
        [&[EPERM], &[0, libc::ESRCH], &[0, libc::ESRCH], &[0, libc::ESRCH]],
    );
    each_profile(
        &Script::new().call(libc::SYS_socket, args![libc::AF_INET, libc::SOCK_STREAM, 0]),
        [&[EAFNOSUPPORT], &[0], &[0], &[0]],
    );
    each_profile(
        &Script::new().call(libc::SYS_ptrace, args![libc::PTRACE_TRACEME, 0, 0, 0]),
        [&[EPERM], &[0], &[0], &[0]],
    );
}

#[test]
fn a_call_of_a_future_kernel_does_not_exist() {
    each_profile(&Script::new().call(1000, args![0]), [&[ENOSYS]; 4]);
    // listmount exists since 6.8, with arguments that it would refuse in other words.
    each_profile(
        &Script::new().call(458, args![0, 0, 0, 0]),
        [&[ENOSYS], &[ENOSYS], &[ENOSYS, EINVAL, libc::EFAULT], &[ENOSYS, EINVAL, libc::EFAULT]],
    );
}

#[test]
fn threads_work_without_clone3() {
    for profile in [STRICT, DEFAULT, PERMISSIVE, NONE] {
        let told = ran(&mut probe_inside("threads", profile, &[""])).ok();
        assert_eq!(told.stdout, "2470\n", "{profile:?}");
    }
}

#[test]
fn a_program_can_be_traced_by_its_parent_under_default() {
    let told = ran(&mut probe_inside("trace-a-child", DEFAULT, &[""])).ok();
    assert_eq!(told.stdout, "stopped: true, code: 7\n");
}

#[test]
#[kennel_claim::claim("privileges/filter-stays")]
fn the_filter_cannot_be_taken_off() {
    const SET_MODE_STRICT: i32 = 0;
    let script = Script::new()
        .call(libc::SYS_prctl, args![libc::PR_GET_SECCOMP, 0, 0, 0, 0])
        .call(libc::SYS_prctl, args![libc::PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0])
        .call(libc::SYS_seccomp, args![SET_MODE_STRICT, 0, 0])
        .call(libc::SYS_prctl, args![libc::PR_GET_SECCOMP, 0, 0, 0, 0]);
    let told = script.inside(&[]);
    assert_eq!(told.answer(0), 2);
    told.refused(1, &[EINVAL]).refused(2, &[EINVAL]);
    assert_eq!(told.answer(3), 2);
}
