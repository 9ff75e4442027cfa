/// One table of all known keys of GGUF's metadata. It drives what is read, what
/// is refused, and the list in docs/gguf.md.
#pragma once

#include <string>

namespace cria::gguf {

/// How a key is used.
enum class KeyUse {
  Number,  // a number that is set in config.json under the name `config`
  Whole,   // an integer that is set in config.json under the name `config`
  Flag,    // true or false, set in config.json under the name `config`
  Read,    // is read together with others
  Neutral, // may only have the value `config`
  Any      // does not matter
};

/// A key. A name that begins with a dot follows the architecture's name:
/// ".block_count" is "llama.block_count". A name that ends in a dot stands for
/// all keys that begin with it.
struct Key {
  const char *name;
  /// The architectures that have the key, separated by spaces; "*" for all.
  const char *architectures;
  KeyUse use;
  const char *config; // see KeyUse
  /// What the key sets, why it is irrelevant, or what is not supported.
  const char *note;
};

/// The entry of `key` for an architecture, or null.
const Key *findKey(const std::string &key, const std::string &architecture);

} // namespace cria::gguf
