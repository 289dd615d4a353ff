//! Steps in words, for `kennel plan` and for errors.

use std::ffi::CString;

use kennel_init::plan::{Access, Step};
use kennel_policy::listeners::SocketRole;
pub use kennel_policy::printed::show;

fn name(path: &CString) -> String {
    show(path.as_bytes())
}

/// What a step does, on what.
#[must_use]
pub fn describe_step(step: &Step) -> String {
    match step {
        Step::PrivateMounts => "separate the mounts from the host's".into(),
        Step::HostRoot { access: Access::Write, .. } => "show the host's files, writable".into(),
        Step::HostRoot { .. } => "show the host's files, read-only".into(),
        Step::TmpfsRoot { .. } => "start from an empty root".into(),
        Step::Layer { size, .. } => format!("create a writable layer of {size} bytes in memory"),
        Step::LayeredRoot { source, .. } => {
            format!("use {} as the root, under the writable layer", name(source))
        }
        Step::BoundRoot { source, .. } => format!("use {} as the root, read-only", name(source)),
        Step::HandOverRoot => "let the guard watch names in the writable layer".into(),
        Step::Freeze { target } => format!("keep {} as it is", name(target)),
        Step::Tmpfs { target, size, .. } => format!("mount a tmpfs of {size} bytes on {}", name(target)),
        Step::MakeDir { path, .. } => format!("create the folder {}", name(path)),
        Step::MakeFile { path } => format!("create the mount point {}", name(path)),
        Step::Symlink { path, points_to } => format!("create the link {} to {}", name(path), name(points_to)),
        // Planned, and not yet known.
        Step::WriteFile { path, contents, .. } if contents.is_empty() => format!("write {}", name(path)),
        Step::CoverFile { target, contents } if contents.is_empty() => format!("write over {}", name(target)),
        Step::WriteFile { path, contents, .. } => format!("write {} bytes to {}", contents.len(), name(path)),
        Step::Bind { source, target, access, .. } => {
            let how = match access {
                Access::Read => "read-only",
                Access::Write => "writable",
                Access::Device => "as a device",
            };
            if source == target {
                format!("show {} {how}", name(target))
            } else {
                format!("show {} at {} {how}", name(source), name(target))
            }
        }
        Step::LayeredFolder { source, target, layer, .. } => {
            let at = if source == target { String::new() } else { format!(" at {}", name(target)) };
            format!("show {}{at}, under a layer that is kept in {}", name(source), name(layer))
        }
        Step::Store { size, .. } => format!("create an in-memory file system of {size} bytes"),
        Step::HandOverStore => "keep the masks, to hide names that the host replaces".into(),
        Step::Private { target, .. } => format!("show a private folder at {}", name(target)),
        Step::SealMounts => "finish mounts".into(),
        Step::MaskDir { target } => format!("hide the folder {}", name(target)),
        Step::MaskFile { target } => format!("hide the file {}", name(target)),
        Step::CoverFile { target, contents } => {
            format!("write {} bytes over {}", contents.len(), name(target))
        }
        Step::Proc { target } => format!("mount proc on {}", name(target)),
        Step::ProcEntries { target, write, left, read_only } => format!(
            "hide what is not known of the kernel's entries of {} ({} are); {}",
            name(target),
            left.len() + read_only.len(),
            if *write { "processes can write their own" } else { "nothing can be written" },
        ),
        Step::Devpts { target, most } => {
            format!("mount devpts on {}, with at most {most} terminals", name(target))
        }
        Step::ReadOnly { target } => format!("make {} read-only", name(target)),
        Step::PivotRoot => "switch to the new root and drop the old one".into(),
        Step::Hostname { name: host } => format!("set the host name to {}", name(host)),
        Step::OwnNetwork => "create an empty network".into(),
        Step::EnterNetwork => "enter the network created earlier".into(),
        Step::LoopbackUp => "bring up the loopback interface".into(),
        Step::Netlink { messages, .. } => {
            format!("configure the network ({} bytes of netlink)", messages.len())
        }
        Step::Listen { role, .. } => format!("open {}", socket_name(*role)),
        Step::Terminal { streams, .. } => {
            format!("open a terminal of the sandbox's own as {}", stream_names(streams))
        }
        Step::DeviceStream { path, streams } => {
            format!("open {} of the sandbox's own as {}", name(path), stream_names(streams))
        }
        Step::InputFile { source, .. } => {
            format!("open {} again, read-only, as standard input", name(source))
        }
        Step::ChangeDir { path } => format!("change to {}", name(path)),
        Step::Limit { resource, soft, .. } => format!("limit {} to {soft}", resource_name(*resource)),
        Step::Share { resource, most, half } => {
            let what = resource_name(*resource);
            match (*half, *most) {
                (true, u64::MAX) => format!("limit {what} to half of the caller's"),
                (true, most) => format!("limit {what} to {most}, and to half of the caller's"),
                (false, most) => format!("limit {what} to {most}"),
            }
        }
        Step::NamespaceLimit { file, half_of, .. } if !half_of.is_empty() => {
            format!("limit {} for the whole sandbox to half of {}", name(file), name(half_of))
        }
        Step::NamespaceLimit { file, value, .. } => {
            format!("limit {} for the whole sandbox to {value}", name(file))
        }
        Step::OwnCgroups => "show its own cgroup as the root".into(),
        Step::OwnKeyring => "start from an empty session keyring".into(),
        Step::AwaitController => "wait for the controller".into(),
        Step::NoNewPrivileges => "forbid gaining privileges by exec".into(),
        Step::Landlock { paths, .. } => format!("restrict with Landlock ({} paths)", paths.len()),
        Step::DropCapabilities => "drop all capabilities".into(),
        Step::RootOwns { .. } => "give what is created to root".into(),
        Step::Home { target, uid, .. } => format!("show a home folder of user {uid} at {}", name(target)),
        Step::NestUsers { .. } => "enter a user namespace in which all mounts are locked".into(),
        Step::LimitCapabilities { left } => format!("drop all capabilities but {left:#x}"),
        Step::Filter { program, listener, .. } => {
            let asks = if *listener { "; the guard decides some" } else { "" };
            format!("filter system calls ({} instructions){asks}", program.len() / 8)
        }
        Step::BornInNetwork => "stay in the network of the sandbox's own".to_owned(),
        Step::HoldHost { path } => format!("hold the host's {}", show(path.as_bytes())),
        Step::Later => "wait for the steps that come with the command".into(),
        Step::Session { .. } => "run the commands of the session".into(),
        Step::TakeDescriptors { numbers } => format!("take {} from the controller", stream_names(numbers)),
    }
}

