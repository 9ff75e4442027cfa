/// The metadata of a GGUF file as the config.json from which it was converted.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace cria::gguf {

/// The fate of a key of the metadata, or of a tensor that describes the model.
struct KeyFate {
  std::string key;
  std::string value; // as JSON, truncated if it is long
  std::string fate;  // "honoured", "irrelevant" or "allowed"
  std::string note;  // what the key sets, or why it is irrelevant
};

/// The config.json, and where its keys come from.
struct Config {
  std::string json;
  /// The block formats of matrices, as cria-compile --quantize takes them;
  /// empty if most matrices have no format that artifacts can have.
  std::string quantize;
  std::vector<KeyFate> keys; // in alphabetical order
  /// Keys of config.json and their names in the file.
  std::vector<std::pair<std::string, std::string>> origins;
};

/// Reads the GGUF file at `path`, or all parts of a split file. Unknown keys
/// and tensors are refused, except those in `allowed`.
Result<Config> readConfig(const std::string &path,
                          const std::vector<std::string> &allowed);

/// All known keys, as the Markdown of docs/gguf.md.
std::string keysText();

} // namespace cria::gguf
