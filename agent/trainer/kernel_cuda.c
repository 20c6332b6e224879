/* kernel_cuda.c: one GPU, its memory, and the way of each call to kernel_device.h.
 *
 * The first error of any call or kernel stays in the queue, and from then on nothing is launched or
 * copied any more; kernel_read, kernel_hash and kernel_finish return it. CUDA's own errors after a
 * kernel that failed are of that kind too: nothing works on the device until the process ends. */
#include "agent/trainer/kernel_cuda.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/trainer/cuda_error.h"
#include "agent/trainer/kernel_device.h"

enum { CAPABILITY_MIN = 8 }; /* the oldest that there is code for: sm_80 */

struct kernel_cuda {
    int device;
    char name[256];
    cudaStream_t stream;
    cudaEvent_t done;
    struct device_queue queue; /* .error: the first one of all */
    double *partials;          /* DEVICE_PARTIALS, on the device */
    float *scores;             /* scratch on the device, grown as needed */
    size_t scores_count;
    void *host; /* scratch for what is hashed */
    size_t host_size;
};

static struct kernel_cuda *state_of(const struct kernel *kernel)
{
    return kernel->state;
}

/* Keeps the first error. True: all is well still. */
static bool note(struct kernel_cuda *cuda, cudaError_t error)
{
    if (cuda->queue.error == 0 && error != cudaSuccess) {
        cuda->queue.error = (int)error;
    }
    return cuda->queue.error == 0;
}

