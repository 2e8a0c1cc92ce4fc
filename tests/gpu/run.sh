#!/usr/bin/env bash
# The device checks, for a machine with a CUDA GPU: bytes of every layout, both directions at once,
# copies beside a running matmul, ratios to the pinned copy peak of the same run. At most 5 minutes.
# Needs python3 with torch (any version from 2.6) and numpy, nothing else of this project's.
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
