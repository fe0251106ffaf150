// Quantised types are their stored integers; what computes does it on the numbers that are meant.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxrun %s --device=ref | FileCheck %s --check-prefix=OUT
// RUN: sed 's/i8:f32, 0.5:3>/u8:f32, 0.5:3>/g' %s | %gxrun - --device=ref | FileCheck %s --check-prefix=UNSIGNED
// RUN: sed 's/i8:f32, 0.5:3>/ui8:f32, 0.5:3>/g' %s | %gxrun - --device=ref | FileCheck %s --check-prefix=UNSIGNED

// CHECK: ENTRY %main () -> (s8[4], f32[4], s8[4], s8[2,2], s32[2,2])
module @quantized {
  func.func @main() -> (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4xf32>, tensor<4x!quant.uniform<i8<-5:5>:f32, 1.0>>,
                        tensor<2x2x!quant.uniform<i8:f32:1, {0.5:1, 2.0:-1}>>, tensor<2x2x!quant.uniform<i32:f32, 0.25>>) {
    %x = stablehlo.constant dense<[0.0, 1.3, -0.75, 100.0]> : tensor<4xf32>
    // 0 + 3; 2.6 + 3 -> 6; -1.5 + 3 -> 2; 200 + 3 is beyond 127
    %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xf32>
    // CHECK: f32[4]{0} add(
    %a = stablehlo.add %0, %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    // 0, 3, -1, 62 (124 is beyond 127 steps), kept within -5 to 5
    %2 = stablehlo.uniform_quantize %a : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8<-5:5>:f32, 1.0>>
    %3 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<2x2xf32>
    %4 = stablehlo.uniform_quantize %3 : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:1, 2.0:-1}>>
    // CHECK: dot(
    %b = stablehlo.reshape %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
    %r = stablehlo.uniform_quantize %3 : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
    %5 = stablehlo.dot_general %b, %r, contracting_dims = [1] x [0] : (tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i32:f32, 0.25>>
    return %0, %1, %2, %4, %5 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4xf32>, tensor<4x!quant.uniform<i8<-5:5>:f32, 1.0>>, tensor<2x2x!quant.uniform<i8:f32:1, {0.5:1, 2.0:-1}>>, tensor<2x2x!quant.uniform<i32:f32, 0.25>>
  }
}
// OUT: result 0 s8[4]{{.*}}  3, 6, 2, 127
// OUT: result 1 f32[4]{{.*}}  0, 1.5, -0.5, 62
// OUT: result 2 s8[4]{{.*}}  0, 3, -1, 5
// 0, 1.5, -0.5, 62: columns by 0.5 and 2: 0 -> 1; 0.75 - 1 -> 0; -1 + 1; 31 - 1
// OUT: result 3 s8[2,2]{{.*}}  1, 0, 0, 30
// reals 0, 1.5, -0.5, 62: [-0.75, 93; -31, 3843.25] by 0.25
// OUT: result 4 s32[2,2]{{.*}}  -3, 372, -124, 15373

// 200 + 3 is what 8 bits without a sign hold: 100 again; 0, 3, -1, 126, kept within -5 to 5
// UNSIGNED: result 0 u8[4]{{.*}}  3, 6, 2, 203
// UNSIGNED: result 1 f32[4]{{.*}}  0, 1.5, -0.5, 100
// UNSIGNED: result 2 s8[4]{{.*}}  0, 3, -1, 5
