/// Filling device memory from files, fast: two buffers of pinned memory take
/// turns, and while the device copies one, all cores fill the other.
#pragma once

#include "runtime/cuda/Context.h"
#include "runtime/device/Backend.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace cria::cuda {

/// A tensor to copy: its address, and a function that writes a range of its
/// bytes to host memory. Many threads call `fill` at once, for ranges that
/// begin at multiples of `unit` bytes; it must not throw.
struct Upload {
  CUdeviceptr to;
  uint64_t bytes;
  std::function<Status(std::byte *to, uint64_t begin, uint64_t end)> fill;
  uint64_t unit = 256; // at most a MiB
};

/// Does `uploads`; in the current context. The first error ends it. `progress`
/// counts bytes.
Status upload(const std::shared_ptr<Context> &context,
              const std::vector<Upload> &uploads,
              const Progress &progress = {});

} // namespace cria::cuda
