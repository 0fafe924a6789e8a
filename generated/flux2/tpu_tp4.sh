#!/bin/sh
# Starts the target `tpu-tp4` of flux2.yaml: 4 ranks, one TPU chip each.
# Written by planc; options are passed on:  sh tpu_tp4.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/tpu_tp4.py" "$@"
