#!/bin/sh
# Starts the target `xpu-tp4` of flux2.yaml: 4 ranks, one XPU each.
# Written by planc; options are passed on:  sh xpu_tp4.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/xpu_tp4.py" "$@"
