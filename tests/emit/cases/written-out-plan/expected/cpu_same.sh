#!/bin/sh
# Starts the target `cpu-same` of plan.yaml: 4 ranks, one process each.
# Written by planc; options are passed on:  sh cpu_same.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/cpu_same.py" "$@"
