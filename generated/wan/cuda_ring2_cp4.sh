#!/bin/sh
# Starts the target `cuda-ring2-cp4` of wan.yaml: 8 ranks, one GPU each.
# Written by planc; options are passed on:  sh cuda_ring2_cp4.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=8 "$(dirname -- "$0")/cuda_ring2_cp4.py" "$@"
