// Columns of a state that each token overwrites, of the state that the token reads into the
// one that it writes. A thread computes a column of a chain of rows: block (_, t) does
// nothing if an earlier row writes what row t reads, and goes on with later rows that read
// what it wrote.
// RUN: cria-opt --convert-linalg-to-gpu %s | FileCheck %s
// CHECK-LABEL: func.func private @columns.launch(
// CHECK-SAME: %[[X:[^:]*]]: memref<?x192xf32>
// CHECK: %[[N:.*]] = memref.dim %[[X]]
// CHECK: gpu.launch_func @kernels::@columns blocks in (%c2{{[_0-9]*}}, %[[N]],
// CHECK-LABEL: gpu.func @columns(
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
// CHECK: arith.cmpi slt, %{{.*}}, %c192_i32
// CHECK: %[[ROW:.*]] = gpu.block_id y
// CHECK: %[[OWN:.*]] = memref.load
// CHECK: %[[FOLLOWS:.*]] = scf.for %{{.*}} = %c0_i32{{.*}} iter_args(%[[BEFORE:.*]] =
// CHECK: %[[TO:.*]] = memref.load
// CHECK: %[[IS:.*]] = arith.cmpi eq, %[[TO]], %[[OWN]]
// CHECK: arith.select %[[IS]], %c1_i32{{.*}}, %[[BEFORE]]
// CHECK: arith.cmpi eq, %[[FOLLOWS]], %c0_i32
// CHECK: scf.if
// CHECK: scf.for {{.*}} iter_args(%[[LAST:.*]] = %[[OWN]])
// CHECK: %[[FROM:.*]] = memref.load
// CHECK: arith.cmpi eq, %[[FROM]], %[[LAST]]
// CHECK: scf.if
// All reads of the state come before the stores.
// CHECK-COUNT-5: memref.load {{.*}} : memref<?xf32>
// CHECK: memref.store {{.*}} : memref<?xf32>
// CHECK-NOT: memref.load {{.*}} : memref<?xf32>
// CHECK-COUNT-2: memref.store {{.*}} : memref<?xf32>

// What it takes for granted of linalg:
// RUN: sed 's/%k = %c0 to %n step %c1/%k = %c1 to %n step %c1/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: no-schedule {{.*}}Function=columns {{.*}}Reason="its loop over tokens does not count from 0 by 1"
// RUN: sed 's/(%j) in (3)/(%j) in (%n)/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: Reason="its parallel loop is not over parts of the columns"
// RUN: sed 's/0, 0, 0, %first\] \[%count/0, 0, 0, 0] [%count/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=STORED
// STORED: Reason="its iterations do not store what their tokens insert"
// RUN: sed 's/in %out :/in %x :/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=WRITTEN
// WRITTEN: Reason="it reads what it overwrites"
// RUN: sed 's/%w\[%from, %c0, %c1, %at\]/%w[%from, %c0, %c1, %i]/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=COLUMN
// RUN: sed 's/%w\[%from, 0, 0/%w[%into, 0, 0/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=COLUMN
// COLUMN: Reason="a token reads other columns of the state than it writes"
// RUN: sed 's/%x\[%k, %at\] : tensor<?x192xf32>/%o[%k, %at] : tensor<?x192xf32>/' %s | cria-opt --convert-linalg-to-gpu --remarks-filter=.* -o %t 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: Reason="a token reads what is not in memory"

#id = affine_map<(d) -> (d)>
#all = affine_map<(r, d) -> (r, d)>
func.func private @columns(%x: tensor<?x192xf32>, %state: tensor<?x1x2x192xf32>, %numbers: tensor<?x2xi32>, %out: tensor<?x192xf32>)
    -> (tensor<?x192xf32>, tensor<?x1x2x192xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %n = tensor.dim %x, %c0 : tensor<?x192xf32>
  %rows = tensor.empty(%n) : tensor<?x192xf32>
  %made:2 = scf.forall (%j) in (3) shared_outs(%r = %rows, %all = %state) -> (tensor<?x192xf32>, tensor<?x1x2x192xf32>) {
    %first = arith.muli %j, %c64 : index
    %turns:2 = scf.for %k = %c0 to %n step %c1 iter_args(%o = %r, %w = %all) -> (tensor<?x192xf32>, tensor<?x1x2x192xf32>) {
      %read = tensor.extract %numbers[%k, %c0] : tensor<?x2xi32>
      %from = arith.index_cast %read : i32 to index
      %written = tensor.extract %numbers[%k, %c1] : tensor<?x2xi32>
      %into = arith.index_cast %written : i32 to index
      %e = tensor.empty() : tensor<64xf32>
      %row = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<64xf32>) {
      ^bb0(%b: f32):
        %i = linalg.index 0 : index
        %at = arith.addi %first, %i : index
        %0 = tensor.extract %w[%from, %c0, %c1, %at] : tensor<?x1x2x192xf32>
        %1 = tensor.extract %x[%k, %at] : tensor<?x192xf32>
        %2 = arith.addf %0, %1 : f32
        linalg.yield %2 : f32
      } -> tensor<64xf32>
      %old = tensor.extract_slice %w[%from, 0, 0, %first] [1, 1, 2, 64] [1, 1, 1, 1] : tensor<?x1x2x192xf32> to tensor<2x64xf32>
      %own = bufferization.alloc_tensor() : tensor<2x64xf32>
      %kept = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
          ins(%old : tensor<2x64xf32>) outs(%own : tensor<2x64xf32>) {
      ^bb0(%a: f32, %b: f32):
        %l = linalg.index 0 : index
        %i = linalg.index 1 : index
        %at = arith.addi %first, %i : index
        %last = arith.cmpi eq, %l, %c1 : index
        %0 = tensor.extract %x[%k, %at] : tensor<?x192xf32>
        %1 = arith.select %last, %0, %a : f32
        linalg.yield %1 : f32
      } -> tensor<2x64xf32>
      %with = tensor.insert_slice %row into %o[%k, %first] [1, 64] [1, 1] : tensor<64xf32> into tensor<?x192xf32>
      %after = tensor.insert_slice %kept into %w[%into, 0, 0, %first] [1, 1, 2, 64] [1, 1, 1, 1] : tensor<2x64xf32> into tensor<?x1x2x192xf32>
      scf.yield %with, %after : tensor<?x192xf32>, tensor<?x1x2x192xf32>
    }
    %count = tensor.dim %state, %c0 : tensor<?x1x2x192xf32>
    %part = tensor.extract_slice %turns#0[0, %first] [%n, 64] [1, 1] : tensor<?x192xf32> to tensor<?x64xf32>
    %states = tensor.extract_slice %turns#1[0, 0, 0, %first] [%count, 1, 2, 64] [1, 1, 1, 1] : tensor<?x1x2x192xf32> to tensor<?x1x2x64xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %r[0, %first] [%n, 64] [1, 1] : tensor<?x64xf32> into tensor<?x192xf32>
      tensor.parallel_insert_slice %states into %all[0, 0, 0, %first] [%count, 1, 2, 64] [1, 1, 1, 1] : tensor<?x1x2x64xf32> into tensor<?x1x2x192xf32>
    }
  }
  %stored = bufferization.materialize_in_destination %made#0 in %out : (tensor<?x192xf32>, tensor<?x192xf32>) -> tensor<?x192xf32>
  return %stored, %made#1 : tensor<?x192xf32>, tensor<?x1x2x192xf32>
}
