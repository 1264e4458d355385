#!/bin/sh
# Rows of a covering array on simulated devices: every value, or every pair of values, of stages, worlds, layouts,
# grids, instances, sums, transports and settings of a step. Arguments: zeroproof-sim, options of --cover.
set -eu
program=$1
shift
rows=$("$program" list --cover "$@" --impl device,device-fused,device-graph | grep -v ' cases: ')
# shellcheck disable=SC2086  # one word for each row
"$program" verify --strict $rows
