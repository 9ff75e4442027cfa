// Measures how fast the emulator runs kernels: PTX instructions (threads times
// instructions) per second of CPU time, for each kernel without checks, with
// all checks except that of races in global memory, and with all checks.
#include "tools/emulator/bench/Kernels.h"
#include "tools/emulator/run/Launch.h"
#include "tools/emulator/translate/Program.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace cria::emulator;

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpuSeconds() { return double(clock()) / CLOCKS_PER_SEC; }

enum class Which { None, Local, All };
constexpr Which kAll[] = {Which::None, Which::Local, Which::All};

const char *nameOf(Which which) {
  return which == Which::None    ? "none"
         : which == Which::Local ? "all but global"
                                 : "all";
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

Loaded load(const BenchKernel &kernel, DeviceMemory &memory, Which checks,
            bool counts, unsigned workers) {
  Loaded loaded;
  TranslateOptions options;
  bool any = checks != Which::None;
  options.checks = any;
  options.global = checks == Which::All;
  options.counting = counts ? Counting::Instructions : Counting::Nothing;
  double start = now();
  auto program = Program::load(kernel.ptx, options, memory);
  if (auto *error = std::get_if<Error>(&program)) {
    fprintf(stderr, "%s: line %d: %s\n", kernel.name.c_str(), error->line,
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
  launch.countPlan = found.countPlan.get();
  launch.memory = &memory;
  launch.checks = {any, any, any, options.global, true};
  launch.workers = workers;
  return loaded;
}

/// CPU time of the shortest of five runs.
double bestOf(const Launch &launch) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    double start = cpuSeconds();
    LaunchResult result = runLaunch(launch);
    best = std::min(best, cpuSeconds() - start);
    if (result.finding)
      fprintf(stderr, "%s\n%s", result.finding->headline.c_str(),
              result.finding->details.c_str());
  }
  return best;
}

void measure(const BenchKernel &kernel, unsigned workers) {
  DeviceMemory memory(uint64_t(1) << 30, false);
  uint64_t count = runLaunch(load(kernel, memory, Which::None, true, 1).launch)
                       .counts.instructions();
  double unchecked = 0;
  for (Which checks : kAll) {
    Loaded loaded = load(kernel, memory, checks, false, workers);
    double seconds = bestOf(loaded.launch);
    if (checks == Which::None)
      unchecked = seconds;
    printf("%-10s checks %-14s %8.2e instructions  %7.1f ms  %8.2e a second  "
           "%5.2f times  %6.2f ms to compile\n",
           kernel.name.c_str(), nameOf(checks), double(count), seconds * 1e3,
           double(count) / seconds, seconds / unchecked, loaded.seconds * 1e3);
  }
}

/// The products of one decode step of Llama-3.2-1B with an empty context:
/// (rows, columns) of each weight of a layer, and of the output.
void measureDecoding(unsigned workers) {
  constexpr uint32_t kLayer[][2] = {
      {3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192}};
  constexpr uint32_t kRows = 128256, kColumns = 2048, kLayers = 16;
  BenchKernel gemv = benchKernels()[0];
  gemv.buffers = {uint64_t(kRows) * kColumns * 2, 16384, kRows * 2};
  DeviceMemory memory(uint64_t(2) << 30, false);
  for (Which checks : kAll) {
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
    printf("decode step of a 1B model, checks %-14s %5.2f s on %u cores\n",
           nameOf(checks), now() - start, workers);
  }
}

} // namespace

int main(int count, char **values) {
  if (count > 1 && std::strcmp(values[1], "--help") == 0) {
    puts("usage: cria-emulator-bench [WORKERS [KERNEL]]\n"
         "Runs kernels on WORKERS cores (default 1) and prints rates.");
    return 0;
  }
  unsigned workers = count > 1 ? unsigned(atoi(values[1])) : 1;
  const char *only = count > 2 ? values[2] : nullptr;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const BenchKernel &kernel : benchKernels())
    if (!only || kernel.name == only)
      measure(kernel, workers);
  if (!only)
    measureDecoding(workers);
}
