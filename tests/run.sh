#!/bin/bash
# run.sh: runs tests, counts them, and ends in the line `N passed, N failed, N skipped`.
#
#   tests/run.sh programs PROGRAM...   cmocka programs: every test in them counts
#   tests/run.sh fuzz PROGRAM...       fuzz targets for FUZZ_SECONDS or FUZZ_RUNS each
#   tests/run.sh sim FLEETS            random small fleets from seeds
#   tests/run.sh fault PROGRAM...      the programs and the scripts of tests/fault
#   tests/run.sh e2e [FILE...]         scripts of tests/e2e, fault, sim and lint
#   tests/run.sh test | test-all       everything, as `make test` and `make test-all`
#
# A test that exits with 77 and prints `skipped: why` is counted apart; anything else but 0 is a
# failure. Output of a failed test is shown, of a passed one only with V=1. Environment:
# KEEPSTEP_BUILD (build folder), MAKE, JOBS, TEST_TIMEOUT (seconds for one program).
set -u
cd "$(dirname "$0")/.." || exit 2

KEEPSTEP_BUILD=$(realpath -m "${KEEPSTEP_BUILD:-build}")
export KEEPSTEP_BUILD
# What make put into the environment for itself must not reach the makes that we start.
unset MAKEFLAGS MFLAGS MAKELEVEL
MAKE=${MAKE:-make}
JOBS=${JOBS:-2}
TEST_TIMEOUT=${TEST_TIMEOUT:-300}
export KEEPSTEP_SOURCE=$PWD

passed=0
failed=0
skipped=0
failures=()
work=$(mktemp -d "${TMPDIR:-/tmp}/keepstep-test.XXXXXX")
# What runs beside us ends with us: timeout hands the signal on.
end_all() {
    local one
    for one in $(jobs -p); do
        pkill -TERM -P "$one"
    done
    rm -rf "$work"
}
trap end_all EXIT
trap 'exit 130' INT TERM

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    failures+=("$1")
}

skip() {
    skipped=$((skipped + 1))
    printf 'skipped %s: %s\n' "$1" "$2"
}

# run_into FILE SECONDS COMMAND...: its output in the file, its status in $status, its seconds in
# $took.
run_into() {
    local out=$1 seconds=$2
    shift 2
    local start=$SECONDS
    timeout --kill-after=10 "$seconds" "$@" >"$out" 2>&1 </dev/null
    status=$?
    took=$((SECONDS - start))
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        printf 'ended after %s seconds (limit %s)\n' "$took" "$seconds" >>"$out"
    fi
}

# run SECONDS COMMAND...: into $work/out.
run() {
    run_into "$work/out" "$@"
}

show_output() {
    sed 's/^/    /' "$work/out" | tail -n "${1:-60}"
}

# Counts and shows what run() left in $status, $took and $work/out.
tell() {
    local name=$1
    if [ "$status" -eq 0 ]; then
        pass
        printf 'ok      %s (%ss)\n' "$name" "$took"
        if [ -n "${V:-}" ] || [ -n "${SHOW:-}" ]; then
            show_output 400
        fi
    elif [ "$status" -eq 77 ]; then
        skip "$name" "$(sed -n 's/.*skipped: //p' "$work/out" | head -n 1)"
    else
        fail "$name"
        printf 'FAILED  %s (status %s, %ss)\n' "$name" "$status" "$took"
        show_output 60
    fi
}

# One command that is one test.
single() {
    local name=$1 seconds=$2
    shift 2
    run "$seconds" "$@"
    tell "$name"
}

