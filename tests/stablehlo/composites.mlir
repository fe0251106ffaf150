// Composites become calls that keep their name and attributes; scans keep what they carry.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s

// CHECK-LABEL: ENTRY %main
// CHECK: %call = f32[4]{0} call(%a, %a), to_apply=%block, is_composite=true, frontend_attributes={composite.attributes={n = 3 : i64, name = "s", x = 0.5 : f32, flag = true},composite.name="my.block",composite.version="2"}
// CHECK: %scan = (f32[5,4]{1,0}, f32[4]{0}) scan(%x, %a), dimensions={0}, num_carries=1, is_associative=false, to_apply=%region
// CHECK: %get-tuple-element = f32[5,4]{1,0} get-tuple-element(%scan), index=0
// CHECK: %get-tuple-element.1 = f32[4]{0} get-tuple-element(%scan), index=1
module @composites {
  func.func public @main(%a: tensor<4xf32>, %x: tensor<5x4xf32>) -> (tensor<4xf32>, tensor<5x4xf32>, tensor<4xf32>) {
    %0 = stablehlo.composite "my.block" %a, %a {composite_attributes = {n = 3 : i64, name = "s", x = 0.5 : f32, flag = true}, decomposition = @block, version = 2 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1:2 = "chlo.scan"(%x, %a) ({
    ^bb0(%row: tensor<4xf32>, %sum: tensor<4xf32>):
      %s = stablehlo.add %row, %sum : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) {dimension = 0 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>} : (tensor<5x4xf32>, tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>)
    return %0, %1#0, %1#1 : tensor<4xf32>, tensor<5x4xf32>, tensor<4xf32>
  }
  func.func private @block(%p: tensor<4xf32>, %q: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %p, %q : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
