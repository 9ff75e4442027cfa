// A matrix whose columns each token updates: a block has 32 columns of a head in the
// registers of four of its warps. The other four bring what a token reads, and compute its
// sums of squares.
// RUN: cria-opt --convert-linalg-to-gpu %s | FileCheck %s
// CHECK: gpu.launch_func @kernels::@columns blocks in (%c2{{[_0-9]*}}, %c2{{[_0-9]*}}, %c1{{[_0-9]*}})
// CHECK-LABEL: gpu.func @columns(
// CHECK-SAME: memref<3x64x64xf32>, %{{[^:]*}}: memref<?x2x64xf32>, %{{[^:]*}}: memref<?x2x64xf32> {llvm.noalias, llvm.readonly}
// CHECK-SAME: workgroup(%{{.*}} : memref<2176xf32, #gpu.address_space<workgroup>>
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
// CHECK-COUNT-8: memref.load {{.*}} : memref<12288xf32>
// The owners of columns: two groups of four rows, and a sum over the four lanes of a column.
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-2: math.fma {{.*}} : vector<4xf32>
// CHECK-COUNT-2: gpu.shuffle {{ *}}xor
// CHECK: memref.store {{.*}} : memref<?xf32>
// CHECK: arith.addf {{.*}} : vector<4xf32>
// The other warps: a sum over a row.
// CHECK: scf.for
// CHECK-COUNT-5: gpu.shuffle {{ *}}xor
// CHECK: arith.divf
// CHECK: memref.store {{.*}} : memref<2176xf32, #gpu.address_space<workgroup>>
// CHECK: gpu.barrier
// CHECK-COUNT-8: memref.store {{.*}} : memref<12288xf32>

// What it takes for granted of linalg:
// RUN: sed 's/in (2, 2)/in (2, %n)/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: no-schedule {{.*}}Function=columns {{.*}}Reason="a size of its parallel loop is not constant"
// RUN: sed 's/%n step %c1/%n step %c32/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: Reason="its loop over tokens does not count from 0 by 1"
// RUN: sed 's/ fastmath<reassoc,contract>//' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: Reason="a token's product is not one of rows and the matrix"
// RUN: sed 's/in %out :/in %y :/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=WRITTEN
// WRITTEN: Reason="it reads what it overwrites"
// RUN: sed 's/.sums\[0, 0\]/%matrix[3, 0]/; s/tensor<1x32xf32> to tensor<32xf32>/tensor<32x32xf32> to tensor<32xf32>/' %s > %t.mlir
// RUN: sed '/%line = /s/tensor<32x32xf32>/tensor<1x32xf32>/' %t.mlir | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=ROW
// ROW: Reason="a token reads other elements of the matrix than it writes"

