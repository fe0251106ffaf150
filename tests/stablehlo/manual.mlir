// A computation that every device does by itself, as text and as bytecode.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxc --emit=hlo --passes=none %S/inputs/manual.mlirbc | FileCheck %s
// CHECK-DAG: {{%[^ ,()]+}} = f32[4,8]{1,0} parameter(0)
// CHECK-DAG: ROOT {{%[^ ,()]+}} = f32[4,8]{1,0} multiply({{%[^ ,()]+}}, {{%[^ ,()]+}})
module @manual attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%c: tensor<4x8xf32>) {
      %d = stablehlo.multiply %c, %c : tensor<4x8xf32>
      sdy.return %d : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
