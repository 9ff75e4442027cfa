/// Which schedules build the kernels of an op.
///
/// A target offers its schedules as tables, the fastest first. For each op the
/// first schedule that takes it builds the kernel. Some schedules need a
/// generation of chips that not all chips of a compilation may be of (Chips.h):
/// then the first schedule for the older ones builds another kernel, and the
/// kernels say which generations they are for.
///
/// A schedule may `take` an op by what tables can say: types, rows, sizes. What
/// schedules take for granted of linalg is in Preconditions.h.
#pragma once

#include "lowering/gpu/schedules/Attention.h"
#include "lowering/gpu/schedules/Gemm.h"
#include "lowering/gpu/schedules/Gemv.h"
#include "lowering/gpu/schedules/Recurrence.h"

namespace cria::simt {

/// Products of few rows.
struct GemvProblem {
  llvm::ArrayRef<Work> works;
  /// The input if blocks compute it, else null, and the statistics it needs.
  const Part *input;
  const Statistics &statistics;
};
struct GemvSchedule {
  llvm::StringLiteral suffix; ///< of the kernel's name
  Generation needs;
  bool (*takes)(const GemvProblem &problem);
  GemvSizes Tuning::*sizes;
  /// Null if it does not take the problem after all.
  std::unique_ptr<Gemv> (*make)(Launch &launch, const GemvProblem &problem,
                                const GemvSizes &sizes);
};

/// Products of many rows, for inputs of a range of rows.
struct GemmProblem {
  KernelFunction &function;
  llvm::ArrayRef<Work> works;
  const Tuning &tuning;
  /// The number of the tile in tuning.tiles; none if one kernel is for all
  /// rows.
  std::optional<size_t> range;
  /// The tiles' rows, if rows choose their weights; they are for all numbers of
  /// rows.
  Groups groups = {};

  /// The inputs of that range, and its tile.
  GemmRows rows() const;
  const TileSizes &tile() const {
    return works[0].choice && *range == 1 ? tuning.grouped
                                          : tuning.tiles[*range];
  }
  /// A shape with the problem's groups, whose tiles are enough without splits.
  GemmShape grouped(GemmShape shape) const {
    shape.groups = groups;
    if (groups.order)
      shape.splits.most = 1;
    return shape;
  }
};
struct GemmSchedule {
  llvm::StringLiteral suffix;
  Generation needs;
  bool (*takes)(const GemmProblem &problem);
  /// Begins a kernel `name`. Null if it does not take the problem after all.
  GemmKernel (*make)(const GemmProblem &problem, const llvm::Twine &name);
};

struct AttentionSchedule {
  Generation needs;
  bool (*takes)(const KernelFunction &function, const AttentionMemory &in);
  mlir::gpu::GPUFuncOp (*emit)(KernelFunction &function,
                               const AttentionMemory &in, const Tuning &tuning);
};

/// Builds the kernels of a recurrence. False if it is not taken: then nothing
/// is built, and the recurrence's reason says why.
using RecurrenceSchedule = bool (*)(Recurrence &in, const Tuning &tuning);

/// The schedules that a target offers.
struct Schedules {
  llvm::ArrayRef<GemvSchedule> gemv;
  llvm::ArrayRef<GemmSchedule> gemm;
  llvm::ArrayRef<AttentionSchedule> attention;
  llvm::ArrayRef<RecurrenceSchedule> recurrence;
};

class Choose {
public:
  Choose(const Schedules &schedules, const Tuning &tuning)
      : schedules(schedules), tuning(tuning) {}

  /// Whether the products have few rows, which a gemv takes: bound by the
  /// bytes of weights. More rows are bound by operations. If rows choose their
  /// weights, the longest call decides for all calls.
  bool hasFewRows(const KernelFunction &function, const Work &work) const;
  /// These build the kernels and their launches. The works of a call share a
  /// grid; works of `gemm` have sums of the same products.
  void gemv(KernelFunction &function, const llvm::Twine &name,
            const GemvProblem &problem) const;
  void gemm(KernelFunction &function, const llvm::Twine &name,
            llvm::ArrayRef<Work> works) const;
  void attention(KernelFunction &function, const AttentionMemory &in) const;
  /// By the first schedule that takes it; remarks say why others do not.
  bool recurrence(Recurrence &in) const;

private:
  const Schedules &schedules;
  const Tuning &tuning;
};

} // namespace cria::simt
