#!/bin/bash
# lint_test.sh: every check of the lint fires when its rule is broken, and is silent before that.
# A small copy of the project is broken in one way at a time.
set -u
cd "$(dirname "$0")/../.." || exit 2
source=$PWD
copy=$(mktemp -d "${TMPDIR:-/tmp}/keepstep-lint.XXXXXX")
trap 'rm -rf "$copy" "$copy.out"' EXIT
failed=0

for tool in clang-format cppcheck shellcheck ctags gcc python3; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "skipped: no $tool here"
        exit 77
    fi
done

mkdir -p "$copy"/{controller/core,controller/io,agent/core,agent/shim,tests,deploy}
cp -r "$source/proto" "$copy/"
cp -r "$source/tests/lint" "$copy/tests/"
cp "$source/.clang-format" "$source/Makefile" "$source/LICENSE" "$copy/"
printf '#include <stdint.h>\n\nuint32_t twice(uint32_t value);\n' >"$copy/controller/core/twice.h"
printf '#include "controller/core/twice.h"\n\nuint32_t twice(uint32_t value)\n{\n    return value * 2;\n}\n' \
    >"$copy/controller/core/twice.c"

lint() {
    (cd "$copy" && KEEPSTEP_BUILD=build tests/lint/lint.sh "$@") >"$copy.out" 2>&1
}

# expect_silence CHECK
expect_silence() {
    if lint "$1"; then
        echo "ok: $1 has nothing to say"
    else
        echo "FAILED: $1 complains of a clean tree:"
        cat "$copy.out"
        failed=1
    fi
}

# expect_complaint CHECK TEXT FILE <content: the file breaks the rule and is removed again
expect_complaint() {
    cat >"$copy/$3"
    if lint "$1"; then
        echo "FAILED: $1 does not see $3"
        failed=1
    elif ! grep -qF -- "$2" "$copy.out"; then
        echo "FAILED: $1 says something else of $3:"
        cat "$copy.out"
        failed=1
    else
        echo "ok: $1: $2"
    fi
    rm -f "${copy:?}/$3" "$copy.out"
}

for check in includes purity format static words shell length places; do
    expect_silence "$check"
done

expect_complaint includes 'controller/core must not use uv' controller/core/bad.c <<<'#include <uv.h>'
expect_complaint includes 'controller/core must not know agent/core' controller/core/bad.c \
    <<<'#include "agent/core/agent_core.h"'
expect_complaint includes 'must not include <time.h>' agent/core/bad.h <<<'#include <time.h>'
expect_complaint includes 'must not know proto/base' controller/core/bad.c \
    <<<'#include "proto/base/log.h"'
expect_complaint includes 'agent/shim must not know proto/base' agent/shim/bad.c \
    <<<'#include "proto/base/err.h"'
expect_complaint includes 'controller/io must not use cuda' controller/io/bad.c \
    <<<'#include <cuda_runtime.h>'
expect_complaint includes 'write the path from the project root' controller/io/bad.c \
    <<<'#include "loop.h"'
expect_complaint includes 'the pure part of base must not include proto/base/mem.h' \
    proto/base/hash.h <<<'#include "proto/base/mem.h"'
cp "$source/proto/base/hash.h" "$copy/proto/base/hash.h"

expect_complaint purity 'needs getpid' controller/core/bad.c <<'END'
#include <unistd.h>
int bad(void);
int bad(void)
{
    return getpid();
}
END
expect_complaint purity 'needs fopen' agent/core/bad.c <<'END'
#include <stdio.h>
void *bad(void);
void *bad(void)
{
    return fopen("x", "r");
}
END
expect_complaint format 'run clang-format' controller/io/bad.c <<<'int  bad( void );'
expect_complaint static 'nullPointer' controller/io/bad.c <<'END'
int bad(void)
{
    int *pointer = 0;
    return *pointer;
}
END
expect_complaint words 'strcpy() is banned' controller/io/bad.c <<<'void f(char *a) { strcpy(a, "b"); }'
expect_complaint words 'malloc() is banned' controller/io/bad.c <<<'void *f(void) { return malloc(1); }'
expect_complaint words "'double' is banned" controller/core/bad.c <<<'double f(void);'
expect_complaint words 'a floating point format' agent/core/bad.c <<<'const char *f = "%5.1f";'
expect_complaint shell 'SC2086' tests/bad.sh <<<$'#!/bin/sh\nrm $1'
expect_complaint places 'not one of the names' notes.txt <<<'hello'
expect_complaint places '/root/' deploy/bad.txt <<<'see /root/x'
long_function() {
    printf 'int bad(int value)\n{\n'
    for _ in $(seq 68); do printf '    value++;\n'; done
    printf '    return value;\n}\n'
}
expect_complaint length 'bad has 72 lines' controller/io/bad.c < <(long_function)

# What only looks like a fault is none.
cat >"$copy/controller/io/good.c" <<'END'
/* strcpy(a, b) in a sentence, and "exit(1)" in a text. */
struct thing {
    int (*free)(int value);
};

int good(const struct thing *thing)
{
    const char *text = "malloc(1)";
    return thing->free(text[0]);
}
END
expect_silence words
exit "$failed"
