#include "runtime/cpu/Trace.h"

namespace cria::cpu {

void Trace::begin(Pool &pool, const Manifest &manifest,
                  std::vector<KernelTime> *into) {
  times = into;
  if (!into)
    return pool.onKernel({});
  pool.onKernel([into, &names = manifest.kernels](int64_t kernel) {
    std::string_view name;
    if (kernel >= 0 && static_cast<size_t>(kernel) < names.size())
      name = names[static_cast<size_t>(kernel)];
    into->push_back({name, std::chrono::steady_clock::now(), 0});
  });
}

/// Ends the kernels from `first` on.
void Trace::end(size_t first) {
  auto end = std::chrono::steady_clock::now();
  for (size_t i = times->size(); i-- > first; end = (*times)[i].begin)
    (*times)[i].seconds =
        std::chrono::duration<double>(end - (*times)[i].begin).count();
}

} // namespace cria::cpu
