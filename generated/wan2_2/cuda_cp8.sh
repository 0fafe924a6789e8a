#!/bin/sh
# Starts the target `cuda-cp8` of wan2-2.yaml: 8 ranks, one GPU each.
# Written by planc; options are passed on:  sh cuda_cp8.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=8 "$(dirname -- "$0")/cuda_cp8.py" "$@"
