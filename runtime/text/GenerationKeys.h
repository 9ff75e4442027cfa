/// Every key of generation_config.json in one table, which drives what is read,
/// what is refused and the list in docs/config.md.
#pragma once

#include "runtime/Json.h"
#include "runtime/text/Generation.h"

#include <optional>
#include <string>

namespace cria {

/// A key that is read, or may only have values that mean nothing: null, false,
/// what is empty, and `neutral`.
struct GenerationKey {
  const char *name;
  /// As JSON; "any" where no value matters, "id" where any id of the vocabulary
  /// does not, "" where there is none.
  const char *neutral;
  /// What it sets; why it does not matter, or what is not done.
  const char *note;
  /// Reads a value; null where no value is read.
  void (*read)(const JsonCursor &value, Generation &generation);
};

/// The table, by key.
struct GenerationKeys {
  const GenerationKey *begin() const;
  const GenerationKey *end() const;
};

/// Reads an id. -1, as transformers writes where there is none, is nothing,
/// with a warning.
std::optional<int64_t> readId(const JsonCursor &value, Generation &generation);

/// The table as Markdown.
std::string generationKeysText();

} // namespace cria
