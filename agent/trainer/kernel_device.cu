/* kernel_device.cu: the operations of kernel_device.h as CUDA kernels: one template that calls a
 * function for each index, and the tiled product, whose blocks meet between their parts. */
#include <cuda_runtime.h>

#include "agent/trainer/kernel_device_math.h"

static constexpr unsigned int BLOCK = 128;
static constexpr unsigned int TILE_THREADS = DEVICE_TILE * DEVICE_TILE;
static constexpr unsigned int GRID_MAX_Y = 65535; /* the device's limit */

template <auto function, typename... Arguments>
static __global__ void __launch_bounds__(BLOCK) for_each(size_t count, Arguments... arguments)
{
    const size_t index = static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (index < count) {
        function(index, arguments...);
    }
}

static __global__ void __launch_bounds__(TILE_THREADS) for_tile(struct device_product product)
{
    __shared__ struct device_tile tile;
    const size_t steps = device_tiles(product.inner);
    const size_t rows = device_tiles(product.rows);
    for (size_t tile_row = blockIdx.y; tile_row < rows; tile_row += gridDim.y) {
        float sum = 0.0f;
        for (size_t step = 0; step < steps; step++) {
            device_product_load(&product, &tile, threadIdx.x, tile_row, blockIdx.x, step);
            __syncthreads();
            sum = device_product_add(&tile, threadIdx.x, sum);
            __syncthreads();
        }
        device_product_store(&product, threadIdx.x, tile_row, blockIdx.x, sum);
    }
}

/* cudaGetLastError also tells of an earlier kernel that failed while it ran. */
static void keep_error(struct device_queue *queue)
{
    queue->error = static_cast<int>(cudaGetLastError());
}

template <auto function, typename... Arguments>
static void run_each(struct device_queue *queue, size_t count, Arguments... arguments)
{
    if (count > 0 && queue->error == 0) {
        const unsigned int blocks = static_cast<unsigned int>((count + BLOCK - 1) / BLOCK);
        for_each<function><<<blocks, BLOCK, 0, static_cast<cudaStream_t>(queue->stream)>>>(
            count, arguments...);
        keep_error(queue);
    }
}

static void run_product(struct device_queue *queue, const struct device_product &product)
{
    const size_t rows = device_tiles(product.rows);
    const size_t columns = device_tiles(product.columns);
    if (rows > 0 && columns > 0 && queue->error == 0) {
        const dim3 grid(static_cast<unsigned int>(columns),
                        rows < GRID_MAX_Y ? static_cast<unsigned int>(rows) : GRID_MAX_Y);
        for_tile<<<grid, TILE_THREADS, 0, static_cast<cudaStream_t>(queue->stream)>>>(product);
        keep_error(queue);
    }
}

#define DEVICE_RUN(queue, function, count, ...) run_each<function>(queue, count, __VA_ARGS__)
#define DEVICE_RUN_PRODUCT(queue, product)      run_product(queue, product)
#include "agent/trainer/kernel_device_operations.h"
