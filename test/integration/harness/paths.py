"""Where things are in this repository, and the versions of tools/versions.env."""

import os
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache"
EXAMPLES = ROOT / "examples"
# Where `bazel build --config=opt` as test/run calls it leaves its files. The variable names another build.
BUILT = Path(os.environ.get("TEST_BINARIES", CACHE / "bazel-opt" / "bin"))


def _versions() -> dict[str, str]:
    values = {}
    text = (ROOT / "tools" / "versions.env").read_text().replace("\\\n", "")
    words = shlex.split(text, comments=True)
    for word in words:
        name, _, value = word.partition("=")
        values[name] = " ".join(value.split())
    return values


VERSIONS = _versions()
ENVOY_VERSIONS = VERSIONS["ENVOY_VERSIONS"].split()
DEFAULT_ENVOY = ENVOY_VERSIONS[-1]
# Debian's own server, then those that tools/setup fetched.
DEFAULT_POSTGRES = 15
POSTGRES_MAJORS = [DEFAULT_POSTGRES] + [
    int(spec.rpartition("@")[2].split(".")[0]) for spec in VERSIONS["POSTGRES_NPM"].split()
]


def envoy_binary(version: str) -> Path:
    return _installed(CACHE / "envoy" / version / "envoy")


def postgres_folder(major: int) -> Path:
    debian = Path(f"/usr/lib/postgresql/{major}")
    folder = debian if major == DEFAULT_POSTGRES else CACHE / "postgres" / str(major)
    _installed(folder / "bin" / "postgres")
    return folder


def toxiproxy_binary() -> Path:
    return _installed(CACHE / "bin" / "toxiproxy-server")


def module() -> Path:
    return built("source/libidempotency.so")


def built(path: str) -> Path:
    """A file that the build made: its package and name."""
    file = BUILT / path
    if not file.exists():
        raise FileNotFoundError(f"{file} is not built: run test/run integration")
    return file


def _installed(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run tools/setup")
    return path
