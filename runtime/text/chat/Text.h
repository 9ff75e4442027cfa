/// Texts that know who wrote each of their bytes. When a template cuts, joins
/// or changes texts, a message's text does not become the template's own.
#pragma once

#include "runtime/text/tokenizer/Origin.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace cria::chat {

/// A part of a text.
struct TextView {
  TextView() = default;
  TextView(std::string_view bytes) : bytes(bytes) {}
  TextView(const std::string &bytes) : bytes(bytes) {}
  TextView(const char *bytes) : bytes(bytes) {}
  /// `origins` are the Origins of the bytes, or "": the template wrote all.
  TextView(std::string_view bytes, std::string_view origins)
      : bytes(bytes), origins(origins) {}

  operator std::string_view() const { return bytes; }
  size_t size() const { return bytes.size(); }
  Origin origin(size_t at) const {
    return isTemplates() ? Origin::Template : static_cast<Origin>(origins[at]);
  }
  bool isTemplates() const { return origins.empty(); }
  /// The bytes that it takes in memory.
  size_t cost() const { return bytes.size() + origins.size(); }
  TextView substr(size_t at, size_t count = std::string_view::npos) const {
    return {bytes.substr(at, count),
            isTemplates() ? origins : origins.substr(at, count)};
  }

  std::string_view bytes, origins;
};

struct Text {
  Text() = default;
  Text(std::string bytes) : bytes(std::move(bytes)) {}
  Text(const char *bytes) : bytes(bytes) {}
  Text(TextView view) : bytes(view.bytes), origins(view.origins) {}
  /// `bytes`, all of one origin.
  Text(std::string text, Origin origin) : bytes(std::move(text)) {
    if (origin != Origin::Template)
      origins.assign(bytes.size(), static_cast<char>(origin));
  }

  operator TextView() const { return {bytes, origins}; }
  /// Adds `part`; its bytes that the template wrote become `origin`'s.
  void add(TextView part, Origin origin = Origin::Template) {
    bool isTemplates = part.isTemplates() && origin == Origin::Template;
    if (!isTemplates || !origins.empty())
      origins.resize(bytes.size(), static_cast<char>(Origin::Template));
    bytes += part.bytes;
    if (!part.isTemplates())
      origins += part.origins;
    else if (!isTemplates || !origins.empty())
      origins.resize(bytes.size(), static_cast<char>(origin));
  }

  std::string bytes, origins; // as those of TextView
};

} // namespace cria::chat
