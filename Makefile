# Keepstep: one non-recursive makefile. `make help` lists what it can do.
#
# Every room is a folder of C files and becomes one archive; every program is a main file linked
# with the archives that its room may use. A new .c file in a room is found by itself.
#
#   CC=gcc|clang    SAN=address,undefined | SAN=thread    WERROR=1    V=1    BUILD=folder
#   CUDA=auto|no    CUDA_HOME=folder    NCCL_HOME=folder

MAKEFLAGS += --no-builtin-rules
COMMA := ,
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

BUILD ?= build
# One spelling, since it is part of the names of all targets: relative inside the project.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
ifeq ($(origin CC),default)
CC := gcc
endif
AR := ar
PROTOC_C ?= protoc-c
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
ifdef V
Q :=
else
Q := @
endif

# ---- flags ---------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wvla -Wformat=2 \
    -Wstrict-prototypes -Wmissing-prototypes
# clang has the flag without a level.
ifneq ($(findstring clang,$(CC)),)
WARNINGS += -Wimplicit-fallthrough
else
# gcc warns of a result that is ignored with (void) too; clang sees the ones ignored without it.
WARNINGS += -Wimplicit-fallthrough=5 -Wno-unused-result
endif
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif

CFLAGS ?= -O2 -g
CPPFLAGS ?=
LDFLAGS ?=
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -pthread -fno-common -I. $(WARNINGS)
LINK_FLAGS := -pthread -Wl,--as-needed
ifneq ($(SAN),)
BASE_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
LINK_FLAGS += -fsanitize=$(SAN)
endif
# The reference trainer promises the same bits from the same inputs.
FLAGS_agent/trainer := -ffp-contract=off
FLAGS_agent/rank := -fPIC
FLAGS_proto/wire := -isystem $(BUILD)/gen
FLAGS_db := -isystem $(BUILD)/gen
FLAGS_agent/core := -isystem $(BUILD)/gen
FLAGS_tests/unit/wire := -isystem $(BUILD)/gen

# ---- CUDA and NCCL, where they are ---------------------------------------------------------
#
# The toolkit is looked for in CUDA_HOME, /usr/local/cuda and the PATH, NCCL in NCCL_HOME, with the
# toolkit, and in /usr; a folder that a Python package brought will do. What is found is compiled
# into keepstep-trainer; without it, and in the builds of clang and the sanitizers, it is left out.

CUDA ?= auto
first = $(firstword $(wildcard $1))
NVCC := $(or $(call first,$(CUDA_HOME:%=%/bin/nvcc) /usr/local/cuda/bin/nvcc),$(shell command -v nvcc))
CUDA_ROOT := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
NCCL_HEADER := $(call first,$(NCCL_HOME:%=%/include/nccl.h) $(CUDA_ROOT)/include/nccl.h \
    /usr/include/nccl.h /usr/local/include/nccl.h)
NCCL_ROOT := $(NCCL_HEADER:%/include/nccl.h=%)
LIBRARY_FOLDERS = $1/lib $1/lib64 $1/lib/x86_64-linux-gnu $1/lib/aarch64-linux-gnu
CUDART := $(call first,$(addsuffix /libcudart.so,$(call LIBRARY_FOLDERS,$(CUDA_ROOT))))
NCCL := $(call first,$(addsuffix /libnccl.so.2,$(call LIBRARY_FOLDERS,$(NCCL_ROOT))))

CUDA_MISSING := $(strip $(if $(filter auto,$(CUDA)),,CUDA=$(CUDA)) \
    $(if $(findstring clang,$(CC)),clang) $(SAN:%=-fsanitize=%) \
    $(if $(and $(NVCC),$(CUDART)),,no toolkit in CUDA_HOME /usr/local/cuda or PATH) \
    $(if $(and $(NCCL_HEADER),$(NCCL)),,no NCCL in NCCL_HOME or with the toolkit) \
    $(if $(shell command -v g++),,no g++))
