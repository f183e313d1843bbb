"""What a release consists of. tools/release makes it out of the files that the other tests here run."""

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from harness.elf import defined, needed
from harness.paths import BUILT, ROOT, VERSIONS

# To compress takes its time.
pytestmark = pytest.mark.timeout(600)
VERSION = "9.8.7-rc1"
EPOCH = 1_790_000_000
TITLE = f"envoy-idempotency-{VERSION}-linux-amd64"
DEB = "envoy-idempotency_9.8.7~rc1_amd64.deb"
OCI = f"envoy-idempotency-{VERSION}-oci.tar"
# Source packages that are inside, as tools/versions.env pins them.
PINS = [*VERSIONS["PORTABLE_SOURCES"].split(), *VERSIONS["PORTABLE_ARCHIVES"].split()]


def make(out: Path) -> Path:
    out.mkdir()
    (out / "RELEASE_NOTES.md").write_text("- Fixed: much.\n")
    subprocess.run(
        [
            *(
                sys.executable,
                ROOT / "tools" / "release_files.py",
                "--version",
                VERSION,
                "--epoch",
                str(EPOCH),
            ),
            *("--binaries", BUILT, "--out", out),
        ],
        check=True,
    )
    return out


@pytest.fixture(scope="module")
def release(module_workspace) -> Path:
    return make(module_workspace.new_folder("release") / "one")


@pytest.fixture(scope="module")
def unpacked(release, module_workspace) -> Path:
    folder = module_workspace.new_folder("unpacked")
    for name in (TITLE, f"{TITLE}-debug"):
        subprocess.run(["tar", "-xf", release / f"{name}.tar.xz", "-C", folder], check=True)
    return folder / TITLE


def test_the_same_input_gives_the_same_bytes(release, module_workspace):
    again = make(module_workspace.new_folder("release") / "two")
    assert {path.name for path in again.iterdir()} == {path.name for path in release.iterdir()}
    assert [
        path.name for path in again.iterdir() if path.read_bytes() != (release / path.name).read_bytes()
    ] == []


