/// Bytes as text of the letters A-Z, a-z, 0-9, + and / (RFC 4648), with = at
/// the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cria {

std::string encodeBase64(std::string_view bytes);

/// The bytes that `text` encodes; nothing if it is not base64.
std::optional<std::string> decodeBase64(std::string_view text);

} // namespace cria
