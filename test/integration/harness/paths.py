"""Where things are in this repository, and the versions of tools/versions.env."""

import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache"
EXAMPLES = ROOT / "examples"
# `bazel build --config=opt` as test/run calls it leaves the module here.
MODULE = CACHE / "bazel-opt" / "bin" / "source" / "libidempotency.so"


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
    if not MODULE.exists():
        raise FileNotFoundError(f"{MODULE} is not built: run test/run integration")
    return MODULE


def _installed(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run tools/setup")
    return path
