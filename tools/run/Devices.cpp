#include "tools/run/Devices.h"

#include "runtime/session/Devices.h"

#include <cstdio>

namespace cria {

static void print(const std::string &device, const DeviceInfo &info) {
  std::string chip =
      info.capability ? ", sm_" + std::to_string(info.capability) : "";
  printf("%s: %s%s, %llu MiB, %llu MiB free\n", device.c_str(),
         info.name.c_str(), chip.c_str(),
         static_cast<unsigned long long>(info.memory >> 20),
         static_cast<unsigned long long>(info.free >> 20));
}

void listDevices() {
  for (auto [name, kind] :
       {std::pair("cpu", DeviceKind::Cpu), std::pair("cuda", DeviceKind::Cuda),
        std::pair("emulated", DeviceKind::Emulated)}) {
    Result<int> count = deviceCount(kind);
    // A missing emulated driver is not reported: most users do not need one.
    if (!count.ok() && kind == DeviceKind::Cuda)
      fprintf(stderr, "cria-run: no cuda: %s\n",
              count.status().message().c_str());
    for (int i = 0; count.ok() && i < *count; ++i) {
      std::string device = name;
      if (kind != DeviceKind::Cpu)
        device += ":" + std::to_string(i);
      Result<DeviceInfo> info = deviceInfo(kind, i);
      if (info.ok())
        print(device, *info);
      else
        fprintf(stderr, "cria-run: %s: %s\n", device.c_str(),
                info.status().message().c_str());
    }
  }
}

} // namespace cria
