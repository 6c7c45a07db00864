#!/bin/sh
# Start a broker with a schema registry for the next steps of a job; print its addresses as NAME=VALUE.
set -eu
LOG=${1:-test-server.log}
twisted-kafka test-server --schema-registry --stay > "$LOG" 2> "$LOG.errors" < /dev/null &
PID=$!
for _ in $(seq 100); do
    if [ -s "$LOG" ]; then
        break
    fi
    kill -0 "$PID" 2> /dev/null || { cat "$LOG.errors" >&2; exit 1; }
    sleep 0.2
done
python3 - "$LOG" << 'END'
import json
import sys

with open(sys.argv[1]) as log:
    told = json.loads(log.readline())
print(f"KAFKA_BOOTSTRAP_SERVERS={told['bootstrap_servers']}")
print(f"SCHEMA_REGISTRY_URL={told['schema_registry_url']}")
print(f"KAFKA_CONTROL_URL={told['control_url']}")
print(f"KAFKA_CONTROL_TOKEN={told['token']}")
print(f"KAFKA_PID={told['pid']}")
END
