/* cuda_error_test: what CUDA and NCCL say, as the codes of the contract; and the sentences for a
 * machine without a GPU. Where the toolkit is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/trainer/backend.h"
#include "tests/lib/test.h"

#if KEEPSTEP_CUDA

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "agent/trainer/comm_nccl.h"
#include "agent/trainer/cuda_error.h"

struct mapping {
    int said;
    int code;
};

static void cuda_codes(void **state)
{
    (void)state;
    static const struct mapping table[] = {
        {cudaSuccess, 0},
        {cudaErrorNotReady, -EAGAIN},
        {35, -ENODEV}, /* no driver, or an old one */
        {cudaErrorNoDevice, -ENODEV},
        {cudaErrorNoKernelImageForDevice, -ENODEV},
        {cudaErrorDevicesUnavailable, -EBUSY},
        {cudaErrorMemoryAllocation, -ENOMEM},
        {cudaErrorIllegalAddress, -EIO},
        {cudaErrorECCUncorrectable, -EIO},
        {cudaErrorNvlinkUncorrectable, -EIO},
        {cudaErrorLaunchFailure, -EIO},
        {cudaErrorUnknown, -EIO},
        {123456, -EIO}, /* of a newer toolkit */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(cuda_error_code(table[i].said), table[i].code);
    }
}

/* Every code but success and "ask again" is an error. */
static void nccl_codes(void **state)
{
    (void)state;
    assert_int_equal(cuda_error_of_nccl(ncclSuccess), 0);
    assert_int_equal(cuda_error_of_nccl(ncclInProgress), -EINPROGRESS);
    assert_int_equal(cuda_error_of_nccl(ncclRemoteError), -ECONNRESET);
    assert_int_equal(cuda_error_of_nccl(ncclSystemError), -ECONNRESET);
    assert_int_equal(cuda_error_of_nccl(ncclInvalidArgument), -EPROTO);
    assert_int_equal(cuda_error_of_nccl(ncclInvalidUsage), -EPROTO);
    assert_int_equal(cuda_error_of_nccl(ncclUnhandledCudaError), -EIO);
    assert_int_equal(cuda_error_of_nccl(ncclInternalError), -EIO);
    for (int said = 1; said < ncclNumResults + 3; said++) {
        assert_true(cuda_error_of_nccl(said) < 0);
    }
}

static void expect_sentence(int cuda, int driver, const char *visible, const char *const *parts)
{
    char text[FAIL_TEXT_SIZE];
    cuda_error_explain_absence(cuda, driver, 13000, visible, text, sizeof(text));
    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL) {
            fail_msg("'%s' does not say '%s'", text, *parts);
        }
    }
}

static void the_sentence_says_what_to_do(void **state)
{
    (void)state;
    expect_sentence(
        35, 0, NULL,
        (const char *[]){"no NVIDIA driver", "35", "--backend tcp", "nvidia-smi", NULL});
    expect_sentence(35, 12040, NULL,
                    (const char *[]){"too old", "35", "12.4", "13.0", "newer driver", NULL});
    expect_sentence(100, 13000, "",
                    (const char *[]){"no NVIDIA GPU", "100", "CUDA_VISIBLE_DEVICES is ''", NULL});
    expect_sentence(100, 13000, NULL, (const char *[]){"CUDA_VISIBLE_DEVICES is not set", NULL});
    expect_sentence(46, 13000, NULL, (const char *[]){"no GPU to use", "46", NULL});
}

/* The library that is loaded is one that the headers fit. */
static void the_library_answers(void **state)
{
    (void)state;
    char text[32];
    int version = 0;
    comm_nccl_version(text, sizeof(text));
    print_message("# %s\n", text);
    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_true(version >= NCCL_VERSION(2, 14, 0));
    assert_int_equal(strncmp(text, "NCCL 2.", 7), 0);
}

static void without_a_gpu_it_says_so(void **state)
{
    (void)state;
    struct fail fail = {0};
    struct kernel kernel = {0};
    int count = 0;
    const cudaError_t said = cudaGetDeviceCount(&count);
    const int code = backend_kernel(BACKEND_NCCL, 0, &fail, &kernel);
    if (said == cudaSuccess && count > 0) {
        assert_int_equal(code, 0);
        kernel_done(&kernel);
        return;
    }
    assert_int_equal(code, -ENODEV);
    assert_int_equal(fail.exit_code, EXIT_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuda_codes),
        cmocka_unit_test(nccl_codes),
        cmocka_unit_test(the_sentence_says_what_to_do),
        cmocka_unit_test(the_library_answers),
        cmocka_unit_test(without_a_gpu_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void without_the_toolkit_it_says_so(void **state)
{
    (void)state;
    struct fail fail = {0};
    struct kernel kernel = {0};
    assert_int_equal(backend_kernel(BACKEND_NCCL, 0, &fail, &kernel), -ENOTSUP);
    assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
    assert_non_null(strstr(fail.text, "built without CUDA: "));
}

static void codes_of_cuda_and_nccl(void **state)
{
    (void)state;
    print_message("skipped: no CUDA toolkit in this build\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_toolkit_it_says_so),
        cmocka_unit_test(codes_of_cuda_and_nccl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
