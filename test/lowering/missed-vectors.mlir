// The CPU's passes report the ops that they do not vectorize, and why.
// RUN: cria-opt --lower-contractions --lower-linalg-to-loops --remarks-filter=lower-.* %s 2>&1 >/dev/null | FileCheck %s --implicit-check-not=remark:

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#mbj = affine_map<(m, n, b, j) -> (m, b, j)>
#mb = affine_map<(m, n, b, j) -> (m, b)>
#nbj = affine_map<(m, n, b, j) -> (n, b, j)>
#nb = affine_map<(m, n, b, j) -> (n, b)>
#mnb = affine_map<(m, n, b, j) -> (m, n)>

// Of a contraction that no schedule takes: a batch of products,
// CHECK: missed-vectors.mlir:[[#@LINE+2]]:{{.*}}remark: [Missed] scalar-loops | Category:lower-contractions | Function=batch | Op=linalg.generic, Reason="it is not a product of two matrices"
func.func @batch(%a: memref<2x4x8xf32>, %b: memref<2x6x8xf32>, %c: memref<2x4x6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<2x4x8xf32>, memref<2x6x8xf32>) outs(%c : memref<2x4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// loops in another order,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=order | Op=linalg.generic, Reason="its result is not indexed by the two outer loops"
func.func @order(%a: memref<4x8xf32>, %b: memref<6x8xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, k, n) -> (m, k)>, affine_map<(m, k, n) -> (n, k)>, affine_map<(m, k, n) -> (m, n)>], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%a, %b : memref<4x8xf32>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// both operands transposed,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=transposed | Op=linalg.generic, Reason="no schedule accepts how its operands are transposed"
func.func @transposed(%a: memref<8x4xf32>, %b: memref<6x8xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<8x4xf32>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// numbers in parts without tiles,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=parts | Op=linalg.generic, Reason="only whole tiles of AMX multiply numbers in parts"
func.func @parts(%a: memref<16x32xf32>, %b: memref<16x32xf32>, %c: memref<16x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<16x32xf32>, memref<16x32xf32>) outs(%c : memref<16x16xf32>) {
    ^bb0(%x: f32, %y: f32, %sum: f32):
      %xr = arith.truncf %x : f32 to bf16
      %xh = arith.extf %xr : bf16 to f32
      %yr = arith.truncf %y : f32 to bf16
      %yh = arith.extf %yr : bf16 to f32
      %xd = arith.subf %x, %xh : f32
      %xdr = arith.truncf %xd : f32 to bf16
      %xl = arith.extf %xdr : bf16 to f32
      %yd = arith.subf %y, %yh : f32
      %ydr = arith.truncf %yd : f32 to bf16
      %yl = arith.extf %ydr : bf16 to f32
      %p = arith.mulf %xl, %yh : f32
      %s = arith.addf %sum, %p fastmath<reassoc> : f32
      %q = arith.mulf %xh, %yh : f32
      %t = arith.addf %s, %q fastmath<reassoc> : f32
      %r = arith.mulf %xh, %yl : f32
      %u = arith.addf %t, %r fastmath<reassoc> : f32
      linalg.yield %u : f32
  }
  return
}

// sums of another type,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=doubles | Op=linalg.generic, Reason="it does not add products of f32, f16 or bf16 in f32"
func.func @doubles(%a: memref<4x8xf64>, %b: memref<6x8xf64>, %c: memref<4x6xf64>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x8xf64>, memref<6x8xf64>) outs(%c : memref<4x6xf64>) {
    ^bb0(%x: f64, %w: f64, %acc: f64):
      %p = arith.mulf %x, %w : f64
      %s = arith.addf %acc, %p fastmath<reassoc> : f64
      linalg.yield %s : f64
  }
  return
}

