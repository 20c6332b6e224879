#!/bin/bash
# hunt.sh: seeds that nobody has run yet, until stopped; `make sim-hunt`.
#
#   tests/sim/hunt.sh [COUNT]     so many, 0 or nothing: until stopped
#
# A seed that fails is added to tests/sim/seeds, so that `make sim` runs it from then on, and its
# last lines are kept in the build folder. One in twenty runs on more nodes than seeds draw.
# Environment: KEEPSTEP_BUILD, SEED (the first; otherwise drawn).
set -u
cd "$(dirname "$0")/../.." || exit 2

sim=${KEEPSTEP_BUILD:-build}/keepstep-sim
seeds=${SEEDS:-tests/sim/seeds}
count=${1:-0}
seed=${SEED:-$(($(od -An -N5 -tu8 /dev/urandom)))}
failed=0
ran=0
trap 'exit_now' INT TERM

exit_now() {
    printf '%s seeds, %s failed\n' "$ran" "$failed"
    exit $((failed > 0))
}

while [ "$count" -eq 0 ] || [ "$ran" -lt "$count" ]; do
    nodes=()
    [ $((seed % 20)) -ne 0 ] || nodes=(--nodes $((20 + seed % 79)))
    log=${KEEPSTEP_BUILD:-build}/sim-$seed.log
    nice -n 10 "$sim" --seed "$seed" "${nodes[@]}" >"$log" 2>&1
    status=$?
    ran=$((ran + 1))
    if [ "$status" -ge 130 ]; then
        rm -f "$log"
        exit_now # stopped with us
    elif [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        why=$(grep -E "^seed $seed: [a-z-]+: |check failed" "$log" | tail -n 1)
        why=${why#"seed $seed: "}
        printf '%s\t%s\t%s\n' "$seed" "${nodes[1]:--}" "${why:-status $status}" >>"$seeds"
        printf 'seed %s%s: status %s, %s; see %s\n' "$seed" "${nodes[*]:+ ${nodes[*]}}" \
            "$status" "$why" "$log"
    else
        rm -f "$log"
    fi
    [ $((ran % 50)) -ne 0 ] || printf '%s seeds, %s failed\n' "$ran" "$failed"
    seed=$((seed + 1))
done
exit_now
