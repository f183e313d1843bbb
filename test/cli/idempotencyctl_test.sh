#!/bin/bash
# Runs the real program and looks at stdout, stderr and the exit code.
set -u
program="$PWD/$1"
cd "$TEST_TMPDIR" || exit 1
failures=0
cases=0

fail() {
  echo "FAILED: $case_name: $1" >&2
  echo "  stdout: $(head -c 600 out)" >&2
  echo "  stderr: $(head -c 600 err)" >&2
  failures=$((failures + 1))
}

# run NAME CODE ARGUMENTS...
run() {
  case_name="$1"
  local want="$2"
  shift 2
  cases=$((cases + 1))
  "$program" "$@" >out 2>err
  local code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code, want $want"
  # What is done leaves stderr empty; what cannot be done leaves stdout empty.
  [ "$want" -ne 0 ] || [ ! -s err ] || fail "stderr is not empty"
  [ "$want" -ne 2 ] || [ ! -s out ] || fail "stdout is not empty"
}

# The whole of stdout.
prints() { [ "$(cat out)" = "$1" ] || fail "stdout is not: $1"; }
first_line() { [ "$(head -n 1 out)" = "$1" ] || fail "first line is not: $1"; }
# A whole line of stdout.
has_line() { grep -qxF -e "$1" out || fail "no line: $1"; }
has_no_line() { ! grep -qxF -e "$1" out || fail "unwanted line: $1"; }
# The first line of stderr.
complains() { [ "$(head -n 1 err)" = "idempotencyctl: $1" ] || fail "stderr is not: idempotencyctl: $1"; }

# ---- help and usage
for words in "" "key" "key parse" "fingerprint" "fingerprint diff"; do
  for flag in --help -h; do
    # shellcheck disable=SC2086
    run "help of '$words'" 0 $words "$flag"
    grep -q '^usage: idempotencyctl' out || fail "no usage"
  done
done
run "help lists the commands" 0 --help
for command in "key parse" "fingerprint" "fingerprint diff"; do
  grep -q "^  $command  " out || fail "$command is not listed"
done
for option in syntax min-length max-length uuid; do
  run "help of key parse has --$option" 0 key parse --help
  grep -q -e "^  --$option " out || fail "not listed"
done
for option in method path header body mode pointer exclude-pointer count-header principal explain query no-authority \
  scheme algorithm; do
  run "help of fingerprint has --$option" 0 fingerprint --help
  grep -q -e "^  --$option " out || fail "not listed"
done
run "no command" 2
run "unknown command" 2 frobnicate
complains "unknown command frobnicate"
run "group without command" 2 key
complains "key requires a command"

# ---- key parse
uuid=8e03978e-40d5-43e8-bc93-6894a57f9324
run "strict key" 0 key parse -- "\"$uuid\""
prints "$uuid"
run "parameters are dropped" 0 key parse -- "\"$uuid\";a=1"
prints "$uuid"
run "escapes are taken off" 0 key parse -- '"a \"key\" with \\ in it"'
prints 'a "key" with \ in it'
run "and put back" 0 key parse --quoted -- '  "a \"key\" with \\ in it";a'
prints '"a \"key\" with \\ in it"'
run "bare key is no strict key" 1 key parse -- "$uuid"
complains "The Idempotency-Key is not a double-quoted string (RFC 8941)."
prints ""
run "raw key" 0 key parse --syntax raw -- "$uuid"
prints "$uuid"
run "raw keeps quotes" 0 key parse --syntax=raw -- "\"$uuid\""
prints "\"$uuid\""
run "either takes quotes off" 0 key parse --syntax either -- "\"$uuid\""
prints "$uuid"
run "either takes bare keys" 0 key parse --syntax either -- "$uuid"
prints "$uuid"
run "a key that looks like an option" 0 key parse --syntax raw -- --help-me-with-this-key
prints --help-me-with-this-key
run "list" 1 key parse -- '"0123456789abcdef", "0123456789abcdef"'
complains "More than one Idempotency-Key was sent."
run "two lines" 1 key parse -- "\"$uuid\"" "\"$uuid\""
complains "More than one Idempotency-Key was sent."
run "bad character" 1 key parse --syntax raw -- $'0123456789\tabcdef'
complains "The Idempotency-Key contains a character that is not printable ASCII."
run "too short" 1 key parse --syntax raw -- 0123456789abcde
complains "The key has 15 characters; this operation requires 16 to 255."
run "short enough" 0 key parse --syntax raw --min-length 15 -- 0123456789abcde
prints 0123456789abcde
run "too long" 1 key parse --syntax raw --max-length 16 -- 0123456789abcdefg
complains "The key has 17 characters; this operation requires 16."
run "longest" 0 key parse --syntax raw -- "$(printf 'k%.0s' $(seq 255))"
run "longer than the longest" 1 key parse --syntax raw -- "$(printf 'k%.0s' $(seq 256))"
complains "The key has 256 characters; this operation requires 16 to 255."
run "empty" 1 key parse --syntax raw -- ""
complains "The key is empty; this operation requires 16 to 255 characters."
run "uuid" 0 key parse --uuid -- "\"$uuid\""
prints "$uuid"
run "no uuid" 1 key parse --uuid -- '"0123456789abcdef"'
complains "The Idempotency-Key is not a UUID."
run "no value" 2 key parse
complains "VALUE is missing"
run "unknown syntax" 2 key parse --syntax loose -- x
complains "--syntax is loose; must be strict, raw or either"
run "length 0" 2 key parse --min-length 0 -- x
complains "--min-length is 0; must be a number from 1 to 255"
run "length 256" 2 key parse --max-length 256 -- x
complains "--max-length is 256; must be a number from 1 to 255"
run "lengths crossed" 2 key parse --min-length 20 --max-length 19 -- x
complains "--min-length 20 is greater than --max-length 19"
run "unknown option" 2 key parse --lax -- x
complains "unknown option --lax"

