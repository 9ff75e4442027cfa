/// A strict JSON reader for untrusted configuration files.
#pragma once

#include "llvm/Support/Error.h"
#include <nlohmann/json.hpp>

namespace cria {

/// Parses a JSON object. Refuses text that is not UTF-8 or not JSON, a byte
/// order mark, trailing text, numbers beyond a double, nesting deeper than 64,
/// more than 65536 values, and duplicate keys; the error has the byte offset
/// if there is one. Never recurses.
llvm::Expected<nlohmann::json> parseJsonObject(llvm::StringRef text);

/// The text of a regular file of at most `limit` bytes. Messages start with
/// the path.
llvm::Expected<std::string> readTextFile(llvm::StringRef path, uint64_t limit);

/// An error that is one line of text.
llvm::Error textError(const llvm::Twine &message);

/// A value as printable JSON for a message, truncated if it is long.
std::string shownJson(const nlohmann::json &value);

/// The same for a string, without the quotes.
std::string shownText(llvm::StringRef text);

} // namespace cria
