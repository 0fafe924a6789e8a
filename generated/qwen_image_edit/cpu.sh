#!/bin/sh
# Starts the target `cpu` of qwen-image-edit.yaml: 2 ranks, one process each.
# Written by planc; options are passed on:  sh cpu.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=2 "$(dirname -- "$0")/cpu.py" "$@"
