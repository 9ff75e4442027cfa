#include "runtime/device/Device.h"

#include "runtime/base/Json.h"

#include <cstdlib>
#include <utility>

namespace cria {

/// `text` as a number of one or two digits; nothing if it is anything else.
static std::optional<int> indexIn(const std::string &text) {
  bool isNumber = !text.empty() && text.size() <= 2 &&
                  text.find_first_not_of("0123456789") == std::string::npos &&
                  (text == "0" || text[0] != '0');
  return isNumber ? std::make_optional(atoi(text.c_str())) : std::nullopt;
}

Result<DeviceOptions> deviceNamed(const std::string &name) {
  static const std::pair<const char *, DeviceKind> kinds[] = {
      {"auto", DeviceKind::Auto},
      {"cpu", DeviceKind::Cpu},
      {"cuda", DeviceKind::Cuda},
      {"emulated", DeviceKind::Emulated}};
  size_t colon = name.find(':');
  std::optional<int> index;
  if (colon != std::string::npos)
    index = indexIn(name.substr(colon + 1));
  for (const auto &[known, kind] : kinds) {
    bool takesIndex = kind == DeviceKind::Cuda || kind == DeviceKind::Emulated;
    if (name == known ||
        (index && takesIndex && name.substr(0, colon) == known))
      return DeviceOptions{kind, index};
  }
  return Status(CRIA_INVALID_ARGUMENT,
                {quote(name), " is no device, expected auto, cpu, cuda, cuda:1 "
                              "or emulated"});
}

Status noDevice(int index, int count) {
  return Status(CRIA_NOT_FOUND, {"there is no device ", index, ", expected ",
                                 count > 1 ? "0 to " : "", count - 1});
}

} // namespace cria
