#include "runtime/Device.h"

#include "runtime/Json.h"

#include <utility>

namespace cria {

Result<DeviceKind> deviceNamed(const std::string &name) {
  static const std::pair<const char *, DeviceKind> kinds[] = {
      {"auto", DeviceKind::Auto},
      {"cpu", DeviceKind::Cpu},
      {"cuda", DeviceKind::Cuda},
      {"emulated", DeviceKind::Emulated}};
  for (const auto &[known, kind] : kinds)
    if (name == known)
      return kind;
  return Status(CRIA_INVALID_ARGUMENT,
                "device is " + quote(name) +
                    ", expected auto, cpu, cuda or emulated");
}

} // namespace cria
