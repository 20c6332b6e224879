#!/bin/bash
# run_test.sh: the test driver counts what happened: passes, failures, crashes, hangs, skips.
set -u
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/keepstep-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

# program NAME: a script in place of a cmocka program, from stdin.
program() {
    { printf '#!/bin/bash\n' && cat; } >"$work/$1"
    chmod +x "$work/$1"
}

# expect TEXT STATUS ARGUMENT...: the driver's last line and status.
expect() {
    local text=$1 wanted=$2 last status
    shift 2
    TEST_TIMEOUT=2 KEEPSTEP_BUILD=$work tests/run.sh "$@" >"$work/out" 2>&1
    status=$?
    last=$(tail -n 1 "$work/out")
    if [ "$last" = "$text" ] && [ "$status" -eq "$wanted" ]; then
        echo "ok: $*"
    else
        echo "FAILED: $*: '$last' ($status), not '$text' ($wanted)"
        cat "$work/out"
        failed=1
    fi
}

program good <<<'printf "1..2\nok 1 - a\nok 2 - b\n"'
program bad <<<'printf "1..2\nok 1 - a\nnot ok 2 - b\n"; exit 1'
program liar <<<'printf "1..2\nok 1 - a\nnot ok 2 - b\n"; exit 0'
program crash <<<'printf "1..2\nok 1 - a\n"; kill -SEGV $$'
program leak <<<'printf "1..1\nok 1 - a\n"; exit 23'
program hang <<<'printf "1..1\nok 1 - a\n"; sleep 60'
program silent <<<'exit 0'
program skipping <<<'echo "skipped: no means here"; exit 77'
program partly <<<'printf "1..2\nok 1 - a\nok 2 - b # SKIP no means\n"'

program tap12 <<<'printf "1..2\nok 1 - a\nnot ok 2 # SKIP b\n"'

expect '2 passed, 0 failed, 0 skipped' 0 programs "$work/good"
expect '3 passed, 1 failed, 0 skipped' 1 programs "$work/good" "$work/bad"
expect '1 passed, 1 failed, 0 skipped' 1 programs "$work/liar"
expect '1 passed, 1 failed, 0 skipped' 1 programs "$work/crash"
expect '1 passed, 1 failed, 0 skipped' 1 programs "$work/leak"
expect '1 passed, 1 failed, 0 skipped' 1 programs "$work/hang"
expect '0 passed, 1 failed, 0 skipped' 1 programs "$work/silent"
expect '0 passed, 1 failed, 0 skipped' 1 programs "$work/not-there"
expect '0 passed, 0 failed, 1 skipped' 0 programs "$work/skipping"
expect '1 passed, 0 failed, 1 skipped' 0 programs "$work/partly"
expect '1 passed, 0 failed, 1 skipped' 0 programs "$work/tap12"
expect '0 passed, 4 failed, 0 skipped' 1 sim 5

printf 'exit 0\n' >"$work/a_test.sh"
printf 'echo "skipped: no fuse"; exit 77\n' >"$work/b_test.sh"
printf 'raise SystemExit(3)\n' >"$work/c_test.py"
expect '1 passed, 1 failed, 1 skipped' 1 e2e "$work/a_test.sh" "$work/b_test.sh" "$work/c_test.py"
E2E_LANES=2 expect '1 passed, 1 failed, 1 skipped' 1 e2e "$work/a_test.sh" "$work/b_test.sh" \
    "$work/c_test.py"
# What waits for a script may be killed: the script is a failure, not forgotten.
# shellcheck disable=SC2016 # for the script itself
printf '%s\n' '# runs alone: it kills' 'kill -KILL "$(ps -o ppid= -p "$PPID")"' >"$work/d_test.sh"
expect '1 passed, 1 failed, 0 skipped' 1 e2e "$work/d_test.sh" "$work/a_test.sh"
exit "$failed"
