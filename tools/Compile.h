/// A model that nobody has compiled yet, for the tools that run models.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cria {

/// Whether `path` names a model to be compiled: a folder, or a GGUF file.
bool isModel(const std::string &path);

/// The texts that run at once where nobody says how many.
inline constexpr int64_t kTexts = 8;

/// The rows that a model is compiled with for this many texts at once. Where
/// all texts run, three in four rows are left for short prompts and drafts. Of
/// eight prompts of 8 ids that come at once, the last one is computed in the
/// second step.
inline int64_t rowsFor(int64_t texts) {
  return std::min<int64_t>(4 * texts, 256);
}

/// How a model is compiled.
struct CompileRequest {
  std::string model;              // see isModel
  DeviceKind device;              // where it will run; Auto: on a GPU if there
                                  // is one
  std::vector<std::string> flags; // options of cria-compile
  /// Options that count where `flags` do not have them.
  std::vector<std::string> defaults;
  /// Hears of the process that compiles, and then 0: a signal that ends the
  /// tool should end it, too.
  void (*setChild)(pid_t child);
};

/// The path of the model's artifact in the user's cache, where cria-compile
/// puts it if it is not there: in the folder CRIA_CACHE, or else cria in
/// XDG_CACHE_HOME or ~/.cache. The artifact is one of the same config, options,
/// compiler and CPU. An artifact is a program, so the folder must be the user's
/// own: see OwnFolder. `say` hears what takes time.
///
/// cria-compile is the environment's CRIA_COMPILE, or the one beside this
/// program, or one on the PATH; NOT_FOUND if there is none.
Result<std::string> compiled(const CompileRequest &request,
                             void (*say)(const std::string &line));

} // namespace cria
