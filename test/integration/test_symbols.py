"""The module asks of Envoy only what every supported Envoy has, and gives it exactly our hooks.

The lists in symbols/ are part of the source: a new hook or callback shows in review. To accept a change:
    test/run integration -k symbols --update-symbols
"""

from pathlib import Path

import pytest
from harness.elf import defined, glibc_versions, is_bound_at_load_and_never_unmapped, needed, undefined
from harness.paths import ENVOY_VERSIONS, envoy_binary, module

LISTS = Path(__file__).resolve().parent / "symbols"
PREFIX = "envoy_dynamic_module_"
# The C library of the oldest Envoy image (Ubuntu 22.04).
NEWEST_GLIBC = (2, 35)


def _callbacks() -> dict[str, str]:
    """Name → type letter, as nm has it."""
    return {symbol.name: symbol.letter for symbol in undefined(module()) if symbol.name.startswith(PREFIX)}


def _exports(path: Path) -> list[str]:
    return [symbol.name for symbol in defined(path)]


def _check(name: str, found: list[str], update: bool) -> None:
    path = LISTS / name
    text = "".join(line + "\n" for line in sorted(found))
    if update:
        path.write_text(text)
    assert path.read_text() == text, f"{path.name} is not what the module has"


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_every_callback_that_the_module_needs_is_in_envoy(version):
    exported = _exports(envoy_binary(version))
    asked = [name for name, letter in _callbacks().items() if letter == "U"]
    assert asked
    assert [name for name in asked if name not in exported] == []


def test_callbacks_that_some_envoy_lacks_are_weak():
    weak = {name for name, letter in _callbacks().items() if letter == "w"}
    everywhere = set.intersection(*(set(_exports(envoy_binary(v))) for v in ENVOY_VERSIONS))
    newest = set(_exports(envoy_binary(ENVOY_VERSIONS[-1])))
    assert weak <= newest - everywhere, "weak without need, or unknown to the newest Envoy"


def test_the_callbacks_are_those_on_the_list(update_symbols):
    _check("callbacks.txt", [f"{name} {letter}" for name, letter in _callbacks().items()], update_symbols)


def test_the_module_exports_exactly_the_hooks_on_the_list(update_symbols):
    _check("hooks.txt", _exports(module()), update_symbols)


def test_hooks_that_envoy_cannot_do_without_are_there():
    required = """program_init http_filter_config_new http_filter_config_destroy http_filter_new
        http_filter_per_route_config_new http_filter_per_route_config_destroy
        http_filter_request_headers http_filter_request_body http_filter_request_trailers
        http_filter_response_headers http_filter_response_body http_filter_response_trailers
        http_filter_stream_complete http_filter_destroy http_filter_scheduled http_filter_local_reply"""
    exported = _exports(module())
    assert [name for name in required.split() if f"{PREFIX}on_{name}" not in exported] == []


def test_the_libraries_are_those_on_the_list(update_symbols):
    """What must be installed beside the module: a new one shows in review, too."""
    _check("libraries.txt", needed(module()), update_symbols)


def test_the_module_is_bound_at_load_and_never_unmapped():
    assert is_bound_at_load_and_never_unmapped(module())


def test_the_module_runs_on_the_c_library_of_envoys_images(record_testsuite_property):
    newest = max(glibc_versions(module()))
    record_testsuite_property("newest_glibc", ".".join(map(str, newest)))
    assert newest <= NEWEST_GLIBC
