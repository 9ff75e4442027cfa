// Of 24 columns of a product, 16 are rotated in pairs, (i, i + 8), and 8 are
// stored unchanged. The 8 are pairs as well, and units of the same launch.
// RUN: sed s/ROWS/64/ %s | cria-opt --convert-linalg-to-gpu | FileCheck %s --check-prefixes=CHECK,MANY
// RUN: sed s/ROWS/1/ %s | cria-opt --convert-linalg-to-gpu | FileCheck %s --check-prefixes=CHECK,FEW

// 8 and 4 units are a tile each of many rows; of few, two blocks of 4 warps and one.
// CHECK-LABEL: func.func private @rotate.launch(
// MANY: gpu.launch_func @kernels::@rotate blocks in (%c2,
// FEW: gpu.launch_func @kernels::@rotate blocks in (%c3,
// CHECK-NOT: gpu.launch_func
// CHECK: gpu.module

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>
!x = tensor<ROWSx32xf32>
!p = tensor<ROWSx24xf32>
!half = tensor<ROWSx8xf32>
func.func private @rotate(%x: !x, %w: tensor<24x32xf32>, %out: !p) -> !p {
  %zero = arith.constant 0.0 : f32
  %pe = tensor.empty() : !p
  %pz = linalg.fill ins(%zero : f32) outs(%pe : !p) -> !p
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : !x, tensor<24x32xf32>) outs(%pz : !p) -> !p
  %low = tensor.extract_slice %p[0, 0] [ROWS, 8] [1, 1] : !p to !half
  %high = tensor.extract_slice %p[0, 8] [ROWS, 8] [1, 1] : !p to !half
  %rest = tensor.extract_slice %p[0, 16] [ROWS, 8] [1, 1] : !p to !half
  %e = tensor.empty() : !half
  %a = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%low, %high : !half, !half) outs(%e : !half) {
  ^bb0(%l: f32, %h: f32, %o: f32):
    %d = arith.subf %l, %h : f32
    linalg.yield %d : f32
  } -> !half
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%low, %high : !half, !half) outs(%e : !half) {
  ^bb0(%l: f32, %h: f32, %o: f32):
    %s = arith.addf %l, %h : f32
    linalg.yield %s : f32
  } -> !half
  %0 = tensor.insert_slice %a into %out[0, 0] [ROWS, 8] [1, 1] : !half into !p
  %1 = tensor.insert_slice %b into %0[0, 8] [ROWS, 8] [1, 1] : !half into !p
  %2 = tensor.insert_slice %rest into %1[0, 16] [ROWS, 8] [1, 1] : !half into !p
  return %2 : !p
}