# A cmocka program that has run, from $work/out and $status: counts each of its tests by their TAP
# lines. One that ends in any other way than its tests say (a crash, a sanitizer's report) is a
# failure of its own.
tell_program() {
    local name=${1##*/tests/}
    if [ "$status" -eq 77 ]; then
        skip "$name" "$(sed -n 's/.*skipped: //p' "$work/out" | head -n 1)"
        return
    fi
    local good bad left
    # Debian 12's cmocka writes a skipped test as `not ok 3 # SKIP name`.
    left=$(grep -cE '^[[:space:]]*(not )?ok [0-9]+ .*# SKIP' "$work/out")
    good=$(grep -E '^[[:space:]]*ok [0-9]+' "$work/out" | grep -cv '# SKIP')
    bad=$(grep -E '^[[:space:]]*not ok [0-9]+' "$work/out" | grep -cv '# SKIP')
    passed=$((passed + good))
    skipped=$((skipped + left))
    if [ "$left" -gt 0 ]; then
        grep -E 'skipped: |# SKIP' "$work/out" | sed "s|^|skipped $name: |"
    fi
    if [ "$status" -eq 0 ] && [ "$bad" -eq 0 ] && [ $((good + left)) -gt 0 ]; then
        printf 'ok      %s (%s tests, %ss)\n' "$name" "$good" "$took"
        return
    fi
    failed=$((failed + (bad > 0 ? bad : 1)))
    failures+=("$name")
    printf 'FAILED  %s (status %s)\n' "$name" "$status"
    show_output 80
}

# Many of them wait for what they started: UNIT_LANES (2) run side by side.
programs() {
    local file
    local -a built=()
    for file in "$@"; do
        if [ -x "$file" ]; then
            built+=("$file")
        else
            fail "${file##*/tests/}"
            printf 'FAILED  %s: not built\n' "${file##*/tests/}"
        fi
    done
    side_by_side "${UNIT_LANES:-2}" tell_program "${built[@]}"
}

fuzz() {
    local file seconds=${FUZZ_SECONDS:-10}
    for file in "$@"; do
        single "fuzz ${file##*/}" $((seconds + 120)) "$file" \
            "${FUZZ_SEED:-1}" "${FUZZ_RUNS:-0}" "$seconds"
    done
}

# sim NAME ARGUMENT...: the simulator prints what struck and what was judged.
sim() {
    local name=$1
    shift
    if [ -x "$KEEPSTEP_BUILD/keepstep-sim" ]; then
        SHOW=1 single "sim, $name" 900 "$KEEPSTEP_BUILD/keepstep-sim" "$@"
    else
        fail "sim, $name"
        printf 'FAILED  sim: keepstep-sim is not built\n'
    fi
}

# Histories in which something was wrong once, and other sizes.
sim_seeds() {
    sim "the seeds of tests/sim" --quiet --replay tests/sim/seeds
}

# Scripts: *_test.sh and *_test.py; other files beside them are their helpers. They wait most of
# the time, so E2E_LANES (3) of them run side by side; but for those that say `# runs alone: why`.
e2e() {
    local file
    local -a files=("$@") alone=() beside=()
    if [ ${#files[@]} -eq 0 ]; then
        files=(tests/e2e/*_test.sh tests/e2e/*_test.py tests/fault/*_test.sh tests/fault/*_test.py
            tests/sim/*_test.sh tests/sim/*_test.py tests/lint/*_test.sh)
    fi
    for file in "${files[@]}"; do
        [ -f "$file" ] || continue
        if grep -q '^# runs alone: ' "$file"; then
            alone+=("$file")
        else
            beside+=("$file")
        fi
    done
    side_by_side "${E2E_LANES:-3}" tell "${beside[@]}"
    side_by_side 1 tell "${alone[@]}"
}

# One script or program: its status and seconds go into a file beside its output.
in_lane() {
    local file=$1 out=$2
    local -a with=()
    case $file in
    *.py) with=(python3) ;;
    *.sh) with=(bash) ;;
    esac
    CMOCKA_MESSAGE_OUTPUT=TAP run_into "$out" "$TEST_TIMEOUT" "${with[@]}" "$file"
    echo "$status $took" >"$out.end"
}

# side_by_side COUNT TELL FILE...: so many at a time; told by TELL as they end.
side_by_side() {
    local count=$1 teller=$2 number=0 file
    shift 2
    local -A running=()
    for file in "$@"; do
        number=$((number + 1))
        in_lane "$file" "$work/lane.$number" &
        running[$number]=$file
        if [ ${#running[@]} -ge "$count" ]; then
            wait -n
            tell_ended "$teller"
        fi
    done
    wait
    tell_ended "$teller"
    for number in "${!running[@]}"; do # without an end: something killed what was to tell it
        fail "${running[$number]}"
        printf 'FAILED  %s (killed)\n' "${running[$number]}"
    done
}

# tell_ended TELL: of its caller's `running` those that have ended.
tell_ended() {
    local one
    for one in "${!running[@]}"; do
        if [ -s "$work/lane.$one.end" ]; then
            read -r status took <"$work/lane.$one.end"
            mv "$work/lane.$one" "$work/out"
            rm "$work/lane.$one.end"
            "$1" "${running[$one]}"
            unset "running[$one]"
        fi
    done
}

# One make command as one test.
make_step() {
    local name=$1
    shift
    SHOW='' single "$name" 1200 "$MAKE" --no-print-directory -j"$JOBS" "$@"
    [ "$status" -eq 0 ]
}

# The test programs of one kind in a build folder.
list() {
    "$MAKE" --no-print-directory -s "BUILD=$1" "list-$2" | grep .
}

# variant FOLDER CC SAN WHAT...: builds and runs the parts in a build folder of its own.
variant() {
    local folder=$1 cc=$2 san=$3
    shift 3
    local -a flags=("BUILD=$folder" "CC=$cc" "SAN=$san" "WERROR=1")
    local label="$cc${san:+ $san}" part kind
    local outer=$KEEPSTEP_BUILD
    if ! make_step "build: $label" "${flags[@]}" all tests; then
        return
    fi
    KEEPSTEP_BUILD=$folder
    local -a files
    for part in "$@"; do
        case $part in
        # The longest first: two run side by side.
        programs)
            mapfile -t files < <(for kind in scenario fault unit; do list "$folder" "$kind"; done)
            # Every commit is struck without sanitizers, and with them in the full matrix.
            if [ -n "$san" ] && [ -z "${KEEPSTEP_TEST_ALL:-}" ]; then
                SCENARIO_EVERY=5 programs "${files[@]}"
            else
                programs "${files[@]}"
            fi
            ;;
        unit-threads)
            mapfile -t files < <(list "$folder" unit |
                grep -E '/unit/(base|db|io|api|agent_io|rank)/')
            programs "${files[@]}"
            ;;
        size-*) sim "a fleet of ${part#size-}" --quiet --seed 1 --nodes "${part#size-}" ;;
        # Too few for every fault to strike.
        seeds-*) sim "seeds 1 to ${part#seeds-}" --seeds "1..${part#seeds-}" ;;
        strike-*)
            sim "struck at every record, seed ${part#strike-}" \
                --strike-every-record "${part#strike-}"
            ;;
        sim-seeds) sim_seeds ;;
        sim-*) sim "${part#sim-} fleets" --fleets "${part#sim-}" ;;
        traces)
            single "sim, the same traces as $outer" 600 tests/sim/traces.sh "$outer" "$folder" 1..8
            ;;
        kill-*) sim "killed at every record, seed ${part#kill-}" --kill-every-record "${part#kill-}" ;;
        fuzz-*)
            mapfile -t files < <(list "$folder" fuzz)
            FUZZ_SECONDS=${part#fuzz-} fuzz "${files[@]}"
            ;;
        e2e) e2e ;;
        esac
    done
    KEEPSTEP_BUILD=$outer
}

# Sanitizers: fail loudly, and leave memory alone that the process ends with anyway.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

summary() {
    local name
    if [ ${#failures[@]} -gt 0 ]; then
        printf '\nfailed:\n'
        for name in "${failures[@]}"; do
            printf '    %s\n' "$name"
        done
    fi
    printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
}

mode=${1:-}
[ $# -gt 0 ] && shift
root=$KEEPSTEP_BUILD
case $mode in
programs) programs "$@" ;;
fuzz) fuzz "$@" ;;
sim)
    sim "${1:-200} fleets" --fleets "${1:-200}"
    # C17, C19: further failures, and a cancel, at each record of a story with three recoveries.
    sim "struck at every record" --strike-every-record 1
    sim_seeds
    sim "a fleet of 2112" --quiet --seed 1 --nodes 2112
    ;;
e2e) e2e "$@" ;;
fault)
    programs "$@"
    e2e tests/fault/*_test.sh tests/fault/*_test.py
    ;;
test)
    make_step "lint" "BUILD=$root" lint
    variant "$root" gcc "" programs sim-200 sim-seeds kill-1 strike-1 fuzz-3 e2e
    variant "$root/clang-asan" clang address,undefined programs seeds-20 traces fuzz-3
    ;;
test-all)
    export KEEPSTEP_TEST_ALL=1
    TEST_TIMEOUT=7200
    make_step "lint" "BUILD=$root" lint
    variant "$root" gcc "" programs sim-2000 sim-seeds kill-1 kill-2 kill-3 \
        strike-2 strike-3 size-2112 size-12900 fuzz-60 e2e
    variant "$root/clang" clang "" programs sim-200 traces e2e
    variant "$root/gcc-asan" gcc address,undefined programs sim-200 traces e2e
    variant "$root/clang-asan" clang address,undefined programs sim-200 traces fuzz-60 e2e
    variant "$root/gcc-tsan" gcc thread unit-threads e2e
    variant "$root/clang-tsan" clang thread unit-threads
    ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
summary
