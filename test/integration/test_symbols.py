"""The module asks of Envoy only what every supported Envoy has, and gives it exactly our hooks.

The lists in symbols/ are part of the source: a new hook or callback shows in review. To accept a change:
    test/run integration -k symbols --update-symbols
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from harness.paths import ENVOY_VERSIONS, envoy_binary, module

LISTS = Path(__file__).resolve().parent / "symbols"
PREFIX = "envoy_dynamic_module_"
# The C library of the oldest Envoy image (Ubuntu 22.04).
NEWEST_GLIBC = (2, 35)


@cache
def _symbols(path: Path, which: str) -> dict[str, str]:
    """Name → type letter of the dynamic symbols; which: --undefined-only or --defined-only."""
    output = subprocess.run(["nm", "-D", which, path], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in output.splitlines():
        *_, letter, name = line.split()
        found[name.partition("@")[0]] = letter
    return found


def _callbacks() -> dict[str, str]:
    return {name: t for name, t in _symbols(module(), "--undefined-only").items() if name.startswith(PREFIX)}


def _check(name: str, found: list[str], update: bool) -> None:
    path = LISTS / name
    text = "".join(line + "\n" for line in sorted(found))
    if update:
        path.write_text(text)
    assert path.read_text() == text, f"{path.name} is not what the module has"


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_every_callback_that_the_module_needs_is_in_envoy(version):
    exported = _symbols(envoy_binary(version), "--defined-only")
    needed = [name for name, letter in _callbacks().items() if letter == "U"]
    assert needed
    assert [name for name in needed if name not in exported] == []


def test_callbacks_that_some_envoy_lacks_are_weak():
    weak = {name for name, letter in _callbacks().items() if letter == "w"}
    everywhere = set.intersection(*(set(_symbols(envoy_binary(v), "--defined-only")) for v in ENVOY_VERSIONS))
    newest = set(_symbols(envoy_binary(ENVOY_VERSIONS[-1]), "--defined-only"))
    assert weak <= newest - everywhere, "weak without need, or unknown to the newest Envoy"


def test_the_callbacks_are_those_on_the_list(update_symbols):
    _check("callbacks.txt", [f"{name} {letter}" for name, letter in _callbacks().items()], update_symbols)


def test_the_module_exports_exactly_the_hooks_on_the_list(update_symbols):
    _check("hooks.txt", list(_symbols(module(), "--defined-only")), update_symbols)


def test_hooks_that_envoy_cannot_do_without_are_there():
    required = """program_init http_filter_config_new http_filter_config_destroy http_filter_new
        http_filter_per_route_config_new http_filter_per_route_config_destroy
        http_filter_request_headers http_filter_request_body http_filter_request_trailers
        http_filter_response_headers http_filter_response_body http_filter_response_trailers
        http_filter_stream_complete http_filter_destroy http_filter_scheduled http_filter_local_reply"""
    exported = _symbols(module(), "--defined-only")
    assert [name for name in required.split() if f"{PREFIX}on_{name}" not in exported] == []


def _dynamic_section() -> str:
    return subprocess.run(["readelf", "-dW", module()], check=True, capture_output=True, text=True).stdout


def test_the_libraries_are_those_on_the_list(update_symbols):
    """What must be installed beside the module: a new one shows in review, too."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", _dynamic_section())
    _check("libraries.txt", needed, update_symbols)


def test_the_module_is_bound_at_load_and_never_unmapped():
    output = _dynamic_section()
    assert re.search(r"\(FLAGS\).*\bBIND_NOW\b", output)
    assert re.search(r"\(FLAGS_1\).*\bNOW\b.*\bNODELETE\b", output)


def test_the_module_runs_on_the_c_library_of_envoys_images(record_testsuite_property):
    output = subprocess.run(["objdump", "-T", module()], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", output)}
    newest = max(versions)
    record_testsuite_property("newest_glibc", ".".join(map(str, newest)))
    assert newest <= NEWEST_GLIBC
