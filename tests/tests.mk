# What tests and measures gxc; the Makefile includes it.
#
#   make check          everything that needs no GPU       make check-unit     the unit tests
#   make coverage       what of the code make check reaches (ARGS=--report: the last run; ARGS=--uncalled;
#                       ARGS=--kept: what the kept inputs of fuzzing reach)
#   make mutants        small faults in the code: which of them no test notices
#   make check-random   random modules: evaluator = emulator     make fuzz      libFuzzer
#   make fuzz-damaged   a million damaged inputs a target, without sanitizers: thousands a second
#   make check-python   the package and its wheel against JAX on the CPU
#   make check-linear-algebra   what JAX has of it, lowered for CUDA and for the CPU, against JAX (half an hour)
#   make check-torch    models of PyTorch against PyTorch on the CPU (downloads some gigabytes)
#   make check-xla      the evaluator against XLA:CPU      make bench          speed and memory
#   make check-sass     tensor-core instructions and spills in the SASS of programs: ARGS="FOLDER --targets sm_90a -- -O2"
#   make faults         every call of the system fails once: memory, files, processes, threads
#   make gpu-bundle     a folder that `make check-gpu` and `make bench-gpu` run where a GPU is;
#                       GXC_KERNELS=FOLDER GPU_TESTS="tests/codegen/wide-rows.hlo ...": those programs, too
#   make check-layouts  fragments of tensor_cores.def against CuTe's traits
#   make rows           row of the specification -> its tests; one without a test is an error