#all = affine_map<(t, h, d) -> (t, h, d)>
#row = affine_map<(t, h, d) -> (t, h)>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#dv = affine_map<(d, v) -> (d, v)>
#d = affine_map<(d, v) -> (d)>
#v = affine_map<(d, v) -> (v)>
#id = affine_map<(v) -> (v)>
func.func private @columns(%x: tensor<?x2x32xf32>, %y: tensor<?x2x64xf32>, %rate: tensor<?x2xf32>, %s: tensor<3x64x64xf32>, %n: index, %out: tensor<?x2x64xf32>)
    -> (tensor<?x2x64xf32>, tensor<3x64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %some = tensor.empty(%n) : tensor<?x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%some : tensor<?x2xf32>) -> tensor<?x2xf32>
  %squares = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x2x32xf32>) outs(%zeros : tensor<?x2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.mulf %a, %a fastmath<reassoc,contract> : f32
    %1 = arith.addf %acc, %0 fastmath<reassoc,contract> : f32
    linalg.yield %1 : f32
  } -> tensor<?x2xf32>
  %place = tensor.empty(%n) : tensor<?x2x32xf32>
  %unit = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %squares : tensor<?x2x32xf32>, tensor<?x2xf32>) outs(%place : tensor<?x2x32xf32>) {
  ^bb0(%a: f32, %square: f32, %b: f32):
    %0 = arith.divf %a, %square : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x32xf32>
  %rows = tensor.empty(%n) : tensor<?x2x64xf32>
  %made:2 = scf.forall (%h, %c) in (2, 2) shared_outs(%o = %rows, %state = %s) -> (tensor<?x2x64xf32>, tensor<3x64x64xf32>) {
    %at = arith.muli %h, %c32 : index
    %column = arith.muli %c, %c32 : index
    %old = tensor.extract_slice %state[1, %at, %column] [1, 32, 32] [1, 1, 1] : tensor<3x64x64xf32> to tensor<32x32xf32>
    %own = bufferization.alloc_tensor() : tensor<32x32xf32>
    %first = linalg.generic {indexing_maps = [#dv, #dv], iterator_types = ["parallel", "parallel"]}
        ins(%old : tensor<32x32xf32>) outs(%own : tensor<32x32xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    } -> tensor<32x32xf32>
    %turns:2 = scf.for %t = %c0 to %n step %c1 iter_args(%matrix = %first, %all = %o) -> (tensor<32x32xf32>, tensor<?x2x64xf32>) {
      %key = tensor.extract_slice %unit[%t, %h, 0] [1, 1, 32] [1, 1, 1] : tensor<?x2x32xf32> to tensor<1x32xf32>
      %e = tensor.empty() : tensor<1x32xf32>
      %begin = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32xf32>) -> tensor<1x32xf32>
      %sums = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%key, %matrix : tensor<1x32xf32>, tensor<32x32xf32>) outs(%begin : tensor<1x32xf32>) {
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %0 = arith.mulf %a, %b fastmath<reassoc,contract> : f32
        %1 = arith.addf %acc, %0 fastmath<reassoc,contract> : f32
        linalg.yield %1 : f32
      } -> tensor<1x32xf32>
      %value = tensor.extract_slice %y[%t, %h, %column] [1, 1, 32] [1, 1, 1] : tensor<?x2x64xf32> to tensor<32xf32>
      %number = tensor.extract %rate[%t, %h] : tensor<?x2xf32>
      %known = tensor.extract_slice %sums[0, 0] [1, 32] [1, 1] : tensor<1x32xf32> to tensor<32xf32>
      %f = tensor.empty() : tensor<32xf32>
      %row = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
          ins(%value, %known : tensor<32xf32>, tensor<32xf32>) outs(%f : tensor<32xf32>) {
      ^bb0(%a: f32, %b: f32, %c2: f32):
        %0 = arith.subf %a, %b : f32
        %1 = arith.mulf %0, %number : f32
        linalg.yield %1 : f32
      } -> tensor<32xf32>
      %line = tensor.extract_slice %key[0, 0] [1, 32] [1, 1] : tensor<1x32xf32> to tensor<32xf32>
      %next = linalg.generic {indexing_maps = [#d, #v, #dv], iterator_types = ["parallel", "parallel"]}
          ins(%line, %row : tensor<32xf32>, tensor<32xf32>) outs(%matrix : tensor<32x32xf32>) {
      ^bb0(%a: f32, %b: f32, %m: f32):
        %0 = arith.mulf %a, %b : f32
        %1 = arith.addf %m, %0 : f32
        linalg.yield %1 : f32
      } -> tensor<32x32xf32>
      %with = tensor.insert_slice %row into %all[%t, %h, %column] [1, 1, 32] [1, 1, 1] : tensor<32xf32> into tensor<?x2x64xf32>
      scf.yield %next, %with : tensor<32x32xf32>, tensor<?x2x64xf32>
    }
    %part = tensor.extract_slice %turns#1[0, %h, %column] [%n, 1, 32] [1, 1, 1] : tensor<?x2x64xf32> to tensor<?x1x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %o[0, %h, %column] [%n, 1, 32] [1, 1, 1] : tensor<?x1x32xf32> into tensor<?x2x64xf32>
      tensor.parallel_insert_slice %turns#0 into %state[1, %at, %column] [1, 32, 32] [1, 1, 1] : tensor<32x32xf32> into tensor<3x64x64xf32>
    }
  }
  %stored = bufferization.materialize_in_destination %made#0 in %out : (tensor<?x2x64xf32>, tensor<?x2x64xf32>) -> tensor<?x2x64xf32>
  return %stored, %made#1 : tensor<?x2x64xf32>, tensor<3x64x64xf32>
}
