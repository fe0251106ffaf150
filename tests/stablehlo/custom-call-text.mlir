// Attributes are given to calls as MLIR writes them: numbers with all digits, strings with what is escaped, types. A
// tuple's elements have a layout each.
// RUN: split-file %s %t
// RUN: %gxc %t/attributes.mlir --emit=hlo --passes=none | FileCheck %s
// RUN: %gxc %t/tuple.mlir --emit=hlo --passes=none | FileCheck %s --check-prefix=TUPLE
// CHECK: eps = 1.23456789012345 : f64
// CHECK-SAME: inf = 0x7FF0000000000000 : f64
// CHECK-SAME: one = 1.0 : f64
// CHECK-SAME: s = "a\22b\\c\0Ad"
// TUPLE: (f32[2,3]{0,1}, f32[2]{0}) custom-call

//--- attributes.mlir
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @foo(%x) {api_version = 4 : i32, backend_config = {eps = 1.23456789012345 : f64, inf = 0x7FF0000000000000 : f64, one = 1.0 : f64, s = "a\22b\5Cc\0Ad"}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

//--- tuple.mlir
func.func @main(%x: tensor<2x3xf32>) -> tuple<tensor<2x3xf32>, tensor<2xf32>> {
  %0 = "stablehlo.custom_call"(%x) {call_target_name = "foo", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]} : (tensor<2x3xf32>) -> tuple<tensor<2x3xf32>, tensor<2xf32>>
  return %0 : tuple<tensor<2x3xf32>, tensor<2xf32>>
}