UNIT    := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/*.c))
REPLAYS := $(patsubst tests/fuzz/corpus/%.hex,$(B)/replay-%,$(wildcard tests/fuzz/corpus/*.hex))
FUZZ_C  := $(wildcard tests/fuzz/*.c)
FUZZ_RT := execute api store file world
FUZZ_EMU := device emulator
MUTATORS := $(patsubst tests/fuzz/%.c,$(B)/damaged/mutate-%,$(filter-out $(patsubst %,tests/fuzz/%.c,$(FUZZ_RT) $(FUZZ_EMU) kernels),$(FUZZ_C)))
.PHONY: check-sass check-layouts check-torch check-linear-algebra fuzz-damaged check check-built check-unit check-random check-xla check-python fuzz fuzzers faults coverage mutants bench rows gpu-bundle check-gpu bench-gpu

check: setup
	@+$(MAKE) --no-print-directory $(PARALLEL) check-built
check-built: all $(UNIT) $(B)/gpu-driver $(B)/tests/random $(REPLAYS) $(MUTATORS)
	@B=$(B) SAN=$(SAN) J=$(J) LLVM_CONFIG=$(LLVM_CONFIG) CC='$(CC)' tests/run $(ARGS)
check-unit: all $(UNIT) # some run the programs, or look for the libraries beside them
	@B=$(B) SAN=$(SAN) J=$(J) LLVM_CONFIG=$(LLVM_CONFIG) CC='$(CC)' tests/run --unit $(ARGS)
rows:
	@tests/rows

$(B)/obj/libunit.a: $(call obj,$(wildcard tests/unit/shared/*.c))
	@mkdir -p $(@D); rm -f $@
	$(Q)$(AR) rcs $@ $^
# A unit test takes from the archives what it names, so few of them link LLVM.
TEST_LINK = $(LINK) $(STATIC) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group @$(B)/llvm.libs
$(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $(B)/obj/libunit.a $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) -lcmocka $(LIBS)
RANDOM_O = $(call obj,$(wildcard tests/random/*.c) runtime/gxrun/npy.c)
$(B)/tests/random: $(RANDOM_O) $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) $(LIBS)
# Lets allocations of the runtime fail.
$(B)/tests/unit/no_memory $(B)/mutants/unit/no_memory: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
# Parts of gxrun, which is in no archive.
$(B)/tests/unit/array_file: $(call obj,$(patsubst %,runtime/gxrun/%.c,array_file npz safetensors npy json json_read))
$(B)/tests/unit/tune_file: $(call obj,$(patsubst %,runtime/gxrun/%.c,tune json json_read names))
# Random modules, checked in every way that must agree: make check-random ARGS="-t SECONDS -s SEED".
check-random: $(B)/tests/random $(GXEMU)
	@mkdir -p $(B)/random
	@$(B)/tests/random -j $(J) -o $(B)/random $(or $(ARGS),-t 60) 2>$(B)/random/unsupported.log

# The evaluator against XLA:CPU, from PyPI: make check-xla ARGS="--seeds 1:5000 -v".
$(B)/xla/bin/python:
	python3 -m venv $(B)/xla && $(B)/xla/bin/pip install -q jax
check-xla: $(B)/xla/bin/python $(B)/tests/random $(GXC) $(GXRUN)
	@$< tests/xla/check.py $(B) $(or $(ARGS),--seconds 120)

# What SASS says of programs: nvdisasm, where the machine has none, from PyPI.
$(B)/sass/bin/python:
	python3 -m venv $(B)/sass && $(B)/sass/bin/pip install -q nvidia-cuda-nvdisasm
SASS = $(or $(wildcard /usr/local/cuda/bin/nvdisasm),$(shell command -v nvdisasm),$(B)/sass/bin/python)
check-sass: $(GXC) $(SASS)
	@python3 tests/tensor_cores.py $(B) $(or $(ARGS),tests/codegen/wide-tiles.hlo --targets sm_90a)

# Fragments of mma.sync against CuTe's traits, which are in a wheel of PyPI.
check-layouts:
	@[ -d $(B)/cute ] || { python3 -m pip download -q --no-deps -d $(B)/cute.part nvidia-cutlass==4.2.0.0 && \
	  python3 -m zipfile -e $(B)/cute.part/*.whl $(B)/cute; } || true
	@python3 tests/layouts.py ir/kernel/tensor_cores.def $(B)/cute

# The Python package, installed from its wheel, in an environment of the pinned wheels of PyPI. With it `make check`
# runs these tests, too.
$(B)/python/bin/python: python/requirements.txt
	@rm -rf $(B)/python
	python3 -m venv $(B)/python && $(B)/python/bin/pip install -q --only-binary=:all: --require-hashes -r $<
check-python: $(B)/python/bin/python wheel
	@$(B)/python/bin/pip install -q --no-deps --force-reinstall $(B)/gxc-$(VERSION)-*.whl
	@cd $(B)/tests && ../python/bin/python $(CURDIR)/tests/python/check.py $(ARGS)

# ARGS="--only eigh,svd --types f32": some of it.
check-linear-algebra: $(B)/python/bin/python all
	@GXC_LIBRARY_PATH=$(abspath $(B)) PYTHONPATH=python $< -W ignore tests/python/linear_algebra.py $(ARGS)

# Models of PyTorch against PyTorch on the CPU; its wheels are some gigabytes, so `make check` does this only where they are.
$(B)/torch/bin/python:
	python3 -m venv $(B)/torch && $(B)/torch/bin/pip install -q torch==2.9.0 torch_xla==2.9.0 torchax==0.0.13 jax==0.10.2 numpy
check-torch: $(B)/torch/bin/python all
	@GXC_LIBRARY_PATH=$(abspath $(B)) PYTHONPATH=python $< -W ignore tests/python/torch_models.py $(ARGS)

# libFuzzer, which comes with clang: make fuzz SECONDS=1800 TARGETS="text plan".
FUZZ_LIB := $(call obj,$(wildcard tests/fuzz/shared/*.c) $(IR_C) $(PASSES_C) $(GEN_C) \
              $(filter-out frontend/gxc.c frontend/compile.c frontend/compile_options.c frontend/report/list.c,$(wildcard frontend/*.c frontend/*/*.c)) \
              $(RT_C))
