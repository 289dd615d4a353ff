//! What the user's own settings of package managers say, read on the host: see [`kennel_policy::registries`].

use std::ffi::OsString;
use std::path::PathBuf;

use kennel_policy::registries::UserMirrors;

use crate::home::Homes;
use crate::settings_file;

/// The files of a home, which is looked for when somebody asks, and variables.
pub struct HomeMirrors<H, V> {
    home: H,
    variable: V,
}

impl<H: Fn() -> Option<PathBuf>, V: Fn(&str) -> Option<OsString>> HomeMirrors<H, V> {
    /// Those of this home.
    pub fn new(home: H, variable: V) -> Self {
        HomeMirrors { home, variable }
    }
}

/// Those of the user whom this process belongs to.
pub(crate) fn of_this_process() -> impl UserMirrors {
    HomeMirrors::new(
        || Homes::of_this_process().first().map(PathBuf::from),
        |name: &str| std::env::var_os(name),
    )
}

impl<H: Fn() -> Option<PathBuf>, V: Fn(&str) -> Option<OsString>> UserMirrors for HomeMirrors<H, V> {
    /// A sandbox may have written what a link leads to, and what is in the folder that it works in: these say nothing, and neither
    /// does a file that cannot be read.
    fn file(&self, below_home: &str) -> Option<Vec<u8>> {
        let home = (self.home)()?.canonicalize().ok()?;
        let file = home.join(below_home);
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
        if here.is_some_and(|here| file.starts_with(here))
            || !file.canonicalize().is_ok_and(|found| found == file)
        {
            return None;
        }
        settings_file::bytes(&file).ok()?
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_home_are_read() {
        let folder = std::env::temp_dir().join(format!("kennel-mirrors-{}", std::process::id()));
        let home = folder.join("home");
        std::fs::create_dir_all(home.join("dotfiles")).unwrap();
        std::fs::write(folder.join("outside"), "registry=https://outside.example.com").unwrap();
        std::fs::write(home.join("dotfiles/npmrc"), "registry=https://inside.example.com").unwrap();
        std::os::unix::fs::symlink(home.join("dotfiles/npmrc"), home.join(".npmrc")).unwrap();
        std::os::unix::fs::symlink("../outside", home.join(".yarnrc.yml")).unwrap();
        let mirrors = HomeMirrors::new(|| Some(home.clone()), |_: &str| None);
        std::fs::write(home.join(".condarc"), "x").unwrap();
        assert_eq!(mirrors.file(".condarc").unwrap(), b"x");
        assert_eq!(mirrors.file(".npmrc"), None);
        assert_eq!(mirrors.file(".yarnrc.yml"), None);
        assert_eq!(mirrors.file("../outside"), None);
        assert_eq!(mirrors.file("dotfiles"), None);
        assert_eq!(mirrors.file("missing"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
