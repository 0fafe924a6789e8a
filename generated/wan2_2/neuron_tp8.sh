#!/bin/sh
# Starts the target `neuron-tp8` of wan2-2.yaml: 8 ranks, one NeuronCore each.
# Written by planc; options are passed on:  sh neuron_tp8.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=8 "$(dirname -- "$0")/neuron_tp8.py" "$@"
