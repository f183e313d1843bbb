# For the scripts of this repository: source it from the repository's root.
# shellcheck shell=bash

# The comment at the top of a script, up to the first empty line, is its help text.
print_usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$1"; }

# The module as users run it, optimised, at a path that no other build touches.
# shellcheck disable=SC2034
MODULE_FOLDER=.cache/bazel-opt/bin/source
MODULE_OPTIONS=(--config=opt --symlink_prefix=.cache/bazel-opt/)
# More targets may be named, for tests.
build_module() { bazel build "${MODULE_OPTIONS[@]}" //source:libidempotency.so "$@"; }

# Files for any Linux that Envoy runs on, by a server of their own: at their output's usual place they would take that of the
# module above. Its objects are those of the module all the same, out of the cache.
# shellcheck disable=SC2034
PORTABLE_BINARIES=.cache/bazel-portable/bin
PORTABLE_BASE=(--output_base="$PWD/.cache/bazel-portable-base")
build_portable() {
  local code=0
  bazel "${PORTABLE_BASE[@]}" build --config=portable --symlink_prefix=.cache/bazel-portable/ \
    //source:libidempotency.so //source/cli:idempotencyctl "$@" || code=$?
  bazel "${PORTABLE_BASE[@]}" shutdown
  return "$code"
}
