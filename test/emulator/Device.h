/// Runs kernels for tests, without the driver API.
#pragma once

#include "tools/emulator/run/Launch.h"
#include "tools/emulator/translate/Program.h"

#include <cstring>
#include <gtest/gtest.h>

namespace cria::emulator {

/// A device with memory and one module.
class TestDevice {
public:
  explicit TestDevice(unsigned capability = 80) {
    options.capability = capability;
    options.checks = options.global = true;
  }

  /// Loads `ptx`; the error, or "".
  std::string load(const std::string &ptx) {
    program.reset();
    auto loaded = Program::load(ptx, options, memory);
    if (auto *error = std::get_if<Error>(&loaded))
      return "line " + std::to_string(error->line) + ": " + error->message;
    program = std::move(std::get<std::unique_ptr<Program>>(loaded));
    return "";
  }

  /// A copy of `values` on the device.
  template <typename T> uint64_t upload(const std::vector<T> &values) {
    uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void *>(address), values.data(),
                values.size() * sizeof(T));
    return address;
  }
  uint64_t allocate(uint64_t bytes) {
    return memory.allocate(bytes, Allocation::Device);
  }
  template <typename T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<void *>(address),
                count * sizeof(T));
    return values;
  }

  /// Launches the kernel `name` of the module. The parameters have 4 or 8
  /// bytes each, as their types have.
  template <typename... Args>
  LaunchResult launch(const std::string &name, Dim grid, Dim block,
                      uint32_t dynamicShared, Args... args) {
    Kernel *kernel = program ? program->find(name) : nullptr;
    if (!kernel || program->compile(*kernel)) {
      ADD_FAILURE() << "no kernel " << name;
      return {};
    }
    Launch launch;
    launch.code = kernel->code;
    launch.blocks = kernel->blocks;
    launch.name = name;
    launch.sourceOf = [this](int line) { return program->sourceOf(line); };
    launch.grid = grid;
    launch.block = block;
    const auto &needed = kernel->function->cluster;
    if (needed[0])
      launch.cluster = {needed[0], needed[1], needed[2]};
    launch.staticShared = uint32_t(kernel->sharedBytes);
    launch.dynamicShared = dynamicShared;
    launch.reservedShared = uint32_t(kernel->reservedBytes);
    launch.localBytes = kernel->localBytes;
    launch.recurses = kernel->recurses;
    launch.parameters.resize(kernel->function->parameterBytes + 16);
    size_t i = 0;
    (void)i;
    (std::memcpy(launch.parameters.data() +
                     kernel->function->parameters[i++].offset,
                 &args, sizeof args),
     ...);
    launch.countPlan = kernel->countPlan.get();
    launch.memory = &memory;
    launch.checks = checks;
    launch.seed = seed;
    launch.workers = workers;
    launch.cooperative = cooperative;
    launch.timeLimit = timeLimit;
    if (overlaps)
      overlap(launch, trace);
    LaunchResult result = runLaunch(launch);
    trace = result.trace;
    return result;
  }

  /// The same, and it must find nothing.
  template <typename... Args>
  void run(const std::string &name, Dim grid, Dim block, uint32_t dynamicShared,
           Args... args) {
    LaunchResult result = launch(name, grid, block, dynamicShared, args...);
    if (result.finding)
      ADD_FAILURE() << result.finding->headline << "\n"
                    << result.finding->details;
  }

  TranslateOptions options;
  Checks checks;
  uint64_t seed = 0;
  unsigned workers = 2;
  bool cooperative = false;
  bool overlaps = false; ///< the next launch, with the last one
  LaunchTrace trace;     ///< of the last launch
  double timeLimit = 60;
  DeviceMemory memory{uint64_t(1) << 30, true};
  std::unique_ptr<Program> program;
};

/// A PTX text with one kernel: `parameters` and `body` as PTX.
inline std::string kernelPtx(const std::string &parameters,
                             const std::string &body,
                             const std::string &target = "sm_80") {
  return ".version 8.0\n.target " + target +
         "\n.address_size 64\n.visible .entry k(" + parameters + ")\n{\n" +
         body + "}\n";
}

} // namespace cria::emulator