# ---- fingerprint: the digest, made once more from the format's definition by other tools.
# part KIND TEXT: a kind, a big-endian length of 8 bytes, the bytes.
part() {
  printf %s "$2" >part_bytes
  file_part "$1" part_bytes
}
file_part() {
  local length
  length=$(wc -c <"$2")
  # shellcheck disable=SC2059
  printf "$(printf '\\x%02x\\0\\0\\0\\0\\0\\0\\x%02x\\x%02x' "$1" $((length / 256)) $((length % 256)))"
  cat "$2"
}
# shellcheck disable=SC2059
version() { printf "\\x01\\0\\0\\0\\0\\0\\0\\0\\x01\\x0${1:-2}"; }
digest() { printf '0%s%s' "${1:-2}" "$(sha256sum | cut -d ' ' -f 1)"; }

want=$({ version; part 2 POST; part 3 /p; part 16 ""; } | digest)
older=$({ version 1; part 2 POST; part 3 /p; part 16 ""; } | digest 1)
run "smallest request" 0 fingerprint --method POST --path /p
prints "$want
$older"
[ "${#want}" -eq 66 ] || fail "the digest has ${#want} digits"
run "the newer version alone" 0 fingerprint --algorithm 2 --method POST --path /p
prints "$want"
run "the older version alone" 0 fingerprint --algorithm 1 --method POST --path /p
prints "$older"

want=$({ version; part 2 POST; part 9 api.example.com; part 3 /p; part 4 'a=2&b=1'; part 5 application/json
  part 6 if-match; part 7 '"1"'; part 6 x-a; part 7 1; part 7 2; part 8 me; part 18 '{"a":[1,"ü"],"b":1}'; } | digest)
older=$({ version 1; part 2 POST; part 3 /p; part 4 'a=2&b=1'; part 5 application/json
  part 6 x-a; part 7 1; part 7 2; part 8 me; part 18 '{"a":[1,"ü"],"b":1}'; } | digest 1)
printf '{"b": 1, "a": [1.0, "\\u00fc"]}\n' >body.json
everything=(--method POST --path '/p?b=1&a=2' --header 'Content-Type: Application/JSON' --header 'Host: API.example.com:443'
  --header 'X-A: 1' --header 'X-B: 3' --header 'x-a: 2' --header 'If-Match: "1"' --count-header X-A --principal me)
run "everything" 0 fingerprint "${everything[@]}" --body body.json
prints "$want
$older"
run "body from stdin" 0 fingerprint "${everything[@]}" --body - <body.json
prints "$want
$older"
run "explained" 0 fingerprint --explain "${everything[@]}" --body body.json
first_line "$want"
for line in "$older" "version: 2" "method: POST" "authority: api.example.com" "path: /p" "query: a=2&b=1" \
  "media type: application/json" "header: if-match" 'header if-match: "1"' "header: x-a" "header x-a: 1" "header x-a: 2" \
  "principal: me" 'body (canonical JSON): {"a":[1,"ü"],"b":1}'; do
  has_line "$line"
