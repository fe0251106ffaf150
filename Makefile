# gxc: the compiler, its library, its runtime, the runner and the emulator.
#
#   make setup      install what is missing          make           build everything into build/
#   make demo       set up, build, compile, run      make check     set up, build, test
#   make install    into PREFIX                      make wheel     the Python package, into build/
#   make layers     includes point the right way     make size       how large it all is
#   make deb        Debian packages of it            make check-packages   they work where nothing else is
# Variables: CC CXX CFLAGS LDFLAGS, B=folder, SAN=address,undefined, WERROR=1 (also CI=1),
# V=1 (show commands), LLVM_CONFIG=..., PREFIX= DESTDIR= (install), J=jobs (check), ARGS= (bench).

VERSION     := $(shell sed -n 's/^.define GXC_VERSION "\(.*\)"/\1/p' frontend/gxc.h)
B           ?= build$(if $(SAN),/san)
override B  := $(patsubst $(CURDIR)/%,%,$(B))
PREFIX      ?= /usr/local
LLVM_CONFIG ?= llvm-config-22
J           ?= $(shell nproc 2>/dev/null || echo 2)
CLANG_FORMAT ?= clang-format
SHELL       := /bin/bash
Q           := $(if $(V),,@)
MAKEFLAGS   += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS  ?= -O2 -g
WERROR  ?= $(CI)
STD     := -std=c17 -D_POSIX_C_SOURCE=200809L -ffp-contract=off -fvisibility=hidden -fPIC
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion \
           -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wwrite-strings \
           -Wcast-qual -Wpointer-arith -Wvla -Wundef -Wformat=2 -Wimplicit-fallthrough \
           $(if $(filter-out 0,$(WERROR)),-Werror)
INCLUDE := -I. -I$(B)/gen
# Number of the C interfaces: docs/stability.md says when it changes.
SO      := 0
DEFINE  := -DGXC_VERSION='"$(VERSION)"' -DGXC_SO='".so.$(SO)"'
SANFLAG := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
LINKING  = $(Q)mkdir -p $(@D); echo "  link  $@";
# What runs at start-up, of which LLVM brings much, lies together.
LLD     := $(if $(shell command -v ld.lld),-fuse-ld=lld -z keep-text-section-prefix)
LINK     = $(LINKING) $(CXX) $(CFLAGS) $(SANFLAG) $(LLD) -Wl,--gc-sections -Wl,--as-needed $(LDFLAGS)
# A sanitised program brings its own start-up; others start faster without relocations.
STATIC  := $(if $(SAN),,-no-pie -static-libstdc++ -static-libgcc)

