//! Graphics cards (`files.gpus`): which there are, and what a command needs of those that were chosen.
//!
//! What a driver needs is listed, and nothing else of `/dev` is shown: not the nodes that set modes of a screen or divide a card, and
//! none of another card.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kennel_policy::gpu::{GpuChoice, GpuMaker, GpuRule};
use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{
    FilePolicy, Missing, MountAccess, MountPoint, Origin, PathRule, Policy, ReadModel, SearchScope,
};
use kennel_resolve::error::ResolveError;

use crate::read::read_whole;

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Who made it.
    pub maker: GpuMaker,
    /// Its place on the bus.
    pub bus: String,
    /// Its own devices.
    nodes: Vec<PathBuf>,
    /// Where the kernel tells of it.
    told: PathBuf,
}

/// The makers of cards, by the number that the bus has for them.
const MAKERS: &[(&str, GpuMaker)] =
    &[("0x10de", GpuMaker::Nvidia), ("0x1002", GpuMaker::Amd), ("0x8086", GpuMaker::Intel)];

/// Devices that all cards of a maker share: the driver's own, and its memory's.
const SHARED: &[(GpuMaker, &str)] = &[
    (GpuMaker::Nvidia, "/dev/nvidiactl"),
    (GpuMaker::Nvidia, "/dev/nvidia-uvm"),
    (GpuMaker::Nvidia, "/dev/nvidia-uvm-tools"),
    (GpuMaker::Amd, "/dev/kfd"),
];

/// Where NVIDIA's libraries are, by distribution.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/opengl-driver/lib",
];
/// The library that all of CUDA starts with: in its folder are the others.
const CUDA: &str = "libcuda.so.1";
/// How NVIDIA's libraries are called, and how those that are no part of the driver are.
const NAMES: &[&str] = &["libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvoptix.so", "libnvidia-"];
const NOT_THE_DRIVERS: &str = "libnvidia-container";
/// Programs that belong to the driver.
const PROGRAMS: &[&str] = &["/usr/bin/nvidia-smi", "/run/current-system/sw/bin/nvidia-smi"];
/// The same driver has some fifty names of libraries.
const MAX_LIBRARIES: usize = 256;

/// The cards of this host, in the order in which they are numbered.
#[must_use]
pub fn gpus() -> Vec<Gpu> {
    gpus_below(Path::new("/"))
}

/// The same where the kernel tells of them below another folder.
fn gpus_below(root: &Path) -> Vec<Gpu> {
    let mut found = nvidia(root);
    for node in names(&root.join("sys/class/drm")) {
        let Some(number) = node.strip_prefix("renderD").filter(|rest| is_number(rest)) else { continue };
        let Ok(device) = root.join("sys/class/drm").join(&node).join("device").canonicalize() else {
            continue;
        };
        let Some(bus) = device.file_name().and_then(|name| name.to_str()) else { continue };
        let render = PathBuf::from(format!("/dev/dri/renderD{number}"));
        let vendor = text(&device.join("vendor"));
        match MAKERS.iter().find(|(id, _)| vendor.trim() == *id) {
            // Another driver of these cards is none that CUDA knows.
            Some((_, GpuMaker::Nvidia)) => {
                found.iter_mut().filter(|gpu| gpu.bus == bus).for_each(|gpu| gpu.nodes.push(render.clone()));
            }
            Some((_, maker)) => {
                let (bus, nodes) = (bus.to_owned(), vec![render]);
                found.push(Gpu { maker: *maker, bus, nodes, told: device });
            }
            None => {}
        }
    }
    found.sort_by(|one, other| (one.maker as u8, &one.bus).cmp(&(other.maker as u8, &other.bus)));
    found
}

/// NVIDIA's, of which its own driver tells.
fn nvidia(root: &Path) -> Vec<Gpu> {
    let folder = root.join("proc/driver/nvidia/gpus");
    let card = |bus: String| {
        let told = folder.join(&bus);
        let information = text(&told.join("information"));
        let minor =
            information.lines().find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())?;
        let minor: u32 = minor;
        let mut nodes = vec![PathBuf::from(format!("/dev/nvidia{minor}"))];
        nodes.extend(parts(&root.join(format!("proc/driver/nvidia/capabilities/gpu{minor}/mig"))));
        Some(Gpu { maker: GpuMaker::Nvidia, bus, nodes, told })
    };
    names(&folder).into_iter().filter_map(card).collect()
}

