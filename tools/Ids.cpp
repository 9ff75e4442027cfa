#include "tools/Ids.h"

#include "runtime/base/Json.h"

#include <charconv>

namespace cria {

Result<std::vector<int32_t>> parseIds(std::string_view list) {
  static constexpr std::string_view spaces = " \t\r\n";
  std::vector<int32_t> ids;
  if (list.find_first_not_of(spaces) == list.npos)
    return ids;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    std::string_view field = list.substr(begin, end - begin);
    size_t first = std::min(field.find_first_not_of(spaces), field.size());
    field.remove_prefix(first);
    field = field.substr(0, field.find_last_not_of(spaces) + 1);
    uint32_t id = 0; // a type that has no sign to read
    auto [stop, error] =
        std::from_chars(field.data(), field.data() + field.size(), id);
    if (error != std::errc() || stop != field.data() + field.size() ||
        id > INT32_MAX)
      return Status(CRIA_INVALID_ARGUMENT,
                    "token id " + quote(field) + " at byte " +
                        std::to_string(begin + first) +
                        ", expected a whole number from 0 to 2147483647");
    ids.push_back(static_cast<int32_t>(id));
    begin = end + 1;
  }
  return ids;
}

std::string joinIds(const std::vector<int32_t> &ids) {
  std::string list;
  for (int32_t id : ids)
    list += (list.empty() ? "" : ",") + std::to_string(id);
  return list;
}

} // namespace cria
