// Finds functions by name and version.
#include "tools/emulator/driver/Driver.h"

#include "llvm/ADT/StringRef.h"

namespace {

struct Entry {
  const char *name;
  void *address;
  int since;
};

const Entry kEntries[] = {
#define FUNCTION(name, exported, since)                                        \
  {#name, reinterpret_cast<void *>(exported), since},
#include "tools/emulator/driver/Functions.def"
};

/// The newest function called `name` that a program made for `version` knows.
CUdriverProcAddressQueryResult find(llvm::StringRef name, int version,
                                    void **address) {
  const Entry *best = nullptr;
  bool any = false;
  for (const Entry &entry : kEntries) {
    if (name != entry.name)
      continue;
    any = true;
    if (entry.since <= version && (!best || entry.since > best->since))
      best = &entry;
  }
  *address = best ? best->address : nullptr;
  return best  ? CU_GET_PROC_ADDRESS_SUCCESS
         : any ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

} // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             cuuint64_t,
                             CUdriverProcAddressQueryResult *status) {
  ENTER(Nothing);
  if (!symbol || !function)
    return CUDA_ERROR_INVALID_VALUE;
  auto result = find(symbol, version, function);
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
