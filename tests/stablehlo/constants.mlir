// Constants: lists, one for all, bits, bytes, resources, numbers of every kind.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
#floats = dense<[1.0, -2.5]> : tensor<2xf32>
module @constants {
  func.func @main() -> (tensor<2x2xi32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xui8>, tensor<4xbf16>, tensor<0xf32>, tensor<2xi4>, tensor<3xf32>, tensor<f8E4M3FN>) {
    // CHECK-DAG: %a = s32[2,2]{1,0} constant({ { 1, -2 }, { 3, 4 } })
    %a = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi32>
    // CHECK-DAG: %{{.*}} = f32[] constant(1.5)
    // CHECK-DAG: %b = f32[3]{0} broadcast(%{{.*}}), dimensions={}
    %b = stablehlo.constant dense<1.5> : tensor<3xf32>
    // CHECK-DAG: %c = f32[2]{0} constant({inf, -nan})
    %c = stablehlo.constant dense<[0x7F800000, 0xFFC00000]> : tensor<2xf32>
    // CHECK-DAG: %d = f32[2]{0} constant({1, 2})
    %d = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
    // CHECK-DAG: %e = pred[2]{0} constant({1, 0})
    %e = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    // CHECK-DAG: %f = c64[2]{0} constant({(1, -2), (0, inf)})
    %f = stablehlo.constant dense<[(1.0, -2.0), (0.0, 0x7F800000)]> : tensor<2xcomplex<f32>>
    // CHECK-DAG: %g = u8[2]{0} constant({255, 0})
    %g = stablehlo.constant dense<[255, 0]> : tensor<2xui8>
    // CHECK-DAG: %h = bf16[4]{0} constant({1, 2, 3, 4})
    %h = stablehlo.constant dense_resource<weights> : tensor<4xbf16>
    // CHECK-DAG: %i = f32[0]{0} constant({})
    %i = stablehlo.constant dense<> : tensor<0xf32>
    // CHECK-DAG: %j = s4[2]{0} constant({-8, 7})
    %j = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
    %k = "stablehlo.constant"() <{value = dense<[1.0, 2.0e+3, -0.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
    // CHECK-DAG: %k = f32[3]{0} constant({1, 2000, -0})
    // CHECK-DAG: %l = f8e4m3fn[] constant(0.5)
    %l = stablehlo.constant dense<5.000000e-01> : tensor<f8E4M3FN>
    // CHECK-DAG: %m = f32[2]{0} constant({1, -2.5})
    %m = "stablehlo.constant"() <{value = #floats}> : () -> tensor<2xf32>
    return %a, %b, %c, %m, %e, %f, %g, %h, %i, %j, %k, %l : tensor<2x2xi32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xui8>, tensor<4xbf16>, tensor<0xf32>, tensor<2xi4>, tensor<3xf32>, tensor<f8E4M3FN>
  }
}
{-#
  dialect_resources: {
    builtin: {
      weights: "0x04000000803F004040408040"
    }
  }
#-}
