#!/bin/bash
# check.sh [pack]: the nccl backend on a machine with an NVIDIA GPU, in under four minutes.
#
#   tests/gpu/check.sh        builds the trainer and its GPU tests (gcc, g++, make, nvcc, NCCL and
#                             xxhash.h are all that it needs; nothing is fetched), runs tests/gpu/check.py,
#                             ends in `N passed, N failed`
#   tests/gpu/check.sh pack   on a machine that has everything: puts what another one may lack (xxhash,
#                             the built programs) into build/gpu-pack; take that folder along
#
# Environment: KEEPSTEP_BUILD (build/gpu), CUDA_HOME, NCCL_HOME, SECONDS_MAX (225, for all of it).
set -u
cd "$(dirname "$0")/../.." || exit 2

build=${KEEPSTEP_BUILD:-build/gpu}
pack=build/gpu-pack
jobs=$(nproc 2>/dev/null || echo 2)
SECONDS_MAX=${SECONDS_MAX:-225}
deadline=$((SECONDS + SECONDS_MAX))

make_pack() {
    make --no-print-directory -j"$jobs" BUILD="$build" gpu-build || exit 1
    rm -rf "$pack"
    mkdir -p "$pack/include" "$pack/lib" "$pack/tests/gpu"
    cp /usr/include/xxhash.h "$pack/include/" || exit 1
    find /usr/lib -name 'libxxhash.a' -exec cp {} "$pack/lib/" \;
    find /usr/lib -name 'libxxhash.so.0*' -exec cp -P {} "$pack/lib/" \;
    cp "$build/keepstep-trainer" "$build/libkeepstep.so.0" "$pack/"
    cp "$build/tests/gpu/kernels" "$build/tests/gpu/reform" "$pack/tests/gpu/"
    du -sh "$pack"
}

# NCCL with the toolkit, of the system, or in a Python package (nvidia-nccl-cu13 and the like).
find_nccl() {
    local python found
    if [ -n "${NCCL_HOME:-}" ] || [ -f "${CUDA_HOME:-/usr/local/cuda}/include/nccl.h" ] ||
        [ -f /usr/include/nccl.h ]; then
        return
    fi
    for python in python3 /usr/bin/python3; do
        found=$("$python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
        if [ -n "$found" ] && [ -f "$found/include/nccl.h" ]; then
            export NCCL_HOME=$found
            return
        fi
    done
}

# What is here, in lines that say what is missing.
survey() {
    local name
    for name in gcc g++ make nvcc python3 nvidia-smi; do
        printf '%-12s %s\n' "$name" "$(command -v "$name" || echo missing)"
    done
    if [ -f /usr/include/xxhash.h ]; then
        printf '%-12s /usr/include/xxhash.h\n' xxhash
    elif [ -f "$pack/include/xxhash.h" ]; then
        printf '%-12s %s\n' xxhash "$pack/include/xxhash.h"
        export CPPFLAGS="-I$PWD/$pack/include" LDFLAGS="-L$PWD/$pack/lib"
    else
        printf '%-12s missing: libxxhash-dev, or check.sh pack elsewhere\n' xxhash
    fi
    timeout 30 make --no-print-directory BUILD="$build" cuda
    timeout 30 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode --format=csv 2>&1
}

# Folders whose libraries programs built elsewhere need.
library_path() {
    local folder
    for folder in "${NCCL_HOME:-/usr/local/cuda}/lib" "${CUDA_HOME:-/usr/local/cuda}/lib64" \
        "${CUDA_HOME:-/usr/local/cuda}/lib" "$PWD/$pack/lib"; do
        [ -d "$folder" ] && printf '%s:' "$folder"
    done
}

build_here() {
    local log=$build.log
    mkdir -p "$(dirname "$log")"
    # shellcheck disable=SC2086 # flags are words
    if timeout 120 make --no-print-directory -j"$jobs" BUILD="$build" WERROR=1 gpu-build \
        ${CPPFLAGS:+CPPFLAGS="$CPPFLAGS"} ${LDFLAGS:+LDFLAGS="$LDFLAGS"} >"$log" 2>&1 &&
        [ -x "$build/tests/gpu/kernels" ]; then
        return 0
    fi
    echo "the build failed, or left CUDA out:"
    tail -n 30 "$log"
    return 1
}

if [ "${1:-}" = pack ]; then
    make_pack
    exit
elif [ $# -gt 0 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi

find_nccl
survey
programs=$build
begin=$SECONDS
if build_here; then
    echo "built in $((SECONDS - begin)) s"
elif [ -x "$pack/keepstep-trainer" ]; then
    echo "using the programs of $pack"
    programs=$pack
    LD_LIBRARY_PATH=$(library_path)${LD_LIBRARY_PATH:-}
    export LD_LIBRARY_PATH
else
    echo "0 passed, 1 failed"
    exit 1
fi
exec python3 tests/gpu/check.py "$programs" $((deadline - SECONDS))
