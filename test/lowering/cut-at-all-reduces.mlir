// RUN: cria-opt --cut-at-all-reduces --split-input-file --verify-diagnostics %s | FileCheck %s

// A kernel function calls what is before its sum over ranks and what is behind it.
// Each takes the arguments that it reads.
// CHECK-LABEL: func.func private @down_partial(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>, %[[W:.*]]: tensor<8x4xf32>, %[[INTO:.*]]: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {cria.chunk = 16 : index}
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]] :
// CHECK: %[[STORED:.*]] = bufferization.materialize_in_destination %[[SUM]] in %[[INTO]]
// CHECK: return %[[STORED]]
// CHECK-LABEL: func.func private @down_rest(
// CHECK-SAME: %[[R:.*]]: tensor<?x8xf32>, %[[ALL:.*]]: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {cria.chunk = 16 : index}
// CHECK-NEXT: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[ALL]] : tensor<?x8xf32>) outs(%[[R]] : tensor<?x8xf32>)
// CHECK: return %[[Y]]
// CHECK-LABEL: func.func private @down(
// CHECK-NOT: linalg
// CHECK: %[[TOKENS:.*]] = tensor.dim
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[TOKENS]]) : tensor<?x8xf32>
// CHECK: %[[PART:.*]] = call @down_partial(%arg0, %arg1, %[[EMPTY]])
// CHECK: tensor.collapse_shape %[[PART]]
// CHECK: mpi.allreduce
// CHECK: %[[WHOLE:.*]] = tensor.expand_shape
// CHECK: %[[RESULT:.*]] = call @down_rest(%arg2, %[[WHOLE]])
// CHECK: return %[[RESULT]]
#all = affine_map<(d0, d1) -> (d0, d1)>
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func private @down(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>, %r: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {cria.chunk = 16 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x4xf32>
  %empty = tensor.empty(%tokens) : tensor<?x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x8xf32>) -> tensor<?x8xf32>
  %part = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x4xf32>, tensor<8x4xf32>) outs(%fill : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %out, %product : f32
    linalg.yield %sum : f32
  } -> tensor<?x8xf32>
  %flat = tensor.collapse_shape %part [[0, 1]] : tensor<?x8xf32> into tensor<?xf32>
  %buffer = bufferization.to_buffer %flat : tensor<?xf32> to memref<?xf32>
  %world = mpi.comm_world : !mpi.comm
  mpi.allreduce(%buffer, %buffer, MPI_SUM, %world) : memref<?xf32>, memref<?xf32>
  %summed = bufferization.to_tensor %buffer restrict writable : memref<?xf32> to tensor<?xf32>
  %whole = tensor.expand_shape %summed [[0, 1]] output_shape [%tokens, 8] : tensor<?xf32> into tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%whole : tensor<?x8xf32>) outs(%r : tensor<?x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %sum = arith.addf %out, %a : f32
    linalg.yield %sum : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// A function without a sum stays.
// CHECK-LABEL: func.func private @norm(%arg0: tensor<?x8xf32>) -> tensor<?x8xf32> {
// CHECK-NEXT: return %arg0
func.func private @norm(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

// expected-error @below {{'func.func' op expected one sum over ranks in its only block}}
func.func private @two(%x: memref<8xf32>) {
  %world = mpi.comm_world : !mpi.comm
  mpi.allreduce(%x, %x, MPI_SUM, %world) : memref<8xf32>, memref<8xf32>
  mpi.allreduce(%x, %x, MPI_SUM, %world) : memref<8xf32>, memref<8xf32>
  return
}

// -----

func.func private @memory(%x: memref<8xf32>) {
  %world = mpi.comm_world : !mpi.comm
  // expected-error @below {{'mpi.allreduce' op expected the sum in place of a tensor that is collapsed before and expanded after it}}
  mpi.allreduce(%x, %x, MPI_SUM, %world) : memref<8xf32>, memref<8xf32>
  return
}
