/// The settings of the emulated driver, from the environment; docs/emulator.md
/// lists the variables.
#pragma once

#include "runtime/cuda/DriverApi.h"
#include "tools/emulator/run/Launch.h"

#include <string>
#include <vector>

namespace cria::emulator {

/// Call `call` (from 1) of `function` returns `result`, and each call after it
/// if `sticky`.
struct Fault {
  std::string function; ///< without _v2
  uint64_t call = 1;
  CUresult result = CUDA_ERROR_UNKNOWN;
  bool sticky = false;
};

struct Settings {
  unsigned capability = 80;
  uint64_t memory = uint64_t(40) << 30; ///< of each device
  unsigned devices = 1;                 ///< all of one kind
  bool hasDevice = true;
  int driverVersion = 13000; ///< 13000 for 13.0
  bool boundsPtx = false;    ///< the version was set, and bounds the PTX
  Checks checks;
  uint64_t seed = 0;
  unsigned threads = 1;
  unsigned optimization = 1;
  unsigned timeLimit = 600; ///< of a launch, in seconds
  Counting counting = Counting::Nothing;
  std::string countFile; ///< file that counts are added to; empty: stderr
  std::string cache;     ///< folder of machine code; empty: none
  std::string report;    ///< file that findings are added to
  std::vector<Fault> faults;

  /// The newest PTX version that this driver reads, 80 for 8.0. If no driver
  /// version was set, any of 9.x: the meaning of a text does not change with
  /// its version, and unknown instructions are refused one by one.
  unsigned newestPtx() const;
};

/// The text of all variables that have settings.
std::string settingsText();

/// The settings. A value that makes no sense is reported to stderr and left
/// out.
Settings readSettings();

} // namespace cria::emulator
