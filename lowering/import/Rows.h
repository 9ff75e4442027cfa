/// The numbers of rows of a program's tensors.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// Checks that no op of a program's function reads or writes rows that are not
/// there:
///
/// - Slices lie within their sources.
/// - Operands that are combined row by row have the same number of rows.
/// - Rows that are rotated, appended to a cache, that attend, or are returned
///   are at most as many as the tokens.
///
/// Numbers of rows are sums of the number of tokens T, the function's other
/// arguments, and constants. Known is that `first` and `first_hidden` are at
/// most T, and that the positions of all tokens are below `positions`. The
/// function's type must be that of a program's function.
mlir::LogicalResult verifyRows(mlir::func::FuncOp function, int64_t positions);

} // namespace cria
