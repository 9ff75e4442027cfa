/// Every key of GGUF's metadata that is known, in one table, which drives what
/// is read, what is refused and the list in docs/gguf.md.
#pragma once

#include <string>

namespace cria::gguf {

/// What becomes of a key.
enum class KeyUse {
  Number,  // goes into config.json, under the name `config`
  Whole,   // the same, an integer
  Read,    // is read together with others
  Neutral, // may only have the value `config`
  Any      // does not matter
};

/// A key. A name that begins with a dot follows the architecture's name:
/// ".block_count" is "llama.block_count". A name that ends in a dot stands for
/// all keys that begin with it.
struct Key {
  const char *name;
  /// Architectures that have it, with spaces between them; "*" for all.
  const char *architectures;
  KeyUse use;
  const char *config; // see KeyUse
  /// What the key sets; why it is irrelevant, or what is not supported.
  const char *note;
};

/// The entry of `key` for an architecture, or null.
const Key *findKey(const std::string &key, const std::string &architecture);

} // namespace cria::gguf
