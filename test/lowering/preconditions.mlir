// What schedules take for granted (lowering/gpu/schedules/Preconditions.h): a kernel that
// breaks each precondition is refused with its sentence, or takes another way.
// RUN: cria-opt --convert-linalg-to-gpu --remarks-filter=.* %s -o %t.mlir 2> %t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

#id = affine_map<(t, n) -> (t, n)>
#row = affine_map<(t, n) -> (t)>
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#kn = affine_map<(t, n, k) -> (k, n)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id3 = affine_map<(t, n, k) -> (t, n, k)>
#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#choice = affine_map<(t, s, n, k) -> (t, s)>
#choice_x = affine_map<(t, s, n, k) -> (t, k)>
#choice_y = affine_map<(t, s, n, k) -> (t, s, n)>

// hasMemory
// REMARK: no-schedule {{.*}}Function=inner_size {{.*}}Reason="a tensor has elements that are not of 8, 16, 32 or 64 bits, or a size after its first that is not constant"
func.func private @inner_size(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%x : tensor<4x?xf32>) {
  ^bb0(%a: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}

// rowInMemory: slices with a stride are copied first.
// REMARK: further-launch {{.*}}Function=strided_input {{.*}}Reason="many blocks read the input of its products"
// CHECK-LABEL: func.func private @strided_input.launch(
// CHECK: gpu.launch_func @kernels::@strided_input_input
// CHECK: gpu.launch_func @kernels::@strided_input blocks
func.func private @strided_input(%x: tensor<?x64xf32>, %n: index, %w: tensor<32x20xf32>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.extract_slice %x[0, 1] [%n, 20] [1, 3] : tensor<?x64xf32> to tensor<?x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%s, %w : tensor<?x20xf32>, tensor<32x20xf32>) outs(%z : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
// REMARK: further-launch {{.*}}Function=strided_weights {{.*}}Reason="the terms of a product do not lie side by side in memory"
// CHECK-LABEL: func.func private @strided_weights.launch(
// CHECK: gpu.launch_func @kernels::@strided_weights_input
// CHECK: gpu.launch_func @kernels::@strided_weights blocks
func.func private @strided_weights(%x: tensor<1x20xf32>, %w: tensor<32x64xf32>, %out: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.extract_slice %w[0, 1] [32, 20] [1, 3] : tensor<32x64xf32> to tensor<32x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %s : tensor<1x20xf32>, tensor<32x20xf32>) outs(%z : tensor<1x32xf32>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}
// REMARK: no-schedule {{.*}}Function=columns {{.*}}Reason="the terms of a product do not lie side by side in memory"
func.func private @columns(%x: tensor<1x32xf32>, %w: tensor<32x24xf32>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x24xf32>) -> tensor<1x24xf32>
  %p = linalg.contract indexing_maps = [#tk, #kn, #tn] ins(%x, %w : tensor<1x32xf32>, tensor<32x24xf32>) outs(%z : tensor<1x24xf32>) -> tensor<1x24xf32>
  return %p : tensor<1x24xf32>
}

// beginAtWords: @odd of convert-linalg-to-gpu.mlir
// hasEvenBlocks: @many_odd of convert-linalg-to-gpu-blocks.mlir
// roundsWeights: @many_floats of convert-linalg-to-gpu-blocks.mlir

// isOwnRow: row 2 of a product whose input is computed.
// REMARK: further-launch {{.*}}Function=other_row {{.*}}Reason="a product reads other rows of its input than those of its result"
// CHECK-LABEL: func.func private @other_row.launch(
// CHECK: gpu.launch_func @kernels::@other_row blocks
// CHECK: gpu.launch_func @kernels::@other_row_finish
func.func private @other_row(%x: tensor<4x32xf32>, %w: tensor<24x32xf32>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x32xf32>
  %a = linalg.abs ins(%x : tensor<4x32xf32>) outs(%e : tensor<4x32xf32>) -> tensor<4x32xf32>
  %f = tensor.empty() : tensor<4x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<4x24xf32>) -> tensor<4x24xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%a, %w : tensor<4x32xf32>, tensor<24x32xf32>) outs(%z : tensor<4x24xf32>) -> tensor<4x24xf32>
  %s = tensor.extract_slice %y[2, 0] [1, 24] [1, 1] : tensor<4x24xf32> to tensor<1x24xf32>
  %0 = linalg.exp ins(%s : tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) -> tensor<1x24xf32>
  return %0 : tensor<1x24xf32>
}

