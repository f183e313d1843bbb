"""Makes the files of a release out of the portable build: a tarball, one with debug symbols, an OCI image, a
Debian package, and their checksums. The same input gives the same bytes. tools/release calls it.
"""

import argparse
import dataclasses
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.parse
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "envoy-idempotency"
MODULE = "libidempotency.so"
PROGRAM = "idempotencyctl"
OLDEST_GLIBC = "2.30"
SUMMARY = "HTTP filter for Envoy that makes POST requests safe to retry"
# Of the libraries inside, by source package, as SPDX writes them. Without an entry there is no release.
LICENSES = {
    "abseil": "Apache-2.0",
    "curl": "curl",
    "fmtlib": "MIT",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "openssl": "Apache-2.0",
    "postgresql-15": "PostgreSQL",
    "protobuf": "BSD-3-Clause",
    "simdjson": "Apache-2.0",
    "sqlite3": "blessing",
}


@dataclasses.dataclass(frozen=True)
class Library:
    """What is inside, by its source package."""

    name: str
    version: str
    release: str  # Of Debian.
    copyright: Path
    sha256: str = ""  # Of the source package's description, if it was compiled here.

    @property
    def purl(self) -> str:
        version = urllib.parse.quote(self.version, safe=".-~_")
        return f"pkg:deb/debian/{self.name}@{version}?arch=source&distro={self.release}"


@dataclasses.dataclass(frozen=True)
class Member:
    """A file of an archive."""

    path: str
    data: bytes
    mode: int = 0o644


def libraries() -> list[Library]:
    versions = _versions()
    portable = ROOT / ".cache" / "portable"
    release = versions["DEBIAN_RELEASE"]
    found = []
    for name, version in _pins(versions["PORTABLE_SOURCES"]):
        debian = portable / "sources" / name / "debian"
        found.append(
            Library(name, version, release, debian / "copyright", (debian / "dsc.sha256").read_text().strip())
        )
    documents = {"gcc-12": "/usr/share/doc/gcc-12-base", "openssl": "/usr/share/doc/libssl-dev"}
    for name, version in _pins(versions["PORTABLE_ARCHIVES"]):
        found.append(Library(name, version, release, Path(documents[name]) / "copyright"))
    # The files that start a program, and what is linked into each.
    ((release, version),) = _pins(versions["PORTABLE_GLIBC"])
    copyright = portable / "glibc-amd64" / "usr/share/doc/libc6-dev/copyright"
    found.append(Library("glibc", version, release, copyright))
    return sorted(found, key=lambda library: library.name)


def strip(binaries: Path, folder: Path) -> tuple[list[Member], list[Member]]:
    """The program and the module without their debug symbols; the symbols, which debuggers find by name."""
    stripped, symbols = [], []
    for path, mode in ((f"source/{MODULE}", 0o644), (f"source/cli/{PROGRAM}", 0o755)):
        source = binaries / path
        debug = folder / f"{source.name}.debug"
        product = folder / source.name
        _run("objcopy", "--only-keep-debug", "--compress-debug-sections", source, debug)
        _run("objcopy", "--strip-unneeded", f"--add-gnu-debuglink={debug}", source, product)
        stripped.append(Member(source.name, product.read_bytes(), mode))
        symbols.append(Member(debug.name, debug.read_bytes()))
    return stripped, symbols


