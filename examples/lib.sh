# Shared by the `run` scripts of the examples. A script sets `example` to the name of its folder, sources this file,
# reads its options, and then calls set_up and start_example.
# shellcheck shell=bash disable=SC2034,SC2154

examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$examples/.." && pwd)
# shellcheck source=tools/lib.sh
source "$root/tools/lib.sh"
# shellcheck source=tools/versions.env
source "$root/tools/versions.env"

# Options that every example has.
once='' envoy=${ENVOY_VERSIONS##* }
# Running servers, in the order in which they are stopped, and folders that are removed at the end.
pids=() folders=()
# The example's own folder, for configs and logs.
folder=''

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "$example" "$*" >&2
  exit 1
}
usage_error() {
  printf '%s: %s\nTry: examples/%s/run --help\n' "$example" "$*" "$example" >&2
  exit 2
}

# --- options

check_port() {
  if ! [[ $2 =~ ^[0-9]{1,5}$ ]] || ((10#$2 < 1 || 10#$2 > 65535)); then
    usage_error "$1 must be a port from 1 to 65535, not '$2'"
  fi
}

check_envoy() {
  [[ " $ENVOY_VERSIONS " == *" $envoy "* ]] || usage_error "--envoy: $envoy is not supported; choose one of: $ENVOY_VERSIONS"
}

# Reads the options of an example that has no options of its own.
parse_common_options() {
  while (($#)); do
    case $1 in
      --once) once=1 ;;
      --envoy)
        (($# >= 2)) || usage_error "$1 requires a value"
        envoy=$2
        shift
        ;;
      -h | --help)
        print_usage "$examples/$example/run"
        exit 0
        ;;
      *) usage_error "unknown option '$1'" ;;
    esac
    shift
  done
  check_envoy
}

# --- processes

# Installs one part of tools/setup.
set_up() {
  cd "$root" || exit
  ENVOY=$envoy tools/setup "$1"
}

# start_example TARGET...: builds the module and the given targets, creates the folder, and arranges the cleanup.
start_example() {
  local log
  log=$(mktemp)
  say "Building libidempotency.so (this takes a few minutes the first time)"
  build_module "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    rm -f "$log"
    die "the module could not be built"
  }
  rm -f "$log"
  # All connections stay on this machine.
  export no_proxy='*'
  trap clean_up EXIT
  trap 'exit 0' INT TERM
  folder=$(mktemp -d)
  folders+=("$folder")
}

clean_up() {
  trap - EXIT INT TERM
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  ((${#folders[@]} == 0)) || rm -rf "${folders[@]}"
}

# Runs a server that ends with this script, even if the script is killed. Call it in the background.
serve() { exec setpriv --pdeathsig TERM "$@"; }

# wait_until NAME PID LOG COMMAND...: waits until the command succeeds; shows the log if the process ends first.
wait_until() {
  local name=$1 pid=$2 log=$3 end=$((SECONDS + 30))
  shift 3
  until "$@" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > end)); then
      grep -v '\]\[info\]' "$log" | tail -n 20 >&2
      die "$name did not start"
    fi
    sleep 0.1
  done
}

# check_free OPTION PORT: binds the port briefly, to see whether it is free.
check_free() {
  /usr/bin/python3 - "$2" <<'PYTHON' || die "port $2 is in use; choose another with $1"
import socket, sys
with socket.socket() as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", int(sys.argv[1])))
    except OSError:
        sys.exit(1)
PYTHON
}

# free_ports N: prints ports that are free at the moment.
free_ports() {
  /usr/bin/python3 - "$1" <<'PYTHON'
import socket, sys
probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[probe.getsockname()[1] for probe in probes])
PYTHON
}

json() { /usr/bin/python3 -c "import json, sys; a = sys.argv[2:]; print(json.dumps($1))" - "${@:2}"; }
address() { json "{'address': a[0], 'port_value': int(a[1])}" "$1" "$2"; }

# The demo service. Sets `upstream` and writes to upstream.log.
upstream='' upstream_pid=''
start_upstream() {
  serve /usr/bin/python3 "$examples/upstream.py" 0 >"$folder/upstream.log" 2>&1 &
  upstream_pid=$!
  pids+=("$upstream_pid")
  wait_until "the demo upstream" "$upstream_pid" "$folder/upstream.log" test -s "$folder/upstream.log"
  upstream=127.0.0.1:$(head -n 1 "$folder/upstream.log")
}

# runs_socket NAME: the path of an Envoy's socket for detached runs, in a folder that only this user can read. A UNIX
# socket's address has room for 107 bytes.
runs_socket() {
  local LC_ALL=C path=$folder/$1.runs/socket
  ((${#path} <= 107)) || die "$path is too long for a socket; set TMPDIR to a shorter path"
  # An Envoy that is restarted has one already.
  [[ -d ${path%/*} ]] || mkdir -m 700 "${path%/*}"
  printf '%s' "$path"
}

# start_envoy NAME PORT ADMIN_PORT MARK=JSON...: the example's envoy.yaml with these values in its marked lines. Its own
# log goes to NAME.log, the access log to NAME.access. Sets `envoy_pid`.
envoy_pid=''
start_envoy() {
  local name=$1 port=$2 admin_port=$3 socket values
  shift 3
  values=("admin=$(address 127.0.0.1 "$admin_port")" "listener=$(address 127.0.0.1 "$port")"
    "upstream=$(address "${upstream%:*}" "${upstream##*:}")" "$@")
  # Only examples with detached runs have a private listener.
  if grep -q '# private_listener$' "$examples/$example/envoy.yaml"; then
    socket=$(runs_socket "$name")
    values+=("private_listener=$(json "{'path': a[0]}" "$socket")" "socket=$(json "{'path': a[0], 'mode': 0o600}" "$socket")")
  fi
  /usr/bin/python3 "$examples/render.py" "$examples/$example/envoy.yaml" "${values[@]}" >"$folder/$name.yaml"
  ENVOY_DYNAMIC_MODULES_SEARCH_PATH=$root/$MODULE_FOLDER serve "$root/.cache/envoy/$envoy/envoy" \
    -c "$folder/$name.yaml" --disable-hot-restart --file-flush-interval-msec 200 \
    >"$folder/$name.access" 2>"$folder/$name.log" &
  envoy_pid=$!
  # Servers that others depend on are stopped last.
  pids=("$envoy_pid" "${pids[@]}")
  wait_until Envoy "$envoy_pid" "$folder/$name.log" curl -fsS -o /dev/null "http://127.0.0.1:$admin_port/ready"
}

# --- the example's own PostgreSQL

postgres_bin=/usr/lib/postgresql/15/bin

# Runs a program as a user who may run PostgreSQL (which refuses to run as root).
as_postgres() {
  if ((EUID)); then
    exec "$@"
  fi
  exec setpriv --reuid postgres --regid postgres --clear-groups "$@"
}

# new_password NAME: writes a new password to a file that only this user can read. Programs get the file name.
new_password() { (umask 077 && openssl rand -hex 16 >"$folder/$1.password"); }

# Starts an empty server on a free local port. Sets `postgres_port`.
postgres_port='' postgres_pid='' data=''
start_postgres() {
  data=$(mktemp -d)
  folders+=("$data")
  new_password postgres
  # Copies the administrator's password to where the server's user can read it, for a moment.
  install -m 600 "$folder/postgres.password" "$data/password"
  ((EUID)) || chown -R postgres:postgres "$data"
  (cd "$data" && as_postgres "$postgres_bin/initdb" -D "$data/db" -U postgres -A scram-sha-256 \
    --pwfile "$data/password" --encoding UTF8 --locale C) >"$folder/initdb.log" 2>&1 || {
    cat "$folder/initdb.log" >&2
    die "initdb failed"
  }
  rm "$data/password"
  read -r postgres_port < <(free_ports 1)
  run_postgres
}

# Starts the server on its data, for the first time or again. Sets `postgres_pid`.
run_postgres() {
  # On SIGINT, the server ends its sessions and shuts down cleanly.
  (cd "$data" && as_postgres setpriv --pdeathsig INT "$postgres_bin/postgres" -D "$data/db" \
    -c listen_addresses=127.0.0.1 -c "port=$postgres_port" -c unix_socket_directories=) \
    >>"$folder/postgres.log" 2>&1 &
  postgres_pid=$!
  pids+=("$postgres_pid")
  wait_until PostgreSQL "$postgres_pid" "$folder/postgres.log" \
    "$postgres_bin/pg_isready" -q -h 127.0.0.1 -p "$postgres_port"
}

# as_role ROLE COMMAND...: with libpq's variables set for the role's connection.
as_role() {
  local role=$1
  shift
  PGHOST=127.0.0.1 PGPORT=$postgres_port PGUSER=$role PGPASSWORD=$(<"$folder/$role.password") "$@"
}
sql() { as_role "$1" "$postgres_bin/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$2" -f -; }

# What an administrator does once: create the database, the role that owns the tables, and the role for Envoy.
prepare_database() {
  new_password idempotency_owner
  new_password envoy
  sql postgres postgres <<SQL
CREATE ROLE idempotency_owner LOGIN PASSWORD '$(<"$folder/idempotency_owner.password")';
CREATE DATABASE app OWNER idempotency_owner;
-- The privileges of the module: idempotencyctl migrate grants this role only what it needs.
CREATE ROLE idempotency_filter NOLOGIN;
CREATE ROLE idempotency_upstream NOLOGIN;
CREATE ROLE idempotency_worker NOLOGIN;
CREATE ROLE idempotency_operator NOLOGIN;
CREATE ROLE envoy LOGIN PASSWORD '$(<"$folder/envoy.password")' IN ROLE idempotency_filter;
SQL
  as_role idempotency_owner "$root/.cache/bazel-opt/bin/source/cli/idempotencyctl" migrate --conninfo dbname=app \
    >"$folder/migrate.log" 2>&1 || {
    cat "$folder/migrate.log" >&2
    die "the migration failed"
  }
}

# The store config of an Envoy: it contains the name of the password file, not the password.
postgres_store() {
  json "{'postgres': {'conninfo': a[0], 'password_file': a[1]}}" \
    "host=127.0.0.1 port=$postgres_port dbname=app user=envoy" "$folder/envoy.password"
}

# --- the demonstration

# check WHAT COMMAND...: runs a check and prints its result in one line.
failures=0
check() {
  local what=$1
  shift
  if "$@"; then
    say "  ok      $what"
  else
    say "  FAILED  $what"
    failures=$((failures + 1))
  fi
}

finish_demonstration() {
  say
  if ((failures)); then
    say "The demonstration FAILED ($failures failed checks)."
    return 1
  fi
  say "The demonstration passed."
}

# Names of the ports, if there are several.
declare -A names=()
# The Host of all requests. It is part of the fingerprint, so a retry through another port must use the same Host.
service=127.0.0.1
# send PORT PATH BODY [CURL ARGUMENT]...: stores status, body and headers. Without a response, the status is 000.
status='' body=''
send() {
  local port=$1 path=$2 data=$3
  shift 3
  # A request without an answer leaves nothing of the last one.
  truncate -s 0 "$folder/body" "$folder/headers"
  status=$(curl -sS -o "$folder/body" -D "$folder/headers" -w '%{http_code}' "http://127.0.0.1:$port$path" \
    -H "host: $service" -H 'content-type: application/json' "$@" -d "$data") || status=000
  body=$(tr -d '\n' <"$folder/body")
}

# sent PORT PATH BODY RESULT: prints a summary line.
sent() { say "> ${names[$1]:+${names[$1]}: }POST $2 $3 → $4"; }
# post PORT PATH BODY [CURL ARGUMENT]...: sends a request and prints its response.
post() {
  local shown
  send "$@"
  shown=$body
  # Shows only the code of a problem.
  [[ -z $(code) ]] || shown=$(code)
  ! is_replay || shown+='   (Idempotent-Replayed: true)'
  sent "$1" "$2" "$3" "$status $shown"
}
# post_and_hang_up PORT PATH BODY [CURL ARGUMENT]...: the client waits for a second only.
post_and_hang_up() {
  send "$@" --max-time 1 2>/dev/null
  sent "$1" "$2" "$3" "the client hangs up after a second"
  check "it got no response" test "$status" = 000
}

# The `code` of a problem body.
code() { sed -n 's/.*"code": *"\([a-z_]*\)".*/\1/p' <<<"$body"; }
is_replay() { grep -qi '^idempotent-replayed: true' "$folder/headers"; }
# answered STATUS [CODE]: whether the last post got this answer.
answered() { [[ "$status $(code)" == "$1 ${2:-}" ]]; }
# replayed BODY: whether the last post got this body as a replay.
replayed() { [[ $body == "$1" ]] && is_replay; }
# replayed_status STATUS: whether the last post got a replay with this status.
replayed_status() { [[ $status == "$1" ]] && is_replay; }

# post_20 PORT PATH BODY [CURL ARGUMENT]...: sends 20 requests concurrently. Sets `status` to the count of each status.
post_20() {
  local port=$1 path=$2 data=$3
  shift 3
  # The part after # is not sent; it makes curl send the same request twenty times.
  curl -sS --no-progress-meter --parallel --parallel-immediate --parallel-max 20 -o /dev/null -w '%{http_code}\n' \
    "http://127.0.0.1:$port$path#[1-20]" -H "host: $service" -H 'content-type: application/json' "$@" -d "$data" >"$folder/statuses" || true
  status=$(sort "$folder/statuses" | uniq -c | awk '{ printf "%s%s × %s", sep, $1, $2; sep = ", " }')
  say "> ${names[$port]:+${names[$port]}: }20 times POST $path $data → $status"
}
# Whether each of the twenty got the result or a 409.
twenty_answers() {
  [[ $(wc -l <"$folder/statuses") == 20 ]] && grep -q '^2' "$folder/statuses" && ! grep -qv '^\(2..\|409\)$' "$folder/statuses"
}

# How often the demo upstream ran a request: executions PATH [TEXT IN THE LINE].
executions() { grep "^upstream: executed .* POST $1 " "$folder/upstream.log" | grep -c -- "${2:-}" || true; }
# check_executions PATH NUMBER [TEXT]: only for the demo upstream, which logs what it executes.
check_executions() {
  [[ -z $upstream_pid ]] || check "the upstream executed $(times "$2")" test "$(executions "$1" "${3:-}")" = "$2"
}
times() {
  case $1 in
    0) say nothing ;;
    1) say "it once" ;;
    *) say "it $1 times" ;;
  esac
}

# show_access_log NAME PATH: prints the log once it has a request for this path, without repeated lines. Envoy writes
# it with a short delay.
show_access_log() {
  local end=$((SECONDS + 5))
  until grep -q " $2 " "$folder/$1.access" || ((SECONDS > end)); do
    sleep 0.1
  done
  uniq "$folder/$1.access" | sed 's/^/  /'
}

# Serves until Ctrl-C, and prints executions and access logs as they happen.
serve_until_interrupted() {
  say
  say "Press Ctrl-C to stop."
  local logs=("$folder"/*.access)
  [[ -z $upstream_pid ]] || logs+=("$folder/upstream.log")
  tail -q -n 0 -f "${logs[@]}" --pid="$envoy_pid" &
  local code=0
  wait -n "${pids[@]}" || code=$?
  tail -n 20 "$folder"/*.log >&2
  die "a server ended unexpectedly (exit code $code)"
}
