#!/bin/sh
# Starts the target `written` of plan.yaml: 4 ranks, one GPU each.
# Written by planc; options are passed on:  sh written.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=4 "$(dirname -- "$0")/written.py" "$@"