/// The devices of the parts that a card is divided into: each lets its holder use one part. The files that say so lie two or three
/// folders deep.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![(folder.to_path_buf(), 0)];
    while let Some((folder, depth)) = left.pop() {
        let access = text(&folder.join("access"));
        let minor = access.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:"));
        if let Some(minor) = minor.map(str::trim).filter(|minor| is_number(minor)) {
            found.push(PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{minor}")));
        }
        if depth < 3 {
            left.extend(names(&folder).into_iter().map(|name| (folder.join(name), depth + 1)));
        }
    }
    found.sort();
    found
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn names(folder: &Path) -> Vec<String> {
    const MAX: usize = 1024;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> String {
    let read = path.to_str().and_then(|path| read_whole(path).ok()).unwrap_or_default();
    String::from_utf8_lossy(&read).into_owned()
}

/// The cards that are chosen.
///
/// # Errors
/// When one of them is not there.
fn chosen<'g>(choices: &[GpuRule], all: &'g [Gpu]) -> Result<Vec<&'g Gpu>, ResolveError> {
    let mut taken: Vec<&Gpu> = Vec::new();
    for GpuRule { choice: GpuChoice { maker, number }, origin } in choices {
        let of_maker: Vec<&Gpu> =
            all.iter().filter(|gpu| maker.is_none_or(|maker| maker == gpu.maker)).collect();
        let meant = match number {
            None => of_maker.as_slice(),
            Some(number) => {
                let at = usize::try_from(*number).unwrap_or(usize::MAX);
                of_maker.get(at..=at).unwrap_or_default()
            }
        };
        if meant.is_empty() {
            let choice = GpuChoice { maker: *maker, number: *number };
            let rule = format!("graphics cards `{choice}` ({origin})");
            return Err(ResolveError::NoGpu { rule, there: tell(all) });
        }
        for gpu in meant {
            if taken.iter().all(|own| own.bus != gpu.bus) {
                taken.push(gpu);
            }
        }
    }
    Ok(taken)
}

/// What there is, for somebody who chose something else.
fn tell(all: &[Gpu]) -> String {
    if all.is_empty() {
        return "this host has none with a driver that kennel knows (NVIDIA's own, amdgpu, i915, xe)".into();
    }
    let cards: Vec<String> = GpuMaker::ALL
        .into_iter()
        .flat_map(|maker| all.iter().filter(move |gpu| gpu.maker == maker).enumerate())
        .map(|(number, gpu)| format!("{}:{number} at {}", gpu.maker.name(), gpu.bus))
        .collect();
    format!("this host has {}", cards.join(", "))
}

/// The same policy with what the chosen cards need in its lists; `None` where none is chosen.
///
/// # Errors
/// When a card is not there.
pub(super) fn with_gpus(policy: &Policy) -> Result<Option<Policy>, ResolveError> {
    let Some(first) = policy.files.gpus.first() else { return Ok(None) };
    let all = gpus();
    let cards = chosen(&policy.files.gpus, &all)?;
    let origin = Origin(format!("graphics cards, {}", first.origin));
    let mut policy = policy.clone();
    let files = &mut policy.files;
    let shared = SHARED.iter().filter(|(maker, _)| cards.iter().any(|gpu| gpu.maker == *maker));
    let shared = shared.map(|(_, node)| PathBuf::from(node));
    let nodes: BTreeSet<PathBuf> =
        cards.iter().flat_map(|gpu| gpu.nodes.iter().cloned()).chain(shared).collect();
    // Which of them there are depends on the driver's modules, and what is missing the driver says better.
    files.devices.extend(nodes.into_iter().map(|node| rule(&node, &origin)));
    if cards.iter().any(|gpu| gpu.maker == GpuMaker::Nvidia) {
        add_libraries(files, &origin);
    }
    Ok(Some(policy))
}

/// Where the kernel tells of the cards that are chosen, and by which links.
pub(super) fn told_of(choices: &[GpuRule]) -> Vec<PathBuf> {
    let all = gpus();
    let cards = chosen(choices, &all).unwrap_or_default();
    let mut told: Vec<PathBuf> =
        cards.iter().filter(|gpu| gpu.told.starts_with("/sys")).map(|gpu| gpu.told.clone()).collect();
    if !told.is_empty() {
        told.extend(["/sys/class/drm", "/sys/dev/char"].map(PathBuf::from));
    }
    if cards.iter().any(|gpu| gpu.maker == GpuMaker::Amd) {
        told.extend(["/sys/class/kfd", "/sys/devices/virtual/kfd"].map(PathBuf::from));
    }
    told
}

/// Shows what the driver has of libraries and programs where the host's files do not show by themselves.
fn add_libraries(files: &mut FilePolicy, origin: &Origin) {
    let system = Path::new("/usr");
    let in_root = files.rootfs.is_some();
    let shown = |path: &Path| {
        !in_root && (files.reads == ReadModel::Open || files.system && path.starts_with(system))
    };
    let libraries = libraries().into_iter().filter(|path| !shown(path)).collect::<Vec<_>>();
    for path in libraries {
        if in_root {
            let (access, missing) = (MountAccess::ReadOnly, Missing::Skip);
            let (source, target, origin) = (path.clone(), path, origin.clone());
            files.mounts.push(MountPoint { source, target, access, missing, origin });
        } else {
            files.allow_read.push(rule(&path, origin));
        }
    }
}