static bool is_well(const struct kernel_cuda *cuda)
{
    return cuda->queue.error == 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void *cuda_allocate(struct kernel *kernel, size_t bytes)
{
    struct kernel_cuda *cuda = state_of(kernel);
    const size_t size = bytes > 0 ? bytes : KERNEL_ALIGNMENT;
    void *buffer = NULL;
    if (!is_well(cuda) || cudaMalloc(&buffer, size) != cudaSuccess) {
        (void)cudaGetLastError(); /* the caller is told by NULL; it is no error of a kernel */
        return NULL;
    }
    (void)note(cuda, cudaMemsetAsync(buffer, 0, size, cuda->stream));
    return buffer;
}

static void cuda_release(struct kernel *kernel, void *buffer)
{
    (void)kernel;
    (void)cudaFree(buffer); /* takes NULL; on a broken device it says again what is known */
}

/* Pageable host memory is read before the call returns. */
static void cuda_write(struct kernel *kernel, void *buffer, const void *host, size_t bytes)
{
    struct kernel_cuda *cuda = state_of(kernel);
    if (is_well(cuda) && bytes > 0) {
        (void)note(cuda,
                   cudaMemcpyAsync(buffer, host, bytes, cudaMemcpyHostToDevice, cuda->stream));
    }
}

/* Asleep until everything on the stream is done. */
static int cuda_finish(struct kernel *kernel)
{
    struct kernel_cuda *cuda = state_of(kernel);
    if (is_well(cuda) && note(cuda, cudaEventRecord(cuda->done, cuda->stream))) {
        (void)note(cuda, cudaEventSynchronize(cuda->done));
    }
    return cuda_error_code(cuda->queue.error);
}

static int cuda_read(struct kernel *kernel, void *host, const void *buffer, size_t bytes)
{
    struct kernel_cuda *cuda = state_of(kernel);
    const int code = cuda_finish(kernel); /* asleep; the copy itself does not take long */
    if (code == 0 && bytes > 0 &&
        note(cuda, cudaMemcpyAsync(host, buffer, bytes, cudaMemcpyDeviceToHost, cuda->stream))) {
        (void)note(cuda, cudaStreamSynchronize(cuda->stream));
    }
    if (!is_well(cuda)) {
        memset(host, 0, bytes); /* nobody computes with what happened to be there */
    }
    return cuda_error_code(cuda->queue.error);
}

static void cuda_zero(struct kernel *kernel, void *buffer, size_t bytes)
{
    struct kernel_cuda *cuda = state_of(kernel);
    if (is_well(cuda) && bytes > 0) {
        (void)note(cuda, cudaMemsetAsync(buffer, 0, bytes, cuda->stream));
    }
}

static int cuda_hash(struct kernel *kernel, const void *buffer, size_t bytes, uint64_t *ret_hash)
{
    struct kernel_cuda *cuda = state_of(kernel);
    *ret_hash = 0;
    if (bytes > cuda->host_size) {
        free(cuda->host);
        cuda->host = malloc(bytes);
        cuda->host_size = cuda->host == NULL ? 0 : bytes;
        if (cuda->host == NULL) {
            (void)note(cuda, cudaErrorMemoryAllocation);
        }
    }
    if (!is_well(cuda)) {
        return cuda_error_code(cuda->queue.error);
    }
    const int code = cuda_read(kernel, cuda->host, buffer, bytes);
    *ret_hash = code == 0 ? XXH3_64bits(cuda->host, bytes) : 0;
    return code;
}

static void cuda_explain(struct kernel *kernel, char *ret_text, size_t size)
{
    const struct kernel_cuda *cuda = state_of(kernel);
    if (is_well(cuda)) {
        (void)snprintf(ret_text, size, "no error");
    } else {
        (void)snprintf(ret_text, size, "GPU %d (%s): %s (CUDA error %d)", cuda->device, cuda->name,
                       cudaGetErrorString((cudaError_t)cuda->queue.error), cuda->queue.error);
    }
}

/* NULL, and the error kept, without memory. */
static float *scores(struct kernel_cuda *cuda, size_t count)
{
    if (count > cuda->scores_count && is_well(cuda)) {
        void *memory = NULL;
        (void)cudaFree(cuda->scores); /* waits for the kernels that use it */
        cuda->scores = NULL;
        if (note(cuda, cudaMalloc(&memory, count * sizeof(float)))) {
            cuda->scores = memory;
        }
        cuda->scores_count = cuda->scores == NULL ? 0 : count;
    }
    return cuda->scores;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void cuda_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                        size_t rows, size_t inner, size_t columns, bool accumulate)
{
    device_matmul(&state_of(kernel)->queue, c, a, b, rows, inner, columns, accumulate);
}

static void cuda_add_bias(struct kernel *kernel, float *data, const float *bias, size_t rows,
                          size_t columns)
{
    device_add_bias(&state_of(kernel)->queue, data, bias, rows, columns);
}

static void cuda_sum_rows(struct kernel *kernel, float *sums, const float *data, size_t rows,
                          size_t columns)
{
    device_sum_rows(&state_of(kernel)->queue, sums, data, rows, columns);
}

static void cuda_add(struct kernel *kernel, float *to, const float *from, size_t count)
{
    device_add(&state_of(kernel)->queue, to, from, count);
}

static void cuda_multiply(struct kernel *kernel, float *to, const float *factor, size_t count)
{
    device_multiply(&state_of(kernel)->queue, to, factor, count);
}

static void cuda_sum_squares(struct kernel *kernel, double *ret_sum, const float *data,
                             size_t count)
{
    struct kernel_cuda *cuda = state_of(kernel);
    device_sum_squares(&cuda->queue, ret_sum, cuda->partials, data, count);
}

static void cuda_norm_forward(struct kernel *kernel, float *output, float *mean, float *scale,
                              const float *input, const float *gain, const float *bias, size_t rows,
                              size_t columns)
{
    device_norm_forward(&state_of(kernel)->queue, output, mean, scale, input, gain, bias, rows,
                        columns);
}

static void cuda_norm_backward(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                               float *bias_gradient, const float *output_gradient,
                               const float *input, const float *gain, const float *mean,
                               const float *scale, size_t rows, size_t columns)
{
    device_norm_backward(&state_of(kernel)->queue, input_gradient, gain_gradient, bias_gradient,
                         output_gradient, input, gain, mean, scale, rows, columns);
}

static void cuda_gelu_forward(struct kernel *kernel, float *output, float *slope,
                              const float *input, size_t count)
{
    device_gelu_forward(&state_of(kernel)->queue, output, slope, input, count);
}

static void cuda_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                                   const struct kernel_attention *sizes)
{
    device_attention_forward(&state_of(kernel)->queue, mixed, chances, qkv, sizes);
}

