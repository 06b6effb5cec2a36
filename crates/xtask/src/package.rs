// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask package`: a Debian package, and a source archive with its PKGBUILD for Arch, in target/package; and the
//! check that both install what they should.
//!
//! Both install by packaging/install.sh. The Debian package is of this build: `scx_wakelab` without shared libraries,
//! as `cargo xtask vm` tests it, so that it runs on any Debian or Ubuntu. The archive is of the last commit. Two runs
//! over one commit make the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::{self, Skipped, cargo, find_program, root};
use crate::setup::is_root;
use crate::vm_guest::build_loader;

/// Arguments of `cargo xtask package`.
#[derive(Args)]
pub(crate) struct PackageArgs {
    /// Make only the source archive and the PKGBUILD, which takes neither a build nor Debian's tools.
    #[arg(long, conflicts_with = "check")]
    arch: bool,
    /// Also install both into scratch folders and compare what is there with what should be.
    #[arg(long)]
    check: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the Debian package installs, besides the pages of wakelab's commands.
const FILES: [&str; 14] = [
    "/etc/default/scx_wakelab",
    "/usr/bin/scx_wakelab",
    "/usr/bin/wakelab",
    "/usr/lib/systemd/system/scx_wakelab.service",
    "/usr/share/bash-completion/completions/wakelab",
    "/usr/share/doc/wakelab/README.md",
    "/usr/share/doc/wakelab/changelog.gz",
    "/usr/share/doc/wakelab/copyright",
    "/usr/share/doc/wakelab/scheduler.md",
    "/usr/share/doc/wakelab/scx_loader.toml",
    "/usr/share/fish/vendor_completions.d/wakelab.fish",
    "/usr/share/man/man1/wakelab.1.gz",
    "/usr/share/man/man8/scx_wakelab.8.gz",
    "/usr/share/zsh/site-functions/_wakelab",
];

/// What the Arch package has of those, and what it has instead.
const DEBIAN_ONLY: [&str; 2] = ["/usr/share/doc/wakelab/changelog.gz", "/usr/share/doc/wakelab/copyright"];
const ARCH_ONLY: &str = "/usr/share/licenses/wakelab/LICENSE";

/// The page of a command of wakelab.
const COMMANDS_PAGE: &str = "/usr/share/man/man1/wakelab-";

/// `cargo xtask package`.
pub(crate) fn run(args: &PackageArgs) -> Result<()> {
    if args.arch {
        let arch = arch(&command::target_folder()?.join("package"))?;
        println!("package: {}", arch.join("PKGBUILD").display());
        return Ok(());
    }
    let made = make()?;
    println!("package: {}", made.deb.display());
    println!("package: {}", made.arch.join("PKGBUILD").display());
    if args.check {
        check(&made)?;
    }
    Ok(())
}

/// Makes both packages, and checks them.
pub(crate) fn test() -> Result<()> {
    run(&PackageArgs { arch: false, check: true })
}

/// The programs of the Debian package, extracted: the folder that has `scx_wakelab` and `wakelab`.
pub(crate) fn programs() -> Result<PathBuf> {
    let made = make()?;
    let folder = made.folder.join("extracted");
    empty(&folder)?;
    command::run(Command::new("dpkg-deb").arg("-x").args([&made.deb, &folder]))?;
    Ok(folder.join("usr/bin"))
}

/// Can this machine make a Debian package?
pub(crate) fn can_make() -> bool {
    TOOLS.iter().all(|name| find_program(&[name]).is_some())
}

const TOOLS: [&str; 3] = ["dpkg-deb", "dpkg-shlibdeps", "git"];

struct Made {
    /// The folder of all that is made: target/package.
    folder: PathBuf,
    /// The folder with both programs.
    programs: PathBuf,
    deb: PathBuf,
    /// The folder with the source archive and its PKGBUILD.
    arch: PathBuf,
}

fn make() -> Result<Made> {
    if !can_make() {
        return Err(Skipped(format!("one of {} is missing (dpkg-dev, git)", TOOLS.join(", "))).into());
    }
    let folder = command::target_folder()?.join("package");
    let programs = folder.join("programs");
    empty(&folder)?;
    fs::create_dir_all(&programs)?;
    let loader = build_loader()?;
    command::run(cargo().args(["build", "--quiet", "--release", "--package", "wakelab-cli"]))?;
    let wakelab = command::target_folder()?.join("release/wakelab");
    for program in [&loader, &wakelab] {
        let name = program.file_name().context("a program without a name")?;
        fs::copy(program, programs.join(name)).with_context(|| format!("no {}", program.display()))?;
    }
    let arch = arch(&folder)?;
    let deb = debian(&folder, &programs)?;
    Ok(Made { folder, programs, deb, arch })
}

/// Makes an empty folder.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Runs packaging/install.sh.
fn install(to: &Path, programs: &Path) -> Result<()> {
    command::run(Command::new("sh").arg(root().join("packaging/install.sh")).args([to, programs]))
}

/// Returns a file of packaging/ with what stands between @ filled in.
fn filled(name: &str, values: &[(&str, &str)]) -> Result<String> {
    let path = root().join("packaging").join(name);
    let mut text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for (key, value) in values {
        let place = format!("@{key}@");
        ensure!(text.contains(&place), "{name} has no {place}");
        text = text.replace(&place, value);
    }
    Ok(text)
}

/// The source archive and its PKGBUILD.
fn arch(folder: &Path) -> Result<PathBuf> {
    let arch = folder.join("arch");
    fs::create_dir_all(&arch)?;
    let archive = arch.join(format!("wakelab-{VERSION}.tar.gz"));
    let mut git = git();
    git.args(["archive", "--format=tar.gz", &format!("--prefix=wakelab-{VERSION}/")]);
    command::run(git.arg("-o").arg(&archive).arg("HEAD"))?;
    let sum = command::text(Command::new("sha256sum").arg(&archive))?;
    let sum = sum.split_whitespace().next().context("sha256sum prints nothing")?;
    let text = filled("arch/PKGBUILD", &[("VERSION", VERSION), ("SHA256", sum)])?;
    fs::write(arch.join("PKGBUILD"), text)?;
    Ok(arch)
}

fn debian(folder: &Path, programs: &Path) -> Result<PathBuf> {
    let tree = folder.join("debian");
    install(&tree, programs)?;
    let doc = tree.join("usr/share/doc/wakelab");
    fs::copy(root().join("packaging/debian/copyright"), doc.join("copyright"))?;
    fs::copy(root().join("CHANGELOG.md"), doc.join("changelog"))?;
    let pages = files_below(&tree)?;
    let pages =
        pages.iter().filter(|path| path.starts_with("/usr/share/man/") || path.ends_with("/changelog"));
    command::run(Command::new("gzip").args(["-9n"]).args(pages.map(|path| tree.join(&path[1..]))))?;

    let files = files_below(&tree)?;
    let bytes: u64 =
        files.iter().map(|path| Ok(tree.join(&path[1..]).metadata()?.len())).sum::<Result<u64>>()?;
    let version = format!("{VERSION}-1");
    let values = [
        ("VERSION", version.as_str()),
        ("KIB", &bytes.div_ceil(1024).to_string()),
        ("DEPENDS", &depends(folder)?),
    ];
    let control = tree.join("DEBIAN");
    fs::create_dir(&control)?;
    fs::write(control.join("control"), filled("debian/control", &values)?)?;
    fs::copy(root().join("packaging/debian/conffiles"), control.join("conffiles"))?;
    for script in ["postinst", "prerm", "postrm"] {
        let path = control.join(script);
        fs::copy(root().join("packaging/debian").join(script), &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let names = files.iter().filter(|path| !path.starts_with("/etc/")).map(|path| &path[1..]);
    let sums = command::text(Command::new("md5sum").current_dir(&tree).args(names))?;
    fs::write(control.join("md5sums"), sums + "\n")?;

    let deb = folder.join(format!("wakelab_{version}_amd64.deb"));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", command::text(git().args(["log", "-1", "--format=%ct"]))?);
    // xz, because not every Debian reads Ubuntu's zstd.
    command::text(build.args(["--root-owner-group", "-Zxz", "--build"]).args([&tree, &deb]))?;
    Ok(deb)
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(root());
    git
}

/// The packages whose libraries the programs are linked with.
fn depends(folder: &Path) -> Result<String> {
    // dpkg-shlibdeps wants to be in a source package.
    let source = folder.join("source");
    fs::create_dir_all(source.join("debian"))?;
    fs::write(source.join("debian/control"), "Source: wakelab\n\nPackage: wakelab\nArchitecture: any\n")?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.current_dir(&source).args(["-O", "-e"]).arg(folder.join("programs/wakelab"));
    let said = command::text(&mut shlibdeps)?;
    let found = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(found.with_context(|| format!("dpkg-shlibdeps says {said:?}"))?.to_owned())
}

/// Returns the files below a folder, as paths from there on that begin with a slash.
fn files_below(folder: &Path) -> Result<BTreeSet<String>> {
    let said =
        command::text(Command::new("find").arg(folder).args(["!", "-type", "d", "-printf", "/%P\\n"]))?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Installs, removes and purges the Debian package below a scratch folder, and runs PKGBUILD's package().
fn check(made: &Made) -> Result<()> {
    let scratch = made.folder.join("scratch");
    for folder in ["info", "updates"] {
        fs::create_dir_all(scratch.join("var/lib/dpkg").join(folder))?;
    }
    fs::write(scratch.join("var/lib/dpkg/status"), "")?;
    let below = || -> Result<BTreeSet<String>> {
        let files = files_below(&scratch)?;
        Ok(files.into_iter().filter(|path| !path.starts_with("/var/")).collect())
    };
    dpkg(&scratch, &["--install"], made.deb.to_str().context("a path that is no UTF-8")?)?;
    let installed = below()?;
    compare("the Debian package", &installed, &FILES.map(str::to_owned))?;
    let changed = dpkg(&scratch, &["--verify"], "wakelab")?;
    ensure!(changed.is_empty(), "dpkg --verify: {changed}");
    let program = |name: &str| Command::new(scratch.join("usr/bin").join(name));
    let said = command::text(program("scx_wakelab").arg("--help"))?;
    ensure!(said.contains("--policy <SPEC>"), "scx_wakelab --help says {said}");
    for name in ["scx_wakelab", "wakelab"] {
        let said = command::text(program(name).arg("--version"))?;
        ensure!(said == format!("{name} {VERSION}"), "{name} --version says {said}");
    }
    let page = command::text(
        Command::new("gzip").arg("-dc").arg(scratch.join("usr/share/man/man8/scx_wakelab.8.gz")),
    )?;
    ensure!(page.contains(".TH scx_wakelab 8"), "no page of scx_wakelab: {page}");
    dpkg(&scratch, &["--remove"], "wakelab")?;
    compare("what is left after --remove", &below()?, &["/etc/default/scx_wakelab".to_owned()])?;
    dpkg(&scratch, &["--purge"], "wakelab")?;
    compare("what is left after --purge", &below()?, &[])?;

    check_arch(made, &installed)?;
    println!("package: {} files, installed, run, removed and purged; the same by PKGBUILD", installed.len());
    Ok(())
}

/// Runs dpkg below a scratch folder. Its scripts are not in a chroot, because there is no shell in it.
fn dpkg(scratch: &Path, action: &[&str], what: &str) -> Result<String> {
    let is_root = is_root();
    let mut dpkg = Command::new(if is_root { "dpkg" } else { "fakeroot" });
    if !is_root {
        if find_program(&["fakeroot"]).is_none() {
            return Err(Skipped("neither root nor fakeroot".into()).into());
        }
        dpkg.args(["dpkg", "--force-not-root"]);
    }
    dpkg.arg(format!("--root={}", scratch.display())).args(["--force-script-chrootless", "--force-depends"]);
    command::text(dpkg.args(action).arg(what).stderr(std::process::Stdio::null()))
}

/// The archive is what PKGBUILD says, and its package() installs what Debian's package has. makepkg is not needed.
fn check_arch(made: &Made, debian: &BTreeSet<String>) -> Result<()> {
    let name = format!("wakelab-{VERSION}");
    let (source, package) = (made.folder.join("srcdir"), made.folder.join("pkgdir"));
    fs::create_dir_all(&source)?;
    command::run(
        Command::new("tar").arg("-xzf").arg(made.arch.join(format!("{name}.tar.gz"))).arg("-C").arg(&source),
    )?;
    let built = source.join(&name).join("target/release");
    fs::create_dir_all(&built)?;
    for program in ["scx_wakelab", "wakelab"] {
        fs::copy(made.programs.join(program), built.join(program))?;
    }
    let script = r#"set -eu
        srcdir=$1 pkgdir=$2
        . ./PKGBUILD
        echo "${sha256sums[0]}  ${source[0]}" | sha256sum --check --quiet
        cd "$srcdir"
        package"#;
    let mut bash = Command::new("bash");
    command::run(bash.current_dir(&made.arch).args(["-c", script, "PKGBUILD"]).args([&source, &package]))?;
    // makepkg compresses pages itself.
    let debian = debian.iter().filter(|path| !DEBIAN_ONLY.contains(&path.as_str()));
    let mut expected: Vec<String> = debian.map(|path| path.trim_end_matches(".gz").to_owned()).collect();
    expected.push(ARCH_ONLY.to_owned());
    compare("the Arch package", &files_below(&package)?, &expected)
}

/// Fails if other files are there than expected. Pages of wakelab's commands are expected in any number above 15.
fn compare(what: &str, found: &BTreeSet<String>, expected: &[String]) -> Result<()> {
    let is_page = |path: &&String| path.starts_with(COMMANDS_PAGE);
    let pages = found.iter().filter(is_page).count();
    let found: BTreeSet<&String> = found.iter().filter(|path| !is_page(path)).collect();
    let expected: BTreeSet<&String> = expected.iter().filter(|path| !is_page(path)).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let more: Vec<_> = found.difference(&expected).collect();
    if !missing.is_empty() || !more.is_empty() {
        bail!("{what}: missing {missing:?}, not expected {more:?}");
    }
    let is_whole = expected.iter().any(|path| path.starts_with("/usr/bin/"));
    ensure!(!is_whole || pages > 15, "{what}: {pages} pages of wakelab's commands");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_template_is_filled() {
        let control = [("VERSION", "1-1"), ("KIB", "7"), ("DEPENDS", "libc6 (>= 2.34)")];
        for (name, values) in
            [("debian/control", &control[..]), ("arch/PKGBUILD", &[("VERSION", "1"), ("SHA256", "00")])]
        {
            let text = filled(name, values).unwrap();
            let left = text.lines().filter(|line| !line.starts_with('#')).find(|line| {
                line.split('@').skip(1).step_by(2).any(|word| word.chars().all(|c| c.is_ascii_uppercase()))
            });
            assert_eq!(left, None, "{name}");
        }
        let error = filled("debian/control", &[("NOTHING", "")]).unwrap_err();
        assert_eq!(error.to_string(), "debian/control has no @NOTHING@");
    }

    #[test]
    fn other_files_than_expected_are_named() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let expected = ["/a".to_owned(), "/b".to_owned()];
        compare("it", &set(&["/a", "/b"]), &expected).unwrap();
        let error = compare("it", &set(&["/b", "/c"]), &expected).unwrap_err();
        assert_eq!(error.to_string(), r#"it: missing ["/a"], not expected ["/c"]"#);
        // A whole package without pages.
        assert!(compare("it", &set(&["/usr/bin/x"]), &["/usr/bin/x".to_owned()]).is_err());
    }

    #[test]
    fn the_unit_starts_what_is_installed() {
        let unit = fs::read_to_string(root().join("crates/scx/service/scx_wakelab.service")).unwrap();
        assert!(unit.contains(&format!("\nExecStart={} ", FILES[1])) && unit.contains(FILES[0]));
    }
}