HAS_CUDA := $(if $(CUDA_MISSING),,1)
CUDA_SAYS := $(if $(HAS_CUDA),with $(CUDA_ROOT) and NCCL of $(NCCL_ROOT),left out: $(CUDA_MISSING))

# One binary for the three generations, and the newest one's intermediate code for later ones.
CUDA_CODE := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_100,code=[sm_100,compute_100]
NVCC_FLAGS := -std=c++17 -O2 -I. $(CUDA_CODE) -Xcompiler \
    -Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics \
    $(if $(filter 1,$(WERROR)),-Werror all-warnings)
CUDA_LIBS := $(if $(HAS_CUDA),$(CUDART) $(NCCL) \
    $(addprefix -Wl$(COMMA)-rpath$(COMMA),$(sort $(dir $(CUDART)) $(dir $(NCCL)))))
FLAGS_agent/trainer += -DKEEPSTEP_CUDA=$(or $(HAS_CUDA),0) \
    $(if $(HAS_CUDA),-isystem $(CUDA_ROOT)/include -isystem $(NCCL_ROOT)/include)
FLAGS_tests/unit/trainer := $(FLAGS_agent/trainer)
FLAGS_tests/gpu := $(FLAGS_agent/trainer)

# ---- rooms ---------------------------------------------------------------------------------