static void cuda_attention_backward(struct kernel *kernel, float *qkv_gradient,
                                    float *mixed_gradient, float *chances, float *qkv,
                                    const struct kernel_attention *sizes)
{
    struct kernel_cuda *cuda = state_of(kernel);
    float *scratch = scores(cuda, sizes->samples * sizes->heads * sizes->context * sizes->context);
    device_attention_backward(&cuda->queue, qkv_gradient, scratch, mixed_gradient, chances, qkv,
                              sizes);
}

static void cuda_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                               const float *positions, const struct kernel_text *text, size_t width)
{
    device_embed_forward(&state_of(kernel)->queue, output, tokens, positions, text, width);
}

static void cuda_embed_backward(struct kernel *kernel, float *token_gradient,
                                float *position_gradient, const float *output_gradient,
                                const struct kernel_text *text, size_t width)
{
    device_embed_backward(&state_of(kernel)->queue, token_gradient, position_gradient,
                          output_gradient, text, width);
}

static void cuda_loss_largest(struct kernel *kernel, float *largest, const float *logits,
                              size_t rows, size_t columns)
{
    device_loss_largest(&state_of(kernel)->queue, largest, logits, rows, columns);
}

static void cuda_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                           const struct kernel_text *text, size_t first, size_t columns)
{
    device_loss_sums(&state_of(kernel)->queue, logits, sums, largest, text, first, columns);
}

static void cuda_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                            size_t rows, size_t columns)
{
    struct kernel_cuda *cuda = state_of(kernel);
    device_loss_total(&cuda->queue, logits, total, cuda->partials, sums, rows, columns);
}

static void cuda_loss_backward(struct kernel *kernel, float *logits, const struct kernel_text *text,
                               size_t first, size_t columns, float scale)
{
    device_loss_backward(&state_of(kernel)->queue, logits, text, first, columns, scale);
}