// areOfOneForm: two types in one sum, and in two results; rows of two lengths.
// REMARK: further-launch {{.*}}Function=two_types {{.*}}Reason="its products' weights differ in type or in the length of their rows"
// CHECK-LABEL: func.func private @two_types.launch(
// CHECK: gpu.launch_func @kernels::@two_types blocks
// CHECK: gpu.launch_func @kernels::@two_types_1 blocks
// CHECK: gpu.launch_func @kernels::@two_types_finish
func.func private @two_types(%x: tensor<1x32xf32>, %w: tensor<24x32xf32>, %u: tensor<24x32xf16>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %w : tensor<1x32xf32>, tensor<24x32xf32>) outs(%z : tensor<1x24xf32>) -> tensor<1x24xf32>
  %v = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %u : tensor<1x32xf32>, tensor<24x32xf16>) outs(%z : tensor<1x24xf32>) -> tensor<1x24xf32>
  %0 = linalg.add ins(%y, %v : tensor<1x24xf32>, tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) -> tensor<1x24xf32>
  return %0 : tensor<1x24xf32>
}
// REMARK: further-launch {{.*}}Function=two_lengths {{.*}}Reason="its products' weights differ in type or in the length of their rows"
func.func private @two_lengths(%x: tensor<?x32xf32>, %w: tensor<24x32xf32>, %u: tensor<24x48xf32>, %n: index, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %s = tensor.extract_slice %u[0, 8] [24, 32] [1, 1] : tensor<24x48xf32> to tensor<24x32xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %w : tensor<?x32xf32>, tensor<24x32xf32>) outs(%z : tensor<?x24xf32>) -> tensor<?x24xf32>
  %v = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %s : tensor<?x32xf32>, tensor<24x32xf32>) outs(%z : tensor<?x24xf32>) -> tensor<?x24xf32>
  %0 = linalg.mul ins(%y, %v : tensor<?x24xf32>, tensor<?x24xf32>) outs(%out : tensor<?x24xf32>) -> tensor<?x24xf32>
  return %0 : tensor<?x24xf32>
}

// readSameRows: every other row, and the first half.
// REMARK: further-launch {{.*}}Function=other_rows {{.*}}Reason="its products are stored apart"
func.func private @other_rows(%x: tensor<32x32xf32>, %w: tensor<24x32xf32>, %out: tensor<16x24xf32>, %out1: tensor<16x24xf32>) -> (tensor<16x24xf32>, tensor<16x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32x24xf32>) -> tensor<32x24xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %w : tensor<32x32xf32>, tensor<24x32xf32>) outs(%z : tensor<32x24xf32>) -> tensor<32x24xf32>
  %a = tensor.extract_slice %y[0, 0] [16, 24] [2, 1] : tensor<32x24xf32> to tensor<16x24xf32>
  %b = tensor.extract_slice %y[0, 0] [16, 24] [1, 1] : tensor<32x24xf32> to tensor<16x24xf32>
  %0 = linalg.exp ins(%a : tensor<16x24xf32>) outs(%out : tensor<16x24xf32>) -> tensor<16x24xf32>
  %1 = linalg.abs ins(%b : tensor<16x24xf32>) outs(%out1 : tensor<16x24xf32>) -> tensor<16x24xf32>
  return %0, %1 : tensor<16x24xf32>, tensor<16x24xf32>
}