# A program's main file in a room: main.c or something_main.c. It stays out of the archive.
mains = $(wildcard $1/main.c $1/*_main.c)
sources = $(filter-out $(call mains,$1),$(wildcard $1/*.c))
objects = $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(patsubst %.c,$(BUILD)/obj/%.o,$1))

# The part of base that the cores may use: no files, no clocks, no allocation of its own.
PURE_BASE := err check prng hash heap sort text hostlist duration message signal
SRC_pure := $(wildcard $(PURE_BASE:%=proto/base/%.c))
SRC_config := $(wildcard proto/base/config.c proto/base/config_*.c)
SRC_base := $(filter-out $(SRC_config),$(wildcard proto/base/*.c))
PROTOS := $(wildcard proto/*.proto)
GEN_C := $(PROTOS:%.proto=$(BUILD)/gen/%.pb-c.c)
GEN_H := $(GEN_C:.c=.h)
GEN_SQL := $(patsubst %,$(BUILD)/gen/%.inc,$(wildcard db/*.sql))
CATALOG := $(wildcard agent/probe/catalog/*.tsv)
GEN_CATALOG := $(CATALOG:%=$(BUILD)/gen/%.inc)
SRC_wire := $(call sources,proto/wire)
SRC_db := $(call sources,db)
SRC_core := $(call sources,controller/core)
SRC_io := $(call sources,controller/io)
SRC_api := $(call sources,controller/api)
SRC_cli := $(call sources,controller/cli)
SRC_sim := $(call sources,controller/sim)
SRC_tools := $(call sources,controller/tools)
SRC_agent_core := $(call sources,agent/core)
SRC_agent_io := $(call sources,agent/io)
SRC_probe := $(call sources,agent/probe)
SRC_shim := $(call sources,agent/shim)
SRC_rank := $(call sources,agent/rank)
CUDA_SOURCES := $(wildcard agent/trainer/*cuda*.c agent/trainer/*nccl*.c agent/trainer/*.cu)
SRC_trainer := $(filter-out $(CUDA_SOURCES),$(call sources,agent/trainer)) \
    $(if $(HAS_CUDA),$(CUDA_SOURCES))
SRC_testlib := $(call sources,tests/lib)
ROOMS := pure config base wire db core io api cli sim tools agent_core agent_io probe shim rank \
    trainer testlib

# ---- what links with what ------------------------------------------------------------------

# Archives, then libraries, of each program; the sanitizers and -lc come with the compiler.
NEED_controller := io api core db wire config base
NEED_agent := agent_io probe agent_core shim rank wire config base
NEED_ranks := shim
NEED_cli := cli config base
NEED_sim := tools sim core agent_core base
NEED_diagnose := tools core agent_core config base
NEED_swarm := tools agent_core wire base
NEED_trainer := trainer

LIBS_base :=
LIBS_config := -ljansson -lyaml
LIBS_wire := -lprotobuf-c
LIBS_db := -lsqlite3 -ljansson
LIBS_io := -luv -lgnutls -lcurl -ljansson
LIBS_api := -lmicrohttpd -luv -lgnutls -ljansson
LIBS_cli := -lcurl -ljansson
LIBS_agent_io := -luv -lgnutls -lxxhash -ljansson
LIBS_probe := -luv
LIBS_swarm := -luv -lgnutls
LIBS_trainer := -L$(BUILD) -lkeepstep $(CUDA_LIBS) -lxxhash -lm
LIBS_rank := -lxxhash
LIBS_testlib := -lcmocka

libs_of = $(foreach room,$1,$(LIBS_$(room)))
archives_of = $(foreach room,$1,$(BUILD)/lib/$(room).a)
link = $(CC) $(LINK_FLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

MAIN_controller := $(call mains,controller)
MAIN_agent := $(call mains,agent)
MAIN_ranks := $(call mains,agent/shim)
MAIN_cli := $(call mains,controller/cli)
MAIN_sim := $(wildcard controller/tools/sim_main.c)
MAIN_diagnose := $(wildcard controller/tools/diagnose_main.c)
MAIN_trainer := $(call mains,agent/trainer)

NAME_controller := keepstep-controller
NAME_agent := keepstep-agent
NAME_ranks := keepstep-ranks
NAME_cli := keepstep
NAME_sim := keepstep-sim
NAME_diagnose := keepstep-diagnose
NAME_trainer := keepstep-trainer

# A program whose main file is not there is left out.
PROGRAM_KEYS := $(foreach key,controller agent ranks cli sim diagnose trainer,$(if $(MAIN_$(key)),$(key)))
PROGRAMS := $(foreach key,$(PROGRAM_KEYS),$(BUILD)/$(NAME_$(key)))
LIBKEEPSTEP := $(if $(SRC_rank),$(BUILD)/libkeepstep.so)

.PHONY: all cuda
all: $(PROGRAMS) $(LIBKEEPSTEP) cuda
# What was found, and if nothing, why.
cuda:
	@echo '  CUDA  $(CUDA_SAYS)'

define program_rule
$(BUILD)/$(NAME_$1): $(call objects,$(MAIN_$1)) $(call archives_of,$(NEED_$1))
	@echo "  LINK  $$@"
	$(Q)$$(link) $(call libs_of,$(NEED_$1))
endef
$(foreach key,$(filter-out trainer,$(PROGRAM_KEYS)),$(eval $(call program_rule,$(key))))

# The trainer finds libkeepstep beside itself in a build folder and in ../lib when installed.
$(BUILD)/keepstep-trainer: $(call objects,$(MAIN_trainer)) $(BUILD)/lib/trainer.a \
    $(BUILD)/libkeepstep.so
	@echo "  LINK  $@"
	$(Q)$(link) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' $(LIBS_trainer)

RANK_MAP := $(wildcard agent/rank/libkeepstep.map)
$(BUILD)/libkeepstep.so.0: $(call objects,$(SRC_rank)) $(RANK_MAP)
	@echo "  LINK  $@"
	$(Q)$(CC) -shared $(LINK_FLAGS) $(LDFLAGS) -Wl,-soname,libkeepstep.so.0 \
	    $(RANK_MAP:%=-Wl,--version-script=%) -o $@ $(filter %.o,$^) $(LIBS_rank)

$(BUILD)/libkeepstep.so: $(BUILD)/libkeepstep.so.0
	$(Q)ln -sf libkeepstep.so.0 $@

# ---- objects and archives ------------------------------------------------------------------

# Objects of other flags are never mixed in: the stamp changes only when the command changes, but
# for -Werror, which changes no object.
FLAGS_TEXT := $(filter-out -Werror,$(CC) $(BASE_CFLAGS) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)) \
    cuda=$(if $(HAS_CUDA),$(CUDA_ROOT):$(NCCL_ROOT))
STAMP := $(BUILD)/flags
ifeq ($(filter clean cuda help deps lint demo test install-files,$(MAKECMDGOALS)),)
$(shell mkdir -p $(BUILD)/lib; echo '$(FLAGS_TEXT)' | cmp -s - $(STAMP) || \
    echo '$(FLAGS_TEXT)' >$(STAMP))
endif
$(STAMP): ;

room_flags = $(FLAGS_$(patsubst %/,%,$(dir $1)))

$(BUILD)/obj/%.o: %.c $(STAMP)
	@echo "  CC    $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(call room_flags,$<) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.cu.o: %.cu $(STAMP)
	@echo "  NVCC  $<"
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# Generated code is not ours to warn about.
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(STAMP)
	@echo "  CC    $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -w -I$(BUILD)/gen $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: %.proto
	@echo "  PROTO $<"
	@mkdir -p $(BUILD)/gen
	$(Q)$(PROTOC_C) --c_out=$(BUILD)/gen $<

# A text file as the inside of a C array: static const char text[] = {
# #include "db/schema.sql.inc"
# 0};
$(BUILD)/gen/%.inc: %
	@mkdir -p $(@D)
	$(Q)od -An -v -tu1 $< | sed 's/\([0-9][0-9]*\)/\1,/g' >$@

$(call objects,$(SRC_wire) $(wildcard tests/unit/wire/*.c)): | $(GEN_H)
# The compiler does not tell of them: they come from a folder of system headers.
$(call objects,$(SRC_db)): $(GEN_SQL)
$(call objects,agent/core/catalog_shipped.c): $(GEN_CATALOG)

# A file that came or went changes the list, and the list the archive.
note_list = $(if $(wildcard $(BUILD)/lib),$(if $(call differ,$(file <$1),$2),$(file >$1,$2)))
differ = $(subst x$(strip $1),,x$(strip $2))$(subst x$(strip $2),,x$(strip $1))
$(BUILD)/lib/%.list: ;

define archive_rule
$(call note_list,$(BUILD)/lib/$1.list,$(call objects,$(SRC_$1)) $2)
$(BUILD)/lib/$1.a: $(call objects,$(SRC_$1)) $2 $(BUILD)/lib/$1.list $(STAMP)
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)$(AR) rcs $$@ $$(filter %.o,$$^)
endef
GEN_OBJECTS := $(patsubst $(BUILD)/gen/%.c,$(BUILD)/obj/gen/%.o,$(GEN_C))
$(foreach room,$(ROOMS),$(eval $(call archive_rule,$(room),$(if $(filter wire,$(room)),$(GEN_OBJECTS)))))

.PHONY: archives
archives: $(ROOMS:%=$(BUILD)/lib/%.a)

# ---- tests ---------------------------------------------------------------------------------

# What a test of each room links with, besides the helpers that lie beside it and tests/lib.
TEST_NEED_base := config base
TEST_NEED_wire := wire base
TEST_NEED_db := db core wire config base
TEST_NEED_core := core base
TEST_NEED_agent_core := agent_core base
TEST_NEED_sim := sim core agent_core base
TEST_NEED_io := io api core db wire config base
TEST_NEED_api := api io core db wire config base
TEST_NEED_cli := cli config base
TEST_NEED_tools := tools sim core agent_core db wire config base
TEST_NEED_agent_io := agent_io probe agent_core shim rank wire config base
TEST_NEED_probe := probe agent_core base
TEST_NEED_shim := shim base
TEST_NEED_rank := rank base
TEST_NEED_trainer := trainer rank base
TEST_NEED_scenario := sim core agent_core base
TEST_NEED_fault := api io core db wire config base
# What these tests share with those of another room.
TEST_MORE_fault := tests/unit/db/db_help.c tests/unit/db/fault_vfs.c
# Calls of ours, not of the libraries, that tests/fault stands in front of.
TEST_LIBS_fault := $(addprefix -Wl$(COMMA)--wrap=,renameat2 unlink fsync malloc calloc realloc)
TEST_LIBS_sim := -lm
TEST_LIBS_core := -lm
TEST_LIBS_trainer := $(CUDA_LIBS) -lxxhash -lm

TEST_ROOMS := $(patsubst tests/unit/%/,%,$(wildcard tests/unit/*/))
tests_in = $(patsubst %.c,$(BUILD)/%,$(wildcard $1/*_test.c))
UNIT_TESTS := $(foreach room,$(TEST_ROOMS),$(call tests_in,tests/unit/$(room)))
SCENARIO_TESTS := $(call tests_in,tests/scenario)
FAULT_TESTS := $(call tests_in,tests/fault)

# $1: folder, $2: room. Other .c files in the folder are helpers of all its tests.
define test_rule
$(call tests_in,$1): $(BUILD)/%: $(BUILD)/obj/%.o \
    $(call objects,$(filter-out %_test.c,$(wildcard $1/*.c)) $(TEST_MORE_$2)) \
    $(call archives_of,testlib $(TEST_NEED_$2))
	@echo "  LINK  $$@"
	@mkdir -p $$(@D)
	$(Q)$$(link) $(filter-out -L% -lkeepstep,$(call libs_of,$(TEST_NEED_$2))) \
	    $(TEST_LIBS_$2) -lcmocka
endef
$(foreach room,$(TEST_ROOMS),$(if $(call tests_in,tests/unit/$(room)),\
    $(eval $(call test_rule,tests/unit/$(room),$(room)))))
$(if $(SCENARIO_TESTS),$(eval $(call test_rule,tests/scenario,scenario)))
$(if $(FAULT_TESTS),$(eval $(call test_rule,tests/fault,fault)))

# Fuzz targets: libFuzzer's entry point, driven by tests/fuzz/driver.c, so any compiler will do.
FUZZ_NEED := config base
FUZZ_NEED_frame := wire base
FUZZ_NEED_wire := wire base
FUZZ_NEED_message := wire testlib base
FUZZ_NEED_mailbox := rank base
FUZZ_NEED_launch := shim base
FUZZ_NEED_step_reader := agent_io base
FUZZ_NEED_core := core base
FUZZ_NEED_probe_lines := probe agent_core base
FUZZ_NEED_agent_core := agent_core base
FUZZ_NEED_log_line := agent_core base
FUZZ_NEED_catalog := agent_core base
FUZZ_NEED_incident := tools core agent_core base
FUZZ_NEED_job_spec := api io core db wire config base
FUZZ_NEED_rest := api io core db wire config base
FUZZ_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/*_fuzz.c))
fuzz_need = $(or $(FUZZ_NEED_$1),$(FUZZ_NEED))

# $1: name without _fuzz
define fuzz_rule
$(BUILD)/tests/fuzz/$1_fuzz: \
    $(call objects,tests/fuzz/$1_fuzz.c tests/fuzz/driver.c tests/fuzz/defaults.c) \
    $(call archives_of,testlib $(call fuzz_need,$1))
	@echo "  LINK  $$@"
	@mkdir -p $$(@D)
	$(Q)$$(link) $(call libs_of,$(call fuzz_need,$1))
endef
$(foreach file,$(wildcard tests/fuzz/*_fuzz.c),\
    $(eval $(call fuzz_rule,$(patsubst %_fuzz,%,$(basename $(notdir $(file)))))))

# Programs that only tests start: tests/bin/name.c, libc only but for what is said below.
PRELOAD := $(BUILD)/tests/bin/fault_preload.so
TEST_PROGRAMS := $(patsubst %.c,$(BUILD)/%,\
    $(filter-out %_preload.c %_library.c,$(wildcard tests/bin/*.c tests/bench/*.c)))
FAKE_NVML := $(BUILD)/tests/bin/fake_nvml.so
$(TEST_PROGRAMS): $(BUILD)/%: $(BUILD)/obj/%.o
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(LINK_FLAGS) $(LDFLAGS) -o $@ $< $(TEST_PROGRAM_LIBS_$(notdir $@))
TEST_PROGRAM_LIBS_rank_stub := -L$(BUILD) -lkeepstep -Wl,-rpath,'$$ORIGIN/../..'
$(BUILD)/tests/bin/rank_stub: $(BUILD)/libkeepstep.so
TEST_PROGRAM_LIBS_rank_bench := $(BUILD)/lib/rank.a
TEST_PROGRAM_LIBS_mailbox_tool := $(BUILD)/lib/rank.a
TEST_PROGRAM_LIBS_layout_bench := $(BUILD)/lib/core.a $(BUILD)/lib/base.a
$(BUILD)/tests/bench/layout_bench: $(BUILD)/lib/core.a $(BUILD)/lib/base.a
$(BUILD)/tests/bench/rank_bench $(BUILD)/tests/bin/mailbox_tool: $(BUILD)/lib/rank.a

TEST_PROGRAM_LIBS_journal_fold := $(call archives_of,db core base) $(call libs_of,db)
$(BUILD)/tests/bin/journal_fold: $(call archives_of,db core base)

# Goes into any program, so it has no sanitizer of its own; and where it stands in front of malloc,
# nothing of it may be allocated late.
$(PRELOAD): tests/bin/fault_preload.c $(STAMP)
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(BASE_CFLAGS)) $(CPPFLAGS) $(CFLAGS) \
	    $(if $(SAN),-DWITHOUT_MEMORY) -fno-builtin -fPIC -ftls-model=initial-exec -shared \
	    $(LDFLAGS) -o $@ $<

# Loaded by the probe of GPUs; no sanitizer of its own either.
$(FAKE_NVML): tests/bin/fake_nvml_library.c agent/probe/nvml_api.h $(STAMP)
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(BASE_CFLAGS)) $(CPPFLAGS) $(CFLAGS) \
	    -Wno-format-nonliteral -fPIC -fvisibility=hidden -shared $(LDFLAGS) -o $@ $<

# A fleet of agents in one process, and what measures with it: make bench.
SWARM := $(BUILD)/tests/swarm
$(SWARM): $(call objects,controller/tools/swarm_main.c) $(call archives_of,$(NEED_swarm))
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(link) $(LIBS_swarm) $(LIBS_wire)

# What tests/gpu/check.sh runs on a machine with a GPU; no library but CUDA's and xxhash.
GPU_PROGRAMS := $(if $(HAS_CUDA),$(patsubst %.c,$(BUILD)/%,$(wildcard tests/gpu/*.c)))
$(GPU_PROGRAMS): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/unit/trainer/kernel_compare.o \
    $(BUILD)/lib/trainer.a $(BUILD)/lib/rank.a
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(link) $(CUDA_LIBS) -lxxhash -lm
.PHONY: gpu-build
gpu-build: $(BUILD)/keepstep-trainer $(LIBKEEPSTEP) $(GPU_PROGRAMS)

.PHONY: tests unit-build scenario-build fault-build fuzz-build
unit-build: $(UNIT_TESTS) $(TEST_PROGRAMS) $(FAKE_NVML) $(SWARM) $(GPU_PROGRAMS)
scenario-build: $(SCENARIO_TESTS)
fault-build: $(FAULT_TESTS) $(PRELOAD)
fuzz-build: $(FUZZ_TESTS)
tests: unit-build scenario-build fault-build fuzz-build
# For tests/run.sh: what there is to run, one a line.
.PHONY: list-unit list-scenario list-fault list-fuzz
list-unit:
	@printf '%s\n' $(sort $(UNIT_TESTS))
list-scenario:
	@printf '%s\n' $(sort $(SCENARIO_TESTS))
list-fault:
	@printf '%s\n' $(sort $(FAULT_TESTS))
list-fuzz:
	@printf '%s\n' $(sort $(FUZZ_TESTS))

# tests/run.sh runs them, counts, and ends in `N passed, N failed, N skipped`.
RUN := KEEPSTEP_BUILD=$(abspath $(BUILD)) MAKE='$(MAKE)' CC='$(CC)' SAN='$(SAN)' JOBS=$(JOBS) \
    tests/run.sh
FUZZ_SECONDS ?= 10
FUZZ_RUNS ?=
FUZZ_SEED ?= 1
SIM_FLEETS ?= 200

.PHONY: unit scenario sim fault fuzz e2e test test-all $(TEST_ROOMS:%=unit-%)
# Some tests start the programs that they test.
unit: unit-build all
	$(Q)$(RUN) programs $(UNIT_TESTS)
# Those of one room: make unit-core
STARTS_PROGRAMS := shim rank agent_io io api cli tools
unit_rule = unit-$1: $(call tests_in,tests/unit/$1) $(TEST_PROGRAMS) $(FAKE_NVML) \
    $(if $(filter $1,$(STARTS_PROGRAMS)),$(PROGRAMS) $(LIBKEEPSTEP))
$(foreach room,$(TEST_ROOMS),$(eval $(call unit_rule,$(room))))
$(TEST_ROOMS:%=unit-%):
	$(Q)$(RUN) programs $(call tests_in,tests/unit/$(@:unit-%=%))
scenario: scenario-build
	$(Q)$(RUN) programs $(SCENARIO_TESTS)
# Programs, then scripts, which e2e runs too.
fault: fault-build all $(TEST_PROGRAMS)
	$(Q)$(RUN) fault $(FAULT_TESTS)
sim: all
	$(Q)$(RUN) sim $(SIM_FLEETS)
# New seeds until stopped; those that fail are added to tests/sim/seeds.
.PHONY: sim-hunt
sim-hunt: all
	$(Q)KEEPSTEP_BUILD=$(abspath $(BUILD)) tests/sim/hunt.sh $(SIM_HUNT)
fuzz: fuzz-build
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_RUNS=$(FUZZ_RUNS) FUZZ_SEED=$(FUZZ_SEED) \
	    $(RUN) fuzz $(FUZZ_TESTS)
e2e: all unit-build fault-build
	$(Q)$(RUN) e2e
# Part of e2e too, and skipped there without Debian's python3-torch.
.PHONY: test-pytorch
test-pytorch: deps-test all
	$(Q)$(RUN) e2e $(wildcard tests/e2e/pytorch*_test.py tests/e2e/torchrun*_test.py)
test: deps-test
	$(Q)$(RUN) test
test-all: deps-test
	$(Q)$(RUN) test-all

# ---- lint, tools, the rest -----------------------------------------------------------------

.PHONY: lint format deps deps-test demo figures bench mutants clean install help
lint: $(GEN_CATALOG)
	$(Q)KEEPSTEP_BUILD=$(BUILD) MAKE='$(MAKE)' JOBS=$(JOBS) tests/lint/lint.sh

# Every C file of ours as .clang-format says.
format:
	$(Q)find controller agent proto db tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

deps:
	$(Q)deploy/deps.sh build
deps-test:
	$(Q)deploy/deps.sh test

demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD) all
	$(Q)KEEPSTEP_BUILD=$(abspath $(BUILD)) KEEP=$(KEEP) python3 deploy/demo/demo.py

figures: all $(BUILD)/tests/bench/rank_bench
	$(Q)KEEPSTEP_BUILD=$(abspath $(BUILD)) python3 tests/bench/figures.py

BENCH ?=
bench: all $(SWARM) $(BUILD)/tests/bench/layout_bench
	$(Q)KEEPSTEP_BUILD=$(abspath $(BUILD)) python3 tests/bench/bench.py $(BENCH)

# It builds for itself, in $(BUILD)/mutants; what it has found stays there and is not done again.
MUTANTS ?=
MUTANTS_LANES ?= 1
mutants: deps-test
	$(Q)KEEPSTEP_BUILD=$(abspath $(BUILD)) MUTANTS_LANES=$(MUTANTS_LANES) \
	    python3 tests/mutants/mutants.py $(MUTANTS)

clean:
	rm -rf $(BUILD)

prefix ?= /usr/local
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
includedir ?= $(prefix)/include
libexecdir ?= $(prefix)/libexec
pkgconfigdir ?= $(libdir)/pkgconfig
# Put it on PYTHONPATH, or set it to a folder where python3 looks by itself.
pythondir ?= $(prefix)/share/keepstep/python
exampledir ?= $(prefix)/share/keepstep/examples
catalogdir ?= $(prefix)/share/keepstep/catalog
INSTALL ?= install
VERSION = $(shell sed -n 's/^#define KEEPSTEP_VERSION "\(.*\)".*/\1/p' proto/base/version.h)
install: all
	$(Q)$(MAKE) --no-print-directory install-files

# What has been built, as it is.
.PHONY: install-files
install-files:
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir) $(DESTDIR)$(includedir) \
	    $(DESTDIR)$(pkgconfigdir) $(DESTDIR)$(pythondir) $(DESTDIR)$(exampledir)/pytorch \
	    $(DESTDIR)$(catalogdir)
	$(if $(PROGRAMS),$(INSTALL) -m 755 $(PROGRAMS) $(DESTDIR)$(bindir))
	$(INSTALL) -m 644 $(BUILD)/libkeepstep.so.0 $(DESTDIR)$(libdir)
	ln -sf libkeepstep.so.0 $(DESTDIR)$(libdir)/libkeepstep.so
	$(INSTALL) -m 644 agent/rank/keepstep.h $(DESTDIR)$(includedir)
	sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' -e 's|@version@|$(VERSION)|' \
	    -e 's|@includedir@|$(includedir)|' agent/rank/keepstep.pc.in \
	    >$(DESTDIR)$(pkgconfigdir)/keepstep.pc
	sed -e 's|^_LIBDIR = ""|_LIBDIR = "$(libdir)"|' agent/rank/keepstep.py \
	    >$(DESTDIR)$(pythondir)/keepstep.py
	chmod 644 $(DESTDIR)$(pkgconfigdir)/keepstep.pc $(DESTDIR)$(pythondir)/keepstep.py
	$(INSTALL) -m 644 $(wildcard deploy/examples/pytorch/*.py deploy/examples/pytorch/*.yaml) \
	    $(DESTDIR)$(exampledir)/pytorch
	$(INSTALL) -m 644 $(CATALOG) $(DESTDIR)$(catalogdir)

help:
	@echo 'make            build everything into $(BUILD)/'
	@echo 'make demo       the whole story on this machine; KEEP=1 leaves it running'
	@echo 'make test       everything that must pass before a commit (under 20 minutes)'
	@echo 'make test-all   the full matrix: gcc and clang, plain, ASan + UBSan, TSan'
	@echo 'make unit scenario sim fault fuzz e2e      the parts; make unit-core: one room'
	@echo 'make fault      cuts of the power; calls that fail: the first, the second, …'
	@echo 'make sim-hunt   the simulator over new seeds until stopped; SIM_HUNT=100: so many'
	@echo 'make test-pytorch      the PyTorch examples: a node is killed, the weights are the same'
	@echo 'make lint       includes, purity, format, static analysis, banned words, shell'
	@echo 'make format     clang-format over all of it'
	@echo 'make figures    latencies, p50 and p99 of 50 repetitions'
	@echo 'make mutants    are mistakes in the cores noticed? MUTANTS="--planted", "--count 20 --seed 7"'
	@echo '                MUTANTS_LANES=1: so many at a time; an interrupted run goes on'
	@echo 'make bench      a swarm of 2,112 and 12,900 agents; BENCH="--only stop --quick"'
	@echo 'make cuda       says whether CUDA and NCCL were found, and where'
	@echo 'make deps       install what is missing (apt)'
	@echo 'make install DESTDIR= prefix=/usr/local'
	@echo 'make clean'
	@echo 'Variables: CC=gcc|clang SAN=address,undefined|thread WERROR=1 V=1 BUILD=folder'
	@echo '           CUDA=auto|no CUDA_HOME=folder NCCL_HOME=folder'
	@echo '           FUZZ_SECONDS=10 FUZZ_RUNS= FUZZ_SEED=1 SIM_FLEETS=200'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
