// Finds functions by name and version.
#include "tools/emulator/driver/Driver.h"

#include "llvm/ADT/StringRef.h"

#include <cstring>

// Names in C++ for functions that are not declared, or whose arguments do not
// matter here.
#define DECLARE(function)                                                      \
  extern "C" CUresult emulator_##function() __asm__(#function);
#define FUNCTION(name, exported, since) DECLARE(exported)
#define PER_THREAD(exported, suffix) DECLARE(exported##suffix)
#include "tools/emulator/driver/Functions.def"
#define UNSUPPORTED(name, exported, since) DECLARE(exported)
#define UNSUPPORTED_PER_THREAD(exported, suffix) DECLARE(exported##suffix)
#include "tools/emulator/driver/Unsupported.def"

namespace {

/// A function that is found by name. `name` is null for functions whose null
/// stream is the thread's own: they are found by the usual function.
struct Entry {
  const char *name, *exported;
  int since;
  void *address;
};

#define ENTRY(name, exported, since, function)                                 \
  {name, #exported, since, reinterpret_cast<void *>(emulator_##function)},
const Entry kEntries[] = {
#define FUNCTION(name, exported, since) ENTRY(#name, exported, since, exported)
#define PER_THREAD(exported, suffix)                                           \
  ENTRY(nullptr, exported, 0, exported##suffix)
#include "tools/emulator/driver/Functions.def"
#define UNSUPPORTED(name, exported, since)                                     \
  ENTRY(#name, exported, since, exported)
#define UNSUPPORTED_PER_THREAD(exported, suffix)                               \
  ENTRY(nullptr, exported, 0, exported##suffix)
#include "tools/emulator/driver/Unsupported.def"
};

void *perThread(const Entry &usual) {
  for (const Entry &entry : kEntries)
    if (!entry.name && !std::strcmp(entry.exported, usual.exported))
      return entry.address;
  return usual.address;
}

/// The newest function called `name` that a program for `version` can use.
CUdriverProcAddressQueryResult find(llvm::StringRef name, int version,
                                    bool isPerThread, void **address) {
  const Entry *best = nullptr;
  bool any = false;
  for (const Entry &entry : kEntries) {
    if (!entry.name || name != entry.name)
      continue;
    any = true;
    if (entry.since <= version && (!best || entry.since > best->since))
      best = &entry;
  }
  *address = !best ? nullptr : isPerThread ? perThread(*best) : best->address;
  return best  ? CU_GET_PROC_ADDRESS_SUCCESS
         : any ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

} // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  constexpr cuuint64_t kLegacy = 1, kPerThread = 2;
  ENTER(Nothing);
  if (!symbol || !function)
    return CUDA_ERROR_INVALID_VALUE;
  bool isPerThread =
      flags & kPerThread || (driver.nullIsPerThread && !(flags & kLegacy));
  auto result = find(symbol, version, isPerThread, function);
  if (status)
    *status = result;
  return result == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS
                                               : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                          cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

} // extern "C"
