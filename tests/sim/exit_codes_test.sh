#!/bin/bash
# exit_codes_test.sh: keepstep-sim says by its exit code what it has found, prints first how the
# history is repeated, and a repetition comes to the same. Mistakes are built in with --mutate.
set -u
sim=${KEEPSTEP_BUILD:-build}/keepstep-sim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() {
    local want=$1 what=$2
    shift 2
    "$sim" "$@" >"$work/out" 2>"$work/err"
    local got=$?
    if [ "$got" -ne "$want" ] || ! grep -q -- "$what" "$work/out" "$work/err"; then
        echo "keepstep-sim $*: status $got, wanted $want and '$what'"
        tail -n 5 "$work/out" "$work/err"
        failed=1
    fi
}

# Of so many seeds one at least gives the mistake its occasion.
expect_in() {
    local want=$1 what=$2 mutation=$3 seed
    for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
        "$sim" --seed "$seed" --mutate "$mutation" >"$work/out" 2>"$work/err"
        if [ $? -eq "$want" ] && grep -q -- "$what" "$work/out" "$work/err"; then
            head -n 1 "$work/out" | grep -q "again: keepstep-sim --seed $seed" ||
                { echo "mutation $mutation: no line says how to repeat it"; failed=1; }
            return
        fi
    done
    echo "mutation $mutation: no seed ends with $want and '$what'"
    tail -n 3 "$work/out" "$work/err"
    failed=1
}

expect 0 'judges asked' --seed 1
expect 2 'usage: keepstep-sim' --seed
expect 2 'usage: keepstep-sim' --seeds 9..3
expect 2 'usage: keepstep-sim' --nodes 999999 --seed 1
expect_in 3 'check failed' break-core
expect_in 4 'liveness: ' deaf
expect_in 5 'rank-once: ' start-twice
expect_in 5 'breakers: ' edit-breaker

"$sim" --seed 4 --verbose | grep -v '^seed' | cksum >"$work/one"
"$sim" --seed 4 --verbose | grep -v '^seed' | cksum >"$work/two"
cmp -s "$work/one" "$work/two" || { echo "seed 4 does not repeat itself"; failed=1; }
exit "$failed"
