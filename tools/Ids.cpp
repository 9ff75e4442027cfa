#include "tools/Ids.h"

#include "runtime/base/Json.h"

#include <charconv>

namespace cria {

Result<std::vector<int32_t>> parseIds(std::string_view list) {
  static constexpr std::string_view spaces = " \t\r\n";
  std::vector<int32_t> ids;
  auto skip = [&](size_t at) {
    return std::min(list.find_first_not_of(spaces, at), list.size());
  };
  size_t at = skip(0);
  if (at == list.size())
    return ids;
  for (;;) {
    size_t end = std::min(list.find_first_of(", \t\r\n", at), list.size());
    std::string_view field = list.substr(at, end - at);
    uint32_t id = 0; // a type that has no sign to read
    auto [stop, error] =
        std::from_chars(field.data(), field.data() + field.size(), id);
    if (error != std::errc() || stop != field.data() + field.size() ||
        id > INT32_MAX)
      return Status(CRIA_INVALID_ARGUMENT,
                    "token id " + quote(field) + " at byte " +
                        std::to_string(at) +
                        ", expected a whole number from 0 to 2147483647");
    ids.push_back(static_cast<int32_t>(id));
    at = skip(end);
    if (at == list.size())
      return ids;
    if (list[at] == ',')
      at = skip(at + 1);
  }
}

std::string joinIds(const std::vector<int32_t> &ids) {
  std::string list;
  for (int32_t id : ids)
    list += (list.empty() ? "" : ",") + std::to_string(id);
  return list;
}

} // namespace cria
