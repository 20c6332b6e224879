/* nvml_api.c: see nvml_api.h. */
#include "agent/probe/nvml_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* POSIX has it that what dlsym gives is the function's address. */
static void put_symbol(void *library, const char *name, const char *older, void *member)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL && older[0] != '\0') {
        symbol = dlsym(library, older);
    }
    memcpy(member, &symbol, sizeof(symbol));
}

int nvml_api_load(const char *name, struct nvml_api *ret_api, struct err *err)
{
    struct nvml_api api = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (api.library == NULL) {
        return err_set(err, -ENOENT, "nvml: cannot load %s; gpu_count=unknown", name);
    }
    const char *missing = NULL;
    int count = 0;
#define X(symbol, older, member, parameters)                                                       \
    put_symbol(api.library, symbol, older, &api.member);                                           \
    missing = api.member == NULL && count < NVML_REQUIRED && missing == NULL ? symbol : missing;   \
    count++;
    NVML_CALLS(X)
#undef X
    if (missing != NULL) {
        nvml_api_unload(&api);
        return err_set(err, -ENOENT, "nvml: %s has no %s; gpu_count=unknown", name, missing);
    }
    *ret_api = api;
    return 0;
}

void nvml_api_unload(struct nvml_api *api)
{
    if (api->library != NULL) {
        (void)dlclose(api->library); /* its end says nothing */
    }
    *api = (struct nvml_api){0};
}

const char *nvml_code_text(unsigned int code)
{
    switch (code) {
    case NVML_OK:
        return "well";
    case NVML_UNINITIALIZED:
        return "not initialised";
    case NVML_NOT_SUPPORTED:
        return "not supported";
    case NVML_NO_PERMISSION:
        return "no permission";
    case NVML_NOT_FOUND:
        return "not found";
    case NVML_NO_DRIVER:
        return "the driver is not loaded";
    case NVML_TIMEOUT:
        return "timeout";
    case NVML_LOST:
        return "GPU is lost";
    case NVML_RESET_REQUIRED:
        return "GPU requires reset";
    case NVML_MISMATCH:
        return "driver and library are of different versions";
    default:
        return "an error that has no name here";
    }
}
