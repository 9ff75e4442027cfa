/// CUDA C++ to PTX, for tests, where nvcc is installed.
#pragma once

#include <string>

namespace cria::emulator {

/// Whether there is an nvcc to run.
bool hasNvcc();

/// The PTX of kernels/`name`.cu for sm_80, with line information.
std::string ptxOf(const std::string &name);

} // namespace cria::emulator

/// Loads kernels/`name`.cu into `device`, or skips the test.
#define LOAD_CUDA(device, name)                                                \
  if (!::cria::emulator::hasNvcc())                                            \
    GTEST_SKIP() << "nvcc is not installed";                                   \
  ASSERT_EQ((device).load(::cria::emulator::ptxOf(name)), "")
