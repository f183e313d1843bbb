#!/bin/sh
# The replay of a corpus fails where it should: on a flaw, and on having nothing to run.
set -u
broken="$1"
work="$TEST_TMPDIR"

fail() {
  echo "FAILED: $1" >&2
  cat "$work/out" "$work/err" >&2
  exit 1
}

# Runs the target and expects an exit code ("crash" for any signal) and a text on stdout or stderr.
expect() {
  name="$1"
  want="$2"
  text="$3"
  shift 3
  "$broken" "$@" >"$work/out" 2>"$work/err"
  code=$?
  if [ "$want" = crash ]; then
    case "$code" in 0 | 2) fail "$name: exit code $code, want a crash" ;; esac
  else
    [ "$code" -eq "$want" ] || fail "$name: exit code $code, want $want"
  fi
  grep -qF -e "$text" "$work/out" "$work/err" || fail "$name: no \"$text\""
}

mkdir "$work/good" "$work/bad" "$work/near" "$work/none"
printf 'harmless' >"$work/good/seed"
printf 'a!!b' >"$work/bad/seed"
printf 'a!b!c' >"$work/near/seed"

export TEST_UNDECLARED_OUTPUTS_DIR="$work"
expect "a good corpus passes" 0 "ran 1 files and 0 mutations" "$work/good"
expect "a bad seed crashes" crash "does not hold" "$work/bad"
expect "the crash is reported" crash "crashing input, hexadecimal: 61212162" "$work/bad"
[ "$(cat "$work/crash")" = 'a!!b' ] || fail "the input is not saved"
expect "a seed near the flaw passes" 0 "ran 1 files" "$work/near"
expect "its mutations crash" crash "crashing input" --mutations=20000 "$work/near"
expect "the saved input crashes again" crash "does not hold" "$work/crash"
expect "no corpus is an error" 2 "no corpus" "$work/none"
expect "no argument is an error" 2 "no corpus"
expect "an unreadable file is an error" 2 "cannot read" "$work/absent"
expect "a bad number is an error" 2 "takes a number" --mutations=x "$work/good"
echo "passed"
