#!/bin/sh
# Starts the target `cpu-tp2-cp2` of flux1.yaml: 4 ranks, one process each.
# Written by planc; options are passed on:  sh cpu_tp2_cp2.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/cpu_tp2_cp2.py" "$@"
