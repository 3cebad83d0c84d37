#!/usr/bin/env bash
#
# One Redis, two gateways, one exact limit: starts all three, sends more than the limit to both gateways at once, counts
# what passed, then stops Redis to show that nothing passes unmetered. It ends whatever it started.
#
# Needs redis-server and curl. Run it from anywhere:
#
#     examples/fleet.sh
#
# FAIRLANE names the binary (by default it is built with cargo); REDIS_PORT, PORT_A, PORT_B, ADMIN_A and ADMIN_B move
# the ports.
set -euo pipefail
cd "$(dirname "$0")/.."

REDIS_PORT=${REDIS_PORT:-6390}
PORT_A=${PORT_A:-8081} PORT_B=${PORT_B:-8082}
ADMIN_A=${ADMIN_A:-9091} ADMIN_B=${ADMIN_B:-9092}
LIMIT=20    # `per_user` in examples/redis.yaml
REQUESTS=30 # to each gateway

fail() { echo "fleet.sh: $*" >&2; exit 1; }

for tool in redis-server curl; do
  command -v "$tool" >/dev/null || fail "$tool is not installed"
done
for port in "$REDIS_PORT" "$PORT_A" "$PORT_B" "$ADMIN_A" "$ADMIN_B"; do
  if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then fail "port $port is in use"; fi
done
if [[ -z ${FAIRLANE:-} ]]; then
  cargo build --release --quiet --package fairlane-gateway
  FAIRLANE=${CARGO_TARGET_DIR:-target}/release/fairlane
fi

folder=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do
    kill "$process" 2>/dev/null || true
    kill -CONT "$process" 2>/dev/null || true # a stopped process would not hear the other
  done
  wait
  rm -rf "$folder"
}
trap finish EXIT

# Starts a program in the background, its output in a file, and remembers it.
start() {
  local name=$1
  shift
  "$@" >"$folder/$name.log" 2>&1 &
  started+=($!)
}

# Asks a URL until it answers 200, for ten seconds at most.
await() {
  for _ in {1..100}; do
    if curl --silent --fail --output /dev/null --max-time 1 "$2"; then return; fi
    sleep 0.1
  done
  cat "$folder/$1.log" >&2
  fail "$1 did not become ready"
}

# Sends one request as alice and prints the status of its answer.
ask() {
  curl --silent --output /dev/null --write-out '%{http_code}\n' --max-time 10 \
    -H 'Authorization: Bearer demo-alice-key' \
    -d '{"model": "any-model", "messages": [{"role": "user", "content": "hello"}]}' \
    "http://127.0.0.1:$1/v1/chat/completions"
}

# Sends this many requests to a gateway, eight at a time.
flood() {
  seq "$REQUESTS" | xargs -P 8 -I{} bash -c "ask $1"
}
export -f ask

# Counts the statuses in files, one to a line. (A 503 among them: this machine was too busy for `timeout_ms`.)
count() {
  sort "$@" | uniq -c | while read -r times status; do echo -n " $times x $status"; done
}

# Without persistence: its end takes all counts with it.
start redis redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --appendonly no --dir "$folder" \
  --maxmemory-policy noeviction
redis=${started[0]}
export REDIS_URL=redis://127.0.0.1:$REDIS_PORT
start gateway-a "$FAIRLANE" serve --config examples/redis.yaml \
  --listen "127.0.0.1:$PORT_A" --admin-listen "127.0.0.1:$ADMIN_A"
start gateway-b "$FAIRLANE" serve --config examples/redis.yaml \
  --listen "127.0.0.1:$PORT_B" --admin-listen "127.0.0.1:$ADMIN_B"
await gateway-a "http://127.0.0.1:$ADMIN_A/readyz"
await gateway-b "http://127.0.0.1:$ADMIN_B/readyz"

echo "$REQUESTS requests to each of two gateways at once; alice has $LIMIT an hour in all:"
flood "$PORT_A" >"$folder/a" &
flood_a=$!
flood "$PORT_B" >"$folder/b"
wait "$flood_a"
for gateway in a b; do
  echo "  gateway $gateway:$(count "$folder/$gateway")"
done
echo "  together: $(count "$folder/a" "$folder/b")"
passed=$(cat "$folder/a" "$folder/b" | grep -c '^200$' || true)
((passed == LIMIT)) || fail "expected $LIMIT to pass"

echo "Redis is stopped; one more request to each:"
kill -STOP "$redis"
without=$(ask "$PORT_A" && ask "$PORT_B")
kill -CONT "$redis"
for status in $without; do
  echo "  $status"
  [[ $status == 503 ]] || fail "expected 503"
done

echo "Redis goes on, and so do the gateways, with all counts as they were:"
await gateway-a "http://127.0.0.1:$ADMIN_A/readyz"
status=$(ask "$PORT_A")
echo "  $status"
[[ $status == 429 ]] || fail "expected 429"
