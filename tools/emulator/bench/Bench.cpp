// Measures how fast the emulator runs kernels: PTX instructions (threads times
// instructions) a second, for each kernel without and with checks.
#include "tools/emulator/bench/Kernels.h"
#include "tools/emulator/run/Launch.h"
#include "tools/emulator/translate/Program.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cria::emulator;

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A kernel that is loaded and the launch that runs it.
struct Loaded {
  std::unique_ptr<Program> program;
  Launch launch;
  double seconds = 0; ///< to load and compile
};

template <typename T> void append(std::vector<char> &to, T value) {
  to.resize((to.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T));
  std::memcpy(to.data() + to.size() - sizeof(T), &value, sizeof(T));
}

Loaded load(const BenchKernel &kernel, DeviceMemory &memory, bool checks,
            bool counts, unsigned workers) {
  Loaded loaded;
  TranslateOptions options;
  options.checks = options.global = checks;
  options.counts = counts;
  double start = now();
  auto program = Program::load(kernel.ptx, options, memory);
  if (auto *error = std::get_if<Error>(&program)) {
    fprintf(stderr, "%s: line %d: %s\n", kernel.name, error->line,
            error->message.c_str());
    exit(1);
  }
  loaded.program = std::move(std::get<std::unique_ptr<Program>>(program));
  Kernel &found = *loaded.program->find(kernel.name);
  loaded.program->compile(found);
  loaded.seconds = now() - start;
  Launch &launch = loaded.launch;
  launch.code = found.code;
  launch.blocks = found.blocks;
  launch.name = kernel.name;
  launch.sourceOf = [](int) { return ""; };
  launch.grid = kernel.grid;
  launch.block = kernel.block;
  launch.staticShared = uint32_t(found.sharedBytes);
  for (uint64_t bytes : kernel.buffers)
    append(launch.parameters, memory.allocate(bytes, Allocation::Device));
  append(launch.parameters, kernel.size);
  launch.memory = &memory;
  launch.checks = {checks, checks, checks, checks, true};
  launch.workers = workers;
  return loaded;
}

/// The shortest of five runs.
double bestOf(const Launch &launch) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    double start = now();
    LaunchResult result = runLaunch(launch);
    best = std::min(best, now() - start);
    if (result.finding)
      fprintf(stderr, "%s\n%s", result.finding->headline.c_str(),
              result.finding->details.c_str());
  }
  return best;
}

void measure(const BenchKernel &kernel, unsigned workers) {
  DeviceMemory memory(uint64_t(1) << 30, false);
  uint64_t count =
      runLaunch(load(kernel, memory, false, true, 1).launch).instructions;
  for (bool checks : {false, true}) {
    Loaded loaded = load(kernel, memory, checks, false, workers);
    double seconds = bestOf(loaded.launch);
    printf("%-10s checks %-3s  %8.2e instructions  %7.1f ms  %8.2e a second  "
           "%6.2f ms to compile\n",
           kernel.name, checks ? "on" : "off", double(count), seconds * 1e3,
           double(count) / seconds, loaded.seconds * 1e3);
  }
}

/// The products of one decode step of Llama-3.2-1B, for an empty context:
/// (rows, columns) of each weight of a layer, and of the output.
void measureDecoding(unsigned workers) {
  constexpr uint32_t kLayer[][2] = {
      {3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192}};
  constexpr uint32_t kRows = 128256, kColumns = 2048, kLayers = 16;
  BenchKernel gemv = benchKernels()[0];
  gemv.buffers = {uint64_t(kRows) * kColumns * 2, 16384, kRows * 2};
  DeviceMemory memory(uint64_t(2) << 30, false);
  for (bool checks : {false, true}) {
    gemv.size = kColumns;
    Loaded loaded = load(gemv, memory, checks, false, workers);
    uint64_t weights;
    std::memcpy(&weights, loaded.launch.parameters.data(), 8);
    std::memset(reinterpret_cast<void *>(weights), 1, gemv.buffers[0]);
    auto run = [&](uint32_t rows, uint32_t columns) {
      loaded.launch.grid.x = rows / 4;
      std::memcpy(loaded.launch.parameters.data() + 24, &columns, 4);
      runLaunch(loaded.launch);
    };
    double start = now();
    for (uint32_t layer = 0; layer < kLayers; ++layer)
      for (auto [rows, columns] : kLayer)
        run(rows, columns);
    run(kRows, kColumns);
    printf("decode step of a 1B model, checks %-3s %5.2f s on %u cores\n",
           checks ? "on" : "off", now() - start, workers);
  }
}

} // namespace

int main(int count, char **values) {
  if (count > 1 && std::strcmp(values[1], "--help") == 0) {
    puts("usage: cria-emulator-bench [WORKERS]\n"
         "Runs kernels on WORKERS cores (default 1) and prints rates.");
    return 0;
  }
  unsigned workers = count > 1 ? unsigned(atoi(values[1])) : 1;
  for (const BenchKernel &kernel : benchKernels())
    measure(kernel, workers);
  measureDecoding(workers);
}
