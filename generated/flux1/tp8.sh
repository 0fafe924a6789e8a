#!/bin/sh
# Starts the target `tp8` of flux1.yaml: 8 ranks, one NeuronCore each.
# Written by planc; options are passed on:  sh tp8.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=8 "$(dirname -- "$0")/tp8.py" "$@"
