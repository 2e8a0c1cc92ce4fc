#!/usr/bin/env bash
# The device checks, for a machine with a CUDA GPU: bytes of every layout, both directions at once,
# copies beside a running matmul, ratios to the pinned copy peak of the same run, and the demo: a
# model whose KV cache goes to files and comes back in a new process. At most 5 minutes.
# Needs python3 with torch (any version from 2.6) and numpy; the demo also what else the base install
# of tierproof brings (msgspec, xxhash, prometheus_client), and is left out, saying so, without.
#
#   tests/gpu/run.sh [RESULT.json] [--mib 1024] [--device cuda|cpu]      PYTHON=... to name another
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
result="${OUT:-.}/gpu.json"
if [[ $# -gt 0 && $1 != -* ]]; then
    result=$1
    shift
fi
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
exec timeout 300 "${PYTHON:-python3}" tests/gpu/measure.py --json "$result" "$@"
