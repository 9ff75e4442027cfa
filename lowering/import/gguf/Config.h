/// What a GGUF file says of its model, as the config.json that it was converted
/// from says it.
#pragma once

#include "runtime/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace cria::gguf {

/// What became of a key of the metadata, or of a tensor that says something
/// about the model.
struct KeyFate {
  std::string key;
  std::string value; // as JSON, cut where it is long
  std::string fate;  // "honoured", "irrelevant" or "allowed"
  std::string note;  // what it sets, or why it does not matter
};

/// The config.json, and where its keys come from.
struct Config {
  std::string json;
  /// The formats of blocks that matrices have, as cria-compile --quantize takes
  /// them; empty where most have none that artifacts know.
  std::string quantize;
  std::vector<KeyFate> keys; // in alphabetical order
  /// Keys of config.json and what they are called in the file.
  std::vector<std::pair<std::string, std::string>> origins;
};

/// Reads the GGUF file at `path`, or the parts of which it is one. A key or a
/// tensor that is not known is refused but for those in `allowed`.
Result<Config> readConfig(const std::string &path,
                          const std::vector<std::string> &allowed);

/// All keys that are known, as the Markdown of docs/gguf.md.
std::string keysText();

} // namespace cria::gguf
