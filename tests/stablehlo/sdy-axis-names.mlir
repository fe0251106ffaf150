// Names of axes may hold quotes: they are escaped, and read again.
// RUN: %gxc --emit=hlo --passes=none %s -o %t.hlo && FileCheck %s <%t.hlo
// RUN: %gxc --emit=hlo --passes=none %t.hlo | cmp - %t.hlo
// CHECK: parameter(0), sharding={mesh["a\'b"=2,"c\\d"=1,'e'=1], [{"a\'b"}, {'e'}]}
module @m attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["a'b"=2, "c\\d"=1, "e"=1]>
  func.func public @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a'b"}, {"e"}]>}) -> tensor<4x8xf32> {
    %y = stablehlo.add %x, %x : tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}
