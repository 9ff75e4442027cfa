// RUN: cria-opt %s --carry-in-place | FileCheck %s

// The layers of a model update what they carry: nothing is copied.
// RUN: cria-compile %{src}/examples/tiny/config.json --emit=linalg -o %t.mlir
// RUN: cria-opt %t.mlir -o %t.1.mlir
// RUN: cria-opt %t.mlir --carry-in-place | diff %t.1.mlir -

// A new value of a turn is written to the place where the loop carries it.
// CHECK-LABEL: func.func @anew
// CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %{{.*}})
// CHECK: %[[MADE:.*]] = linalg.exp
// CHECK: %[[PUT:.*]] = bufferization.materialize_in_destination %[[MADE]] in %[[X]]
// CHECK: scf.yield %[[PUT]]
func.func @anew(%start: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%x = %start) -> (tensor<4xf32>) {
    %empty = tensor.empty() : tensor<4xf32>
    %made = linalg.exp ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %made : tensor<4xf32>
  }
  return %end : tensor<4xf32>
}

// What is updated stays as it is, also by a loop inside; so do numbers.
// CHECK-LABEL: func.func @updated
// CHECK-NOT: materialize_in_destination
// CHECK: return
func.func @updated(%start: tensor<4xf32>, %value: f32, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %start, %a = %c0, %b = %c1) -> (tensor<4xf32>, index, index) {
    %inner = scf.for %j = %c0 to %n step %c1 iter_args(%y = %x) -> (tensor<4xf32>) {
      %put = tensor.insert %value into %y[%c0] : tensor<4xf32>
      scf.yield %put : tensor<4xf32>
    }
    scf.yield %inner, %b, %a : tensor<4xf32>, index, index
  }
  return %end#0 : tensor<4xf32>
}

// What is read after it was written over is not in its place: bufferization lets the
// second op write to a copy, whose values are then put into the place.
// CHECK-LABEL: func.func @read_after
// CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
// CHECK: %[[FIRST:.*]] = linalg.exp {{.*}} outs(%[[X]]
// CHECK: %[[SECOND:.*]] = linalg.exp {{.*}} outs(%[[FIRST]]
// CHECK: %[[OTHER:.*]] = linalg.add {{.*}} outs(%[[Y]]
// CHECK: %[[PUT:.*]] = bufferization.materialize_in_destination %[[SECOND]] in %[[X]]
// CHECK: scf.yield %[[PUT]], %[[OTHER]]
func.func @read_after(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<4xf32>, tensor<4xf32>) {
    %first = linalg.exp ins(%y : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
    %second = linalg.exp ins(%y : tensor<4xf32>) outs(%first : tensor<4xf32>) -> tensor<4xf32>
    %other = linalg.add ins(%y, %first : tensor<4xf32>, tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %second, %other : tensor<4xf32>, tensor<4xf32>
  }
  return %end#0 : tensor<4xf32>
}

// What changes places is copied before any is written over.
// CHECK-LABEL: func.func @swapped
// CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
// CHECK: %[[A:.*]] = bufferization.alloc_tensor() copy(%[[Y]])
// CHECK: %[[B:.*]] = bufferization.alloc_tensor() copy(%[[X]])
// CHECK: %[[PUT:.*]] = bufferization.materialize_in_destination %[[A]] in %[[X]]
// CHECK: %[[OTHER:.*]] = bufferization.materialize_in_destination %[[B]] in %[[Y]]
// CHECK: scf.yield %[[PUT]], %[[OTHER]]
func.func @swapped(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %y, %x : tensor<4xf32>, tensor<4xf32>
  }
  return %end#0 : tensor<4xf32>
}

// A slice, or what is chosen from slices, is copied before the loop.
// CHECK-LABEL: func.func @sliced
// CHECK: %[[SLICE:.*]] = tensor.extract_slice
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[SLICE]]
// CHECK: %[[EITHER:.*]] = arith.select
// CHECK: %[[X:.*]] = bufferization.alloc_tensor() copy(%[[FLAT]])
// CHECK: %[[Y:.*]] = bufferization.alloc_tensor() copy(%[[EITHER]])
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[X]], %{{.*}} = %[[Y]])
func.func @sliced(%all: tensor<4x6xf32>, %a: tensor<4xf32>, %is: i1, %value: f32, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slice = tensor.extract_slice %all[0, 1] [4, 1] [1, 1] : tensor<4x6xf32> to tensor<4x1xf32>
  %flat = tensor.collapse_shape %slice [[0, 1]] : tensor<4x1xf32> into tensor<4xf32>
  %either = arith.select %is, %a, %flat : tensor<4xf32>
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %flat, %y = %either) -> (tensor<4xf32>, tensor<4xf32>) {
    %put = tensor.insert %value into %x[%c0] : tensor<4xf32>
    scf.yield %put, %y : tensor<4xf32>, tensor<4xf32>
  }
  return %end#0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @while
// CHECK: ^bb0(%[[X:.*]]: tensor<4xf32>):
// CHECK: %[[MADE:.*]] = linalg.exp
// CHECK: %[[PUT:.*]] = bufferization.materialize_in_destination %[[MADE]] in %[[X]]
// CHECK: scf.yield %[[PUT]]
func.func @while(%start: tensor<4xf32>, %limit: f32) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %end = scf.while (%x = %start) : (tensor<4xf32>) -> tensor<4xf32> {
    %first = tensor.extract %x[%c0] : tensor<4xf32>
    %less = arith.cmpf olt, %first, %limit : f32
    scf.condition(%less) %x : tensor<4xf32>
  } do {
  ^bb0(%x: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %made = linalg.exp ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %made : tensor<4xf32>
  }
  return %end : tensor<4xf32>
}

// A function's result is where it puts it: in an argument, or anew.
func.func private @update(%x: tensor<4xf32>, %value: f32, %to: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %put = tensor.insert %value into %to[%c0] : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %made = linalg.exp ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %put, %made : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @called
// CHECK: scf.for {{.*}} iter_args(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
// CHECK: %[[MADE:.*]]:2 = func.call @update
// CHECK-NEXT: %[[PUT:.*]] = bufferization.materialize_in_destination %[[MADE]]#1 in %[[Y]]
// CHECK-NEXT: scf.yield %[[MADE]]#0, %[[PUT]]
func.func @called(%a: tensor<4xf32>, %b: tensor<4xf32>, %value: f32, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<4xf32>, tensor<4xf32>) {
    %made:2 = func.call @update(%y, %value, %x) : (tensor<4xf32>, f32, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    scf.yield %made#0, %made#1 : tensor<4xf32>, tensor<4xf32>
  }
  return %end#0 : tensor<4xf32>
}