done
[ "$(wc -l <out)" -eq 15 ] || fail "more lines than parts"
run "the older version explained" 0 fingerprint --algorithm 1 --explain "${everything[@]}" --body body.json
first_line "$older"
has_line "version: 1"
has_no_line "authority: api.example.com"
[ "$(wc -l <out)" -eq 11 ] || fail "more lines than parts"
run "authority that does not count" 0 fingerprint --explain --no-authority "${everything[@]}" --body body.json
has_no_line "authority: api.example.com"
run "port of another scheme" 0 fingerprint --explain --scheme http "${everything[@]}" --body body.json
has_line "authority: api.example.com:443"
run "query as sent" 0 fingerprint --explain --query as-sent "${everything[@]}" --body body.json
has_line "query (as sent): b=1&a=2"
run "query with brackets" 0 fingerprint --explain --method POST --path '/p?b[]=1&a=2'
has_line "query (as sent): b[]=1&a=2"

run "mode raw" 0 fingerprint --algorithm 2 --mode raw --method POST --path /p --header 'content-type:application/json' --body body.json
prints "$({ version; part 2 POST; part 3 /p; part 5 application/json; file_part 17 body.json; } | digest)"
run "mode selected" 0 fingerprint --mode selected --pointer /b --pointer /c --method POST --path /p \
  --header 'content-type:application/json' --body body.json --explain
has_line "body at '/b': 1"
has_line "body at '/c' (absent): "
run "mode none" 0 fingerprint --algorithm 2 --mode none --method POST --path /p --body body.json
prints "$({ version; part 20 ""; } | digest)"
run "excluded value" 0 fingerprint --exclude-pointer /a --method POST --path /p --explain \
  --header 'content-type:application/json' --body body.json
has_line 'body (canonical JSON): {"b":1}'
printf '{"a":1,"a":2}' >twice.json
run "JSON that is none" 0 fingerprint --method POST --path /p --header 'content-type:application/json' \
  --body twice.json --explain
has_line "not compared as JSON: two members of one name"
run "principal that does not count" 0 fingerprint --method POST --path /p --explain
has_no_line "principal: "
run "empty principal counts" 0 fingerprint --method POST --path /p --principal "" --explain
has_line "principal: "

# Bytes that are no text.
printf 'a\0\\\n\377' >binary
run "NUL bytes in a body" 0 fingerprint --method POST --path /p --body binary --explain
has_line 'body (bytes), escaped: a\x00\\\n\xff'

# ---- fingerprint: bad input
run "no method" 2 fingerprint --path /p
complains "--method is missing"
run "no path" 2 fingerprint --method POST
complains "--path is missing"
run "bad method" 2 fingerprint --method 'PO ST' --path /p
complains "not an HTTP method: PO ST"
run "bad path" 2 fingerprint --method POST --path payments
complains "not a path such as '/orders?id=1': payments"
run "bad header" 2 fingerprint --method POST --path /p --header nonsense
complains "not a header such as 'Name: value': nonsense"
run "two content types" 2 fingerprint --method POST --path /p --header 'content-type: a/b' --header 'Content-Type: a/c'
complains "more than one Content-Type header"
run "two hosts" 2 fingerprint --method POST --path /p --header 'host: a' --header 'Host: b'
complains "more than one Host header"
run "bad query" 2 fingerprint --method POST --path /p --query raw
complains "--query is raw; must be sorted or as-sent"
run "bad scheme" 2 fingerprint --method POST --path /p --scheme ftp
complains "--scheme is ftp; must be http or https"
for algorithm in 0 3 x; do
  run "bad algorithm $algorithm" 2 fingerprint --method POST --path /p --algorithm "$algorithm"
  complains "--algorithm is $algorithm; must be a number from 1 to 2"