def sbom(version: str, architecture: str, epoch: int, files: list[Member], inside: list[Library]) -> Member:
    """SPDX 2.3."""
    title = f"{NAME}-{version}-linux-{architecture}"
    unknown = {
        "copyrightText": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
    }
    packages = [
        {
            "SPDXID": f"SPDXRef-{_spdx_id(file.path)}",
            "name": file.path,
            "versionInfo": version,
            "licenseDeclared": "Apache-2.0",
            "filesAnalyzed": False,
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.data).hexdigest()}],
            **unknown,
        }
        for file in files
    ]
    for library in inside:
        packages.append(
            {
                "SPDXID": f"SPDXRef-{_spdx_id(library.name)}",
                "name": library.name,
                "versionInfo": library.version,
                "supplier": "Organization: Debian",
                "licenseDeclared": LICENSES[library.name],
                "filesAnalyzed": False,
                "externalRefs": [
                    {
                        "referenceCategory": "PACKAGE-MANAGER",
                        "referenceType": "purl",
                        "referenceLocator": library.purl,
                    }
                ],
                **(
                    {"comment": f"SHA-256 of the source package's .dsc: {library.sha256}"}
                    if library.sha256
                    else {}
                ),
                **unknown,
            }
        )
    relations = []
    for file in files:
        ours = f"SPDXRef-{_spdx_id(file.path)}"
        relations.append(_relation("SPDXRef-DOCUMENT", "DESCRIBES", ours))
        for library in inside:
            # The module makes no HTTP requests of its own.
            if library.name != "curl" or file.path == PROGRAM:
                relations.append(_relation(ours, "STATIC_LINK", f"SPDXRef-{_spdx_id(library.name)}"))
    content = hashlib.sha256(b"".join(file.data for file in files)).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": title,
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, title + content)}",
        "creationInfo": {"created": _date(epoch), "creators": [f"Tool: {NAME}-release-{version}"]},
        "packages": packages,
        "relationships": relations,
    }
    return Member("sbom.spdx.json", json.dumps(document, indent=1).encode() + b"\n")


def documents(inside: list[Library]) -> list[Member]:
    """What goes into every archive besides the programs."""
    members = [Member(name, (ROOT / name).read_bytes()) for name in ("LICENSE", "CHANGELOG.md")]
    members += [
        Member(str(path.relative_to(ROOT)), path.read_bytes()) for path in sorted(ROOT.glob("sql/*.sql"))
    ]
    members += [
        Member(f"examples/{path.parent.name}.yaml", path.read_bytes())
        for path in sorted(ROOT.glob("examples/*/envoy.yaml"))
    ]
    members += [Member(f"licenses/{library.name}", library.copyright.read_bytes()) for library in inside]
    return members


def tar(members: list[Member], epoch: int) -> bytes:
    """Sorted, owned by root, with the folders."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        made: set[str] = set()
        for member in sorted(members, key=lambda member: member.path):
            parents = [str(parent) for parent in Path(member.path).parents if str(parent) != "."]
            for folder in reversed(parents):
                if folder not in made:
                    made.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, epoch
                    archive.addfile(entry)
            entry = tarfile.TarInfo(member.path)
            entry.size, entry.mode, entry.mtime = len(member.data), member.mode, epoch
            archive.addfile(entry, io.BytesIO(member.data))
    return output.getvalue()


def below(folder: str, members: list[Member]) -> list[Member]:
    return [dataclasses.replace(member, path=f"{folder}/{member.path}") for member in members]


def oci(version: str, epoch: int, layers: dict[str, list[Member]]) -> bytes:
    """An image layout as skopeo and podman read it: one layer for each architecture, the files at the top."""
    blobs: dict[str, bytes] = {}

    def add(media_type: str, data: bytes, **more) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {
            "mediaType": f"application/vnd.oci.image.{media_type}",
            "digest": f"sha256:{digest}",
            "size": len(data),
            **more,
        }

    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": _date(epoch),
    }
    manifests = []
    for architecture, members in layers.items():
        layer = tar(members, epoch)
        config = {
            "created": _date(epoch),
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": _date(epoch), "created_by": f"{NAME} {version}"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": add("config.v1+json", _json(config)),
            "layers": [add("layer.v1.tar+gzip", gzip.compress(layer, mtime=0))],
            "annotations": labels,
        }
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append(add("manifest.v1+json", _json(manifest), platform=platform))
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    }
    name = {"org.opencontainers.image.ref.name": version}
    top = {"schemaVersion": 2, "manifests": [add("index.v1+json", _json(index), annotations=name)]}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(top), **blobs}
    return tar([Member(path, data) for path, data in files.items()], epoch)


def deb(
    version: str, architecture: str, epoch: int, files: list[Member], others: list[Member], folder: Path
) -> bytes:
    """A package for Debian and Ubuntu. To install it starts nothing: a config of Envoy names the module."""
    # rc1 comes before the release.
    debian_version = version.replace("-", "~")
    program, module = _named(files, PROGRAM), _named(files, MODULE)
    share = f"usr/share/{NAME}"
    document = f"usr/share/doc/{NAME}"
    members = [
        dataclasses.replace(module, path=f"usr/lib/{NAME}/{MODULE}"),
        dataclasses.replace(program, path=f"usr/bin/{PROGRAM}"),
        Member(f"{document}/copyright", _named(others, "LICENSE").data),
        Member(f"{document}/changelog.gz", gzip.compress(_named(others, "CHANGELOG.md").data, mtime=0)),
        Member(
            f"usr/share/man/man1/{PROGRAM}.1.gz", gzip.compress(_output(folder / PROGRAM, "man"), mtime=0)
        ),
        Member(
            f"usr/share/bash-completion/completions/{PROGRAM}",
            _output(folder / PROGRAM, "completion", "bash"),
        ),
        *below(document, [m for m in others if m.path.startswith(("licenses/", "sbom", "examples/"))]),
        *below(share, [m for m in others if m.path.startswith("sql/")]),
    ]
    control = f"""Package: {NAME}
