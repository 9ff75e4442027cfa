"""The lit suite: one test a file, `.mlir` or `.test`.

Substitutions in addition to lit's own (%s, %t, ...):
  %{src}     the repository          %{build}   the build tree
  %{bin}     build/bin, on the PATH  %{shared}  a folder with models/stories260K
  %{python}  Python with NumPy
  %{share}   one in so many cases of a kind is tried: 1 by scripts/test.sh --whole
  %{alone}   a build of the runtime alone, without options; %{alone-run} is its cria-run,
             and %{alone-cpu} what cria-compile takes for it

Features: shared-models, aarch64 (the runtime alone is for 64-bit Arm, and QEMU runs
it), gdb, haproxy, clang-format-14, ptxas (on the PATH, in
/usr/local/cuda/bin or cuda-tools/ of the build), cuda-tools (the pinned ptxas and
nvdisasm are there), mpich and openmpi (their mpirun, and the library for their
ranks), unshare (and this user may make namespaces), werror (CRIA_WERROR is on),
fuzz (the build has fuzz targets), sanitized (so that memory and sizes are no
measure, and other compilers' programs cannot use the libraries), whole (by
scripts/test.sh --whole: tests of what others try in another form), standard-build
(%{build} is %{src}/build), and the CPU's own: avx2, avx512f, avx512_bf16,
amx_tile, ... as /proc/cpuinfo names them.
"""

import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "cria"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "seeds"]
config.test_source_root = os.path.join(config.source_dir, "test")
config.test_exec_root = os.path.join(config.build_dir, "test")
lit_config.maxIndividualTestTime = 600

bin_dir = os.path.join(config.build_dir, "bin")
shared_dir = os.environ.get(
    "CRIA_SHARED", os.path.join(config.source_dir, "..", "shared")
)

cuda_tools = os.path.join(config.build_dir, "cuda-tools")
places = [bin_dir, config.llvm_tools_dir, os.environ["PATH"], "/usr/sbin"]
places += ["/usr/local/cuda/bin", cuda_tools]
config.environment["PATH"] = os.pathsep.join(places)
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"
config.environment["OPENBLAS_NUM_THREADS"] = "1" # NumPy; lit runs a test on each core
emulator = os.path.join(config.build_dir, "lib", "libcria-emulator.so")
if os.path.exists(emulator):
    # Kernels are compiled once, by each build of the emulator.
    kernels = os.path.join(config.test_exec_root, "kernels")
    build = str(os.stat(emulator).st_mtime_ns)
    for old in set(os.listdir(kernels) if os.path.isdir(kernels) else []) - {build}:
        shutil.rmtree(os.path.join(kernels, old))
    config.environment["CRIA_EMULATOR_CACHE"] = os.path.join(kernels, build)
    # Most kernels run for less time than LLVM would take to optimize them.
    config.environment["CRIA_EMULATOR_OPTIMIZATION"] = "0"
for name in "CCACHE_DIR", "CRIA_FUZZ_SECONDS", "CRIA_SHARED", "CRIA_TEST_WHOLE", "HOME":
    if name in os.environ:
        config.environment[name] = os.environ[name]

python = sys.executable
sanitized = os.path.exists(os.path.join(bin_dir, "fuzz-Text"))
if sanitized:
    config.available_features.update(["fuzz", "sanitized"])
    lit_config.maxIndividualTestTime *= 10
    # A sanitized library that Python loads finds its sanitizer there already.
    runtime = f"libclang_rt.asan-{os.uname().machine}.so"
    find = ["clang-22", f"-print-file-name={runtime}"]
    runtime = subprocess.check_output(find, text=True).strip()
    config.environment["PYTHONPATH"] = os.path.join(
        config.test_source_root, "Inputs", "sanitized"
    )
    python = f"env LD_PRELOAD={runtime} ASAN_OPTIONS=detect_leaks=0 {python}"

config.substitutions += [
    ("%{bin}", bin_dir),
    ("%{build}", config.build_dir),
    ("%{python}", python),
    ("%{share}", "1" if "CRIA_TEST_WHOLE" in os.environ else "4"),
    ("%{shared}", os.path.abspath(shared_dir)),
    ("%{src}", config.source_dir),
]

with open("/proc/cpuinfo") as cpuinfo:
    flags = next((line for line in cpuinfo if line.startswith("flags")), ":")
config.available_features.update(flags.split(":", 1)[1].split())
config.available_features.update(
    tool
    for tool in ("clang-format-14", "gdb", "haproxy", "ptxas")
    if shutil.which(tool, path=config.environment["PATH"])
)
for mpi in ("mpich", "openmpi"):
    library = os.path.join(config.build_dir, "lib", f"libcria-mpi-{mpi}.so")
    if os.path.exists(library) and shutil.which(f"mpirun.{mpi}"):
        config.available_features.add(mpi)
    else:
        lit_config.note(f"without mpirun.{mpi} and {library} its tests are skipped")
if config.tests_arm:
    config.available_features.add("aarch64")
else:
    lit_config.note("without its compiler, libraries and QEMU 64-bit Arm's tests are skipped")
config.substitutions += [
    ("%{alone}", config.alone),
    ("%{alone-run}", f"{'qemu-aarch64 ' if config.tests_arm else ''}{config.alone}/cria-run"),
    ("%{alone-cpu}", "--cpu=armv8.6-a" if config.tests_arm else ""),
]
if os.path.exists(os.path.join(cuda_tools, "ready")):
    config.available_features.add("cuda-tools")
else:
    lit_config.note("without cuda-tools (test/cuda-tools.txt) their tests are skipped")
namespaces = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "true"]
if (
    shutil.which(namespaces[0])
    and subprocess.run(namespaces, stderr=subprocess.DEVNULL).returncode == 0
):
    config.available_features.add("unshare")
if os.path.realpath(config.build_dir) == os.path.realpath(
    os.path.join(config.source_dir, "build")
):
    config.available_features.add("standard-build")
if config.werror:
    config.available_features.add("werror")
if "CRIA_TEST_WHOLE" in os.environ:
    config.available_features.add("whole")
if os.path.isdir(os.path.join(shared_dir, "models", "stories260K")):
    config.available_features.add("shared-models")
