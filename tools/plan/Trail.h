/// The origin of each op of a phase. It is read from locations: when a phase is
/// printed, the location of each op is set to its line. Passes keep or fuse the
/// locations of ops in the ops that they make. So at the next phase, an op's
/// location is a line of the phase before.
#pragma once

#include "lowering/Compilation.h"

#include <map>
#include <string>
#include <vector>

namespace cria {

/// A printed phase: its lines, counted from 0.
struct Listing {
  std::string phase; // "linalg"
  /// The listing of the trail that `from` refers to; -1 for none.
  int parent = -1;
  std::vector<std::string> lines;
  /// For each line, the lines that its op comes from.
  std::vector<std::vector<int>> from;
  /// For each function or kernel, by name: its first line, and the line after
  /// its last.
  std::map<std::string, std::pair<int, int>> functions;
};

/// A buffer in the arena of an entry.
struct ArenaBuffer {
  int64_t offset, bytes;
  /// The first and last of the entry's steps that use it.
  int first, last;
};

/// The memory of an entry while it runs.
struct ArenaPlan {
  std::string entry;
  int64_t bytes = 0;
  /// The kernels that the entry calls or launches, in order. The kernels of a
  /// loop are listed once.
  std::vector<std::string> steps;
  std::vector<ArenaBuffer> buffers;
};

/// A kernel of an entry, and the kernels whose results it reads.
struct GraphNode {
  std::string function;
  /// The ops inside: mnemonics, and the paths of their modules.
  std::vector<std::pair<std::string, std::string>> ops;
  /// The nodes whose results the kernel reads. `carried` has those whose result
  /// is from the iteration before.
  std::vector<int> inputs, carried;
  /// The iterations of the loops around the kernel, and the number of the loop;
  /// -1 for none.
  int64_t runs = 1;
  int loop = -1;
};

class Trail {
public:
  /// Compiles a program at Import up to the last phase that has lines, for each
  /// device, and records each phase. Phases that devices share are compiled
  /// once. `compilation` is not changed.
  llvm::Error follow(const Compilation &compilation,
                     llvm::ArrayRef<Device> devices);

  std::vector<Listing> listings;
  /// The listings of each device, in order.
  std::map<Device, std::vector<int>> ofDevice;
  std::map<Device, std::vector<ArenaPlan>> arenas;
  std::vector<GraphNode> graph; // of @decode, or else of @prefill

private:
  void record(Phase phase, mlir::ModuleOp module, Device device);
  void recordPtx(llvm::StringRef text, Device device);
  int add(Listing listing, Device device);
};

} // namespace cria
