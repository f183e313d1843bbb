"""The portable files need nothing but an old C library, and show nothing but Envoy's hooks."""

import re
import subprocess

import pytest
from harness.elf import defined, glibc_versions, is_bound_at_load_and_never_unmapped, needed, undefined
from harness.paths import ROOT, built, module

# That of stock Envoy itself.
OLDEST_GLIBC = (2, 30)
# Since glibc 2.34 all but the first two and the loader are empty.
OF_GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SYMBOLS = ROOT / "test" / "integration" / "symbols"

files = pytest.mark.parametrize("file", ["source/libidempotency.so", "source/cli/idempotencyctl"])


@files
def test_no_library_is_needed_but_those_of_the_c_library(file):
    libraries = set(needed(built(file)))
    assert "libc.so.6" in libraries
    assert libraries - OF_GLIBC - LOADERS == set()


@files
def test_the_c_library_may_be_as_old_as_envoys(file, record_testsuite_property):
    newest = max(glibc_versions(built(file)))
    record_testsuite_property(f"newest_glibc_of_{built(file).name}", ".".join(map(str, newest)))
    assert newest <= OLDEST_GLIBC


@files
def test_nothing_is_left_for_another_library_to_define(file):
    """A source that was left out of a library shows here: the link succeeds without it."""
    strange = [
        symbol.name
        for symbol in undefined(built(file))
        if not symbol.version.startswith("GLIBC_")
        and not symbol.name.startswith("envoy_dynamic_module_callback_")
        and symbol.letter not in "wv"
    ]
    assert strange == []


def test_the_module_asks_envoy_for_exactly_what_the_listed_one_does():
    found = [f"{s.name} {s.letter}" for s in undefined(module()) if s.name.startswith("envoy_")]
    assert sorted(found) == (SYMBOLS / "callbacks.txt").read_text().splitlines()


def test_the_module_exports_exactly_the_hooks_on_the_list():
    """What the libraries inside define stays inside: Envoy has an Abseil and a protobuf of its own."""
    found = sorted(symbol.name for symbol in defined(module()))
    assert found == (SYMBOLS / "hooks.txt").read_text().splitlines()


def test_the_module_is_bound_at_load_and_never_unmapped():
    assert is_bound_at_load_and_never_unmapped(module())


@files
def test_no_path_of_the_machine_that_built_it_is_inside(file):
    output = subprocess.run(["strings", "-a", built(file)], check=True, capture_output=True, text=True).stdout
    found = [
        line
        for line in output.splitlines()
        if str(ROOT) in line or re.search(r"/\.cache/bazel|/sandbox/", line)
    ]
    assert found == []


@files
def test_the_stack_is_not_executable_and_what_is_linked_late_is_read_only(file):
    output = subprocess.run(
        ["readelf", "-lW", built(file)], check=True, capture_output=True, text=True
    ).stdout
    (stack,) = re.findall(r"GNU_STACK.* (R.?.?) +0x", output)
    assert stack.strip() == "RW"
    assert "GNU_RELRO" in output