def test_every_file_has_its_checksum(release):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    listed = {line.split("  ")[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert listed | {"SHA256SUMS"} == {path.name for path in release.iterdir()}


def test_the_archive_holds_what_a_user_needs_and_tells_nothing_of_the_builder(release):
    with tarfile.open(release / f"{TITLE}.tar.xz") as archive:
        members = archive.getmembers()
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", EPOCH)}
    files = {m.name.removeprefix(f"{TITLE}/"): m.mode for m in members if m.isfile()}
    assert files["libidempotency.so"] == 0o644
    assert files["idempotencyctl"] == 0o755
    assert set(files) >= {"LICENSE", "CHANGELOG.md", "sbom.spdx.json", "examples/quickstart.yaml"}
    assert {path.name for path in ROOT.glob("sql/*.sql")} == {
        name.removeprefix("sql/") for name in files if name.startswith("sql/")
    }


def test_the_stripped_files_work_and_have_their_symbols_in_files_of_their_own(unpacked):
    program = unpacked / "idempotencyctl"
    version = (ROOT / "VERSION").read_text().strip()
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"idempotencyctl {version}\n")
    module = unpacked / "libidempotency.so"
    assert [symbol.name for symbol in defined(module)] == [
        symbol.name for symbol in defined(BUILT / "source" / "libidempotency.so")
    ]
    assert "libc.so.6" in needed(module)
    assert module.stat().st_size < 15_000_000
    symbols = unpacked.parent / f"{TITLE}-debug" / "libidempotency.so.debug"
    # gdb finds a function of ours only with the symbols.
    assert "idempotency::protocol" in _functions(symbols)
    assert "idempotency::protocol" not in _functions(module)
    links = subprocess.run(["readelf", "--debug-dump=links", module], capture_output=True, text=True).stdout
    assert symbols.name in links


def _functions(path: Path) -> str:
    return subprocess.run(["nm", "--demangle", path], capture_output=True, text=True).stdout


def test_the_bill_of_materials_names_every_library_inside(unpacked):
    document = json.loads((unpacked / "sbom.spdx.json").read_text())
    assert document["spdxVersion"] == "SPDX-2.3"
    packages = {package["name"]: package for package in document["packages"]}
    for pin in PINS:
        name, _, version = pin.partition("=")
        package = packages[name]
        assert package["versionInfo"] == version
        (reference,) = package["externalRefs"]
        purl = reference["referenceLocator"]
        assert re.fullmatch(rf"pkg:deb/debian/{re.escape(name)}@[\w.~%-]+\?arch=source&distro=bookworm", purl)
        assert package["licenseDeclared"] not in ("", "NOASSERTION")
        assert (unpacked / "licenses" / name).stat().st_size > 500
    identifiers = [package["SPDXID"] for package in document["packages"]]
    assert len(set(identifiers)) == len(identifiers)
    linked = {
        relation["relatedSpdxElement"]
        for relation in document["relationships"]
        if relation["spdxElementId"] == packages["libidempotency.so"]["SPDXID"]
    }
    assert linked == set(identifiers) - {
        packages[name]["SPDXID"] for name in ("libidempotency.so", "idempotencyctl", "curl")
    }
    for name in ("libidempotency.so", "idempotencyctl"):
        (checksum,) = packages[name]["checksums"]
        assert checksum["checksumValue"] == hashlib.sha256((unpacked / name).read_bytes()).hexdigest()


def test_other_tools_read_the_image(release, unpacked, folder):
    copied = folder / "image"
    _skopeo("copy", f"oci-archive:{release / OCI}", f"oci:{copied}:{VERSION}")
    shown = json.loads(_skopeo("inspect", "--config", f"oci:{copied}:{VERSION}"))
    assert (shown["architecture"], shown["os"]) == ("amd64", "linux")
    assert shown["config"]["Labels"]["org.opencontainers.image.version"] == VERSION
    bundle = folder / "bundle"
    subprocess.run(
        ["umoci", "unpack", "--rootless", "--image", f"{copied}:{VERSION}", bundle],
        check=True,
        capture_output=True,
    )
    module = bundle / "rootfs" / "libidempotency.so"
    assert module.read_bytes() == (unpacked / "libidempotency.so").read_bytes()
    assert module.stat().st_mode & 0o777 == 0o644


def _skopeo(*words: str | Path) -> str:
    done = subprocess.run(
        ["skopeo", "--insecure-policy", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_debian_package_needs_the_c_library_alone(release, unpacked, folder):
    def field(name: str) -> str:
        words = ["dpkg-deb", "--field", release / DEB, name]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    assert field("Version") == "9.8.7~rc1"
    assert field("Depends") == "libc6 (>= 2.30)"
    assert field("Architecture") == "amd64"
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", release / DEB, tree], check=True)
    module = tree / "usr/lib/envoy-idempotency/libidempotency.so"
    assert module.read_bytes() == (unpacked / "libidempotency.so").read_bytes()
    assert (tree / "usr/bin/idempotencyctl").stat().st_mode & 0o777 == 0o755
    manual = gzip.decompress((tree / "usr/share/man/man1/idempotencyctl.1.gz").read_bytes())
    assert b".SH NAME" in manual or b".TH" in manual
    # No script of the package runs when it is installed.
    assert {path.name for path in (tree / "DEBIAN").iterdir()} == {"control", "md5sums"}
    sums = (tree / "DEBIAN" / "md5sums").read_text().splitlines()
    assert len(sums) == sum(path.is_file() for path in (tree / "usr").rglob("*"))
    listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", release / DEB], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(listed.stdout)) as archive:
        assert {(member.uid, member.gid, member.mtime) for member in archive} == {(0, 0, EPOCH)}