fn socket_name(number: u32) -> String {
    let Some(role) = SocketRole::decode(number) else { return format!("socket {number}") };
    match role {
        SocketRole::Proxy => "the listener of the HTTP and SOCKS proxy".into(),
        SocketRole::Transparent => "the transparent TCP listener".into(),
        SocketRole::DnsUdp => "the DNS socket for UDP".into(),
        SocketRole::DnsTcp => "the DNS listener for TCP".into(),
        SocketRole::OutboundSocket => "the socket that connects to published ports".into(),
        SocketRole::ConnectTarget => "the socket that the one for published ports connects to first".into(),
        SocketRole::Relay { port } => format!("the listener of the host's port {port}"),
        SocketRole::Gateway { provider } => {
            format!("the listener of the model gateway's provider {provider}")
        }
        SocketRole::Published { inside } => format!("the listener of the published port {inside}"),
    }
}

fn stream_names(streams: &[u32]) -> String {
    let names: Vec<String> = streams
        .iter()
        .map(|number| match number {
            0 => "standard input".to_owned(),
            1 => "standard output".to_owned(),
            2 => "standard error".to_owned(),
            other => format!("descriptor {other}"),
        })
        .collect();
    names.join(", ")
}

fn resource_name(resource: u32) -> &'static str {
    match resource {
        0 => "CPU seconds",
        1 => "file size",
        3 => "stack size",
        4 => "core dumps",
        6 => "processes of the user",
        7 => "open files",
        11 => "pending signals and timers",
        12 => "bytes in message queues",
        13 => "priority",
        14 => "real-time priority",
        _ => "a resource",
    }
}