// isOfOwnRow: the sum of the rows' maxima.
// REMARK: no-schedule {{.*}}Function=sum_of_maxima {{.*}}Reason="a statistic of rows reads another statistic for each of its terms"
func.func private @sum_of_maxima(%x: tensor<4x32xf32>, %out: tensor<1xf32>) -> tensor<1xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1xf32>) -> tensor<1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%m : tensor<4xf32>) outs(%z : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o fastmath<reassoc> : f32
    linalg.yield %y : f32
  } -> tensor<1xf32>
  return %s : tensor<1xf32>
}

// canReduce: a sum that goes on from a tensor's values.
// REMARK: no-schedule {{.*}}Function=goes_on {{.*}}Reason="a reduction begins with other values than one constant"
func.func private @goes_on(%x: tensor<4x32xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%out : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o fastmath<reassoc> : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// isOfToken: the sums of columns, in order.
// REMARK: no-schedule {{.*}}Function=of_columns {{.*}}Reason="a reduction may not be computed in any order"
func.func private @of_columns(%x: tensor<32x4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, affine_map<(t, n) -> (n)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<32x4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %o, %a : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// canGroup: the products of two choices. Each product is grouped by its own.
// REMARK: further-launch {{.*}}Function=two_choices {{.*}}Reason="a unit cannot hold the products that it is made of"
// REMARK: further-launch {{.*}}Function=two_choices {{.*}}Reason="its products are stored apart"
func.func private @two_choices(%x: tensor<?x32xf32>, %e: tensor<?x2xi32>, %f: tensor<?x2xi32>, %w: tensor<4x24x32xf32>, %out: tensor<?x2x24xf32>) -> tensor<?x2x24xf32> attributes {cria.chunk = 64 : index} {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<?x2x24xf32>) -> tensor<?x2x24xf32>
  %a = linalg.generic {indexing_maps = [#choice, #choice_x, #choice_y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%e, %x : tensor<?x2xi32>, tensor<?x32xf32>) outs(%z : tensor<?x2x24xf32>) {
  ^bb0(%i: i32, %v: f32, %o: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = tensor.extract %w[%at, %n, %k] : tensor<4x24x32xf32>
    %p = arith.mulf %v, %wk fastmath<reassoc,contract> : f32
    %y = arith.addf %o, %p fastmath<reassoc,contract> : f32
    linalg.yield %y : f32
  } -> tensor<?x2x24xf32>
  %b = linalg.generic {indexing_maps = [#choice, #choice_x, #choice_y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%f, %x : tensor<?x2xi32>, tensor<?x32xf32>) outs(%z : tensor<?x2x24xf32>) {
  ^bb0(%i: i32, %v: f32, %o: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = tensor.extract %w[%at, %n, %k] : tensor<4x24x32xf32>
    %p = arith.mulf %v, %wk fastmath<reassoc,contract> : f32
    %y = arith.addf %o, %p fastmath<reassoc,contract> : f32
    linalg.yield %y : f32
  } -> tensor<?x2x24xf32>
  %y = linalg.add ins(%a, %b : tensor<?x2x24xf32>, tensor<?x2x24xf32>) outs(%out : tensor<?x2x24xf32>) -> tensor<?x2x24xf32>
  return %y : tensor<?x2x24xf32>
}

// fitsGrid
// REMARK: no-schedule {{.*}}Function=many_rows {{.*}}Reason="a grid cannot count so many rows or elements"
func.func private @many_rows(%x: tensor<2x70000x8xf32>, %out: tensor<2x70000xf32>) -> tensor<2x70000xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<2x70000xf32>) -> tensor<2x70000xf32>
  %s = linalg.generic {indexing_maps = [#id3, #tn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x70000x8xf32>) outs(%z : tensor<2x70000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o fastmath<reassoc> : f32
    linalg.yield %y : f32
  } -> tensor<2x70000xf32>
  return %s : tensor<2x70000xf32>
}

// areApart: the product is stored after what it overwrites.
// REMARK: further-launch {{.*}}Function=overwrites {{.*}}Reason="its parts store in the same places, one after the other"
// CHECK-LABEL: func.func private @overwrites.launch(
// CHECK: gpu.launch_func @kernels::@overwrites blocks
// CHECK: gpu.launch_func @kernels::@overwrites_1 blocks {{.*}} args(%arg0
func.func private @overwrites(%x: tensor<1x32xf32>, %w: tensor<24x32xf32>, %out: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%x, %w : tensor<1x32xf32>, tensor<24x32xf32>) outs(%z : tensor<1x24xf32>) -> tensor<1x24xf32>
  %all = linalg.fill ins(%one : f32) outs(%out : tensor<1x32xf32>) -> tensor<1x32xf32>
  %0 = tensor.insert_slice %y into %all[0, 4] [1, 24] [1, 1] : tensor<1x24xf32> into tensor<1x32xf32>
  return %0 : tensor<1x32xf32>
}

// areBlockRows: every other block of a row is copied first.
// REMARK: further-launch {{.*}}Function=every_other_block {{.*}}Reason="the blocks of a row do not lie side by side in memory"
// CHECK-LABEL: func.func private @every_other_block.launch(
// CHECK: gpu.launch_func @kernels::@every_other_block_input
// CHECK: gpu.launch_func @kernels::@every_other_block blocks
func.func private @every_other_block(%x: tensor<1x8x32xi8>, %dx: tensor<1x8xf16>, %all: tensor<24x16x34xi8>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x24xf32>) -> tensor<1x24xf32>
  %w = tensor.extract_slice %all[0, 1, 0] [24, 8, 34] [1, 2, 1] : tensor<24x16x34xi8> to tensor<24x8x34xi8>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 32] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<1x8x32xi8>, tensor<1x8xf16>, tensor<24x8x32xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x24xf32>
  return %p : tensor<1x24xf32>
}

// Below, kernels: isOfOwnRow. A statistic that is the same for all terms is computed before.
// CHECK-LABEL: gpu.func @nested_statistics(
// CHECK: arith.maximumf
// CHECK: gpu.barrier
// CHECK: math.exp
// CHECK: gpu.barrier
// CHECK: memref.store
func.func private @nested_statistics(%x: tensor<4x32xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %m : tensor<4x32xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %g = math.exp %d : f32
    %y = arith.addf %g, %o fastmath<reassoc> : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// readsAtWide: each lane has its own entry of the table.
// CHECK-LABEL: gpu.func @table(
// CHECK-NOT: vector<
// CHECK: gpu.return
func.func private @table(%x: tensor<4x32xi8>, %entries: tensor<256xf32>, %out: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x32xi8>) outs(%out : tensor<4x32xf32>) {
  ^bb0(%a: i8, %o: f32):
    %i = arith.index_castui %a : i8 to index
    %y = tensor.extract %entries[%i] : tensor<256xf32>
    linalg.yield %y : f32
  } -> tensor<4x32xf32>
  return %0 : tensor<4x32xf32>
}

// isProduct: products that are rounded to f16 before they are added.
// CHECK-LABEL: gpu.func @rounded(
// CHECK: arith.mulf {{.*}}f16
func.func private @rounded(%x: tensor<1x32xf16>, %w: tensor<24x32xf16>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x24xf32>) -> tensor<1x24xf32>
  %y = linalg.generic {indexing_maps = [#tk, #nk, #tn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x32xf16>, tensor<24x32xf16>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %p = arith.mulf %a, %b : f16
    %e = arith.extf %p : f16 to f32
    %s = arith.addf %e, %o fastmath<reassoc> : f32
    linalg.yield %s : f32
  } -> tensor<1x24xf32>
  return %y : tensor<1x24xf32>
}
