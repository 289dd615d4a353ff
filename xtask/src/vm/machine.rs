//! A virtual machine: qemu, a Debian cloud kernel, and a root file system that is one archive in memory.
//!
//! Nothing is installed on the host except, as root and where it is missing, qemu itself; packages are unpacked into
//! the user's cache folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use super::console::{self, Ending};
use super::guest::Guest;
use super::kernels::Arch;
use crate::Failure;
use crate::debian::run;
use crate::packages::in_path;
use crate::suite::{self, Report};

/// How a machine is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Kvm,
    Emulation,
}

/// What boots guests.
pub struct Machines {
    /// Below the user's cache folder.
    pub state: PathBuf,
    qemu: PathBuf,
    arch: Arch,
    /// One machine at a time finds out whether KVM boots.
    kvm: Mutex<()>,
}

impl Machines {
    /// Gets together what every machine needs; what cannot be had is the reason to skip.
    pub fn prepare(state: &Path, arch: Arch) -> Result<Self, String> {
        fs::create_dir_all(state).map_err(|error| format!("{}: {error}", state.display()))?;
        Ok(Self { state: state.to_owned(), qemu: qemu(arch)?, arch, kvm: Mutex::new(()) })
    }

    /// Boots a guest, which runs its jobs. The reports of those that ran are kept whatever comes of the rest.
    pub fn run(&self, guest: &Guest, reports: &mut Vec<Report>) -> Result<(), Failure> {
        let initramfs = self.state.join(format!("initramfs-{}-{}", std::process::id(), guest.file_name()));
        let written = write_initramfs(guest, &initramfs);
        let ending = match written {
            Ok(()) => self.boot_best(guest, &initramfs, reports),
            Err(error) => Err(format!("writing {}: {error}", initramfs.display()).into()),
        };
        let _ = fs::remove_file(&initramfs);
        match ending? {
            Ending::Done => Ok(()),
            Ending::NoBoot(console) => {
                let last = &console[console.len().saturating_sub(40)..];
                Err(format!("{}: the machine did not come up:\n{}", guest.name, last.join("\n")).into())
            }
            Ending::NoEnd(why) => {
                Err(format!("{}: the machine did not come to an end: {why}", guest.name).into())
            }
        }
    }

    /// With KVM where it works, else by emulation. `/dev/kvm` alone tells little: inside of another virtual
    /// machine it may be there and boot nothing, so the first failure is remembered.
    fn boot_best(
        &self,
        guest: &Guest,
        initramfs: &Path,
        reports: &mut Vec<Report>,
    ) -> Result<Ending, Failure> {
        let is_native = self.arch.debian() == if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        if is_native {
            let first = self.kvm.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let no_kvm = self.state.join("kvm-does-not-boot");
            let device = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
            if device.is_ok() && !no_kvm.exists() {
                match self.boot(guest, initramfs, Accelerator::Kvm, reports)? {
                    Ending::NoBoot(_) => fs::write(&no_kvm, "remove this file to try KVM again\n")?,
                    ending => return Ok(ending),
                }
            }
            drop(first);
        }
        self.boot(guest, initramfs, Accelerator::Emulation, reports)
    }

    fn boot(
        &self,
        guest: &Guest,
        initramfs: &Path,
        accelerator: Accelerator,
        reports: &mut Vec<Report>,
    ) -> Result<Ending, Failure> {
        let (accel, cpu, boot_time, word) = match (accelerator, self.arch) {
            (Accelerator::Kvm, _) => ("kvm", "host", Duration::from_secs(30), ""),
            // Two things that qemu 7.2 gets wrong now and then, and the guest's kernel dies of: cmpxchg16b,
            // and code that one processor changes (the kernel's jump labels) while another one, in a thread
            // of its own, runs it.
            (Accelerator::Emulation, Arch::X86_64) => {
                ("tcg,thread=single", "max,-cx16", Duration::from_secs(180), " kennel.emulated")
            }
            // `max` has pointer authentication, which takes most of an emulated machine's time.
            (Accelerator::Emulation, Arch::Arm64) => {
                ("tcg,thread=single", "cortex-a57", Duration::from_secs(240), " kennel.emulated")
            }
        };
        let (model, console) = match self.arch {
            Arch::X86_64 => ("q35", "ttyS0"),
            Arch::Arm64 => ("virt", "ttyAMA0"),
        };
        let memory = (initramfs.metadata()?.len() >> 20) * 3 + 1536;
        let mut qemu = Command::new(&self.qemu)
            .args(["-accel", accel, "-cpu", cpu, "-M", model, "-m", &memory.to_string(), "-smp", "2"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"])
            .arg("-append")
            .arg(format!(
                "console={console} quiet loglevel=3 panic=-1 rdinit=/init{word} {}",
                guest.kernel_words
            ))
            .arg("-kernel")
            .arg(&guest.kernel_image)
            .arg("-initrd")
            .arg(initramfs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // With KVM that boots nothing qemu prints the registers of the processor.
            .stderr(if accelerator == Accelerator::Kvm { Stdio::null() } else { Stdio::inherit() })
            .spawn()?;
        let lines = console::lines_of(&mut qemu)?;
        let log = suite::logs()?.join(format!("vm-{}.log", guest.file_name()));
        let ending = console::watch(&guest.name, &lines, (boot_time, guest.longest), &log, reports);
        // After its last line the machine powers off, but it is not needed any more.
        qemu.kill()?;
        qemu.wait()?;
        ending
    }
}

/// One archive after the other is one archive to the kernel.
fn write_initramfs(guest: &Guest, place: &Path) -> io::Result<()> {
    let mut file = File::create(place)?;
    if let Some(land) = &guest.land {
        io::copy(&mut File::open(land)?, &mut file)?;
    }
    file.write_all(&guest.machine)?;
    file.write_all(&guest.jobs_archive()?)
}

fn qemu(arch: Arch) -> Result<PathBuf, String> {
    let (program, package) = match arch {
        Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
        Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
    };
    installed(program, &[package])
}

/// A program, installed by these packages where it is missing. Only root can install, and only where there is an
/// apt-get; anywhere else this fails and is the reason.
pub fn installed(program: &str, packages: &[&str]) -> Result<PathBuf, String> {
    if let Some(path) = in_path(program) {
        return Ok(path);
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    run(&mut install).map_err(|error| format!("no {program}, and it could not be installed: {error}"))?;
    in_path(program).ok_or_else(|| format!("no {program}"))
}
