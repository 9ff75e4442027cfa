// y = x W^T + row[t] + column[n].
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>
#t = affine_map<(t, n) -> (t)>
#n = affine_map<(t, n) -> (n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}
func.func private @row() -> tensor<20xf32> attributes {cria.weight = {slot = 2 : index, source = "row"}}
func.func private @column() -> tensor<29xf32> attributes {cria.weight = {slot = 3 : index, source = "column"}}

func.func private @biases(%x: tensor<20x37xf32>, %w: tensor<29x37xf32>, %row: tensor<20xf32>, %column: tensor<29xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %row_n = tensor.extract_slice %row[0] [%n] [1] : tensor<20xf32> to tensor<?xf32>
  %pe = tensor.empty(%n) : tensor<?x29xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x29xf32>) -> tensor<?x29xf32>
  %p = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xf32>, tensor<29x37xf32>) outs(%pz : tensor<?x29xf32>) -> tensor<?x29xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#id, #t, #n, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %row_n, %column : tensor<?x29xf32>, tensor<?xf32>, tensor<29xf32>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%v: f32, %r: f32, %c: f32, %o: f32):
    %vr = arith.addf %v, %r : f32
    %vrc = arith.addf %vr, %c : f32
    linalg.yield %vrc : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %row = call @row() : () -> tensor<20xf32>
  %column = call @column() : () -> tensor<29xf32>
  %made = call @biases(%x, %w, %row, %column, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x37xf32>, tensor<20xf32>, tensor<29xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
