// The pass that lets cria-bisect see the results of kernels.
include "mlir/Pass/PassBase.td"

def AddTaps : Pass<"add-taps", "::mlir::ModuleOp"> {
  let summary = "make the results of kernels visible, and replaceable";
  let description = [{
    Runs on entry functions on tensors. Each result of a kernel, except caches
    and logits, is stored into the session's buffer `made`, which has a place
    for each iteration of the loop around the kernel. While the tap's number in
    `force` is not 0, later ops read the buffer `given` instead of the result.
    The buffers are arguments of the entries, after the KV caches. The manifest
    (lowering/artifact/Manifest.h) lists the buffers under `caches`. The
    manifest's key `taps` says which buffer belongs to which result, and has the
    module's text.

    With `kept`, only the listed kernels are called, and `given` holds the
    results of the others.
  }];
  let options = [ListOption<"kept", "kept", "std::string",
                            "the kernels that are called (default: all)">];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}