Version: {debian_version}
Architecture: {architecture}
Maintainer: The {NAME} project
Installed-Size: {sum(len(member.data) for member in members) // 1024}
Depends: libc6 (>= {OLDEST_GLIBC})
Section: net
Priority: optional
Description: {SUMMARY}
 A dynamic module for stock Envoy and idempotencyctl, its operators' program.
 All libraries but the C library are inside.
"""
    tree = folder / "deb"
    sums = "".join(
        f"{hashlib.md5(member.data).hexdigest()}  {member.path}\n"
        for member in sorted(members, key=lambda member: member.path)
    )
    members += [Member("DEBIAN/control", control.encode()), Member("DEBIAN/md5sums", sums.encode())]
    with tarfile.open(fileobj=io.BytesIO(tar(members, epoch))) as archive:
        archive.extractall(tree)
    package = folder / "package.deb"
    _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, package, SOURCE_DATE_EPOCH=str(epoch))
    return package.read_bytes()


def make(version: str, epoch: int, binaries: Path, out: Path) -> None:
    architecture = "amd64"
    title = f"{NAME}-{version}-linux-{architecture}"
    inside = libraries()
    # Anything but the usual rights would get into the Debian package.
    os.umask(0o022)
    folder = Path(tempfile.mkdtemp())
    try:
        programs, symbols = strip(binaries, folder)
        others = [*documents(inside), sbom(version, architecture, epoch, programs, inside)]
        write = {
            f"{title}.tar.xz": _xz(tar(below(title, programs + others), epoch)),
            # Its parts are compressed already.
            f"{title}-debug.tar.xz": _xz(tar(below(f"{title}-debug", symbols), epoch), preset=1),
            f"{NAME}-{version}-oci.tar": oci(version, epoch, {architecture: programs + others}),
            f"{NAME}_{version.replace('-', '~')}_{architecture}.deb": deb(
                version, architecture, epoch, programs, others, folder
            ),
            f"{title}.spdx.json": _named(others, "sbom.spdx.json").data,
        }
    finally:
        shutil.rmtree(folder)
    for name, data in write.items():
        (out / name).write_bytes(data)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}
    (out / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in sums.items()))


def _versions() -> dict[str, str]:
    text = (ROOT / "tools" / "versions.env").read_text().replace("\\\n", "")
    return dict(word.split("=", 1) for word in shlex.split(text, comments=True))


def _pins(text: str) -> list[tuple[str, str]]:
    return [tuple(pin.split("=", 1)) for pin in text.split()]


def _named(members: list[Member], path: str) -> Member:
    (found,) = [member for member in members if member.path == path]
    return found


def _relation(one: str, kind: str, other: str) -> dict:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _spdx_id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", name)


def _date(epoch: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def _json(tree: dict) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


def _xz(data: bytes, preset: int = 6) -> bytes:
    return lzma.compress(data, preset=preset)


def _run(*words: str | Path, **environment: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})


def _output(*words: str | Path) -> bytes:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument(
        "--epoch", required=True, type=int, help="the date of every file, in seconds since 1970"
    )
    parser.add_argument("--binaries", required=True, type=Path, help="the bin folder of the portable build")
    parser.add_argument(
        "--out", required=True, type=Path, help="a folder; what is in it gets a checksum, too"
    )
    options = parser.parse_args()
    make(options.version, options.epoch, options.binaries, options.out)


if __name__ == "__main__":
    main()
