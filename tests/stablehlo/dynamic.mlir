// Sizes that are operands follow from constants: nothing of them is left.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxrun %s --device=ref | FileCheck %s --check-prefix=OUT

// CHECK: HloModule dynamic
// CHECK-NOT: ?
module @dynamic {
  func.func private @row(%n: tensor<i32>, %v: tensor<?xf32>) -> tensor<2x?xf32> {
    %two = stablehlo.constant dense<[2]> : tensor<1xi32>
    %m = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %s = stablehlo.concatenate %two, %m, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %r = stablehlo.dynamic_broadcast_in_dim %v, %s, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<2x?xf32>
    return %r : tensor<2x?xf32>
  }
  // CHECK: ENTRY %main
  func.func @main() -> (tensor<2x3xf32>, tensor<6xf32>, tensor<5xf32>, tensor<2xf32>, tensor<4xi32>) {
    // CHECK: constant(3)
    %x = stablehlo.iota dim = 0 : tensor<3xf32>
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
    %y = stablehlo.convert %x : (tensor<3xf32>) -> tensor<?xf32>
    %0 = call @row(%n, %y) : (tensor<i32>, tensor<?xf32>) -> tensor<2x?xf32>
    %1 = stablehlo.add %0, %0 : tensor<2x?xf32>
    %2 = stablehlo.convert %1 : (tensor<2x?xf32>) -> tensor<2x3xf32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %six = stablehlo.multiply %n, %two : tensor<i32>
    %s6 = stablehlo.reshape %six : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.dynamic_reshape %1, %s6 : (tensor<2x?xf32>, tensor<1xi32>) -> tensor<6xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %lo = stablehlo.constant dense<1> : tensor<1xi32>
    %in = stablehlo.constant dense<0> : tensor<1xi32>
    // CHECK: pad({{.*}}), padding=1_1
    %4 = stablehlo.dynamic_pad %x, %zero, %lo, %lo, %in : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<5xf32>
    %hi = stablehlo.constant dense<3> : tensor<1xi32>
    // CHECK: slice({{.*}}), slice={[1:3]}
    %5 = stablehlo.real_dynamic_slice %x, %lo, %hi, %lo : (tensor<3xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %6 = stablehlo.dynamic_iota %four, dim = 0 : (tensor<1xi32>) -> tensor<4xi32>
    return %2, %3, %4, %5, %6 : tensor<2x3xf32>, tensor<6xf32>, tensor<5xf32>, tensor<2xf32>, tensor<4xi32>
  }
}
// OUT: result 0 f32[2,3]{{.*}}  0, 2, 4, 0, ...
// OUT: result 1 f32[6]{{.*}}  0, 2, 4, 0, ...
// OUT: result 2 f32[5]{{.*}}  0, 0, 1, 2, ...
// OUT: result 3 f32[2]{{.*}}  1, 2
// OUT: result 4 s32[4]{{.*}}  0, 1, 2, 3