RANDOM_C := $(filter-out tests/random/main.c tests/random/keep.c,$(wildcard tests/random/*.c))
FUZZERS  := $(FUZZ_C:tests/fuzz/%.c=$(B)/fuzz-%)
FUZZ_RUN := $(call obj,$(patsubst %,runtime/gxrun/%.c,array_file npz safetensors npy json json_read))
$(foreach t,npy arrays json,$(B)/fuzz-$t $(B)/damaged/mutate-$t): $(FUZZ_RUN)
# libgxemu.so counts, too, by functions of the program.
COUNTED  := -Wl,--export-dynamic-symbol='__sanitizer_cov_*' -Wl,--export-dynamic-symbol='__sancov_*'
FUZZ_LINK = $(Q)echo "  link  $@"; $(CC) $(CFLAGS) $(SANFLAG) -fsanitize=fuzzer $(LLD) $(COUNTED) -Wl,--gc-sections -o $@ $(filter %.o,$^) $(LIBS)
# The FUZZ_RT take the runtime and programs that are there: no compiler, but the emulator.
$(filter-out $(patsubst %,$(B)/fuzz-%,$(FUZZ_RT) $(FUZZ_EMU) kernels),$(FUZZERS)): $(B)/fuzz-%: $(B)/obj/tests/fuzz/%.o $(FUZZ_LIB)
	$(FUZZ_LINK)
$(FUZZ_RT:%=$(B)/fuzz-%): $(B)/fuzz-%: $(B)/obj/tests/fuzz/%.o $(call obj,$(patsubst %,tests/fuzz/shared/%.c,edit folder look listener values watch) $(patsubst %,tests/unit/shared/%.c,artefact refusing) $(GXRT_C)) $(GXEMU)
	$(FUZZ_LINK) -lcmocka
# Those of the emulator alone, which they have in them: they tell it how to behave.
$(FUZZ_EMU:%=$(B)/fuzz-%): $(B)/fuzz-%: $(B)/obj/tests/fuzz/%.o $(call obj,tests/fuzz/shared/watch.c tests/fuzz/shared/folder.c $(GXRT_C) $(EMU_C))
	$(FUZZ_LINK)
$(B)/fuzz-emulator $(B)/replay-emulator: $(call obj,$(wildcard tests/fuzz/emulator/*.c))
# This one takes everything.
$(B)/fuzz-kernels: $(call obj,tests/fuzz/kernels.c $(patsubst %,tests/fuzz/shared/%.c,choice hlo_edit modules watch folder) $(RANDOM_C)) $(ARCHIVES) $(B)/llvm.libs $(GXEMU)
	$(LINK) -fsanitize=fuzzer $(COUNTED) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group @$(B)/llvm.libs $(LIBS)
fuzzers: $(FUZZERS) $(B)/programs/modules.txt
fuzz: $(GXC) $(B)/tests/random # both make seeds
	@+$(MAKE) --no-print-directory $(PARALLEL) B=build/fuzz CC=clang CXX=clang++ CFLAGS='-O1 -g' \
	  SAN=fuzzer-no-link,address,undefined fuzzers
	@LLVM_CONFIG=$(LLVM_CONFIG) tests/fuzz/run build/fuzz $(or $(SECONDS),60) $(TARGETS)

# The same targets on very many damaged inputs, by the build that users have: make fuzz-damaged INPUTS=1000000.
$(MUTATORS): $(B)/damaged/mutate-%: $(B)/obj/tests/fuzz/%.o $(call obj,$(patsubst %,tests/fuzz/%.c,drive/mutate shared/watch shared/stablehlo)) $(ARCHIVES) $(B)/llvm.libs
	@mkdir -p $(@D)
	$(TEST_LINK) $(LIBS)
fuzz-damaged: $(GXC) $(B)/tests/random $(MUTATORS)
	@LLVM_CONFIG=$(LLVM_CONFIG) INPUTS=$(or $(INPUTS),1000000) tests/fuzz/run $(B)/damaged 0 $(TARGETS)

# What `make check` replays of them, the REPLAYS: the same targets without libFuzzer.
FUZZ_INPUTS := $(wildcard tests/fuzz/inputs/*.hlo) $(patsubst %,tests/cudnn/%.hlo,attention-gradients norm-gradients block-scaled)
FUZZ_PROGRAMS := $(patsubst %.hlo,$(B)/programs/%.cubin,$(notdir $(FUZZ_INPUTS)))
$(REPLAYS): $(B)/replay-%: $(B)/obj/tests/fuzz/%.o $(call obj,tests/fuzz/drive/replay.c $(wildcard tests/fuzz/shared/*.c)) $(B)/obj/libunit.a $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) -lcmocka $(LIBS)
vpath %.hlo tests/fuzz/inputs tests/cudnn
$(FUZZ_PROGRAMS): $(B)/programs/%.cubin: %.hlo tests/fuzz/program $(GXC)
	@mkdir -p $(@D)
	$(Q)tests/fuzz/program $(B)/gxc $< $@
# Modules of tests, which may be compiled in any way.
FUZZ_MODULES := $(sort $(wildcard tests/*/*.hlo tests/*/*/*.hlo tests/*/*/*/*.hlo examples/*/*.hlo))
$(B)/programs/modules.txt: tests/fuzz/modules.py $(FUZZ_MODULES)
	@mkdir -p $(@D)
	$(Q)python3 $< $@ $(FUZZ_MODULES)
