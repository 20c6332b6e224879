#!/bin/bash
# traces.sh BUILD BUILD [SEEDS]: one seed is one history, whatever compiled it. Two builds, of other
# compilers, levels or sanitizers, must come to the same trace, the same records and the same state.
set -u
one=$1
other=$2
seeds=${3:-1..8}
for build in "$one" "$other"; do
    if [ ! -x "$build/keepstep-sim" ]; then
        echo "traces.sh: $build/keepstep-sim is not built" >&2
        exit 2
    fi
done
left=$("$one/keepstep-sim" --quiet --hash --seeds "$seeds" | grep '^trace ') || exit 1
right=$("$other/keepstep-sim" --quiet --hash --seeds "$seeds" | grep '^trace ') || exit 1
if [ "$left" != "$right" ]; then
    echo "$one and $other tell other stories:"
    diff <(printf '%s\n' "$left") <(printf '%s\n' "$right")
    exit 1
fi
printf '%s\n%s histories are the same in %s and %s\n' "$left" "$(printf '%s\n' "$left" | wc -l)" \
    "$one" "$other"