# --- sources -------------------------------------------------------------------------------
GRAMMAR := $(wildcard frontend/*.y frontend/*/*.y)
LEXER   := $(wildcard frontend/*.l frontend/*/*.l)
PAGES   := $(wildcard frontend/*/*.html)
GEN_C   := $(GRAMMAR:%.y=$(B)/gen/%.tab.c) $(LEXER:%.l=$(B)/gen/%.lex.c) $(PAGES:%=$(B)/gen/%.c)
IR_C    := $(wildcard ir/*.c ir/*/*.c ir/*/*/*.c)
PASSES_C := $(wildcard passes/*.c passes/*/*.c passes/*/*/*.c)
GXC_C   := $(IR_C) $(PASSES_C) $(wildcard codegen/*.c codegen/*/*.c) \
           $(filter-out frontend/gxc.c,$(wildcard frontend/*.c frontend/*/*.c)) $(wildcard runtime/plan/*.c)
RUN_C   := $(wildcard runtime/gxrun/*.c)
RT_C    := $(wildcard runtime/plan/*.c runtime/library/*.c runtime/collective/*.c runtime/run/*.c)
GXRT_C  := $(RT_C) $(patsubst %,ir/number/%.c,number convert text) ir/base/file.c
EMU_C   := $(wildcard runtime/emu/*.c runtime/emu/*.S) $(wildcard ir/number/*.c)
obj      = $(patsubst %,$(B)/obj/%.o,$(basename $(patsubst $(B)/gen/%,%,$(1))))

ARCHIVES := $(B)/libgxc.a $(B)/libgxrt.a $(B)/obj/libgxemu.a
GXC     := $(if $(wildcard frontend/compile.c),$(B)/libgxc.so $(if $(wildcard frontend/gxc.c),$(B)/gxc))
GXRUN   := $(if $(wildcard runtime/run/program.c),$(B)/libgxrt.so $(if $(wildcard runtime/gxrun/gxrun.c),$(B)/gxrun))
GXEMU   := $(if $(wildcard runtime/emu/*.c),$(B)/libgxemu.so)
PLANNER := $(B)/gxc-cudnn $(B)/libgxc-nodriver.so

.PHONY: all setup demo install wheel deb check-packages check-aarch64 layers size format format-check clean
all: $(ARCHIVES) $(GXC) $(GXRUN) $(GXEMU) $(PLANNER)

# --- compiling -----------------------------------------------------------------------------
COMPILE  = $(CC) $(STD) $(CFLAGS) $(SANFLAG) -ffunction-sections -fdata-sections $(INCLUDE) $(DEFINE) -MMD -MP
# Objects are made again when their flags change.
$(shell mkdir -p $(B)/gen/frontend/hlo $(B)/gen/frontend/stablehlo; f='$(subst ','\'',$(COMPILE))'; \
        [ "$$f" = "$$(cat $(B)/flags 2>/dev/null)" ] || printf '%s' "$$f" >$(B)/flags)

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(COMPILE) $(WARN) $(EXTRA) -c $< -o $@
$(B)/obj/%.o: %.S $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(COMPILE) -c $< -o $@
$(B)/obj/%.o: $(B)/gen/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(COMPILE) -Wall -Wno-unused-function -c $< -o $@
$(B)/gen/%.tab.c: %.y
	$(Q)bison --header=$(B)/gen/$*.tab.h -Wall -Wno-yacc -o $@ $<
$(B)/gen/%.lex.c: %.l
	$(Q)flex --header-file=$(B)/gen/$*.lex.h -o $@ $<
# A page becomes a C array, page_template, with a NUL behind it.
$(B)/gen/%.html.c: %.html
	@mkdir -p $(@D)
	$(Q){ echo 'extern const char page_template[]; const char page_template[] = {'; \
	  od -An -v -tu1 $< | sed 's/  *\([0-9][0-9]*\)/\1,/g'; echo '0};'; } >$@
$(call obj,$(wildcard frontend/*.c frontend/*/*.c) $(GEN_C)): | $(GEN_C)
LLVM_C := $(shell grep -lE '^.include (<llvm-c/|"codegen/)' $(wildcard codegen/*.c codegen/*/*.c tests/unit/*.c tests/unit/shared/*.c))
$(call obj,$(LLVM_C)): EXTRA = @$(B)/llvm.cflags
$(call obj,$(LLVM_C)): $(B)/llvm.cflags

# argp looks for the program's version in the program.
$(call obj,frontend/gxc.c runtime/gxrun/options.c): EXTRA = -fvisibility=default

$(B)/llvm.cflags $(B)/llvm.libs &:
	@v=$$($(LLVM_CONFIG) --version) || { echo "gxc needs LLVM 22: run 'make setup', or set LLVM_CONFIG"; exit 1; }; \
	 case $$v in 22.*) ;; *) echo "gxc needs LLVM 22; $(LLVM_CONFIG) is $$v"; exit 1;; esac
	@echo "-isystem $$($(LLVM_CONFIG) --includedir)" >$(B)/llvm.cflags
	@echo "-L$$($(LLVM_CONFIG) --libdir) $$($(LLVM_CONFIG) --link-static --libs core irreader \
	  bitreader bitwriter linker passes nvptx x86 aarch64)" -lzstd -lz >$(B)/llvm.libs

# --- libraries and programs ----------------------------------------------------------------
LIBS := -ljansson -lmpfr -lgmp -lz -lm -ldl -lpthread

$(B)/libgxc.a: $(call obj,$(GXC_C) $(GEN_C))
$(B)/libgxrt.a: $(call obj,$(GXRT_C))
$(B)/obj/libgxemu.a: $(call obj,$(EMU_C))
$(ARCHIVES):
	@mkdir -p $(@D); rm -f $@
	$(Q)$(AR) rcs $@ $^

VERSIONED = $(Q)ln -sf $(@F) $@.$(SO)
SHARED = -shared -Wl,-soname,$(@F).$(SO) -Wl,-Bsymbolic -Wl,--exclude-libs,ALL $(if $(SAN),,-Wl,-z,defs)
# Most of LLVM's start-up waits until code is generated.
LAZY    := $(if $(SAN),,-Wl,-T,codegen/llvm.ld)
$(B)/libgxc.so: $(call obj,$(GXC_C) $(GEN_C)) $(B)/llvm.libs codegen/llvm.ld
	$(LINK) $(SHARED) $(LAZY) -static-libstdc++ -static-libgcc -o $@ $(filter %.o,$^) @$(B)/llvm.libs $(LIBS)
	$(VERSIONED)
$(B)/gxc: $(call obj,frontend/gxc.c) $(B)/libgxc.a $(B)/llvm.libs codegen/llvm.ld
	$(LINK) $(STATIC) $(LAZY) -o $@ $(filter %.o %.a,$^) @$(B)/llvm.libs $(LIBS)
# The runtime links libc, libm, libpthread and libdl, nothing else.
RT_LINK = $(LINKING) $(CC) $(CFLAGS) $(SANFLAG) $(LDFLAGS) -Wl,--as-needed
RT_LIBS = -lm -ldl -lpthread
$(B)/libgxrt.so: SHARED += -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' # libgxemu lies beside it
$(B)/libgxrt.so: $(call obj,$(GXRT_C))
	$(RT_LINK) $(SHARED) -o $@ $^ $(RT_LIBS)
	$(VERSIONED)
$(B)/libgxemu.so: $(call obj,$(EMU_C))
	$(RT_LINK) $(SHARED) -o $@ $^ $(RT_LIBS)
	$(VERSIONED)
# What plans graphs for cuDNN, and what it takes for CUDA's driver.
$(B)/gxc-cudnn: $(call obj,runtime/planner/planner.c) $(B)/libgxrt.a
	$(RT_LINK) -o $@ $^ $(RT_LIBS)
$(B)/libgxc-nodriver.so: $(call obj,runtime/planner/driver.c)
	$(RT_LINK) -shared -Wl,-soname,libcuda.so.1 -o $@ $^
$(B)/gxrun: $(call obj,$(RUN_C)) $(B)/libgxrt.a
	$(RT_LINK) -o $@ $^ $(RT_LIBS)

# --- setting up, installing ----------------------------------------------------------------
# Recursive, in parallel unless the user said how.
PARALLEL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(J))
setup:
	@LLVM_CONFIG=$(LLVM_CONFIG) .ci/setup $(B)
demo: setup
	@+$(MAKE) --no-print-directory $(PARALLEL) all
	@B=$(B) examples/demo
install: all
	@$(INSTALLING) DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' .ci/install
INSTALLING = B=$(B) VERSION=$(VERSION) SO=$(SO) LIBS='$(LIBS)' CC='$(CC)' LD=$(LD) AR=$(AR)
deb: all
	@$(INSTALLING) .ci/deb
check-packages: deb
	@$(INSTALLING) .ci/check-packages
# The runtime for aarch64, cross-built, and its tests under qemu.
check-aarch64: all
	@B=$(B) .ci/check-aarch64
# The Python package: pip install build/gxc-*.whl
wheel: all
	@python3 python/wheel.py $(B) $(VERSION) $(B)

include tests/tests.mk

layers size:
	@.ci/$@
FORMATTED = $(shell git ls-files '*.c' '*.h')
format:
	@$(CLANG_FORMAT) -i $(FORMATTED)
format-check:
	@$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)
clean:
	rm -rf $(B)

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