static void cuda_adam_update(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                             const float *gradients, float *first, float *second, size_t count)
{
    device_adam_update(&state_of(kernel)->queue, adam, weights, gradients, first, second, count);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* What is not there is zeros, and CUDA takes those, but for events and streams. */
static void cuda_destroy(struct kernel *kernel)
{
    struct kernel_cuda *cuda = state_of(kernel);
    (void)cudaFree(cuda->scores);
    (void)cudaFree(cuda->partials);
    if (cuda->done != NULL) {
        (void)cudaEventDestroy(cuda->done);
    }
    if (cuda->stream != NULL) {
        (void)cudaStreamDestroy(cuda->stream);
    }
    free(cuda->host);
    free(cuda);
}

static const struct kernel_backend cuda_backend = {
    .name = "cuda",
    .exit_code = EXIT_DEVICE,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .write = cuda_write,
    .read = cuda_read,
    .zero = cuda_zero,
    .finish = cuda_finish,
    .hash = cuda_hash,
    .explain = cuda_explain,
    .matmul = cuda_matmul,
    .add_bias = cuda_add_bias,
    .sum_rows = cuda_sum_rows,
    .add = cuda_add,
    .multiply = cuda_multiply,
    .sum_squares = cuda_sum_squares,
    .norm_forward = cuda_norm_forward,
    .norm_backward = cuda_norm_backward,
    .gelu_forward = cuda_gelu_forward,
    .attention_forward = cuda_attention_forward,
    .attention_backward = cuda_attention_backward,
    .embed_forward = cuda_embed_forward,
    .embed_backward = cuda_embed_backward,
    .loss_largest = cuda_loss_largest,
    .loss_sums = cuda_loss_sums,
    .loss_total = cuda_loss_total,
    .loss_backward = cuda_loss_backward,
    .adam_update = cuda_adam_update,
    .destroy = cuda_destroy,
};

/* ---- finding the GPU ------------------------------------------------------------------------ */

static int fail_absence(cudaError_t error, struct fail *fail)
{
    char text[FAIL_TEXT_SIZE];
    int driver = 0;
    int runtime = 0;
    (void)cudaDriverGetVersion(&driver); /* stays 0 when there is none */
    (void)cudaRuntimeGetVersion(&runtime);
    cuda_error_explain_absence((int)error, driver, runtime, getenv("CUDA_VISIBLE_DEVICES"), text,
                               sizeof(text));
    return fail_set(fail, EXIT_DEVICE, cuda_error_code((int)error), "%s", text);
}

static int fail_cuda(const struct kernel_cuda *cuda, cudaError_t error, const char *what,
                     struct fail *fail)
{
    return fail_set(fail, EXIT_DEVICE, cuda_error_code((int)error),
                    "GPU %d: %s: %s (CUDA error %d)", cuda->device, what, cudaGetErrorString(error),
                    (int)error);
}

static int choose_device(struct kernel_cuda *cuda, uint32_t local_rank, struct fail *fail)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        return fail_absence(error == cudaSuccess ? cudaErrorNoDevice : error, fail);
    }
    cuda->device = (int)(local_rank % (uint32_t)count);
    /* Before anything else touches the device: whoever waits for it sleeps. */
    error = cudaSetDevice(cuda->device);
    if (error == cudaSuccess) {
        error = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    }
    struct cudaDeviceProp properties;
    if (error == cudaSuccess) {
        error = cudaGetDeviceProperties(&properties, cuda->device);
    }
    if (error != cudaSuccess) {
        return fail_cuda(cuda, error, "cannot use it", fail);
    }
    (void)snprintf(cuda->name, sizeof(cuda->name), "%s", properties.name);
    if (properties.major < CAPABILITY_MIN) {
        return fail_set(fail, EXIT_DEVICE, -ENODEV,
                        "GPU %d (%s) has compute capability %d.%d; this program has code for %d.0 "
                        "and newer",
                        cuda->device, cuda->name, properties.major, properties.minor,
                        CAPABILITY_MIN);
    }
    return 0;
}

static int create(struct kernel_cuda *cuda, uint32_t local_rank, struct fail *fail)
{
    const int code = choose_device(cuda, local_rank, fail);
    if (code < 0) {
        return code;
    }
    void *partials = NULL;
    cudaError_t error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) {
        error =
            cudaEventCreateWithFlags(&cuda->done, cudaEventBlockingSync | cudaEventDisableTiming);
    }
    if (error == cudaSuccess) {
        error = cudaMalloc(&partials, DEVICE_PARTIALS * sizeof(double));
    }
    cuda->partials = partials;
    cuda->queue.stream = cuda->stream;
    return error == cudaSuccess ? 0 : fail_cuda(cuda, error, "cannot begin to work on it", fail);
}

int kernel_cuda_create(uint32_t local_rank, struct fail *fail, struct kernel *ret_kernel)
{
    struct kernel_cuda *cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory");
    }
    struct kernel kernel = {.backend = &cuda_backend, .state = cuda};
    const int code = create(cuda, local_rank, fail);
    if (code < 0) {
        kernel_done(&kernel);
        return code;
    }
    *ret_kernel = kernel;
    return 0;
}

void *kernel_cuda_stream(const struct kernel *kernel)
{
    return state_of(kernel)->stream;
}

int kernel_cuda_device(const struct kernel *kernel)
{
    return state_of(kernel)->device;
}

const char *kernel_cuda_name(const struct kernel *kernel)
{
    return state_of(kernel)->name;
}
