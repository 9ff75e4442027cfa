/// When kernels run, on the CPU.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/threads/Pool.h"
#include "runtime/device/Backend.h"

#include <vector>

namespace cria::cpu {

/// Notes when the kernels of entries begin that `pool` runs.
class Trace {
public:
  /// From now on appends the kernels to `into`; null: no longer. The names are
  /// those of `manifest`, which must outlive them.
  void begin(Pool &pool, const Manifest &manifest,
             std::vector<KernelTime> *into);

  /// Runs `entry`: one kernel of it ends where the next begins, or the entry
  /// ends.
  template <typename Entry> void run(Entry entry) {
    size_t before = times ? times->size() : 0;
    entry();
    if (times)
      end(before);
  }

private:
  void end(size_t first);

  std::vector<KernelTime> *times = nullptr; // that the user wants
};

} // namespace cria::cpu