fn libraries() -> Vec<PathBuf> {
    let folder = LIBRARIES.iter().map(Path::new).find(|folder| folder.join(CUDA).exists());
    let is_drivers = |name: &String| {
        NAMES.iter().any(|prefix| name.starts_with(prefix))
            && name.contains(".so")
            && !name.starts_with(NOT_THE_DRIVERS)
    };
    let of = |folder: &Path| {
        // A folder of libraries has thousands of other names.
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_drivers);
        names.take(MAX_LIBRARIES).map(|name| folder.join(name)).collect::<BTreeSet<_>>()
    };
    let programs = PROGRAMS.iter().map(PathBuf::from).filter(|program| program.exists()).take(1);
    folder.map(of).unwrap_or_default().into_iter().chain(programs).collect()
}

fn rule(path: &Path, origin: &Origin) -> PathRule {
    PathRule {
        pattern: PathPattern::literal(path),
        missing: Missing::Skip,
        follow_link: true,
        lenient: false,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::default(),
        origin: origin.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What kernels tell of two cards of NVIDIA's, one of them divided, two of AMD's and one of Intel's.
    fn host() -> PathBuf {
        let root = std::env::temp_dir().join(format!("kennel-gpus-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let nvidia = "proc/driver/nvidia";
        // The driver numbers its nodes as it finds the cards, which need not be their order on the bus.
        write(&format!("{nvidia}/gpus/0000:65:00.0/information"), "Model: \t H200\nDevice Minor: \t 0\n");
        write(&format!("{nvidia}/gpus/0000:1a:00.0/information"), "Model: \t H200\nDevice Minor: \t 1\n");
        let part = "capabilities/gpu1/mig/gi2";
        write(&format!("{nvidia}/{part}/access"), "DeviceFileMinor: 21\nDeviceFileMode: 292\n");
        write(&format!("{nvidia}/{part}/ci0/access"), "DeviceFileMinor: 22\n");
        // To divide cards is not to use one.
        write(&format!("{nvidia}/capabilities/mig/config"), "DeviceFileMinor: 1\n");
        for (node, bus, vendor) in [
            ("renderD128", "0000:1a:00.0", "0x10de"),
            ("renderD129", "0000:c1:00.0", "0x1002"),
            ("renderD130", "0000:03:00.0", "0x1002"),
            ("renderD131", "0000:00:02.0", "0x8086"),
            ("renderD132", "0000:00:05.0", "0x1af4"),
            ("card0", "0000:00:02.0", "0x8086"),
        ] {
            write(&format!("sys/devices/pci0000:00/{bus}/vendor"), &format!("{vendor}\n"));
            std::fs::create_dir_all(root.join("sys/class/drm").join(node)).unwrap();
            symlink(
                format!("../../../devices/pci0000:00/{bus}"),
                root.join("sys/class/drm").join(node).join("device"),
            )
            .unwrap();
        }
        root
    }

    fn nodes(text: &str, all: &[Gpu]) -> Result<Vec<String>, String> {
        let choices: Vec<GpuRule> = text
            .split(',')
            .map(|word| GpuRule { choice: word.parse().unwrap(), origin: Origin("--gpu".into()) })
            .collect();
        let cards = chosen(&choices, all).map_err(|error| error.to_string())?;
        let nodes = cards.iter().flat_map(|gpu| &gpu.nodes);
        Ok(nodes.map(|node| node.strip_prefix("/dev").unwrap().to_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn cards_are_numbered_by_the_bus_and_bring_their_own_devices_only() {
        let root = host();
        let all = gpus_below(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let divided = ["nvidia1", "nvidia-caps/nvidia-cap21", "nvidia-caps/nvidia-cap22", "dri/renderD128"];
        for (choice, expected) in [
            ("0", &divided[..]),
            ("nvidia:0", &divided),
            ("1", &["nvidia0"]),
            ("nvidia:1", &["nvidia0"]),
            ("2", &["dri/renderD130"]),
            ("amd:1", &["dri/renderD129"]),
            ("amd", &["dri/renderD130", "dri/renderD129"]),
            ("intel:0,intel", &["dri/renderD131"]),
        ] {
            assert_eq!(nodes(choice, &all).unwrap(), expected, "{choice}");
        }
        assert_eq!(nodes("all", &all).unwrap().len(), 8);
        assert_eq!(
            nodes("0,intel:1", &all).unwrap_err(),
            "resolving graphics cards `intel:1` (--gpu): there is no such card: this host has nvidia:0 at 0000:1a:00.0, \
             nvidia:1 at 0000:65:00.0, amd:0 at 0000:03:00.0, amd:1 at 0000:c1:00.0, intel:0 at 0000:00:02.0"
        );
        assert!(nodes("all", &[]).unwrap_err().contains("this host has none with a driver"));
    }
}
