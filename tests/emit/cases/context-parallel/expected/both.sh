#!/bin/sh
# Starts the target `both` of plan.yaml: 4 ranks, one XPU each.
# Written by planc; options are passed on:  sh both.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/both.py" "$@"