// more than a product,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=function | Op=linalg.generic, Reason="it does more than multiply and add floats"
func.func @function(%a: memref<4x8xf32>, %b: memref<6x8xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x8xf32>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %e = math.exp %x : f32
      %p = arith.mulf %e, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// an unknown size,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=dynamic | Op=linalg.generic, Reason="a size other than the number of rows is dynamic"
func.func @dynamic(%a: memref<4x?xf32>, %b: memref<6x?xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x?xf32>, memref<6x?xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// any number of rows,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=rows | Op=linalg.generic, Reason="its number of rows has no upper bound"
func.func @rows(%a: memref<?x8xf32>, %b: memref<6x8xf32>, %c: memref<?x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x8xf32>, memref<6x8xf32>) outs(%c : memref<?x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// every other column.
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=strided | Op=linalg.generic, Reason="the elements of a row are not adjacent in memory"
func.func @strided(%a: memref<4x8xf32, strided<[16, 2]>>, %b: memref<6x8xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x8xf32, strided<[16, 2]>>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// and sums in any order.
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=ordered_product | Op=linalg.generic, Reason="its terms may not be added in another order"
func.func @ordered_product(%a: memref<4x8xf32>, %b: memref<6x8xf32>, %c: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x8xf32>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
  }
  return
}

// Of a product with blocks: one whose terms have an order,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=ordered_blocks | Op=linalg.generic, Reason="its terms may not be added in another order"
// CHECK: remark: [Missed] scalar-sum | Category:lower-linalg-to-loops | Function=ordered_blocks | Op=linalg.generic, Reason="its terms may not be added in another order"
func.func @ordered_blocks(%x: memref<1x2x32xi8>, %xs: memref<1x2xf16>, %w: memref<6x2x34xi8>, %y: memref<1x6xf32>) {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic {indexing_maps = [#mbj, #mb, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %xs, %codes, %low, %high : memref<1x2x32xi8>, memref<1x2xf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<1x6xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 : f32
      linalg.yield %12 : f32
  }
  return
}

// one whose weights are rounded before they are multiplied,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=rounded_blocks | Op=linalg.generic, Reason="its factors may not be regrouped"
func.func @rounded_blocks(%x: memref<1x2x32xi8>, %xs: memref<1x2xf16>, %w: memref<6x2x34xi8>, %y: memref<1x6xf32>) {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic {indexing_maps = [#mbj, #mb, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %xs, %codes, %low, %high : memref<1x2x32xi8>, memref<1x2xf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<1x6xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// one with widened weights, on a CPU without tiles,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=widened | Op=linalg.generic, Reason="only tiles of AMX multiply widened integers"
func.func @widened(%x: memref<3x64xbf16>, %w: memref<64x2x34xi8>, %y: memref<3x64xf32>) {
  %c8 = arith.constant 8 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [3, 2, 32] : memref<3x64xbf16> into memref<3x2x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [64, 2, 32] [1, 1, 1] : memref<64x2x34xi8> to memref<64x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [64, 2, 1] [1, 1, 1] : memref<64x2x34xi8> to memref<64x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [64, 2, 1] [1, 1, 1] : memref<64x2x34xi8> to memref<64x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic {indexing_maps = [#mbj, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : memref<3x2x32xbf16>, memref<64x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<64x2xi8, strided<[68, 34]>>, memref<64x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<3x64xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 : f32
      %9 = arith.truncf %8 : f32 to bf16
      %10 = arith.extf %9 : bf16 to f32
      %11 = arith.mulf %0, %10 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// one whose scales do not stand in front of their blocks,
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=scales_elsewhere | Op=linalg.generic, Reason="its weights are not the bytes of blocks of one matrix"
func.func @scales_elsewhere(%x: memref<1x2x32xi8>, %xs: memref<1x2xf16>, %w: memref<6x2x34xi8>, %y: memref<1x6xf32>) {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 2] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 2>>
  linalg.generic {indexing_maps = [#mbj, #mb, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %xs, %codes, %low, %high : memref<1x2x32xi8>, memref<1x2xf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 2>>)
      outs(%y : memref<1x6xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// and one that several threads compute each.
// CHECK: remark: [Missed] scalar-loops | Category:lower-contractions | Function=parallel_blocks | Op=linalg.generic, Reason="it is inside a parallel loop"
func.func @parallel_blocks(%x: memref<2x2x32xi8>, %xs: memref<2x2xf16>, %w: memref<6x2x34xi8>, %y: memref<2x6xf32>) {
  %c8 = arith.constant 8 : i16
  scf.forall (%i) in (4) {
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic {indexing_maps = [#mbj, #mb, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %xs, %codes, %low, %high : memref<2x2x32xi8>, memref<2x2xf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<2x6xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  }
  return
}

// Of a sum whose terms have an order.
// CHECK: remark: [Missed] scalar-sum | Category:lower-linalg-to-loops | Function=ordered | Op=linalg.generic, Reason="its terms may not be added in another order"
func.func @ordered(%a: memref<4x8xf32>, %d: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%a : memref<4x8xf32>) outs(%d : memref<4xf32>) {
    ^bb0(%x: f32, %acc: f32):
      %s = arith.addf %acc, %x : f32
      linalg.yield %s : f32
  }
  return
}

// Nothing is said of what is vectorized, nor of a sum along columns, which LLVM
// vectorizes.
func.func @taken(%a: memref<4x8xf32>, %b: memref<6x8xf32>, %c: memref<4x6xf32>, %d: memref<4xf32>, %e: memref<8xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4x8xf32>, memref<6x8xf32>) outs(%c : memref<4x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%a : memref<4x8xf32>) outs(%d : memref<4xf32>) {
    ^bb0(%x: f32, %acc: f32):
      %s = arith.addf %acc, %x fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(k, m) -> (k, m)>, affine_map<(k, m) -> (m)>], iterator_types = ["reduction", "parallel"]}
      ins(%a : memref<4x8xf32>) outs(%e : memref<8xf32>) {
    ^bb0(%x: f32, %acc: f32):
      %s = arith.addf %acc, %x : f32
      linalg.yield %s : f32
  }
  return
}
