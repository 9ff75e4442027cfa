/// Every key of generation_config.json in one table, which drives what is read,
/// what is refused and the list in docs/config.md.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/Generation.h"

#include <optional>
#include <string>

namespace cria {

/// A key that is read, or may only have values without effect: null, false,
/// empty values, and `neutral`.
struct GenerationKey {
  const char *name;
  /// As JSON; "any" if no value has an effect, "id" if no id has one, "" if
  /// there is no such value.
  const char *neutral;
  /// What the key sets; why it is irrelevant, or what is not supported.
  const char *note;
  /// Reads a value; null where no value is read.
  void (*read)(const JsonCursor &value, Generation &generation);
};

/// The table, by key.
struct GenerationKeys {
  const GenerationKey *begin() const;
  const GenerationKey *end() const;
};

/// Reads an id. -1, which transformers writes for no id, is nothing, with a
/// warning.
std::optional<int64_t> readId(const JsonCursor &value, Generation &generation);

/// The table as Markdown.
std::string generationKeysText();

} // namespace cria
