#!/bin/sh
# Starts the target `cpu-cp2` of wan.yaml: 2 ranks, one process each.
# Written by planc; options are passed on:  sh cpu_cp2.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=2 "$(dirname -- "$0")/cpu_cp2.py" "$@"
