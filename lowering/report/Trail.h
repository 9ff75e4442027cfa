/// The origin of each op of a phase. Locations tell it: when a phase is
/// printed, each op gets its line as its location. Passes keep or fuse the
/// locations of ops in the ops that they make. So at the next phase an op's
/// location is the line of the phase before.
#pragma once

#include "lowering/Compilation.h"

#include <map>
#include <string>
#include <vector>

namespace cria {

/// A printed phase: its lines, counted from 0.
struct Listing {
  std::string phase; // "linalg"
  /// Which listing of the trail `from` refers to; -1: none.
  int parent = -1;
  std::vector<std::string> lines;
  /// Of each line, the lines that its op came from.
  std::vector<std::vector<int>> from;
  /// Of each function or kernel, by name, its first line and the one after its
  /// last.
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
  /// The kernels that it calls or launches, in order; a loop's kernels once.
  std::vector<std::string> steps;
  std::vector<ArenaBuffer> buffers;
};

/// A kernel of an entry, and the kernels whose results it reads.
struct GraphNode {
  std::string function;
  /// The ops inside: mnemonics, and the paths of their modules.
  std::vector<std::pair<std::string, std::string>> ops;
  /// The nodes whose results it reads; `carried` if the result is that of the
  /// iteration before.
  std::vector<int> inputs, carried;
  /// Iterations of the loops around it, and which loop it is; -1: none.
  int64_t runs = 1;
  int loop = -1;
};

class Trail {
public:
  /// Takes a program at Import to the last phase that has lines, for a device;
  /// phases that devices share are taken once. `compilation` stays as it is.
  llvm::Error follow(const Compilation &compilation,
                     llvm::ArrayRef<Device> devices);

  std::vector<Listing> listings;
  /// The listings of each device, in order.
  std::map<Device, std::vector<int>> ofDevice;
  std::map<Device, std::vector<ArenaPlan>> arenas;
  std::vector<GraphNode> graph; // of @decode, or @prefill without one

private:
  void record(Phase phase, mlir::ModuleOp module, Device device);
  void recordPtx(llvm::StringRef text, Device device);
  int add(Listing listing, Device device);
};

} // namespace cria
