// Attention with a bias for each head, token and key.
#room = affine_map<()[p, n] -> (p + n, 48)>
#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>

func.func private @query() -> tensor<20x2x3x10xf32> attributes {cria.weight = {slot = 0 : index, source = "query"}}
func.func private @bias() -> tensor<2x3x20x48xf32> attributes {cria.weight = {slot = 1 : index, source = "bias"}}

func.func private @attention_bias(%query: tensor<20x2x3x10xf32>, %bias: tensor<2x3x20x48xf32>, %n: index, %position: index, %keys: tensor<2x2x48x10xf32>, %values: tensor<2x2x48x10xf32>, %out: tensor<20x60xf32>) -> tensor<20x60xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %len = affine.min #room()[%position, %n]
  %q = tensor.extract_slice %query[0, 0, 0, 0] [%n, 2, 3, 10] [1, 1, 1, 1] : tensor<20x2x3x10xf32> to tensor<?x2x3x10xf32>
  %k = tensor.extract_slice %keys[1, 0, 0, 0] [1, 2, %len, 10] [1, 1, 1, 1] : tensor<2x2x48x10xf32> to tensor<2x?x10xf32>
  %e = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x3x10xf32>, tensor<2x?x10xf32>) outs(%z : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %bias_n = tensor.extract_slice %bias[0, 0, 0, 0] [2, 3, %n, %len] [1, 1, 1, 1] : tensor<2x3x20x48xf32> to tensor<2x3x?x?xf32>
  %e1 = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %masked = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores, %bias_n : tensor<2x3x?x?xf32>, tensor<2x3x?x?xf32>) outs(%e1 : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %b: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %position, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %m = arith.addf %x, %b : f32
    %y = arith.select %seen, %m, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %e2 = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%masked : tensor<2x3x?x?xf32>) outs(%e2 : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %e3 = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %shown = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x?x?xf32>) outs(%e3 : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %position, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %v = tensor.extract_slice %values[1, 0, 0, 0] [1, 2, %len, 10] [1, 1, 1, 1] : tensor<2x2x48x10xf32> to tensor<2x?x10xf32>
  %eo = tensor.empty(%n) : tensor<?x2x3x10xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x2x3x10xf32>) -> tensor<?x2x3x10xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%shown, %v : tensor<2x3x?x?xf32>, tensor<2x?x10xf32>) outs(%zo : tensor<?x2x3x10xf32>) -> tensor<?x2x3x10xf32>
  %y = tensor.collapse_shape %pv [[0], [1, 2, 3]] : tensor<?x2x3x10xf32> into tensor<?x60xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 60] [1, 1] : tensor<?x60xf32> into tensor<20x60xf32>
  return %all : tensor<20x60xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x60xf32>, %keys: tensor<2x2x48x10xf32>, %values: tensor<2x2x48x10xf32>) -> (tensor<20x60xf32>, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache"], cria.chunk = 20 : index} {
  %query = call @query() : () -> tensor<20x2x3x10xf32>
  %bias = call @bias() : () -> tensor<2x3x20x48xf32>
  %made = call @attention_bias(%query, %bias, %tokens, %position, %keys, %values, %logits) : (tensor<20x2x3x10xf32>, tensor<2x3x20x48xf32>, index, index, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>, tensor<20x60xf32>) -> tensor<20x60xf32>
  return %made, %keys, %values : tensor<20x60xf32>, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>
}
