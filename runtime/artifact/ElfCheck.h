/// Reads the ELF object of an artifact before the dynamic loader does.
///
/// The loader believes what an object says: it calls the object's constructors
/// and resolvers, opens the libraries that it names, and writes wherever a
/// relocation points. An object that passes this check has none of them, so
/// loading it runs no code of it and touches no memory but its own.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// A function or data that an object exports.
struct ExportedSymbol {
  std::string_view name;
  uint64_t address; // in memory, from where the object is loaded
  uint64_t offset;  // in the file
  uint64_t size;
  bool isCode;
};

/// Checks the ELF object that `file` begins with. It may have only what
/// cria-compile makes: anything else that the dynamic loader would act on is
/// INVALID_ARGUMENT, named in the message after `path`. Returns what the object
/// exports; the names point into `file`.
Result<std::vector<ExportedSymbol>> checkElf(std::string_view file,
                                             const std::string &path);

} // namespace cria