$(B)/replay-execute $(B)/replay-api $(B)/replay-emulator $(B)/replay-file $(B)/replay-world: $(FUZZ_PROGRAMS) $(GXEMU)
$(B)/replay-kernels: $(call obj,$(RANDOM_C)) $(GXEMU) $(B)/programs/modules.txt

# Each allocation, read, write, open, process and thread of small runs fails once; make faults
# ARGS="--most 100 --only gxrun" takes some of them.
$(B)/tests/fail.so: tests/faults/fail.c tests/faults/fork.c tests/faults/fail.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -shared -fPIC -O2 -o $@ $(filter %.c,$^) -ldl
faults: all $(B)/tests/fail.so
	@python3 tests/faults/run.py $(B) $(B)/tests/fail.so --leaks $$(gcc -print-file-name=liblsan.so) $(ARGS)

# What the tests reach, counted by clang: ARGS="--report" prints the last run's, others go to lit.
# A process that is started with other surroundings, as gxc-cudnn, counts where the flag says.
COVERED := -O1 -fprofile-instr-generate=$(CURDIR)/build/coverage/profile/%m%c.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation
coverage:
	@+$(MAKE) --no-print-directory $(PARALLEL) B=build/coverage CC=clang CXX=clang++ LAZY= CFLAGS='$(COVERED)' covered
	@J=$(J) LLVM_CONFIG=$(LLVM_CONFIG) tests/coverage.py build/coverage $(ARGS)
covered: all $(UNIT) $(B)/gpu-driver $(B)/tests/random $(REPLAYS) $(MUTATORS)
.PHONY: covered

# Small faults, each of which a test must notice: make mutants ARGS="--area plan --count 100 --seed 3". Under unit tests
# and kept inputs, the address sanitizer notices, too: what reads one element too far, or is not freed.
MUTATED_O = $(patsubst %.c,$(B)/mutants/obj/%.o,$(MUTATED))
MUTATED_SAN_O = $(patsubst %.c,$(B)/mutants/san/%.o,$(MUTATED))
MUTANT_SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined
$(B)/mutants/obj/%.o: $(B)/mutants/src/%.c $(B)/llvm.cflags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -w @$(B)/llvm.cflags -c $< -o $@
$(B)/mutants/san/%.o: $(B)/mutants/src/%.c $(B)/llvm.cflags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -w $(MUTANT_SAN) @$(B)/llvm.cflags -c $< -o $@
$(B)/mutants/unit/%: $(B)/obj/tests/unit/%.o $(MUTATED_SAN_O) $(B)/obj/libunit.a $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) $(MUTANT_SAN) -lcmocka $(LIBS)
$(B)/mutants/replay-%: $(B)/obj/tests/fuzz/%.o $(call obj,tests/fuzz/drive/replay.c $(wildcard tests/fuzz/shared/*.c)) $(MUTATED_SAN_O) $(B)/obj/libunit.a $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) $(MUTANT_SAN) -lcmocka $(LIBS)
$(B)/mutants/random: $(RANDOM_O) $(MUTATED_O) $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) $(LIBS)
$(B)/mutants/lit/gxc: $(call obj,frontend/gxc.c) $(MUTATED_O) $(ARCHIVES) $(B)/llvm.libs
	$(TEST_LINK) $(LIBS)
$(B)/mutants/lit-run/gxrun: $(call obj,$(RUN_C)) $(MUTATED_O) $(B)/libgxrt.a
	$(RT_LINK) -o $@ $^ $(RT_LIBS)
mutants: all $(REPLAYS)
	@python3 tests/mutants.py $(B) $(ARGS)

bench: all $(B)/tests/unit/emu_engine
	@python3 tests/bench.py $(B) $(ARGS)

# --- on a GPU ------------------------------------------------------------------------------
$(B)/gpu-driver: $(call obj,tests/gpu/driver.c) $(B)/libgxrt.a
	$(RT_LINK) -o $@ $^ $(RT_LIBS)
gpu-bundle: all $(B)/gpu-driver $(B)/tests/unit/codegen_emit_test
	python3 tests/gpu/bundle.py $(B) $(B)/gpu-bundle
check-gpu bench-gpu: %-gpu:
	@[ -e /dev/nvidiactl ] || { echo "$@: no NVIDIA GPU in this machine, nothing was run"; exit 1; }
	@[ -e $(B)/gpu-bundle/driver ] || { echo "make gpu-bundle first: it needs no GPU"; exit 1; }
	@$(B)/gpu-bundle/$*
