// NVRTC in one process with the emulator. NVRTC looks for libcuda.so.1 among
// the loaded libraries and calls cuGetExportTable without a test that it
// exists.
#include "runtime/cuda/DriverApi.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

namespace {

void *openNvrtc() {
  const char *home = getenv("CUDA_HOME");
  std::string toolkit = home ? home : "/usr/local/cuda";
  for (std::string name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    for (const std::string &folder : {std::string(), toolkit + "/lib64/"})
      if (void *library = dlopen((folder + name).c_str(), RTLD_NOW))
        return library;
  return nullptr;
}

/// Opens the emulator, compiles a kernel and loads it. Exits with 0 if all went
/// well, else with the number of the step that failed.
[[noreturn]] void compileBesideTheEmulator() {
  void *driver = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
  void *nvrtc = openNvrtc();
  using Program = void *;
  auto create =
      reinterpret_cast<int (*)(Program *, const char *, const char *, int,
                               const char *const *, const char *const *)>(
          dlsym(nvrtc, "nvrtcCreateProgram"));
  auto compile = reinterpret_cast<int (*)(Program, int, const char *const *)>(
      dlsym(nvrtc, "nvrtcCompileProgram"));
  auto sizeOf = reinterpret_cast<int (*)(Program, size_t *)>(
      dlsym(nvrtc, "nvrtcGetPTXSize"));
  auto textOf =
      reinterpret_cast<int (*)(Program, char *)>(dlsym(nvrtc, "nvrtcGetPTX"));
  if (!create || !compile || !sizeOf || !textOf)
    exit(1);
  Program program = nullptr;
  const char *options[] = {"--gpu-architecture=compute_80"};
  if (create(&program,
             "extern \"C\" __global__ void twice(float *x) {"
             "  x[threadIdx.x] *= 2; }",
             "twice.cu", 0, nullptr, nullptr) ||
      compile(program, 1, options))
    exit(2);
  size_t size = 0;
  if (sizeOf(program, &size))
    exit(3);
  std::string ptx(size, 0);
  if (textOf(program, ptx.data()))
    exit(4);
#define CALL(name) decltype (&name)(dlsym(driver, #name))
  CUcontext context;
  CUmodule module;
  CUfunction function;
  bool loads = !CALL(cuInit)(0) &&
               !CALL(cuDevicePrimaryCtxRetain)(&context, 0) &&
               !CALL(cuCtxSetCurrent)(context) &&
               !CALL(cuModuleLoadData)(&module, ptx.c_str()) &&
               !CALL(cuModuleGetFunction)(&function, module, "twice");
#undef CALL
  _exit(loads ? 0 : 5);
}

TEST(Nvrtc, CompilesWhereTheEmulatorIsLoaded) {
  if (!openNvrtc())
    GTEST_SKIP() << "NVRTC is not installed";
  testing::FLAGS_gtest_death_test_style = "threadsafe"; // a process of its own
  EXPECT_EXIT(compileBesideTheEmulator(), testing::ExitedWithCode(0), "");
}

} // namespace
