#!/bin/bash
# lint.sh [CHECK...]: what a machine can say about the text of the code. Without names, all checks:
#
#   includes    who may know whom         purity      what the cores call
#   format      clang-format              static      cppcheck
#   words       banned functions          shell       shellcheck
#   length      functions of 70 lines     places      names at the top, paths of one machine
#
# Generated code (the build folder) and .cu files are exempt. Ends with 1 when a check failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KEEPSTEP_BUILD:-build}
export JOBS=${JOBS:-2}
mkdir -p "$build/lint"

# Everything that would be committed, whether it is yet or not.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t all < <(git ls-files --cached --others --exclude-standard | sort -u |
        while read -r path; do [ -f "$path" ] && printf '%s\n' "$path"; done)
else
    mapfile -t all < <(find . -type f -not -path "./$build/*" -not -path './.git/*' |
        sed 's|^\./||' | sort)
fi

select_files() {
    local path
    for path in "${all[@]}"; do
        [[ $path =~ $1 ]] && printf '%s\n' "$path"
    done
}
mapfile -t c_files < <(select_files '\.c$')
mapfile -t code < <(select_files '\.[ch]$')
mapfile -t shell_files < <(select_files '\.sh$|^\.ci/run$')

check_includes() {
    python3 tests/lint/includes.py "${code[@]}"
}

check_purity() {
    tests/lint/purity.sh "$build/lint"
}

# Releases of clang-format differ in details; Debian 12's (14) is the one that decides, others only
# tell.
check_format() {
    local bad
    # shellcheck disable=SC2016 # the inner shell's arguments
    bad=$(printf '%s\0' "${code[@]}" | xargs -0 -n 12 -P "$JOBS" sh -c \
        'clang-format --dry-run "$@" 2>&1 | sed -n "s/^\([^: ]*\.[ch]\):.*/\1/p" | sort -u' sh |
        sort -u | sed 's/$/: run clang-format -i/')
    [ -n "$bad" ] || return 0
    printf '%s\n' "$bad"
    ! clang-format --version | grep -q 'version 14\.'
}

check_static() {
    mkdir -p "$build/lint/cppcheck"
    local -a product=()
    local path
    for path in "${c_files[@]}"; do
        [[ $path == tests/* ]] || product+=("$path")
    done
    [ ${#product[@]} -gt 0 ] || return 0
    cppcheck --quiet --std=c11 --platform=unix64 --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=tests/lint/cppcheck.txt --error-exitcode=1 \
        --cppcheck-build-dir="$build/lint/cppcheck" -j "$JOBS" -D_GNU_SOURCE -D__linux__ -I. \
        --template='{file}:{line}: {id}: {message}' "${product[@]}"
}

check_words() {
    python3 tests/lint/words.py tests/lint/banned.txt "${code[@]}"
}

check_shell() {
    [ ${#shell_files[@]} -eq 0 ] || shellcheck -x -e SC2317 "${shell_files[@]}"
}

check_length() {
    tests/lint/long_functions.sh "${c_files[@]}"
}

check_places() {
    local status=0 name
    for name in $(printf '%s\n' "${all[@]}" | cut -d/ -f1 | sort -u); do
        case $name in
        Makefile | README.md | LICENSE | controller | agent | proto | db | deploy | tests | .*) ;;
        *)
            printf '%s: not one of the names at the top level\n' "$name"
            status=1
            ;;
        esac
    done
    # A checkout's own place, a home folder, a build folder of one person.
    if printf '%s\0' "${all[@]}" | grep -zv '^tests/lint/' |
        xargs -0 grep -nE -I "$(printf '%s' "$PWD")/|(^|[^[:alnum:]_.-])/root/|/tmp/b-" /dev/null; then
        status=1
    fi
    return "$status"
}

checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=(includes purity format static words shell length places)
failed=0
for check in "${checks[@]}"; do
    start=$SECONDS
    if "check_$check" >"$build/lint/$check.out" 2>&1; then
        printf 'ok      lint %s (%ss)\n' "$check" $((SECONDS - start))
    else
        printf 'FAILED  lint %s (%ss)\n' "$check" $((SECONDS - start))
        sed 's/^/    /' "$build/lint/$check.out" | head -n 100
        failed=1
    fi
done
exit "$failed"
