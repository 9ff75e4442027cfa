/// What cria-run did and when, for a timeline.
#pragma once

#include "runtime/Backend.h"
#include "runtime/Manifest.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// A feed: a chunk of the prompt, or one new id.
struct RunEvent {
  const char *name;
  double begin, seconds; // since the start
  int64_t position, tokens;
  int64_t logits;                  // rows
  std::vector<KernelTime> kernels; // in order
};

/// What a machine reaches, as cria-bench --save-machine writes it.
struct MachineRates {
  double bytesPerSecond = 0, flops = 0, f32Flops = 0; // 0: unknown
};

Result<MachineRates> readMachine(const std::string &path);

/// Writes the feeds of a run to the file at `path`, in Chrome's trace format
/// (chrome://tracing, Perfetto): a slice a feed, in it a slice a kernel, called
/// by its module, and in it its launches where there are several. Their args
/// are the bytes and operations that a run takes at least, and how long that
/// takes a machine with `rates`. On a GPU a launch begins where the one before
/// ended, so the time in which the host had launched nothing counts for it.
Status writeTrace(const std::string &path, const Manifest &manifest,
                  const MachineRates &rates, const std::vector<RunEvent> &run);

} // namespace cria
