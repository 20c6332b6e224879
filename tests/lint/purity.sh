#!/bin/bash
# purity.sh FOLDER: the symbols that the cores leave open, against a list.
#
# Both cores and the pure part of base are compiled without sanitizers, _FORTIFY_SOURCE and stack
# protector, linked into one relocatable object, and may then only need what is named here.
set -u
cd "$(dirname "$0")/../.." || exit 2
folder=${1:?usage: purity.sh FOLDER}/purity
generated=$1/../gen # texts that are compiled in; make lint makes them
export generated
mkdir -p "$folder"

allowed='memcpy memmove memset memcmp strlen strnlen strcmp strncmp vsnprintf
mem_alloc mem_free check_failed __udivti3 __umodti3'
pure_base='err prng hash heap sort text hostlist duration message signal'

status=0
check() {
    local name=$1
    shift
    local -a objects=()
    local source object
    for source in "$@"; do
        objects+=("$folder/${source//\//_}.o")
    done
    # shellcheck disable=SC2016 # the inner shell's arguments
    for source in "$@"; do
        object=$folder/${source//\//_}.o
        if [ ! -e "$object" ] || [ -n "$(find "$source" proto controller/core agent/core \
            -name '*.[ch]' -newer "$object" -print -quit)" ]; then
            printf '%s\0%s\0' "$source" "$object"
        fi
    done | xargs -0 -r -n 2 -P "${JOBS:-2}" sh -c 'gcc -std=c17 -D_GNU_SOURCE -O2 \
        -U_FORTIFY_SOURCE -fno-stack-protector -fno-pie -fno-sanitize=all -I. -isystem "$generated" -c "$0" -o "$1"' ||
        status=1
    if ! ld -r -o "$folder/$name.o" "${objects[@]}"; then
        status=1
        return
    fi
    local symbol
    while read -r symbol; do
        case " ${allowed//$'\n'/ } " in
        *" $symbol "*) ;;
        *)
            printf '%s: needs %s, which a pure room must not call:' "$name" "$symbol"
            for object in "${objects[@]}"; do
                nm -u "$object" | grep -qw "$symbol" && printf ' %s' "${object##*/}"
            done
            printf '\n'
            status=1
            ;;
        esac
    done < <(nm -u "$folder/$name.o" | awk '{print $2}')
}

shopt -s nullglob
base=()
for name in $pure_base; do
    base+=("proto/base/$name.c")
done
check controller-core "${base[@]}" controller/core/*.c
check agent-core "${base[@]}" agent/core/*.c
exit "$status"