done
run "host as a counted header" 2 fingerprint --method POST --path /p --count-header Host
complains "--count-header is Host, which is compared unless --no-authority is set"
run "bad mode" 2 fingerprint --method POST --path /p --mode fuzzy
complains "--mode is fuzzy; must be canonical, raw, selected or none"
run "bad pointer" 2 fingerprint --method POST --path /p --mode selected --pointer amount
grep -q "^idempotencyctl: --pointer is 'amount', which is not a JSON Pointer" err || fail "wrong message"
run "bad excluded pointer" 2 fingerprint --method POST --path /p --exclude-pointer '/a~2'
grep -q "^idempotencyctl: --exclude-pointer is '/a~2', which is not a JSON Pointer" err || fail "wrong message"
run "selected without pointer" 2 fingerprint --method POST --path /p --mode selected
complains "--mode selected requires at least one --pointer"
run "pointer without selected" 2 fingerprint --method POST --path /p --pointer /a
complains "--pointer requires --mode selected"
run "excluded pointer without canonical" 2 fingerprint --method POST --path /p --mode raw --exclude-pointer /a
complains "--exclude-pointer requires --mode canonical"
run "bad counted header" 2 fingerprint --method POST --path /p --count-header 'a b'
complains "--count-header is not a header name: a b"
run "missing file" 2 fingerprint --method POST --path /p --body no-such-file
complains "cannot read no-such-file: No such file or directory"
run "folder" 2 fingerprint --method POST --path /p --body .
complains "cannot read .: Is a directory"
run "file that opens but cannot be read" 2 fingerprint --method POST --path /p --body /proc/self/mem
complains "cannot read /proc/self/mem: Input/output error"
run "closed stdin" 2 fingerprint --method POST --path /p --body - <&-
grep -q "^idempotencyctl: cannot read stdin: " err || fail "wrong message"
run "endless file" 2 fingerprint --method POST --path /p --body /dev/zero
complains "/dev/zero has more than 67108864 bytes"
truncate -s 67108864 largest
run "largest file" 0 fingerprint --method POST --path /p --body largest
truncate -s 67108865 larger
run "file larger than that" 2 fingerprint --method POST --path /p --body larger
complains "larger has more than 67108864 bytes"
rm largest larger
run "operand" 2 fingerprint --method POST --path /p extra
complains "too many arguments: extra"
case_name="full disk"
"$program" fingerprint --method POST --path /p >/dev/full 2>err </dev/null
code=$?
: >out
[ "$code" -eq 2 ] || fail "exit code $code"
complains "cannot write to stdout"

# ---- fingerprint diff
printf 'POST /p?a=1&b=2 HTTP/1.1\r\nContent-Type: application/json\r\nX-A: 1\r\n\r\n{"amount": 100, "note": "x"}' >a
printf 'POST /p?b=2&a=1 HTTP/1.1\nX-A: 2\nContent-Type: application/json; charset=utf-8\n\n{"note":"x","amount":1e2}\n' >b
printf 'POST /p?b=2&a=1 HTTP/1.1\nContent-Type: application/json\n\n{"note":"x","amount":101}' >c
printf 'PUT /q HTTP/1.1\nContent-Type: text/plain\n\nx' >d

cp a same_as_a

run "same request" 0 fingerprint diff a b
digest_of_a=$({ version; part 2 POST; part 3 /p; part 4 'a=1&b=2'; part 5 application/json
  part 18 '{"amount":100,"note":"x"}'; } | digest)
prints "same: $digest_of_a"
run "a request and itself on stdin" 0 fingerprint diff a - <same_as_a
prints "same: $digest_of_a"
run "other body" 1 fingerprint diff a c
prints 'different: body
  A: body (canonical JSON): {"amount":100,"note":"x"}
  B: body (canonical JSON): {"amount":101,"note":"x"}'
run "counted header" 1 fingerprint diff a b --count-header x-a
prints 'different: header x-a
  A: header x-a: 1
  B: header x-a: 2'
run "everything differs" 1 fingerprint diff a d
prints 'different: method
  A: method: POST
  B: method: PUT
different: path
  A: path: /p
  B: path: /q
different: query
  A: query: a=1&b=2
  B: none
different: media type
  A: media type: application/json
  B: media type: text/plain
different: body
  A: body (canonical JSON): {"amount":100,"note":"x"}
  B: body (bytes): x'
printf 'POST /p?a=1&b=2 HTTP/1.1\nHost: api.example.com\nIf-Match: "1"\n\n' >h1
printf 'POST /p?b=2&a=1 HTTP/1.1\nHost: api-eu.example.com\nIf-Match: "2"\n\n' >h2
printf 'POST /p?b=2&a=1 HTTP/1.1\nHost: API.EXAMPLE.COM:443\nIf-Match: "1"\n\n' >h3
run "other host and condition" 1 fingerprint diff h1 h2
prints 'different: authority
  A: authority: api.example.com
  B: authority: api-eu.example.com
