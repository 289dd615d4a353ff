//! A Debian package is built by one user and packed with owners by another.

use std::os::unix::fs::MetadataExt;

use kennel_tests::{Scratch, program, run_sh, skipped};

use super::possible;

const CONTROL: &str = "Source: kennel-hello
Maintainer: Nobody <nobody@example.com>
Section: misc
Priority: optional
Standards-Version: 4.6.2
Rules-Requires-Root: no

Package: kennel-hello
Architecture: all
Description: a package for a test
 It holds two files.
";
const CHANGELOG: &str = "kennel-hello (1.0) unstable; urgency=low

  * First.

 -- Nobody <nobody@example.com>  Mon, 01 Jan 2024 00:00:00 +0000
";
const RULES: &str = "#!/usr/bin/make -f
build build-arch build-indep:
\tid -un > built-by
clean:
\trm -rf built-by debian/tmp debian/files
binary-arch:
binary binary-indep: build
\tmkdir -p debian/tmp/DEBIAN debian/tmp/usr/share/kennel-hello debian/tmp/var/lib/kennel-hello
\tinstall -m 644 built-by debian/tmp/usr/share/kennel-hello/built-by
\tdpkg-gencontrol -pkennel-hello
\tdpkg-deb --root-owner-group --build debian/tmp ..
.PHONY: build clean binary
";

#[test]
fn a_debian_package_is_built_as_builder_with_files_owned_as_expected() {
    for tool in ["dpkg-buildpackage", "dpkg-deb", "make", "newuidmap"] {
        if program(tool).is_none() {
            return skipped(&format!("{tool} is not installed"));
        }
    }
    if !possible() {
        return;
    }
    let place = Scratch::new();
    place.write("src/debian/control", CONTROL);
    place.write("src/debian/changelog", CHANGELOG);
    place.write("src/debian/rules", RULES);
    let write = place.path().display().to_string();
    // The builder builds; root unpacks the package, gives a folder to a service's user, and packs it again.
    let script = "set -e; chmod 755 src/debian/rules
        su builder -c 'cd src && dpkg-buildpackage -us -uc -b -d' > log 2>&1 || { cat log; exit 1; }
        stat -c '%U %n' src/built-by kennel-hello_1.0_all.deb
        dpkg-deb -R kennel-hello_1.0_all.deb /tmp/x
        cat /tmp/x/usr/share/kennel-hello/built-by
        chown -R www-data:www-data /tmp/x/var/lib/kennel-hello
        dpkg-deb -b /tmp/x owned.deb > /dev/null
        dpkg-deb -c owned.deb | awk '{print $2, $6}'
        mkdir /tmp/y; dpkg-deb -x owned.deb /tmp/y; stat -c '%U:%G' /tmp/y/var/lib/kennel-hello /tmp/y/usr";
    let ran = run_sh(["--users", "root,builder", "--allow-write", &write, "-C", &write], script).ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..3], ["builder src/built-by", "builder kennel-hello_1.0_all.deb", "builder"]);
    assert!(lines.contains(&"www-data/www-data ./var/lib/kennel-hello/"), "{lines:#?}");
    assert!(lines.contains(&"root/root ./usr/share/kennel-hello/built-by"), "{lines:#?}");
    assert_eq!(lines[lines.len() - 2..], ["www-data:www-data", "root:root"]);
    for name in ["owned.deb", "kennel-hello_1.0_all.deb", "src/built-by", "log"] {
        let about = std::fs::metadata(place.join(name)).unwrap();
        assert_eq!(about.uid(), rustix::process::geteuid().as_raw(), "{name}");
    }
}
