#!/bin/sh
# Starts the target `cuda-cp4` of qwen-image-edit.yaml: 4 ranks, one GPU each.
# Written by planc; options are passed on:  sh cuda_cp4.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/cuda_cp4.py" "$@"
