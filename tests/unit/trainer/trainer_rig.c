/* trainer_rig.c: worlds of forked ranks, and models without a world. */
#include "tests/unit/trainer/trainer_rig.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/trainer/comm_tcp.h"
#include "agent/trainer/kernel_cpu.h"
#include "agent/trainer/random.h"
#include "agent/trainer/socket.h"
#include "tests/lib/test.h"

/* ---- worlds --------------------------------------------------------------------------------- */

uint16_t rig_free_port(void)
{
    struct socket_address address;
    int fd = -1;
    assert_int_equal(socket_resolve("127.0.0.1", 0, &address), 0);
    assert_int_equal(socket_listen(&address, 1, &fd), 0);
    address.size = sizeof(address.storage);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address.storage, &address.size), 0);
    socket_close(&fd);
    return socket_port(&address);
}

struct rendezvous rig_visitor(uint32_t rank, uint32_t world, uint16_t port)
{
    struct rendezvous who = {
        .rank = rank,
        .world = world,
        .attempt = 3,
        .job = "test",
        .master_address = "127.0.0.1",
        .master_port = port,
        .program = 11,
        .text = 12,
        .timeout_ms = 20000,
    };
    return who;
}

pid_t rig_start_rank(const struct rendezvous *who, const struct comm_layout *layout, rank_body body)
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        return child;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(99);
    }
    struct fail fail;
    struct comm comm;
    if (comm_tcp_create(who, layout, NULL, &fail, &comm) < 0) {
        _exit(fail.exit_code == 0 ? 98 : fail.exit_code);
    }
    const int result = body(&comm);
    comm_done(&comm);
    _exit(result);
}

int rig_wait(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void rig_run_world(const struct comm_layout *layout, rank_body body, const int *expected)
{
    const uint32_t world = comm_layout_world(layout);
    const uint16_t port = rig_free_port();
    pid_t children[16];
    assert_true(world <= 16);
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct rendezvous who = rig_visitor(rank, world, port);
        children[rank] = rig_start_rank(&who, layout, body);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        assert_int_equal(rig_wait(children[rank]), expected == NULL ? 0 : expected[rank]);
    }
}

/* ---- models --------------------------------------------------------------------------------- */

const struct model_shape rig_shape = {.context = 16, .layers = 2, .width = 32};

int rig_solo(struct comm *comm)
{
    const struct comm_layout alone = {1, 1, 1, 1};
    return comm_init(comm, &alone, 0);
}

int rig_model_create(struct rig_model *rig, struct comm *comm, uint32_t samples, uint32_t micros)
{
    struct fail fail;
    *rig = (struct rig_model){.comm = comm, .samples = samples, .micros = micros};
    if (kernel_cpu_create(&rig->kernel) < 0) {
        return -1;
    }
    if (model_create(&rig->kernel, comm, &rig_shape, samples, pipeline_traces(comm, micros), &fail,
                     &rig->model) < 0) {
        return -1;
    }
    return model_draw(rig->model, 3);
}

void rig_model_done(struct rig_model *rig)
{
    (void)model_free(rig->model);
    kernel_done(&rig->kernel);
}

static uint64_t name_number(const char *name)
{
    uint64_t number = 5381;
    for (; *name != '\0'; name++) {
        number = number * 33 + (uint8_t)*name;
    }
    return number;
}

float rig_noise(const struct parameter *parameter, size_t i)
{
    const size_t whole =
        parameter_whole_index(parameter, i / parameter->columns, i % parameter->columns);
    return random_signed_unit(random_at(11, RANDOM_WEIGHTS, name_number(parameter->name), whole));
}

void rig_enlarge(const struct rig_model *rig)
{
    const struct parameters *parameters = model_parameters(rig->model);
    for (size_t index = 0; index < parameters->count; index++) {
        const struct parameter *one = &parameters->list[index];
        float *weights = model_weights(rig->model) + one->offset;
        for (size_t i = 0; one->present && i < one->rows * one->columns; i++) {
            weights[i] += 0.25f * rig_noise(one, i);
        }
    }
}

void rig_text(uint8_t *text, size_t samples)
{
    for (size_t i = 0; i < samples * (rig_shape.context + 1); i++) {
        text[i] = (uint8_t)random_below(random_at(7, RANDOM_DATA, 0, i), 256);
    }
}

int rig_learn(const struct rig_model *rig, const uint8_t *text, double *ret_loss)
{
    model_zero_gradients(rig->model);
    return pipeline_learn(rig->model, text, rig->micros, rig->samples, 1.0f, ret_loss);
}

int rig_loss(const struct rig_model *rig, const uint8_t *text, double *ret_loss)
{
    int code = pipeline_evaluate(rig->model, text, rig->micros, rig->samples, ret_loss);
    if (code == 0 && rig->comm->world > 1) {
        *ret_loss = rig->comm->place.tensor == 0 ? *ret_loss : 0.0;
        code = comm_all_reduce(comm_group(rig->comm, COMM_WORLD), ret_loss, 1, COMM_F64, COMM_SUM);
    }
    return code;
}

bool rig_counts(const struct rig_model *rig, const struct parameter *parameter)
{
    return parameter->present && rig->comm->place.data == 0 &&
           (parameter->split != SPLIT_WHOLE || rig->comm->place.tensor == 0);
}

int rig_dot(const struct rig_model *rig, const struct parameter *parameter, const float *a,
            const float *b, double *ret_sum)
{
    double sum = 0.0;
    for (size_t i = 0; rig_counts(rig, parameter) && i < parameter->rows * parameter->columns;
         i++) {
        sum += (double)a[i] * (double)b[i];
    }
    *ret_sum = sum;
    return comm_all_reduce(comm_group(rig->comm, COMM_WORLD), ret_sum, 1, COMM_F64, COMM_SUM);
}