different: header if-match
  A: header if-match: "1"
  B: header if-match: "2"'
run "the same host in other words" 0 fingerprint diff h1 h3
run "another port by another scheme" 1 fingerprint diff --scheme http h1 h3
run "other host that does not count" 1 fingerprint diff --no-authority h1 h2
prints 'different: header if-match
  A: header if-match: "1"
  B: header if-match: "2"'
run "other host and condition by the older version" 0 fingerprint diff --algorithm 1 h1 h2
prints "same: $({ version 1; part 2 POST; part 3 /p; part 4 'a=1&b=2'; part 16 ""; } | digest 1)"
run "other order that counts" 1 fingerprint diff --query as-sent h1 h3
prints 'different: query
  A: query (as sent): a=1&b=2
  B: query (as sent): b=2&a=1'
run "bad algorithm in diff" 2 fingerprint diff --algorithm 3 a b
complains "--algorithm is 3; must be a number from 1 to 2"

run "excluded value" 0 fingerprint diff --exclude-pointer /amount a c
run "selected value that is the same" 0 fingerprint diff --mode selected --pointer /note a c
run "selected value that differs" 1 fingerprint diff --mode selected --pointer /note --pointer /amount a c
prints "different: body at '/amount'
  A: body at '/amount': 100
  B: body at '/amount': 101"
run "selected value that is missing" 1 fingerprint diff --mode selected --pointer /note --pointer /amount a <(
  printf 'POST /p?b=2&a=1 HTTP/1.1\nContent-Type: application/json\n\n{"note":"x"}')
prints "different: body at '/amount'
  A: body at '/amount': 100
  B: body at '/amount' (absent): "
run "mode raw" 1 fingerprint diff --mode raw a b
run "mode none" 0 fingerprint diff --mode none a d
{ printf 'POST / HTTP/1.1\n\n'; head -c 100000 /dev/zero | tr '\0' x; printf 'ü1'; head -c 100 /dev/zero | tr '\0' y; } >long1
{ printf 'POST / HTTP/1.1\n\n'; head -c 100000 /dev/zero | tr '\0' x; printf 'ü2'; head -c 100 /dev/zero | tr '\0' y; } >long2
run "long bodies are shown in part" 1 fingerprint diff long1 long2
xs=$(printf 'x%.0s' $(seq 22))
ys=$(printf 'y%.0s' $(seq 55))
prints "different: body
  A: body (bytes): ...${xs}ü1$ys...
  B: body (bytes): ...${xs}ü2$ys..."

euros() { printf '€%.0s' $(seq "$1"); }
printf 'POST / HTTP/1.1\n\n%saa1%s' "$(euros 100)" "$(euros 100)" >euros1
printf 'POST / HTTP/1.1\n\n%saa2%s' "$(euros 100)" "$(euros 100)" >euros2
run "characters are not cut" 1 fingerprint diff euros1 euros2
prints "different: body
  A: body (bytes): ...$(euros 8)aa1$(euros 19)...
  B: body (bytes): ...$(euros 8)aa2$(euros 19)..."

run "missing file in diff" 2 fingerprint diff a no-such-file
complains "cannot read no-such-file: No such file or directory"
run "one file in diff" 2 fingerprint diff a
complains "B is missing"
run "three files in diff" 2 fingerprint diff a b c
complains "too many arguments: c"
run "stdin twice" 2 fingerprint diff - -
complains "only one of the requests can come from stdin"
run "no request" 2 fingerprint diff a body.json
complains "body.json: line 1: not a request line such as 'POST /path HTTP/1.1'"
printf 'POST / HTTP/1.1\nA: b\0c\n\n' >nul
run "NUL byte in a header" 2 fingerprint diff a nul
complains "nul: line 2: header A contains a control character"
printf 'POST / HTTP/1.1\nContent-Type: a/b\nContent-Type: a/c\n\n' >types
run "two content types in a file" 2 fingerprint diff types a
complains "types: more than one Content-Type header"
run "empty file" 2 fingerprint diff a /dev/null
complains "/dev/null: no request line"
run "endless file in diff" 2 fingerprint diff a /dev/zero
complains "/dev/zero has more than 67108864 bytes"

echo "$cases cases, $failures failed"
[ "$failures" -eq 0 ]
