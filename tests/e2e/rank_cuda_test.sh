#!/bin/bash
# keepstep.h in a CUDA source: compiled by nvcc for every kind of GPU that the trainer knows.
set -eu
nvcc=$(command -v nvcc || true)
for one in /usr/local/cuda*/bin/nvcc; do
    nvcc=${nvcc:-$one}
done
if ! [ -x "$nvcc" ]; then
    echo "skipped: no nvcc here"
    exit 77
fi
build=${KEEPSTEP_BUILD:-build}
build=$(cd "$build" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/rank-cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT

${MAKE:-make} --no-print-directory -s BUILD="$build" DESTDIR="$work/stage" prefix=/usr \
    install-files >/dev/null
cat >"$work/program.cu" <<'CUDA'
#include <keepstep.h>

__global__ void twice(float *values)
{
    values[threadIdx.x] *= 2;
}

static void aborted(void *argument)
{
    *static_cast<int *>(argument) = 1; /* ncclCommAbort(communicator) in a program with one */
}

int main()
{
    int over = 0;
    float *values = nullptr;
    if (keepstep_init() != 0 || keepstep_on_abort(aborted, &over) != 0) {
        return 1;
    }
    const int world = keepstep_communicator("world", KEEPSTEP_AXIS_WORLD);
    if (cudaMalloc(&values, 32 * sizeof(float)) == cudaSuccess) {
        twice<<<1, 32>>>(values);
        keepstep_collective(world, 1, 0, KEEPSTEP_ALL_REDUCE, -1);
    }
    const int result = keepstep_step(1);
    keepstep_finish();
    return result;
}
CUDA
export PKG_CONFIG_PATH=$work/stage/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/stage
read -r -a flags < <(pkg-config --cflags keepstep)
(cd "$work" && "$nvcc" -c -Werror all-warnings -gencode arch=compute_80,code=sm_80 \
    -gencode arch=compute_90,code=sm_90 "${flags[@]}" program.cu -o program.o)
nm "$work/program.o" | grep -q ' U keepstep_step$' || {
    echo "rank cuda: the library's names are not C names" >&2
    exit 1
}
echo ok
