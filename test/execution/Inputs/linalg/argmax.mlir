// The first of the largest columns of each row that an id chooses, and whether
// it is positive. Tensors of indices and of bits.
#id = affine_map<(t, k) -> (t, k)>
#t = affine_map<(t, k) -> (t)>
#k = affine_map<(t, k) -> (k)>
#one = affine_map<(t) -> (t)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @argmax(%x: tensor<20x37xf32>, %n: index, %ids: tensor<20xi32>, %out: tensor<20x2xf32>) -> tensor<20x2xf32> attributes {cria.chunk = 20 : index} {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %none = arith.constant 0 : index
  %ids_n = tensor.extract_slice %ids[0] [%n] [1] : tensor<20xi32> to tensor<?xi32>
  %er = tensor.empty(%n) : tensor<?x37xf32>
  %rows = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%ids_n : tensor<?xi32>) outs(%er : tensor<?x37xf32>) {
  ^bb0(%i: i32, %o: f32):
    %row = arith.index_cast %i : i32 to index
    %k = linalg.index 1 : index
    %v = tensor.extract %x[%row, %k] : tensor<20x37xf32>
    linalg.yield %v : f32
  } -> tensor<?x37xf32>
  %em = tensor.empty(%n) : tensor<?xf32>
  %zm = linalg.fill ins(%lowest : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
  %ei = tensor.empty(%n) : tensor<?xindex>
  %zi = linalg.fill ins(%none : index) outs(%ei : tensor<?xindex>) -> tensor<?xindex>
  %best:2 = linalg.generic {indexing_maps = [#id, #t, #t], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<?x37xf32>) outs(%zm, %zi : tensor<?xf32>, tensor<?xindex>) {
  ^bb0(%v: f32, %most: f32, %at: index):
    %k = linalg.index 1 : index
    %more = arith.cmpf ogt, %v, %most : f32
    %m = arith.select %more, %v, %most : f32
    %a = arith.select %more, %k, %at : index
    linalg.yield %m, %a : f32, index
  } -> (tensor<?xf32>, tensor<?xindex>)
  %eb = tensor.empty(%n) : tensor<?xi1>
  %positive = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%best#0 : tensor<?xf32>) outs(%eb : tensor<?xi1>) {
  ^bb0(%v: f32, %o: i1):
    %p = arith.cmpf ogt, %v, %zero : f32
    linalg.yield %p : i1
  } -> tensor<?xi1>
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %y = linalg.generic {indexing_maps = [#t, #t, #id], iterator_types = ["parallel", "parallel"]} ins(%best#1, %positive : tensor<?xindex>, tensor<?xi1>) outs(%e : tensor<?x2xf32>) {
  ^bb0(%a: index, %p: i1, %o: f32):
    %c = linalg.index 1 : index
    %is_index = arith.cmpi eq, %c, %none : index
    %i = arith.index_cast %a : index to i32
    %f = arith.sitofp %i : i32 to f32
    %b = arith.select %p, %one, %zero : f32
    %r = arith.select %is_index, %f, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x2xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 2] [1, 1] : tensor<?x2xf32> into tensor<20x2xf32>
  return %all : tensor<20x2xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x2xf32>) -> tensor<20x2xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @argmax(%x, %tokens, %ids, %logits) : (tensor<20x37xf32>, index, tensor<20xi32>, tensor<20x2xf32>) -> tensor<20x2xf32>
  return %made : tensor<20x2xf32>
}
