/// The timeline of cria-run.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"
#include "runtime/device/Backend.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// A feed: a chunk of the prompt, or one new id.
struct RunEvent {
  const char *name;
  double begin, seconds; // seconds since the start
  int64_t position, tokens;
  int64_t logits;                  // rows
  std::vector<KernelTime> kernels; // in order
};

/// What a machine can reach, as cria-bench --save-machine writes it.
struct MachineRates {
  double bytesPerSecond = 0, flops = 0, f32Flops = 0; // 0: unknown
};

Result<MachineRates> readMachine(const std::string &path);

/// Writes the feeds of a run to the file at `path`, in Chrome's trace format
/// (chrome://tracing, Perfetto). A feed is a slice. In the feed's slice, each
/// kernel is a slice, named by its module; in the kernel's slice, each launch
/// is a slice if there are several. The args are the least bytes and operations
/// of a run, and the time that a machine with `rates` needs for them. On a GPU,
/// a launch begins when the previous one ended, so the time in which the host
/// had launched nothing counts for it.
Status writeTrace(const std::string &path, const Manifest &manifest,
                  const MachineRates &rates, const std::vector<RunEvent> &run);

} // namespace cria
