#!/bin/bash
# The library as a program outside of this tree meets it: installed, found by pkg-config, from C and
# C++; its exported names and the cost of a step. CUDA: rank_cuda_test.sh.
set -eu
build=${KEEPSTEP_BUILD:-build}
build=$(cd "$build" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/rank-library.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'rank library: %s\n' "$1" >&2
    exit 1
}

sanitized() {
    grep -q __sanitizer "$build/libkeepstep.so.0"
}

names=$(nm -D --defined-only "$build/libkeepstep.so.0" | awk '$2 == "T" { print $3 }' |
    sed 's/@.*//' | sort)
declared=$(grep -o 'keepstep_[a-z_]*(' agent/rank/keepstep.h | tr -d '(' | sort -u)
for name in $declared; do
    # Words of the comments that are no functions are declared nowhere.
    if grep -q "KEEPSTEP_EXPORT.* \**$name(" agent/rank/keepstep.h; then
        grep -qx "$name" <<<"$names" || fail "$name is declared and not exported"
    fi
done
if grep -v '^keepstep_' <<<"$names"; then
    fail "these names are nobody's business"
fi

# Installed as a packager does it, into a folder that is not the final one.
${MAKE:-make} --no-print-directory -s BUILD="$build" DESTDIR="$work/stage" prefix=/usr \
    install-files >"$work/install.out" 2>&1 || fail "make install: $(cat "$work/install.out")"
export PKG_CONFIG_PATH=$work/stage/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/stage
grep -qx 'includedir=/usr/include' "$work/stage/usr/lib/pkgconfig/keepstep.pc" || fail "keepstep.pc"
if grep -n '@' "$work/stage/usr/lib/pkgconfig/keepstep.pc"; then
    fail "keepstep.pc has a hole"
fi
version=$(sed -n 's/^#define KEEPSTEP_VERSION "\(.*\)"/\1/p' proto/base/version.h)
[ "$(pkg-config --modversion keepstep)" = "$version" ] || fail "keepstep.pc names another version"
read -r -a words < <(pkg-config --cflags --libs keepstep)

if ! sanitized; then
    printf '%s\n' '#include <keepstep.h>' 'int main(void)' '{' \
        '    struct keepstep_restore restore;' \
        '    int result = keepstep_init() + keepstep_step(1) + keepstep_restore_info(&restore);' \
        '    result += keepstep_communicator("dp", KEEPSTEP_AXIS_DATA) + keepstep_on_abort(0, 0);' \
        '    keepstep_finish();' '    return result;' '}' >"$work/program.c"
    cp "$work/program.c" "$work/program.cc"
    (cd "$work" &&
        gcc -std=c99 -pedantic -Wall -Wextra -Werror program.c -o c "${words[@]}" &&
        g++ -std=c++11 -pedantic -Wall -Wextra -Werror program.cc -o cc "${words[@]}") ||
        fail "a program outside of the tree does not compile"
    for program in c cc; do
        LD_LIBRARY_PATH=$work/stage/usr/lib "$work/$program" || fail "a program without an agent fails"
    done
    # The best of three: a busy machine must not fail it, a slow library always does.
    for try in 1 2 3; do
        if "$build/tests/bench/rank_bench" 200; then
            break
        fi
        [ "$try" -lt 3 ] || fail "a step call costs over 200 ns"
    done
fi

stub=$build/tests/bin/rank_stub
code() {
    local status=0
    RANK=0 WORLD_SIZE=1 KEEPSTEP_ATTEMPT=2 "$stub" "$@" >"$work/out" 2>&1 || status=$?
    printf '%s\n' "$status"
}
[ "$(code --steps=3 --step-ms=1)" = 0 ] || fail "the stub's exit"
[ "$(code --steps=3 --step-ms=1 --inject=exit=93)" = 93 ] || fail "the stub's exit=93"
[ "$(code --steps=9 --step-ms=1 --inject=exit=75@2)" = 75 ] || fail "the stub's exit=75@2"
[ "$(tail -n 1 "$work/out")" = "step 2" ] || fail "the stub went past its step"
[ "$(code --inject=what)" = 2 ] || fail "the stub takes anything"
[ "$(code --steps=4 --step-ms=1 --save-every=2 --folder="$work")" = 0 ] || fail "the stub's saves"
[ -f "$work/step-4.a-2/manifest" ] || fail "the stub saved nothing"
printf 'ok\n'
