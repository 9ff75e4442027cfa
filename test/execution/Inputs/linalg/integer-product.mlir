// y = x W^T of integers of 8 bits, added up in 32.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

func.func private @x() -> tensor<20x37xi8> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xi8> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @integer_product(%x: tensor<20x37xi8>, %w: tensor<29x37xi8>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0 : i32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xi8> to tensor<?x37xi8>
  %pe = tensor.empty(%n) : tensor<?x29xi32>
  %pz = linalg.fill ins(%zero : i32) outs(%pe : tensor<?x29xi32>) -> tensor<?x29xi32>
  %p = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xi8>, tensor<29x37xi8>) outs(%pz : tensor<?x29xi32>) -> tensor<?x29xi32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x29xi32>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%v: i32, %o: f32):
    %f = arith.sitofp %v : i32 to f32
    linalg.yield %f : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xi8>
  %w = call @w() : () -> tensor<29x37xi8>
  %made = call @integer_product(%x, %w, %tokens, %logits) : (tensor<20x37xi8>, tensor<29x37xi8>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
